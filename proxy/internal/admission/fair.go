package admission

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

// A key's fair share is the limit of completions divided by the number of active keys: those with completions in flight
// or waiting. While there is capacity, any key is admitted, so that one that is alone may use all of it. At the limit,
// a key beyond its share is rejected at once, whereas one within its share waits for the next completion that ends,
// whoever's it is. So nothing is reserved, which would be useless to a key that is alone and too little for several that
// begin, and nothing in flight is cancelled.
//
// Since each key has at most its share waiting, first come, first served is a fair order.

// maxWait is how long a request waits for capacity.
const maxWait = 5 * time.Second

// Waiter is a request that can wait.
type Waiter interface {
	// Await waits until admitted is closed, but not longer than d. It returns an error if the request must end.
	Await(admitted <-chan struct{}, d time.Duration) *apierror.Error
}

// flow is the completions of one key.
type flow struct {
	n         atomic.Int64 // in flight or waiting
	principal string       // name of the principal; "" for a key
}

// fairness are the flows of a Limiter, and the queue of requests that wait for capacity.
type fairness struct {
	flows   sync.Map     // *flow by the name of its key; those of keys stay, those of principals are removed once they are empty
	active  atomic.Int64 // flows with completions in flight or waiting
	waiting atomic.Int64 // length of queue

	mu    sync.Mutex
	queue []chan struct{} // each closed when its request is admitted
}

func (a *fairness) flow(key string, isPrincipal bool) *flow {
	f, there := a.flows.Load(key)
	if !there {
		created := new(flow)
		if isPrincipal {
			created.principal = key
		}
		f, _ = a.flows.LoadOrStore(key, created)
	}
	return f.(*flow)
}

// join adds a completion to a flow, and returns how many the flow then has.
func (a *fairness) join(f *flow) int64 {
	n := f.n.Add(1)
	if n == 1 {
		a.active.Add(1)
	}
	return n
}

func (a *fairness) leave(f *flow) {
	if f.n.Add(-1) == 0 {
		a.active.Add(-1)
		if f.principal != "" {
			// A completion that joins it meanwhile still counts, but further ones of the principal have a flow of their own.
			a.flows.CompareAndDelete(f.principal, f)
		}
	}
}

// ReserveFor is like Reserve for a completion of a key, which may wait if the key is within its fair share.
func (r *Limiter) ReserveFor(v *Reservation, key string, isPrincipal bool, w Waiter) *apierror.Error {
	f := r.flow(key, isPrincipal)
	n := r.join(f)
	if r.Reserve(v) != nil {
		if !r.isFair(n, r.active.Load()) {
			r.leave(f)
			return overloaded(telemetry.ShedRequests)
		}
		if e := r.await(w); e != nil {
			r.leave(f)
			return e
		}
		v.limiter = r
	}
	v.flow = f
	return nil
}

// isFair reports whether n completions are within a key's fair share. With more keys than capacity, each may have one.
func (r *Limiter) isFair(n, active int64) bool {
	return n <= max(1, r.maxRequests.Load()/max(1, active))
}

// mayReserve reports whether a further completion of a key would be admitted, or may wait.
func (r *Limiter) mayReserve(key string) bool {
	if r.waiting.Load() == 0 && r.requests.Load() < r.maxRequests.Load() {
		return true
	}
	n, active := int64(0), r.active.Load()
	if f, there := r.flows.Load(key); there {
		n = f.(*flow).n.Load()
	}
	if n == 0 {
		active++
	}
	return r.isFair(n+1, active)
}

// await waits until there is capacity for a completion, which it acquires.
func (r *Limiter) await(w Waiter) *apierror.Error {
	admitted := make(chan struct{})
	r.mu.Lock()
	r.waiting.Add(1) // before admitWaiting tries to acquire capacity: a release that it misses sees that a request waits
	r.queue = append(r.queue, admitted)
	r.mu.Unlock()
	r.admitWaiting()

	e := w.Await(admitted, maxWait)
	r.mu.Lock()
	i := slices.Index(r.queue, admitted)
	if i >= 0 {
		r.queue = slices.Delete(r.queue, i, i+1)
		r.waiting.Add(-1)
	}
	r.mu.Unlock()
	switch {
	case i >= 0 && e == nil:
		e = overloaded(telemetry.ShedRequests)
	case i < 0 && e != nil:
		r.free()
	}
	return e
}

// admitWaiting admits waiting requests while there is capacity.
func (r *Limiter) admitWaiting() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.queue) > 0 && r.acquire() {
		close(r.queue[0])
		r.queue = slices.Delete(r.queue, 0, 1)
		r.waiting.Add(-1)
	}
}

// acquire counts a completion as in flight if there is capacity. It never exceeds the limit, not even briefly, because
// admitWaiting could then find no capacity although there is some, and a request would wait for nothing.
func (r *Limiter) acquire() bool {
	for {
		n := r.requests.Load()
		if n >= r.maxRequests.Load() {
			return false
		}
		if r.requests.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// free ends what acquire began.
func (r *Limiter) free() {
	r.requests.Add(-1)
	if r.waiting.Load() > 0 {
		r.admitWaiting()
	}
}
