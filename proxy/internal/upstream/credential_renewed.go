package upstream

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
)

const (
	// spare is the part of a value's life at whose end it is obtained anew, and maxSpare the longest such part.
	spare    = 5
	maxSpare = 5 * time.Minute
	// margin is how long before its end a value is no longer used: a request takes time to arrive.
	margin = 10 * time.Second
	// rest is for how long nothing is asked for after a failure.
	rest = time.Second
)

// renewed keeps a value that expires and that takes a while to obtain.
//
// Get returns the value at hand without a lock. Some time before it expires, the first caller to notice has it obtained
// anew in the background, while everybody goes on with the old one; only who comes when there is none waits. There is
// never more than one attempt under way. An attempt belongs to nobody's request: it goes on when the one who waits for it
// has gone, and ends by itself or with close.
type renewed[T any] struct {
	// fetch obtains the value, and says when it expires; the zero time is never.
	fetch func(ctx context.Context) (value T, expires time.Time, err error)
	// obtained is told each value before anybody gets it. It may be nil.
	obtained func(T)
	// reread is after how long a value that does not expire is obtained anew; 0 is never.
	reread time.Duration
	now    func() time.Time

	ctx    context.Context
	cancel context.CancelFunc
	held   atomic.Pointer[held[T]]

	mu      sync.Mutex
	flight  *flight // nil while nothing is being obtained
	failed  error   // of the last attempt, if that failed
	notYet  time.Time
	ended   bool
	flights sync.WaitGroup
}

// held is a value with its times, which are zero for never.
type held[T any] struct {
	value          T
	renew, expires time.Time
}

// flight is one attempt; err may be read once done is closed.
type flight struct {
	done chan struct{}
	err  error
}

func newRenewed[T any](now func() time.Time, fetch func(ctx context.Context) (T, time.Time, error)) *renewed[T] {
	r := &renewed[T]{fetch: fetch, now: now}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// get returns the value. It waits until limit at the latest. The error is that of the attempt, of ctx, or
// context.DeadlineExceeded.
func (r *renewed[T]) get(ctx context.Context, limit time.Time) (value T, err error) {
	for {
		now := r.now()
		h := r.held.Load()
		usable := h != nil && (h.expires.IsZero() || now.Before(h.expires))
		if usable && (h.renew.IsZero() || now.Before(h.renew)) {
			return h.value, nil
		}
		f, err := r.start(now, h)
		switch {
		case usable:
			return h.value, nil
		case err != nil:
			return value, err
		case f == nil:
			continue // it has just been obtained
		}
		if err := f.wait(ctx, limit); err != nil {
			return value, err
		}
		if h := r.held.Load(); h != nil {
			return h.value, nil
		}
	}
}

// wait waits for the attempt's end and returns its error.
func (f *flight) wait(ctx context.Context, limit time.Time) error {
	t := time.NewTimer(time.Until(limit))
	defer t.Stop()
	select {
	case <-f.done:
		return f.err
	case <-t.C:
		return context.DeadlineExceeded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// start returns the attempt that is under way, and begins one where there is none. seen is what the caller found: where
// another value is there by now, there is nothing to do. An attempt that has just failed is not repeated: its error is
// returned.
func (r *renewed[T]) start(now time.Time, seen *held[T]) (*flight, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.ended:
		return nil, context.Canceled
	case r.flight != nil:
		return r.flight, nil
	case r.held.Load() != seen:
		return nil, nil
	case r.failed != nil && now.Before(r.notYet):
		return nil, r.failed
	}
	f := &flight{done: make(chan struct{})}
	r.flight = f
	r.flights.Go(func() { r.fly(f) })
	return f, nil
}

// obtain is fetch, whose code is mostly others'.
func (r *renewed[T]) obtain(ctx context.Context) (value T, expires time.Time, err error) {
	defer rescue.Into(&err)
	return r.fetch(ctx)
}

func (r *renewed[T]) fly(f *flight) {
	ctx, cancel := context.WithTimeout(r.ctx, fetchTimeout)
	defer cancel()
	value, expires, err := r.obtain(ctx)
	if err == nil {
		if r.obtained != nil {
			r.obtained(value)
		}
		r.hold(value, expires)
	}
	r.mu.Lock()
	r.flight, r.failed, f.err = nil, err, err
	r.notYet = r.now().Add(rest)
	r.mu.Unlock()
	close(f.done)
}

// hold makes a value the one at hand.
func (r *renewed[T]) hold(value T, expires time.Time) {
	now := r.now()
	h := &held[T]{value: value}
	switch {
	case !expires.IsZero():
		life := expires.Sub(now)
		h.renew = expires.Add(-min(life/spare, maxSpare))
		h.expires = expires.Add(-min(life/spare, margin))
	case r.reread > 0:
		h.renew = now.Add(r.reread)
	}
	r.held.Store(h)
}

// close ends the attempt that is under way and waits for its end. The value at hand can still be had.
func (r *renewed[T]) close() {
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.cancel()
	r.flights.Wait()
}
