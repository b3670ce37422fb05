package proxy

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/chat"
	"github.com/sluice-gateway/sluice/proxy/route"
)

// answer tries the targets in order until one answers, and returns with the answer whole, or streamed and begun, or
// with an error for the client of which nothing has been sent.
func (x *exchange) answer(ctx context.Context, targets []route.Target) *chat.Error {
	now := x.server.now()
	order, explain, err := x.gen.router.Order(ctx, nil, targets, now, x.record.Key, x.appendSummary, func(err error) bool {
		_, refused := errors.AsType[*chat.Error](err)
		return refused
	})
	if err != nil {
		return clientError(err)
	}
	if explain != "" {
		x.server.log.Debug("routed", "request", x.record.RequestID, "model", x.record.Model, "why", explain)
	}
	var last *chat.Error
	for n, i := range order {
		x.record.Attempts++
		e := x.try(ctx, &targets[i])
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
			x.passOver(&targets[i], e)
		}
	}
	return last
}

// outcome is what an error says of the target that it came from.
func outcome(e *chat.Error) route.Outcome {
	if e.TryNext && !unsupported(e) {
		return route.Failed
	}
	return route.Neither
}

// unsupported tells a request that is too much for a target from a target that failed.
func unsupported(e *chat.Error) bool { return e.TryNext && e.Status == fasthttp.StatusBadRequest }

// passOver writes down why a target was not the one to answer: the line of the request only speaks of the last one. The
// error's message stays out, as it may be the provider's and repeat the prompt.
func (x *exchange) passOver(t *route.Target, e *chat.Error) {
	attrs := []slog.Attr{
		slog.String("request", x.record.RequestID), slog.String("model", x.record.Model), slog.String("provider", t.Provider),
		slog.String("target", t.Model), slog.Int("attempt", x.record.Attempts), slog.Int("status", e.Status), slog.String("code", e.Code),
	}
	if e.Cause != nil {
		attrs = append(attrs, slog.String("cause", e.Cause.Error()))
	}
	x.server.log.LogAttrs(context.Background(), slog.LevelWarn, "attempt failed", attrs...)
}

// settle tells the target's statistics how the attempt ended, once.
func (x *exchange) settle(o route.Outcome, now time.Time) {
	if x.settled || x.target == nil {
		return
	}
	x.settled = true
	x.target.Stats.End(o, x.record.FirstEvent, now)
}
