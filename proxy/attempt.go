package proxy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/exchange"
	"github.com/sluice-gateway/sluice/proxy/internal/failure"
	"github.com/sluice-gateway/sluice/proxy/internal/otlp/content"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// routed is the routing decision for a request and its input. It outlives attempts, and is reused by other completions.
type routed struct {
	request  routing.Request  // valid until the documents are released
	decision routing.Decision // the order of the targets and the outcome of each
}

// routings is a pool of routing decisions.
type routings struct{ pool sync.Pool } // of *routed

// get returns a routed, which the caller gives back with put.
func (p *routings) get() *routed {
	if r, ok := p.pool.Get().(*routed); ok {
		return r
	}
	return new(routed)
}

func (p *routings) put(r *routed) {
	r.request = routing.Request{}
	r.decision.Reset()
	p.pool.Put(r)
}

// tryTargets tries the targets in order until one responds. It returns after it has read a complete non-streaming
// response or the beginning of a stream. Otherwise it returns an error for the client, to which nothing has been sent.
func (x *completion) tryTargets(ctx context.Context, head *fasthttp.RequestHeader) *apierror.Error {
	now, targets := x.holds.AdmittedAt, x.Policy.Targets
	if e := x.findReferences(); e != nil {
		return e
	}
	if err := x.orderTargets(ctx, head, now); err != nil {
		return failure.ForClient(err)
	}
	x.TriedBudgets, x.remaining, x.mirror = x.TriedBudgets[:0], x.routed.decision.Order(), newMirror(x)
	if len(targets) > 1 {
		now = x.server.Now() // the decision may have waited for a router
	}
	var last *apierror.Error
	for x.startNext(x.Attempt, now) {
		e := x.tryTarget(ctx)
		for attempts := 1; e != nil && x.retryTarget(e, attempts); attempts++ {
			e = x.tryTarget(ctx)
		}
		if e == nil {
			return nil
		}
		if last == nil || !failure.IsUnsupported(e) {
			// An unsupported error from one target must not mask another target's error.
			last = e
		}
		if x.Disconnected || !e.TryNext {
			break
		}
		if len(x.remaining) > 0 {
			x.logFailedAttempt(x.Attempt, e)
		}
		now = x.server.Now()
	}
	switch {
	case last == nil && x.holds.Limit != nil:
		return x.countLimit(x.holds.Limit)
	case last == nil:
		return x.allUnavailable(x.routed.decision.Order(), targets)
	}
	return last
}

// startNext starts attempt a at the next target that permits one. It returns false if there is none.
func (x *completion) startNext(a *exchange.Attempt, now time.Time) bool {
	for len(x.remaining) > 0 {
		i := x.remaining[0]
		x.remaining = x.remaining[1:]
		reason := x.startAttempt(a, i, now, "")
		if reason == "" {
			return true
		}
		x.routed.decision.Skip(i, reason)
	}
	return false
}

// retryTarget starts another attempt at the target that has failed, after a pause, if the error is transient. attempts
// is how many have been made at this target.
func (x *completion) retryTarget(e *apierror.Error, attempts int) bool {
	if x.Disconnected || !failure.IsTransient(e) {
		return false
	}
	wait, ok := routing.RetryWait(x.Policy.Retry, attempts, e.RetryAfter)
	if !ok {
		return false
	}
	x.logFailedAttempt(x.Attempt, e)
	if x.Pause(wait) != nil || x.startAttempt(x.Attempt, x.Index, x.server.Now(), "retry") != "" {
		return false
	}
	x.Target.RecordRetry()
	return true
}

// startAttempt starts attempt a at a target of the policy if the limits and budgets of its provider, its circuit
// breaker and its retry budget permit it. Otherwise it returns the reason, as the routing decision shows it. why marks
// the attempt in the decision; it is "" for one in regular order.
func (x *completion) startAttempt(a *exchange.Attempt, index int, now time.Time, why string) (reason string) {
	t := &x.Policy.Targets[index]
	held, reason := x.holds.StartAttempt(x.Request, t, x.Stream, now)
	if reason != "" {
		return reason
	}
	started := false
	defer func() {
		if !started {
			held.Settle(spend.Used{}, now)
		}
	}()
	ticket, ok := t.StartAttempt(now, x.record.Attempts > 0, slices.Contains(x.TriedBudgets, t.Budget))
	if !ok {
		return routing.NotPermitted
	}
	started = true
	provider := x.generation.providers[t.Provider]
	x.record.Attempts++
	if x.server.account.Keeps() {
		x.record.Admitted, x.record.Hold = x.holds.AdmittedAt.Sub(x.record.Began), x.holds.Reserved().Cost
		x.record.Tries = append(x.record.Tries, telemetry.Attempt{Provider: t.Provider, Target: t.Model, Why: why, Began: now, Plugin: provider.PluginUse(0)})
		x.server.account.Recent.Attempt(&x.record)
	}
	*a = exchange.Attempt{
		Workspace: a.Workspace, Services: &x.server.Services, Exchange: &x.Exchange, Documents: &x.Documents, Memory: &x.holds.Reservation,
		Provider: provider, Wait: x, SendCopies: x.mirror.sender(), Held: held,
		Trial: exchange.Trial{Target: t, Ticket: ticket, Canary: x.routed.decision.Canary(index), Number: x.record.Attempts, Index: index, StartedAt: now},
	}
	if x.record.Content != nil {
		a.Observe(content.NewRecorder(int(x.server.started.Telemetry.Content.Max)))
	}
	a.Entry = x.routed.decision.StartAttempt(index, why)
	return ""
}

// tryTarget sends the request to a target and reads until there is something for the client: a complete non-streaming
// response, or the first events of a stream. After an error the attempt holds nothing, and nothing has been sent to the
// client.
func (x *completion) tryTarget(ctx context.Context) *apierror.Error {
	x.WrittenAt = x.StartedAt
	x.holds.Reservation.ShrinkResponse()
	var err error
	if e := x.Prepare(x.mirror.tap(), &x.Chain); e != nil {
		err = e
	} else if err = openAttempt(x); err == nil {
		err = x.Read(ctx)
	}
	x.recordTarget(x.Attempt)
	if err == nil {
		x.FilterResponse(ctx)
	}
	if err == nil || errors.Is(err, exchange.ErrCommit) {
		if failed := x.Writer.Failed(); failed == nil || x.Writer.Started() {
			if !x.Stream {
				x.DrainBody()
			}
			x.endAttempt(x.Attempt, "", http.StatusOK, x.FirstEvent, nil)
			return nil
		}
		err = x.Writer.Failed()
	}
	if x.Writer.Started() && !x.Disconnected {
		// Send the client what arrived before the failure, however it was split into packets.
		x.EndTape(err)
		x.Writer.Fail(failure.ForClient(err))
		x.endAttempt(x.Attempt, "", http.StatusOK, x.FirstEvent, nil)
		return nil
	}

	e := x.Annotate(failure.ForClient(err))
	x.EndTape(err)
	if x.Disconnected {
		x.RecordOutcome(routing.Inconclusive, 0)
	} else {
		x.RecordError(e)
	}
	x.endAttempt(x.Attempt, e.Code, e.Status, x.server.Now().Sub(x.StartedAt), e)
	x.CloseUpstream()
	if !x.Disconnected {
		x.countFailed(x.Attempt, false)
	}
	x.record.Fuel += x.Translation.Fuel
	x.Translation.Fuel = 0
	return e
}

// allUnavailable returns the error of a request whose targets all have an open circuit.
func (x *completion) allUnavailable(order []int, targets []routing.Target) *apierror.Error {
	now := x.server.Now()
	soonest, limited := time.Duration(math.MaxInt64), false
	for _, i := range order {
		if wait, l := targets[i].Wait(now); wait < soonest {
			soonest, limited = wait, l
			x.record.Provider, x.record.Target = targets[i].Provider, targets[i].Model
		}
	}
	e := apierror.Fail(abi.FailOverloaded, "upstream_unavailable", "", "The provider of this model failed repeatedly; its circuit breaker is open.")
	if limited {
		e = apierror.Fail(abi.FailRateLimit, "", "", "")
	}
	e.RetryAfter = max(soonest, time.Millisecond)
	e.Cause = fmt.Errorf("circuit of provider %s open for another %v", x.record.Provider, soonest.Round(time.Millisecond))
	return e
}
