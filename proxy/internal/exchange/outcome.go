package exchange

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/breaker"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/excerpt"
	"github.com/sluice-gateway/sluice/proxy/internal/failure"
	"github.com/sluice-gateway/sluice/proxy/internal/openai/native"
	"github.com/sluice-gateway/sluice/proxy/internal/recording"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/canary"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// maxErrorBody is how many bytes of an error response are read. Its message is at the beginning.
const maxErrorBody = 64 << 10

// readErrorResponse reads a response whose status is an error.
func (a *Attempt) readErrorResponse(ctx context.Context, status int) error {
	if status == http.StatusNotModified {
		return failure.EmptyResponse()
	}
	s := a.Services
	body, err := a.Response.ReadAll(s.Buffers.Get(0), maxErrorBody)
	for errors.Is(err, ErrCommit) {
		body, err = a.Response.ReadAll(body, maxErrorBody)
	}
	defer func() { s.Buffers.Put(body) }()
	if a.Wait.Gone() {
		return failure.ErrDisconnected
	}
	a.tape.Write(body)
	// Ignore a read error, because a part of an error response says more than the fact that it was truncated.
	body = a.Provider.Redact(body)
	cause := a.rejection(status, body)
	var e *apierror.Error
	if a.responseAPI != nil {
		e = a.responseAPI.Failure(status, body)
		a.readErrorUsage(body)
	} else {
		err := a.Provider.Binding.Response(ctx, &a.Translation, status, body)
		if failed := a.Writer.Failed(); err == nil && failed != nil {
			err = failed
		}
		if err == nil && a.follows() {
			return nil
		}
		if err == nil {
			// The plugin found no error in the body, so the status decides.
			e = native.Failure(status, nil)
		} else if !errors.As(err, &e) {
			return err
		}
	}
	d := *e
	if d.RetryAfter == 0 {
		d.RetryAfter = a.Response.RetryAfter(s.Now())
	}
	if cause != nil {
		d.Cause = cause
	}
	return &d
}

// readErrorUsage reads the token counts that a few providers include in error responses.
func (a *Attempt) readErrorUsage(body []byte) {
	if !bytes.Contains(body, []byte(`"usage`)) {
		return
	}
	a.Reader.Reset(false)
	a.Batch.Reset()
	if a.Reader.ReadResponse(body, &a.Batch) == nil && a.Batch.Failure() != nil {
		_ = a.Writer.Apply(&a.Batch) // uses only the token counts of a failure
	}
}

// rejection returns the cause of an error response with a 4xx status. It contains the provider's error message, which
// says what is wrong with the request or the configuration. For other statuses, rejection returns nil.
func (a *Attempt) rejection(status int, body []byte) error {
	if status < 400 || status >= 500 {
		return nil
	}
	r := &failure.Rejection{Provider: a.Provider.Name, Target: a.Provider.Client.Target("POST", a.Translation.Out.Path), Status: status}
	if !a.Released { // else text that repeats the request could not be found and removed
		a.Documents.Busy.Lock()
		defer a.Documents.Busy.Unlock()
		words := excerpt.New([]byte(native.ErrorText(body)))
		doc, _ := a.Documents.Request.Document()
		clientapi.EachText(doc, words.Cut)
		r.Words = words.String()
	}
	return r
}

// Annotate adds to an error the provider and the response that it comes from, and its cause for the log.
func (a *Attempt) Annotate(e *apierror.Error) *apierror.Error {
	if d := a.Documents; a.Translated && e != d.ChatForm.err {
		e = d.originError(e)
	}
	d := *e
	if a.Response != nil {
		if a.Response.Status() >= 300 {
			d.Provider, d.UpstreamStatus = a.Provider.Name, a.Response.Status()
		}
		d.UpstreamRequestID = a.UpstreamID
	}
	if d.Cause == nil {
		d.Cause = a.ResponseCause()
	}
	return &d
}

// ResponseCause returns the cause of a failure that has none of its own. The provider's own words are left out, because
// the log must not repeat them.
func (a *Attempt) ResponseCause() error {
	switch {
	case a.Translated && a.Documents.ChatForm.err != nil && a.Translation.Request.Doc == nil:
		return fmt.Errorf("provider %s does not speak the client's API, and the request cannot be translated", a.Provider.Name)
	case a.Response == nil:
		return fmt.Errorf("reported by the plugin for provider %s", a.Provider.Name)
	case a.bodyDone && a.Reader == nil && a.Translation.Dialect == abi.DialectTranslated && !a.Writer.Began():
		return fmt.Errorf("plugin %s reported nothing for the response from provider %s, status %d", a.Provider.Binding.Plugin().Name(), a.Provider.Name, a.Response.Status())
	case a.bodyDone && a.Reader == nil && a.Translation.Dialect == abi.DialectTranslated && a.Writer.Incomplete():
		return fmt.Errorf("plugin %s did not call done before the response from provider %s ended, status %d: the response is incomplete, or the plugin missed its end",
			a.Provider.Binding.Plugin().Name(), a.Provider.Name, a.Response.Status())
	case a.bodyDone:
		return fmt.Errorf("incomplete response from provider %s, status %d", a.Provider.Name, a.Response.Status())
	}
	return fmt.Errorf("reported in the response from provider %s, status %d", a.Provider.Name, a.Response.Status())
}

// Usage returns what the attempt has used when it ends: the tokens that its provider has counted, or an estimate from
// what has arrived and, if the request was sent and its outcome is unknown, what that is booked at. ok is false if it
// has used nothing.
func (a *Attempt) Usage() (u response.Usage, used spend.Used, ok bool) {
	w := a.Writer
	u = w.Accounted()
	counted := w.Started() || w.Complete() || w.Used()
	switch {
	case a.Accounted:
		return u, used, false
	case a.Unknown():
		held := a.Held.Held
		held.Stream = (held.Stream || a.Framed) && !a.Exchange.References.Background // a response in the background is not cancelled by leaving
		used = held.Unknown(&u, counted)
		u.Cost = used.Cost
		return u, used, true
	case !counted:
		return u, used, false
	}
	return u, spend.Used{Tokens: u.Total, Cost: u.Cost}, true
}

// Unknown reports whether the attempt has an unknown outcome if it ends now: its provider has received the request, and
// has neither rejected nor completed it. Rejecting a further request of the attempt leaves it unknown what the earlier
// ones have cost.
func (a *Attempt) Unknown() bool {
	if a.Followed && a.Rejected {
		return a.Sent
	}
	return a.Sent && !a.Rejected && !a.Writer.Conclusive()
}

// RecordError records that the attempt ended with an error. If the target is at fault, the status document shows it as
// the target's last error.
func (a *Attempt) RecordError(e *apierror.Error) {
	if a.Recorded || a.Target == nil {
		return
	}
	if a.Canary != nil {
		if o, known := failure.CanaryOutcome(e); known {
			a.Canary.Record(o, a.Services.Now())
		}
	}
	outcome, cooldown := failure.Outcome(e)
	if outcome != routing.Inconclusive || e.UpstreamStatus != 0 {
		last := routing.LastError{At: a.Services.Now(), Code: e.Code, Text: failure.PublicCause(e.Cause)}
		if last.Code == "" || last.Code != telemetry.Code(last.Code) {
			last.Code = string(e.Kind) // a code of the provider's own may contain anything
		}
		a.Target.RecordError(last)
	}
	a.RecordOutcome(outcome, cooldown)
}

// RecordOutcome records the attempt's outcome in the target's statistics, once. cooldown is how long the provider asked
// not to receive requests, 0 if it did not.
func (a *Attempt) RecordOutcome(o routing.Outcome, cooldown time.Duration) {
	if a.Recorded || a.Target == nil {
		return
	}
	t, log, now := a.Target, a.Services.Log, a.Services.Now()
	a.Recorded = true
	if o == routing.Succeeded && a.Canary != nil {
		a.Canary.Record(canary.Succeeded, now)
	}
	switch t.EndAttempt(a.Ticket, o, cooldown, a.FirstEvent, now) {
	case breaker.Opened:
		wait, _ := t.Wait(now)
		log.Warn("circuit opened", "provider", t.Provider, "target", t.Model, "pause_ms", wait.Milliseconds())
	case breaker.Recovered:
		log.Info("circuit closed", "provider", t.Provider, "target", t.Model)
	}
}

// startTape starts to record the attempt if its provider is being recorded.
func (a *Attempt) startTape() {
	x := a.Exchange
	if a.tape = a.Services.Recorder.Start(a.Provider.Name); a.tape == nil {
		return
	}
	s := &a.Translation.Summary
	a.tape.Redact = x.Configuration.NewFileRedactor(x.Presented)
	a.tape.SetRequest(recording.Request{
		Form: s.Form, ClientForm: s.ClientForm, Betas: s.Betas, Target: s.Target, MaxTokens: s.MaxTokens, DefaultMaxTokens: s.DefaultMaxTokens,
		Options: s.Options, Stream: x.Stream, Body: a.Translation.Request.Body,
	})
}

// EndTape ends the attempt's recording and hands it over. err is the error that ended the attempt, nil if the response
// was read as far as it was needed.
func (a *Attempt) EndTape(err error) {
	if a.tape == nil {
		return
	}
	how := recording.Ended
	if broken, ok := errors.AsType[*upstream.Error](err); ok && broken.Phase == upstream.PhaseBody && !a.follows() {
		how = recording.Truncated
	}
	if a.Wait.Gone() && !a.Writer.Complete() {
		how = recording.Disconnected
	}
	a.tape.End(how)
	a.tape = nil
}
