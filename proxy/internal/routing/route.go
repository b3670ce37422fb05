// Package routing decides in which order the targets of a model are tried.
//
// It owns the targets' live statistics (Stats), which of them may be asked at the moment (the breaker) and asked again
// (Budget), the document that a router plugin is shown, and the order that is used where no router is configured or the
// router failed. It does not send requests and does not know what a plugin is: the Chooser is given to it.
//
// Concurrency: everything but a Target is safe for concurrent use, and a Target does not change once it is made. Each
// Stats and Budget has a lock of its own, under which no other is taken; the Board's may be held over them.
package routing

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"
)

// Chooser orders targets by a policy: the router plugin. tenant is the name of the client's key, input the document
// that AppendInput writes, n the number of targets in it. It returns the indexes of the targets to try, best first, and why.
type Chooser interface {
	Choose(ctx context.Context, tenant string, input []byte, n int) (order []int, explain string, err error)
}

// Router orders the targets of a request.
type Router struct {
	Chooser Chooser // nil: the configured order

	// Failed is told of each failure of the Chooser, after which the configured order was used. May be nil.
	Failed func(error)
}

// Order writes the indexes of targets into dst in the order in which to try them. summary is the request's summary as
// a JSON object; it is called only where the Chooser is asked, which needs more than one target. An error of the
// Chooser for which refused is true is the router's answer and ends the request; any other makes the configured order
// the answer, since a broken policy must not take the service down.
func (r *Router) Order(ctx context.Context, dst []int, targets []Target, now time.Time, tenant string, summary func(dst []byte) []byte, refused func(error) bool) (order []int, explain string, err error) {
	if r.Chooser != nil && len(targets) > 1 {
		order, explain, err := r.Chooser.Choose(ctx, tenant, AppendInput(nil, targets, now, summary), len(targets))
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
	return Configured(dst, targets, now), "", nil
}

// Configured appends the targets' indexes in the order of the configuration: healthy before unhealthy, then ordinary
// ones before fallbacks, then by priority (smaller first), then by weight (larger first), then as written.
func Configured(dst []int, targets []Target, now time.Time) []int {
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

// readyFirst puts targets that may be asked before those that are left alone.
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

// AppendInput writes what a router plugin reads; sdk/abi/README.md has the schema.
func AppendInput(dst []byte, targets []Target, now time.Time, summary func(dst []byte) []byte) []byte {
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
		dst = strconv.AppendBool(append(dst, `,"healthy":`...), s.Healthy)
		dst = strconv.AppendInt(append(dst, `,"inflight":`...), s.Inflight, 10)
		dst = strconv.AppendInt(append(dst, `,"latency_ms":`...), s.Latency.Milliseconds(), 10)
		dst = strconv.AppendFloat(append(dst, `,"error_rate":`...), s.ErrorRate, 'f', 4, 64)
		dst = strconv.AppendFloat(append(dst, `,"input_price":`...), t.Input, 'f', -1, 64)
		dst = strconv.AppendFloat(append(dst, `,"output_price":`...), t.Output, 'f', -1, 64)
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
