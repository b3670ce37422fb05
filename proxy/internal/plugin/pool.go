package plugin

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/fairqueue"
)

// flow identifies a caller in a fair queue: a plugin, and within it a tenant.
type flow = fairqueue.Flow[tenant]

// pool holds the instances of one plugin. It opens instances on demand, up to max, prefers the most recently used one,
// and closes instances that have been idle for a while. It implements fairqueue.Resource for its queue, where a unit is
// an idle instance, or nil for permission to open one.
//
// Invariants, under the lock: live counts the instances that are idle, in use or being opened; live <= max; if calls
// are waiting although units are available, at least as many callers as there are units have been woken.
type pool struct {
	isolation Isolation
	max       int
	open      func(ctx context.Context) (*instance, error)
	queue     *fairqueue.Queue[tenant, *instance]

	sync.Mutex             // a leaf lock; instances are opened and closed without it
	idle       []*instance // most recently used last
	live       int         // instances that are idle, in use or being opened
	closed     bool
}

func newPool(i Isolation, max, queue int, open func(ctx context.Context) (*instance, error)) *pool {
	p := &pool{isolation: i, max: max, open: open}
	p.queue = fairqueue.New(p, queueOptions(queue))
	return p
}

// queueOptions returns the options of a queue whose costs are units of fuel. A flow is in deficit when it is 1,000,000
// units, some 3 ms, ahead of the others.
func queueOptions(maxWaiting int) fairqueue.Options {
	return fairqueue.Options{MaxWaiting: maxWaiting, MinCost: 1000, Deficit: 1_000_000}
}

// acquire returns an instance for a call of t, preferably one that may serve t without a reset. If all instances are in
// use it waits for at most limit, and waited reports whether it did. Whole-body calls are urgent, because they hold the
// semaphore that other calls wait for. The caller prepares the instance, and returns it with release, discard or renew.
func (p *pool) acquire(ctx context.Context, t tenant, urgent bool, limit time.Duration) (in *instance, waited bool, err error) {
	in, waited, err = p.queue.Acquire(ctx, flow{Member: t}, urgent, limit)
	if err == nil && in == nil {
		in, err = p.fill(ctx)
	}
	return in, waited, err
}

// Available implements fairqueue.Resource.
func (p *pool) Available() int { return len(p.idle) + p.max - p.live }

// Take implements fairqueue.Resource.
func (p *pool) Take(f flow) (in *instance, ok bool) {
	i := p.choose(f.Member)
	if i < 0 && p.live < p.max {
		p.live++
		return nil, true
	}
	if i < 0 {
		// All idle instances have served another tenant. The one idle for longest is reset for this call.
		i = 0
	}
	if i >= len(p.idle) {
		return nil, false
	}
	in = p.idle[i]
	p.idle = slices.Delete(p.idle, i, i+1)
	return in, true
}

// PutBack implements fairqueue.Resource.
func (p *pool) PutBack(in *instance) {
	switch {
	case in == nil:
		p.live--
	case p.closed:
		p.live--
		in.close()
	default:
		p.idle = append(p.idle, in)
	}
}

// choose returns the index of the idle instance to take for a call of t, or -1 if a new one is better. The caller holds
// the lock.
func (p *pool) choose(t tenant) int {
	unused := -1
	for i := len(p.idle) - 1; i >= 0; i-- {
		in := p.idle[i]
		switch {
		case in.served == 0:
			if unused < 0 {
				unused = i
			}
		case p.isolation.allows(in.last, t):
			return i
		}
	}
	if unused < 0 && p.isolation == PerCall && len(p.idle) > 0 {
		return len(p.idle) - 1 // every idle instance needs a reset, and that is cheaper than a new one
	}
	return unused
}

// fill opens an instance that the caller has already counted in live.
func (p *pool) fill(ctx context.Context) (in *instance, err error) {
	defer func() {
		if in == nil {
			p.vacate()
		}
	}()
	return p.open(ctx)
}

// adopt adds an idle instance that was not opened by the pool.
func (p *pool) adopt(in *instance) {
	p.Lock()
	p.live++
	p.idle = append(p.idle, in)
	p.Unlock()
}

// release returns a healthy instance to the pool. tick is the Host's tick, from which sweep computes how long it was
// idle.
func (p *pool) release(in *instance, tick int64) {
	in.idleSince = tick
	p.Lock()
	if p.closed {
		p.Unlock()
		p.discard(in)
		return
	}
	p.charge(in)
	p.idle = append(p.idle, in)
	p.dispatch()
	p.Unlock()
}

// dispatch wakes as many waiting callers as units are available. The caller holds the lock.
func (p *pool) dispatch() {
	p.queue.Dispatch()
	if p.live == len(p.idle) && p.queue.Waiting() == 0 {
		p.queue.ForgetDeficits()
	}
}

// discard closes an instance that must not be used again.
func (p *pool) discard(in *instance) {
	// Deferred, so that live is right even if closing a broken instance panics.
	defer p.vacate()
	p.retire(in)
}

// retire closes an instance. The caller calls vacate or fill for its place in live.
func (p *pool) retire(in *instance) {
	p.chargeSpent(in)
	in.close()
}

// chargeSpent charges the tenant of the instance's last call for the fuel used so far.
func (p *pool) chargeSpent(in *instance) {
	p.Lock()
	p.charge(in)
	p.Unlock()
}

// renew closes an instance that has failed and opens a new one in its place. On an error the place is vacated.
func (p *pool) renew(ctx context.Context, in *instance) (*instance, error) {
	closed := false
	defer func() {
		if !closed {
			p.vacate()
		}
	}()
	p.retire(in)
	closed = true
	return p.fill(ctx)
}

// hasSpare reports whether the next call finds an idle instance, because one is idle and no call is waiting. It returns
// true for a closed pool.
func (p *pool) hasSpare() bool {
	p.Lock()
	defer p.Unlock()
	return p.closed || len(p.idle) > 0 && p.queue.Waiting() == 0
}

// vacate subtracts a closed instance from live.
func (p *pool) vacate() {
	p.Lock()
	p.live--
	p.dispatch()
	p.Unlock()
}

// charge charges the tenant of the instance's last call for in.spent. The caller holds the lock.
func (p *pool) charge(in *instance) {
	p.queue.Charge(flow{Member: in.last}, in.spent)
	in.spent = 0
}

// sweep closes the idle instances that were released before the given tick.
func (p *pool) sweep(before int64) {
	p.Lock()
	n := 0
	for n < len(p.idle) && p.idle[n].idleSince < before {
		n++
	}
	old := slices.Clone(p.idle[:n])
	p.idle = slices.Delete(p.idle, 0, n)
	p.live -= n
	p.Unlock()
	for _, in := range old {
		in.close()
	}
}

// takeIdle takes an idle instance that matches, or returns nil if there is none. The caller releases or discards it.
func (p *pool) takeIdle(match func(*instance) bool) *instance {
	p.Lock()
	defer p.Unlock()
	for i, in := range p.idle {
		if match(in) {
			p.idle = slices.Delete(p.idle, i, i+1)
			return in
		}
	}
	return nil
}

// addStats sets the fields of s that describe the pool.
func (p *pool) addStats(s *Stats) {
	p.Lock()
	defer p.Unlock()
	s.Instances, s.Idle, s.Waiting = p.live, len(p.idle), p.queue.Waiting()
	for _, in := range p.idle {
		s.Memory += int64(in.guest.memory())
	}
}

// close closes the idle instances and rejects waiting calls. An instance in use is closed when it is released.
func (p *pool) close() {
	p.Lock()
	p.closed = true
	idle := p.idle
	p.idle = nil
	p.live -= len(idle)
	p.queue.Close(ErrClosed)
	p.Unlock()
	for _, in := range idle {
		in.close()
	}
}
