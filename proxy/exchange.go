package proxy

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/admission"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/excerpt"
	"github.com/sluice-gateway/sluice/proxy/internal/failure"
	"github.com/sluice-gateway/sluice/proxy/internal/framing"
	"github.com/sluice-gateway/sluice/proxy/internal/openai/native"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

const (
	// cancelTimeout bounds the request that cancels what the gateway no longer waits for.
	cancelTimeout = 5 * time.Second

	// maxFollowStep is how long the client and the heartbeat may go unchecked in a pause.
	maxFollowStep = time.Second
)

// follows reports whether the plugin has asked for a further request.
func (a *attempt) follows() bool { return a.translation.Next.Path != "" }

// followUp sends the further request that the plugin has asked for, after its pause, and waits for the head of the
// response. It can be called again after errCommit.
func (a *attempt) followUp() error {
	s := a.services
	if a.followAt.IsZero() {
		a.response.Close() // its body has been read
		a.followAt = s.now().Add(a.translation.Next.Pause)
	}
	deadline := a.startedAt.Add(a.provider.total)
	if a.followAt.After(deadline) {
		return failure.Upstream(&upstream.Error{
			Kind: upstream.Timeout, Phase: upstream.PhaseBody, Upstream: a.provider.name, Reason: "total timeout of " + a.provider.total.String(), Answered: true, Written: true,
		})
	}
	for {
		left := a.followAt.Sub(s.now())
		if left <= 0 {
			break
		}
		step := maxFollowStep
		if beat := a.provider.heartbeat; beat > 0 {
			step = min(step, beat)
		}
		if err := a.pauseFor(min(left, step)); err != nil {
			return err
		}
		if err := a.wait.Tick(upstream.PhaseBody, 0); err != nil {
			return err
		}
	}
	next := a.translation.Next
	a.translation.Next, a.followAt = plugin.FollowUp{}, time.Time{}
	a.first, a.bodyDone, a.framed, a.followed = nil, false, false, true
	if !a.writer.Began() {
		a.firstEvent = 0
	}
	a.out = a.followUpRequest(&next, a.out.Headers[:0])
	a.out.Deadline = deadline
	response, err := a.send()
	if gone := a.wait.FinishWait(); gone != nil {
		return gone
	}
	if err == nil {
		a.headerSource = response
	}
	return err
}

// followUpRequest returns a further request, with the headers and the account of the first one.
func (a *attempt) followUpRequest(next *plugin.FollowUp, headers []upstream.Header) upstream.Request {
	x := a.exchange
	for _, h := range a.translation.Out.Headers {
		headers = append(headers, upstream.Header(h))
	}
	headers = append(headers, upstream.Header{Name: admission.HopsHeader, Value: admission.NextHops(x.hops)})
	r := upstream.Request{
		Method: next.Method, Path: next.Path, Headers: headers, Body: next.Body, Accept: framing.ContentType(a.translation.Framing),
		Client: x.credential, Account: a.account, Once: a.shadow,
	}
	if len(next.Body) > 0 {
		r.ContentType = "application/json"
	}
	if next.Method == "POST" {
		r.Resender = neverResend{}
	}
	return r
}

// neverResend is the upstream.Resender of requests that must not be repeated.
type neverResend struct{}

func (neverResend) AllowResend() bool { return false }

// pauseFor waits for d, or until the attempt must end.
func (a *attempt) pauseFor(d time.Duration) error {
	ctx := a.wait.StartWait()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return a.wait.FinishWait()
}

// closeUpstream closes the provider's response, if there is one. If the attempt leaves a response that it has not read
// to its end, the request is sent that the plugin has named for this case.
func (a *attempt) closeUpstream() {
	if r := a.response; r != nil {
		a.response = nil
		r.Close()
	}
	if a.workspace != nil {
		a.cancelUpstream()
	}
}

// cancelUpstream sends, on a goroutine of its own, the request that the plugin has named for the case that the attempt
// ends before the provider has completed the response.
func (a *attempt) cancelUpstream() {
	c := a.translation.Cancel
	if a.translation.Cancel = (plugin.FollowUp{}); c.Path == "" || a.writer.Conclusive() {
		return
	}
	s, g, client, name, request := a.services, a.exchange.configuration, a.provider.client, a.provider.name, a.followUpRequest(&c, nil)
	id := a.exchange.requestID
	g.acquire()
	go func() {
		defer g.release()
		defer rescue.Recover(func(p *rescue.Error) { s.panicked(id, p) })
		ctx, stop := context.WithTimeout(context.Background(), cancelTimeout)
		defer stop()
		response, err := client.Do(ctx, &request, contextWatcher{ctx})
		if err == nil {
			defer response.Close()
			if response.Status() >= 300 {
				err = fmt.Errorf("%s returned status %d", client.Target(request.Method, request.Path), response.Status())
			}
		}
		if err != nil {
			s.log.Warn("cancel upstream request", "request", id, "provider", name, "error", err)
		}
	}()
}

// contextWatcher ends waiting for the provider when its context is done.
type contextWatcher struct{ context.Context }

func (w contextWatcher) Tick(upstream.Phase, time.Duration) error { return w.Err() }

// usage returns what the attempt has used when it ends: the tokens that its provider has counted, or an estimate from
// what has arrived and, if the request was sent and its outcome is unknown, what that is booked at. ok is false if it
// has used nothing.
func (a *attempt) usage() (u response.Usage, used spend.Used, ok bool) {
	w := a.writer
	u = w.Accounted()
	counted := w.Started() || w.Complete() || w.Used()
	switch {
	case a.accounted:
		return u, used, false
	case a.unknown():
		held := a.held.Held
		held.Stream = (held.Stream || a.framed) && !a.exchange.references.Background // a response in the background is not cancelled by leaving
		used = held.Unknown(&u, counted)
		u.Cost = used.Cost
		return u, used, true
	case !counted:
		return u, used, false
	}
	return u, spend.Used{Tokens: u.Total, Cost: u.Cost}, true
}

// unknown reports whether the attempt has an unknown outcome if it ends now: its provider has received the request, and
// has neither rejected nor completed it. Rejecting a further request of the attempt leaves it unknown what the earlier
// ones have cost.
func (a *attempt) unknown() bool {
	if a.followed && a.rejected {
		return a.sent
	}
	return a.sent && !a.rejected && !a.writer.Conclusive()
}

// onSent returns the function to call when the attempt's request has been written whole; nil if there is nothing to do.
func (a *attempt) onSent() func() {
	if a.progress == nil {
		return a.sendCopies
	}
	return func() {
		a.progress.Store(awaiting)
		if a.sendCopies != nil {
			a.sendCopies()
		}
	}
}

// receiveHead records that the head of the provider's response has arrived.
func (a *attempt) receiveHead(status int) {
	a.rejected = status < 200 || status >= 300
	if a.progress == nil {
		return
	}
	if a.rejected {
		a.progress.Store(notSent)
	} else {
		a.progress.Store(receiving)
	}
}

// rejection returns the cause of an error response with a 4xx status. It contains the provider's error message, which
// says what is wrong with the request or the configuration. For other statuses, rejection returns nil.
func (a *attempt) rejection(status int, body []byte) error {
	if status < 400 || status >= 500 {
		return nil
	}
	r := &failure.Rejection{Provider: a.provider.name, Target: a.provider.client.Target("POST", a.translation.Out.Path), Status: status}
	if !a.released { // else text that repeats the request could not be found and removed
		a.documents.busy.Lock()
		defer a.documents.busy.Unlock()
		words := excerpt.New([]byte(native.ErrorText(body)))
		doc, _ := a.documents.request.Document()
		clientapi.EachText(doc, words.Cut)
		r.Words = words.String()
	}
	return r
}

// annotate adds to an error the provider and the response that it comes from, and its cause for the log.
func (a *attempt) annotate(e *apierror.Error) *apierror.Error {
	if d := a.documents; a.translated && e != d.chatForm.err {
		e = d.originError(e)
	}
	d := *e
	if a.response != nil {
		if a.response.Status() >= 300 {
			d.Provider, d.UpstreamStatus = a.provider.name, a.response.Status()
		}
		d.UpstreamRequestID = a.upstreamID
	}
	if d.Cause == nil {
		d.Cause = a.responseCause()
	}
	return &d
}

// responseCause returns the cause of a failure that has none of its own. The provider's own words are left out, because
// the log must not repeat them.
func (a *attempt) responseCause() error {
	switch {
	case a.translated && a.documents.chatForm.err != nil && a.translation.Request.Doc == nil:
		return fmt.Errorf("provider %s does not speak the client's API, and the request cannot be translated", a.provider.name)
	case a.response == nil:
		return fmt.Errorf("reported by the plugin for provider %s", a.provider.name)
	case a.bodyDone && a.reader == nil && a.translation.Dialect == abi.DialectTranslated && !a.writer.Began():
		return fmt.Errorf("plugin %s reported nothing for the response from provider %s, status %d", a.provider.binding.Plugin().Name(), a.provider.name, a.response.Status())
	case a.bodyDone && a.reader == nil && a.translation.Dialect == abi.DialectTranslated && a.writer.Incomplete():
		return fmt.Errorf("plugin %s did not call done before the response from provider %s ended, status %d: the response is incomplete, or the plugin missed its end",
			a.provider.binding.Plugin().Name(), a.provider.name, a.response.Status())
	case a.bodyDone:
		return fmt.Errorf("incomplete response from provider %s, status %d", a.provider.name, a.response.Status())
	}
	return fmt.Errorf("reported in the response from provider %s, status %d", a.provider.name, a.response.Status())
}
