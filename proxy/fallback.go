package proxy

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/breaker"

	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// answer tries the targets in order until one answers, and returns with the answer whole, or streamed and begun, or
// with an error for the client of which nothing has been sent.
func (x *completion) answer(ctx context.Context, targets []routing.Target) *apierror.Error {
	now := x.admitted
	order, err := x.choose(ctx, targets, now)
	if err != nil {
		return clientError(err)
	}
	x.asked = x.asked[:0]
	var last *apierror.Error
	for n, i := range order {
		t := &targets[i]
		if len(targets) > 1 {
			now = x.server.now() // the router, or the attempt before, took its time
		}
		if !x.attemptAt(t, now) {
			continue
		}
		e := x.try(ctx, t)
		if e == nil {
			return nil
		}
		if last == nil || !unsupported(e) {
			// That one target cannot do what another could have done does not make the request a wrong one.
			last = e
		}
		if x.departed || !e.TryNext {
			break
		}
		if n+1 < len(order) {
			x.passOver(t, e)
		}
	}
	if last == nil {
		return x.unavailable(order, targets)
	}
	return last
}

// choose puts the targets into the order in which they are tried.
func (x *completion) choose(ctx context.Context, targets []routing.Target, now time.Time) ([]int, error) {
	x.vigil.begin()
	order, explain, err := x.gen.router.Order(ctx, x.order[:0], targets, now, x.record.Key, x.appendSummary, func(err error) bool {
		_, refused := errors.AsType[*apierror.Error](err)
		return refused
	})
	if gone := x.vigil.end(); gone != nil {
		err = gone
	}
	x.order = order
	if err == nil && explain != "" {
		x.server.log.Debug("routed", "request", x.record.RequestID, "model", x.record.Model, "why", explain)
	}
	return order, err
}

// attemptAt asks for leave to try a target, and counts the attempt.
func (x *completion) attemptAt(t *routing.Target, now time.Time) bool {
	ticket, ok := t.Begin(now, x.record.Attempts > 0, slices.Contains(x.asked, t.Budget))
	if !ok {
		return false
	}
	x.target, x.provider, x.ticket, x.settled = t, x.gen.providers[t.Provider], ticket, false
	x.record.Attempts++
	x.began = now
	return true
}

// unavailable is what a client gets of whose model every target is left alone.
func (x *completion) unavailable(order []int, targets []routing.Target) *apierror.Error {
	now := x.server.now()
	soonest, limited := time.Duration(math.MaxInt64), false
	for _, i := range order {
		if wait, l := targets[i].Wait(now); wait < soonest {
			soonest, limited = wait, l
			x.record.Provider, x.record.Target = targets[i].Provider, targets[i].Model
		}
	}
	e := apierror.Fail(abi.FailOverloaded, "upstream_unavailable", "", "The provider of this model has failed repeatedly and is left alone for a while.")
	if limited {
		e = apierror.Fail(abi.FailRateLimit, "", "", "")
	}
	e.RetryAfter = max(soonest, time.Millisecond)
	e.Cause = fmt.Errorf("%s is left alone for another %v", x.record.Provider, soonest.Round(time.Millisecond))
	return e
}

// outcome is what an error says of the target that it came from, and how long that wants to be left alone.
func outcome(e *apierror.Error) (routing.Outcome, time.Duration) {
	switch {
	case !e.TryNext, e.Status >= 400 && e.Status < 500 && e.Status != fasthttp.StatusTooManyRequests, ours(e):
		return routing.Neither, 0
	case e.Status == fasthttp.StatusTooManyRequests && e.RetryAfter > 0:
		return routing.Limited, e.RetryAfter
	}
	return routing.Failed, e.RetryAfter
}

// ours tells what the gateway, a plugin or the model itself did wrong from what the provider did.
func ours(e *apierror.Error) bool {
	switch e.Code {
	case "gateway_overloaded", "plugin_crashed", "plugin_timeout", "plugin_protocol", "upstream_invalid_tool_call":
		return e.UpstreamStatus == 0
	}
	return false
}

// unsupported tells a request that is too much for a target from a target that failed.
func unsupported(e *apierror.Error) bool { return e.TryNext && e.Status == fasthttp.StatusBadRequest }

// passOver writes down why a target was not the one to answer: the line of the request only speaks of the last one. The
// error's message stays out, as it may be the provider's and repeat the prompt.
func (x *completion) passOver(t *routing.Target, e *apierror.Error) {
	attrs := []slog.Attr{
		slog.String("request", x.record.RequestID), slog.String("model", x.record.Model), slog.String("provider", t.Provider),
		slog.String("target", t.Model), slog.Int("attempt", x.record.Attempts), slog.Int("status", e.Status), slog.String("code", e.Code),
	}
	if e.Cause != nil {
		attrs = append(attrs, slog.String("cause", e.Cause.Error()))
	}
	x.server.log.LogAttrs(context.Background(), slog.LevelWarn, "attempt failed", attrs...)
}

// settle tells the target's statistics how the attempt ended, once. spare is how long the target wants to be left alone.
func (x *completion) settle(o routing.Outcome, spare time.Duration) {
	if x.settled || x.target == nil {
		return
	}
	t, now := x.target, x.ended
	if now.IsZero() {
		now = x.server.now()
	}
	x.settled = true
	switch t.End(x.ticket, o, spare, x.record.FirstEvent, now) {
	case breaker.Opened:
		wait, _ := t.Wait(now)
		x.server.log.Warn("target left alone", "provider", t.Provider, "target", t.Model, "for", wait)
	case breaker.Recovered:
		x.server.log.Info("target answers again", "provider", t.Provider, "target", t.Model)
	}
}
