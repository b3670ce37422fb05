package credential

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
)

const (
	// A value is refreshed when a refreshFraction-th of its lifetime is left, but at most maxRefreshLead before it
	// expires.
	refreshFraction = 5
	maxRefreshLead  = 5 * time.Minute
	// expiryMargin is how long before its expiry a value is no longer used, because a request takes time to arrive.
	expiryMargin = 10 * time.Second
	// retryDelay is the minimum time between a failed fetch and the next one.
	retryDelay = time.Second
)

// refresher caches a value that expires and takes time to obtain.
//
// get returns the current value without a lock. Some time before the value expires, the next caller starts a fetch in
// the background, and all callers continue with the old value. Callers wait only if there is no usable value. At most
// one fetch is in flight. It does not belong to a request: it continues when the callers that wait for it are canceled,
// until it completes or close cancels it.
type refresher[T any] struct {
	// fetch obtains the value and returns when it expires; the zero time means never.
	fetch func(ctx context.Context) (value T, expires time.Time, err error)
	// refreshed is called with each new value before it is used. It may be nil.
	refreshed func(T)
	// refreshEvery is the interval at which a value that does not expire is fetched again; 0 means never.
	refreshEvery time.Duration
	now          func() time.Time

	ctx     context.Context
	cancel  context.CancelFunc
	current atomic.Pointer[current[T]]

	mu       sync.Mutex
	inflight *flight // nil if no fetch is in flight
	failed   error   // error of the last fetch; nil if it succeeded
	retryAt  time.Time
	closed   bool
	flights  sync.WaitGroup
}

// current is a value with the times at which to refresh it and at which it expires; zero means never.
type current[T any] struct {
	value            T
	refresh, expires time.Time
}

// flight is a fetch in flight. err may be read once done is closed.
type flight struct {
	done chan struct{}
	err  error
}

func newRefresher[T any](now func() time.Time, fetch func(ctx context.Context) (T, time.Time, error)) *refresher[T] {
	r := &refresher[T]{fetch: fetch, now: now}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// get returns the value and waits for it until deadline at the latest. The error is that of the fetch, that of ctx, or
// context.DeadlineExceeded.
func (r *refresher[T]) get(ctx context.Context, deadline time.Time) (value T, err error) {
	for {
		now := r.now()
		c := r.current.Load()
		usable := c != nil && (c.expires.IsZero() || now.Before(c.expires))
		if usable && (c.refresh.IsZero() || now.Before(c.refresh)) {
			return c.value, nil
		}
		f, err := r.startFetch(now, c)
		switch {
		case usable:
			return c.value, nil
		case err != nil:
			return value, err
		case f == nil:
			continue // another caller has just refreshed it
		}
		if err := f.wait(ctx, deadline); err != nil {
			return value, err
		}
		if c := r.current.Load(); c != nil {
			return c.value, nil
		}
	}
}

// wait waits until the fetch has ended and returns its error.
func (f *flight) wait(ctx context.Context, deadline time.Time) error {
	t := time.NewTimer(time.Until(deadline))
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

// startFetch returns the fetch in flight, and starts one if there is none. It returns nil if another caller has
// replaced seen, the value that this caller found. Within retryDelay of a failure it returns the error of that failure.
func (r *refresher[T]) startFetch(now time.Time, seen *current[T]) (*flight, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return nil, context.Canceled
	case r.inflight != nil:
		return r.inflight, nil
	case r.current.Load() != seen:
		return nil, nil
	case r.failed != nil && now.Before(r.retryAt):
		return nil, r.failed
	}
	f := &flight{done: make(chan struct{})}
	r.inflight = f
	r.flights.Go(func() { r.run(f) })
	return f, nil
}

// run fetches a value and stores it.
func (r *refresher[T]) run(f *flight) {
	ctx, cancel := context.WithTimeout(r.ctx, fetchTimeout)
	defer cancel()
	value, expires, err := r.callFetch(ctx)
	if err == nil {
		if r.refreshed != nil {
			r.refreshed(value)
		}
		r.store(value, expires)
	}
	r.mu.Lock()
	r.inflight, r.failed, f.err = nil, err, err
	r.retryAt = r.now().Add(retryDelay)
	r.mu.Unlock()
	close(f.done)
}

// callFetch calls fetch, and turns a panic into an error because most of fetch is library code.
func (r *refresher[T]) callFetch(ctx context.Context) (value T, expires time.Time, err error) {
	defer rescue.Into(&err)
	return r.fetch(ctx)
}

// store makes a value the current one.
func (r *refresher[T]) store(value T, expires time.Time) {
	now := r.now()
	c := &current[T]{value: value}
	switch {
	case !expires.IsZero():
		lead := expires.Sub(now) / refreshFraction
		c.refresh = expires.Add(-min(lead, maxRefreshLead))
		c.expires = expires.Add(-min(lead, expiryMargin))
	case r.refreshEvery > 0:
		c.refresh = now.Add(r.refreshEvery)
	}
	r.current.Store(c)
}

// close cancels the fetch in flight and waits until it has ended. The current value stays available.
func (r *refresher[T]) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	r.flights.Wait()
}
