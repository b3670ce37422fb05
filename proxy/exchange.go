package proxy

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/admission"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/failure"
	"github.com/sluice-gateway/sluice/proxy/internal/framing"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
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
	s := a.completion.server
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
	x := a.completion
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
	s, g, client, name, request := a.completion.server, a.completion.generation, a.provider.client, a.provider.name, a.followUpRequest(&c, nil)
	id := a.completion.record.RequestID
	g.acquire()
	go func() {
		defer g.release()
		defer rescue.Recover(func(p *rescue.Error) { s.logPanic(id, p) })
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
type contextWatcher struct{ ctx context.Context }

func (w contextWatcher) Tick(upstream.Phase, time.Duration) error { return w.ctx.Err() }

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
		held.Stream = (held.Stream || a.framed) && !a.completion.references.Background // a response in the background is not cancelled by leaving
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
	m := a.completion.mirror
	switch {
	case a.progress != nil:
		return func() {
			a.progress.Store(awaiting)
			m.send()
		}
	case m != nil:
		return m.send
	}
	return nil
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

// endAttempt records the outcome of an attempt in the routing decision and in the request's record: the code and status
// of its error e, or "" and 200. took is the time to the error or to the first event.
func (a *attempt) endAttempt(code string, status int, took time.Duration, e *apierror.Error) {
	x := a.completion
	x.routed.decision.EndAttempt(a.entry, code, status, took)
	if len(x.record.Tries) < a.number {
		return
	}
	t := &x.record.Tries[a.number-1]
	if t.Code = code; e != nil {
		t.Code, t.Cause = cmp.Or(code, string(e.Kind)), telemetry.CauseText(e.Cause)
	}
	if t.Code != "" {
		t.Took = took // else the attempt ends with the request
	}
	if code != telemetry.Cancelled { // it may still be running on its own goroutine
		if t.First = a.firstEvent; a.response != nil {
			t.Status = a.response.Status()
		}
		t.Plugin.Fuel = a.translation.Fuel
	}
	x.server.account.Recent.Attempt(&x.record)
}

// AllowResend books the request whose connection was lost, as a failed attempt, and reports whether the budgets permit
// to send it again. An attempt without the completion's goroutine does not send it again. It implements
// upstream.Resender.
func (a *attempt) AllowResend() bool {
	x := a.completion
	if a.progress != nil || a.shadow {
		return false
	}
	used, now := a.held.Lost(), x.server.now()
	a.held.Settle(used, now)
	x.addFailed(true, used, true)
	allowed := x.holds.HoldFailed(now)
	if allowed {
		held, e := x.holds.HoldTarget(x.request, a.target, x.stream, now)
		if allowed = e == nil; allowed {
			a.held = held
		}
	}
	a.accounted = !allowed
	return allowed
}
