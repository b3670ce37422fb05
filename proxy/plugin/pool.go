package plugin

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// errBusy: no instance became free, or no room at the gate, in the time that a caller may wait.
var errBusy = errors.New("no free instance")

// pool is the instances of one plugin. It makes them when they are asked for, up to max at a time, hands out the one
// that was used last, and drops those that nobody has used for a while.
//
// Invariants, under mu: live counts the instances that are idle, in use or being made; live <= max; nobody waits while
// an idle instance or room for a new one is there.
//
// mu is a leaf: making and closing an instance happens outside of it.
type pool struct {
	isolation Isolation
	max       int
	wait      time.Duration
	open      func(ctx context.Context) (*instance, error)

	mu      sync.Mutex
	idle    []*instance // the one used last is at the end
	live    int
	waiters []chan grant // first come, first served
	closed  bool
}

// grant is what a waiter gets: an idle instance, or leave to make one. A closed pool grants neither.
type grant struct {
	in   *instance
	room bool
}

// acquire returns an instance for a call of t, the one that needs least to be made ready for it; fresh asks for one that
// has served nobody yet. The caller makes it ready. acquire waits while all instances are in use, no longer than the
// pool's wait. The instance must be given back with release or discard.
func (p *pool) acquire(ctx context.Context, t tenant, fresh bool) (*instance, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	if i := p.choose(t, fresh); i >= 0 {
		in := p.idle[i]
		p.idle = slices.Delete(p.idle, i, i+1)
		p.mu.Unlock()
		return in, nil
	}
	if p.live < p.max {
		p.live++
		p.mu.Unlock()
		return p.fill(ctx)
	}
	if len(p.idle) > 0 {
		// All idle ones have served somebody else. The one unused for longest has to forget.
		in := p.idle[0]
		p.idle = slices.Delete(p.idle, 0, 1)
		p.mu.Unlock()
		return in, nil
	}
	w := make(chan grant, 1)
	p.waiters = append(p.waiters, w)
	p.mu.Unlock()

	g, err := p.await(ctx, w)
	switch {
	case err != nil:
		return nil, err
	case g.room:
		return p.fill(ctx)
	}
	return g.in, nil
}

// choose returns the index of the idle instance to take for a call of t, -1 if a new one is better. The caller holds mu.
func (p *pool) choose(t tenant, fresh bool) int {
	unused := -1
	for i := len(p.idle) - 1; i >= 0; i-- {
		in := p.idle[i]
		switch {
		case in.served == 0:
			if fresh {
				return i
			}
			if unused < 0 {
				unused = i
			}
		case !fresh && p.isolation.may(in.last, t):
			return i
		}
	}
	if unused < 0 && p.isolation == PerCall && len(p.idle) > 0 {
		return len(p.idle) - 1 // no idle instance would ever fit without being made to forget
	}
	return unused
}

// await waits for a grant. A grant that arrives while the wait is given up is passed on.
func (p *pool) await(ctx context.Context, w chan grant) (grant, error) {
	timer := time.NewTimer(p.wait)
	defer timer.Stop()
	var err error
	select {
	case g := <-w:
		return g, g.err()
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = errBusy
	}
	p.mu.Lock()
	if i := slices.Index(p.waiters, w); i >= 0 {
		p.waiters = slices.Delete(p.waiters, i, i+1)
		p.mu.Unlock()
		return grant{}, err
	}
	p.mu.Unlock()
	g := <-w
	switch {
	case g.in != nil:
		p.release(g.in, g.in.idleSince)
	case g.room:
		p.vacate()
	}
	return grant{}, err
}

func (g grant) err() error {
	if g.in == nil && !g.room {
		return ErrClosed
	}
	return nil
}

// fill opens an instance in a place that the caller has already counted.
func (p *pool) fill(ctx context.Context) (*instance, error) {
	in, err := p.open(ctx)
	if err != nil {
		p.vacate()
		return nil, err
	}
	return in, nil
}

// adopt takes in an instance that was made outside, before anybody uses the pool.
func (p *pool) adopt(in *instance) {
	p.mu.Lock()
	p.live++
	p.idle = append(p.idle, in)
	p.mu.Unlock()
}

// release gives a healthy instance back. tick is the Host's count of sweeps.
func (p *pool) release(in *instance, tick int64) {
	in.idleSince = tick
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		p.discard(in)
		return
	}
	if w := p.waiter(); w != nil {
		w <- grant{in: in}
	} else {
		p.idle = append(p.idle, in)
	}
	p.mu.Unlock()
}

// discard closes an instance that nobody may use again.
func (p *pool) discard(in *instance) {
	in.close()
	p.vacate()
}

// vacate gives up the place of an instance that is gone.
func (p *pool) vacate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.waiter(); w != nil {
		w <- grant{room: true}
		return
	}
	p.live--
}

// waiter takes the first waiter off the queue, nil if there is none. Its channel has room for one grant. The caller
// holds mu.
func (p *pool) waiter() chan grant {
	if len(p.waiters) == 0 {
		return nil
	}
	w := p.waiters[0]
	p.waiters = slices.Delete(p.waiters, 0, 1)
	return w
}

// sweep closes the instances that were given back before a tick.
func (p *pool) sweep(before int64) {
	p.mu.Lock()
	n := 0
	for n < len(p.idle) && p.idle[n].idleSince < before {
		n++
	}
	old := slices.Clone(p.idle[:n])
	p.idle = slices.Delete(p.idle, 0, n)
	p.live -= n
	p.mu.Unlock()
	for _, in := range old {
		in.close()
	}
}

// takeIdle takes the idle instance that wants, nil if there is none. It goes back with release or discard.
func (p *pool) takeIdle(wants func(*instance) bool) *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, in := range p.idle {
		if wants(in) {
			p.idle = slices.Delete(p.idle, i, i+1)
			return in
		}
	}
	return nil
}

// measure writes down what the pool has in use.
func (p *pool) measure(s *Stats) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Instances, s.Idle, s.Waiting = p.live, len(p.idle), len(p.waiters)
	for _, in := range p.idle {
		s.Memory += int64(in.guest.memory())
	}
}

// close closes the idle instances and turns everyone away. An instance in use is closed when it comes back.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	idle := p.idle
	p.idle = nil
	p.live -= len(idle)
	for _, w := range p.waiters {
		w <- grant{}
	}
	p.waiters = nil
	p.mu.Unlock()
	for _, in := range idle {
		in.close()
	}
}

// gate bounds how many whole-body calls run at once in the process, so that an event never finds every core in a long
// guest call.
type gate struct {
	slots chan struct{}
	wait  time.Duration

	waiting atomic.Int64
}

func newGate(n int, wait time.Duration) *gate {
	return &gate{slots: make(chan struct{}, n), wait: wait}
}

func (g *gate) enter(ctx context.Context) error {
	select {
	case g.slots <- struct{}{}:
		return nil
	default:
	}
	g.waiting.Add(1)
	defer g.waiting.Add(-1)
	timer := time.NewTimer(g.wait)
	defer timer.Stop()
	select {
	case g.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return errBusy
	}
}

// load returns how many calls are inside, and how many wait.
func (g *gate) load() (inside, waiting int) { return len(g.slots), int(g.waiting.Load()) }

func (g *gate) leave() { <-g.slots }
