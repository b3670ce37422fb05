// Package routing decides in which order the targets of a model are tried.
//
// It owns the targets' statistics and circuit breakers (Stats), the retry budgets of providers (Budget), the document that a
// router plugin reads, and the order used without a router or when the router fails. Its subpackage catalog has the models. It
// does not send requests and does not know plugins: the Chooser is handed in.
//
// Concurrency: everything but a Target is safe for concurrent use, and a Target is immutable. Each Stats and Budget has its own
// lock, under which no other is taken; the lock of the Registry may be held while taking them.
package routing

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"
)

// Chooser orders targets by a policy: the router plugin. tenant is the name of the client's key, input the document written by
// AppendRouterInput, n the number of targets in it. It returns the indexes of the targets to try, best first, and an explanation.
type Chooser interface {
	Choose(ctx context.Context, tenant string, input []byte, n int) (order []int, explain string, err error)
}

// Router orders the targets of a request.
type Router struct {
	Chooser Chooser // nil: the configured order is used

	// Failed is called with each error of the Chooser that made Order fall back to the configured order. May be nil.
	Failed func(error)
}

// Order appends the indexes of targets to dst in the order in which to try them. summary appends the request's summary as a
// JSON object; it is called only if the Chooser is, which takes more than one target. An error of the Chooser for which refused
// returns true is the router's decision and ends the request. After any other error the configured order is used, since a
// broken policy must not take the service down.
func (r *Router) Order(ctx context.Context, dst []int, targets []Target, now time.Time, tenant string, summary func(dst []byte) []byte, refused func(error) bool) (order []int, explain string, err error) {
	if r.Chooser != nil && len(targets) > 1 {
		order, explain, err := r.Chooser.Choose(ctx, tenant, AppendRouterInput(nil, targets, now, summary), len(targets))
		switch {
		case err == nil && len(order) > 0:
			n := len(dst)
			dst = append(dst, order...)
			slices.SortStableFunc(dst[n:], func(a, b int) int { return readyFirst(targets[a].Stats, targets[b].Stats, now) })
			return dst, explain, nil
		case err != nil && refused(err):
			return dst, "", err
		case err != nil && r.Failed != nil:
			r.Failed(err)
		}
	}
	return ConfiguredOrder(dst, targets, now), "", nil
}

// ConfiguredOrder appends the indexes of targets to dst: healthy before unhealthy, then fallbacks last, then by priority (smaller
// first), then by weight (larger first), then as configured.
func ConfiguredOrder(dst []int, targets []Target, now time.Time) []int {
	n := len(dst)
	for i := range targets {
		dst = append(dst, i)
	}
	slices.SortStableFunc(dst[n:], func(a, b int) int {
		x, y := &targets[a], &targets[b]
		if c := readyFirst(x.Stats, y.Stats, now); c != 0 {
			return c
		}
		if x.Fallback != y.Fallback {
			return after(x.Fallback)
		}
		if x.Priority != y.Priority {
			return x.Priority - y.Priority
		}
		return y.Weight - x.Weight
	})
	return dst
}

// readyFirst sorts targets with a closed circuit, and not in cooldown, before others.
func readyFirst(a, b *Stats, now time.Time) int {
	x, y := a.ready(now), b.ready(now)
	if x == y {
		return 0
	}
	return after(!x)
}

func after(b bool) int {
	if b {
		return 1
	}
	return -1
}

// AppendRouterInput appends the document that a router plugin reads; sdk/abi/README.md has the schema.
func AppendRouterInput(dst []byte, targets []Target, now time.Time, summary func(dst []byte) []byte) []byte {
	dst = append(dst, `{"summary":`...)
	dst = summary(dst)
	dst = append(dst, `,"targets":[`...)
	for i := range targets {
		t := &targets[i]
		s := t.Stats.Snapshot(now)
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"index":`...)
		dst = strconv.AppendInt(dst, int64(i), 10)
		dst = appendString(append(dst, `,"provider":`...), t.Provider)
		dst = appendString(append(dst, `,"model":`...), t.Model)
		dst = strconv.AppendInt(append(dst, `,"weight":`...), int64(t.Weight), 10)
		dst = strconv.AppendInt(append(dst, `,"priority":`...), int64(t.Priority), 10)
		dst = strconv.AppendBool(append(dst, `,"fallback":`...), t.Fallback)
		dst = strconv.AppendBool(append(dst, `,"healthy":`...), s.Ready)
		dst = strconv.AppendInt(append(dst, `,"inflight":`...), s.Inflight, 10)
		dst = strconv.AppendInt(append(dst, `,"latency_ms":`...), s.Latency.Milliseconds(), 10)
		dst = strconv.AppendFloat(append(dst, `,"error_rate":`...), s.ErrorRate, 'f', 4, 64)
		dst = strconv.AppendFloat(append(dst, `,"input_price":`...), t.InputPrice, 'f', -1, 64)
		dst = strconv.AppendFloat(append(dst, `,"output_price":`...), t.OutputPrice, 'f', -1, 64)
		dst = append(dst, `,"options":`...)
		if len(t.Options) == 0 {
			dst = append(dst, '{', '}')
		} else {
			dst = append(dst, t.Options...)
		}
		dst = append(dst, '}')
	}
	return append(dst, `]}`...)
}

func appendString(dst []byte, s string) []byte {
	// A string always marshals.
	q, _ := json.Marshal(s)
	return append(dst, q...)
}
