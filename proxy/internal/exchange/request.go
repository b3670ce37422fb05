package exchange

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/admission"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/failure"
	"github.com/sluice-gateway/sluice/proxy/internal/framing"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/credential"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

const (
	// cancelTimeout bounds the request that cancels what the gateway no longer waits for.
	cancelTimeout = 5 * time.Second

	// maxFollowStep is how long the client and the heartbeat may go unchecked in a pause.
	maxFollowStep = time.Second
)

// SendRequest makes the plugin build the provider's request, and sends it. If the plugin responds by itself, nothing is
// sent.
func (a *Attempt) SendRequest() error {
	s := a.Services
	if s.Recorder != nil {
		a.startTape()
	}
	if err := a.buildRequest(); err != nil {
		return err
	}
	requested := a.Exchange.API
	if a.Translated {
		requested = &s.APIs[clientapi.Chat]
	}
	if a.responseAPI = s.APIs.ByDialect(a.Translation.Dialect, requested); a.responseAPI != nil {
		a.Reader = a.getReader(a.responseAPI)
	}
	if a.Translation.Answered {
		if a.SendCopies != nil {
			a.SendCopies()
		}
		a.FirstEvent = s.Now().Sub(a.StartedAt)
		return nil
	}
	return a.doRequest()
}

// buildRequest makes the plugin build the provider's request.
func (a *Attempt) buildRequest() error {
	a.Documents.Busy.Lock()
	defer a.Documents.Busy.Unlock()
	ctx := a.Wait.StartWait()
	err := a.Provider.Binding.Request(ctx, &a.Translation)
	if gone := a.Wait.FinishWait(); gone != nil {
		return gone
	}
	return err
}

// doRequest sends the request that the plugin has built. It is separate from SendRequest because the stack is deepest
// in a plugin call, and should be small below it.
func (a *Attempt) doRequest() error {
	x := a.Exchange
	if a.Provider.Client == nil {
		return apierror.Fail(abi.FailServer, "plugin_protocol", "", "The provider's plugin did not respond, and the provider has no base_url.")
	}
	out := &a.Translation.Out
	headers := a.out.Headers[:0]
	for _, h := range out.Headers {
		headers = append(headers, upstream.Header(h))
	}
	headers = append(headers, upstream.Header{Name: admission.HopsHeader, Value: admission.NextHops(x.Hops)})
	if a.Provider.Trace {
		headers = x.appendTrace(headers, a.Number)
	}
	a.out = upstream.Request{
		Method: "POST", Path: out.Path, Headers: headers, Body: out.Body, ContentType: "application/json",
		Accept: framing.ContentType(a.Translation.Framing), Client: x.Credential, Once: a.Shadow,
	}
	if x.References.Previous.Exists() {
		a.out.Account = credential.Account(x.References.Origin.Account)
	}
	a.out.Sent, a.out.Resender = a.onSent(), a.Wait
	a.Dispatched = true
	response, err := a.send()
	if gone := a.Wait.FinishWait(); gone != nil {
		return gone
	}
	if err != nil {
		return err
	}
	a.UpstreamID, a.Account = string(a.Provider.Redact(response.RequestID())), response.Account()
	a.headerSource, a.Translation.ResponseHeader = response, a.header
	return nil
}

// onSent returns the function to call when the attempt's request has been written whole; nil if there is nothing to do.
func (a *Attempt) onSent() func() {
	if a.Progress == nil {
		return a.SendCopies
	}
	return func() {
		a.Progress.Store(Awaiting)
		if a.SendCopies != nil {
			a.SendCopies()
		}
	}
}

// send sends a.out, and waits for the head of the response. It records whether the request was written whole even if it
// panics.
func (a *Attempt) send() (*upstream.Response, error) {
	defer func() {
		a.Sent = a.Sent || a.out.Written
		clear(a.out.Headers)
		a.out = upstream.Request{Headers: a.out.Headers}
	}()
	response, err := a.Provider.Client.Do(a.Wait.StartWait(), &a.out, a.Wait)
	if a.Response = response; err == nil {
		a.receiveHead(response.Status())
		if a.tape != nil {
			a.tape.StartResponse(response.Status(), response.EachHeader)
		}
	}
	return response, err
}

// receiveHead records that the head of the provider's response has arrived.
func (a *Attempt) receiveHead(status int) {
	a.Rejected = status < 200 || status >= 300
	if a.Progress == nil {
		return
	}
	if a.Rejected {
		a.Progress.Store(NotSent)
	} else {
		a.Progress.Store(Receiving)
	}
}

// follows reports whether the plugin has asked for a further request.
func (a *Attempt) follows() bool { return a.Translation.Next.Path != "" }

// followUp sends the further request that the plugin has asked for, after its pause, and waits for the head of the
// response. It can be called again after ErrCommit.
func (a *Attempt) followUp() error {
	s := a.Services
	if a.followAt.IsZero() {
		a.Response.Close() // its body has been read
		a.followAt = s.Now().Add(a.Translation.Next.Pause)
	}
	deadline := a.StartedAt.Add(a.Provider.Total)
	if a.followAt.After(deadline) {
		return failure.Upstream(&upstream.Error{
			Kind: upstream.Timeout, Phase: upstream.PhaseBody, Upstream: a.Provider.Name, Reason: "total timeout of " + a.Provider.Total.String(), Answered: true, Written: true,
		})
	}
	for {
		left := a.followAt.Sub(s.Now())
		if left <= 0 {
			break
		}
		step := maxFollowStep
		if beat := a.Provider.Heartbeat; beat > 0 {
			step = min(step, beat)
		}
		if err := a.pauseFor(min(left, step)); err != nil {
			return err
		}
		if err := a.Wait.Tick(upstream.PhaseBody, 0); err != nil {
			return err
		}
	}
	next := a.Translation.Next
	a.Translation.Next, a.followAt = plugin.FollowUp{}, time.Time{}
	a.first, a.bodyDone, a.Framed, a.Followed = nil, false, false, true
	if !a.Writer.Began() {
		a.FirstEvent = 0
	}
	a.out = a.followUpRequest(&next, a.out.Headers[:0])
	a.out.Deadline = deadline
	response, err := a.send()
	if gone := a.Wait.FinishWait(); gone != nil {
		return gone
	}
	if err == nil {
		a.headerSource = response
	}
	return err
}

// followUpRequest returns a further request, with the headers and the account of the first one.
func (a *Attempt) followUpRequest(next *plugin.FollowUp, headers []upstream.Header) upstream.Request {
	x := a.Exchange
	for _, h := range a.Translation.Out.Headers {
		headers = append(headers, upstream.Header(h))
	}
	headers = append(headers, upstream.Header{Name: admission.HopsHeader, Value: admission.NextHops(x.Hops)})
	r := upstream.Request{
		Method: next.Method, Path: next.Path, Headers: headers, Body: next.Body, Accept: framing.ContentType(a.Translation.Framing),
		Client: x.Credential, Account: a.Account, Once: a.Shadow,
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
func (a *Attempt) pauseFor(d time.Duration) error {
	ctx := a.Wait.StartWait()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return a.Wait.FinishWait()
}

// CloseUpstream closes the provider's response, if there is one. If the attempt leaves a response that it has not read
// to its end, the request is sent that the plugin has named for this case.
func (a *Attempt) CloseUpstream() {
	if r := a.Response; r != nil {
		a.Response = nil
		r.Close()
	}
	if a.Workspace != nil {
		a.cancelUpstream()
	}
}

// cancelUpstream sends, on a goroutine of its own, the request that the plugin has named for the case that the attempt
// ends before the provider has completed the response.
func (a *Attempt) cancelUpstream() {
	c := a.Translation.Cancel
	if a.Translation.Cancel = (plugin.FollowUp{}); c.Path == "" || a.Writer.Conclusive() {
		return
	}
	s, g, client, name, request := a.Services, a.Exchange.Configuration, a.Provider.Client, a.Provider.Name, a.followUpRequest(&c, nil)
	id := a.Exchange.RequestID
	g.Acquire()
	go func() {
		defer g.Release()
		defer rescue.Recover(func(p *rescue.Error) { s.Panicked(id, p) })
		ctx, stop := context.WithTimeout(context.Background(), cancelTimeout)
		defer stop()
		response, err := client.Do(ctx, &request, ContextWatcher{ctx})
		if err == nil {
			defer response.Close()
			if response.Status() >= 300 {
				err = fmt.Errorf("%s returned status %d", client.Target(request.Method, request.Path), response.Status())
			}
		}
		if err != nil {
			s.Log.Warn("cancel upstream request", "request", id, "provider", name, "error", err)
		}
	}()
}

// ContextWatcher ends waiting for the provider when its context is done.
type ContextWatcher struct{ context.Context }

func (w ContextWatcher) Tick(upstream.Phase, time.Duration) error { return w.Err() }
