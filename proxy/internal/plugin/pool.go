package plugin

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// errBusy: no instance became free, or no room at the gate, in the time that a caller may wait.
var errBusy = errors.New("no free instance")

// pool is the instances of one plugin. It makes them when they are asked for, up to max at a time, hands out the one
// that was used last, and drops those that nobody has used for a while.
//
// Invariants, under the lock: live counts the instances that are idle, in use or being made; live <= max; where calls wait
// while there are idle instances or room for new ones, as many of them have been told to look.
type pool struct {
	isolation Isolation
	max       int
	open      func(ctx context.Context) (*instance, error)

	sync.Mutex             // a leaf: making and closing an instance happens outside of it
	idle       []*instance // the one used last is at the end
	live       int
	turns      turns
	closed     bool
}

// acquire returns an instance for a call of t, the one that needs least to be made ready for it. The caller makes it
// ready. acquire waits while all instances are in use, no longer than limit, and says whether it did; a call
// that holds the gate is urgent: others wait there for it, so here it goes first. The instance must be given back with
// release, discard or renew.
func (p *pool) acquire(ctx context.Context, t tenant, urgent bool, limit time.Duration) (in *instance, waited bool, err error) {
	p.Lock()
	if p.closed {
		p.Unlock()
		return nil, false, ErrClosed
	}
	if urgent || p.turns.waiting() == 0 || !p.turns.ahead("", t) {
		if in, room := p.pick(t); in != nil || room {
			p.Unlock()
			if room {
				in, err = p.fill(ctx)
			}
			return in, false, err
		}
	}
	w := newWaiter(t)
	defer w.release()
	if urgent {
		p.turns.pushFront(w)
	} else {
		p.turns.push("", t, w)
	}
	if err := p.turns.await(ctx, p, w, limit); err != nil {
		return nil, true, err
	}
	if w.room {
		in, err = p.fill(ctx)
		return in, true, err
	}
	return w.in, true, nil
}

// pick takes an instance for a call of t, or room to make one, if there is any.
func (p *pool) pick(t tenant) (in *instance, room bool) {
	i := p.choose(t)
	if i < 0 && p.live < p.max {
		p.live++
		return nil, true
	}
	if i < 0 {
		// All idle ones have served somebody else. The one unused for longest has to forget.
		i = 0
	}
	if i >= len(p.idle) {
		return nil, false
	}
	in = p.idle[i]
	p.idle = slices.Delete(p.idle, i, i+1)
	return in, false
}

func (p *pool) available() int { return len(p.idle) + p.max - p.live }

func (p *pool) take(w *waiter) bool {
	if p.closed {
		w.err = ErrClosed
		return true
	}
	w.in, w.room = p.pick(w.who)
	return w.in != nil || w.room
}

func (p *pool) untake(w *waiter) {
	switch {
	case w.room:
		p.live--
	case w.in == nil:
	case p.closed:
		p.live--
		w.in.close()
	default:
		p.idle = append(p.idle, w.in)
	}
}

var _ scarce = (*pool)(nil)

// choose returns the index of the idle instance to take for a call of t, -1 if a new one is better. The caller holds the lock.
func (p *pool) choose(t tenant) int {
	unused := -1
	for i := len(p.idle) - 1; i >= 0; i-- {
		in := p.idle[i]
		switch {
		case in.served == 0:
			if unused < 0 {
				unused = i
			}
		case p.isolation.may(in.last, t):
			return i
		}
	}
	if unused < 0 && p.isolation == PerCall && len(p.idle) > 0 {
		return len(p.idle) - 1 // no idle instance would ever fit without being made to forget
	}
	return unused
}

// fill opens an instance in a place that the caller has already counted.
func (p *pool) fill(ctx context.Context) (in *instance, err error) {
	defer func() {
		if in == nil {
			p.vacate()
		}
	}()
	return p.open(ctx)
}

// adopt takes in an instance that was made outside, before anybody uses the pool.
func (p *pool) adopt(in *instance) {
	p.Lock()
	p.live++
	p.idle = append(p.idle, in)
	p.Unlock()
}

// release gives a healthy instance back. tick is the Host's count of sweeps.
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
	p.offer()
	p.Unlock()
}

// offer calls those who wait for what has become free. The caller holds the lock.
func (p *pool) offer() {
	p.turns.offer(p)
	if p.live == len(p.idle) && p.turns.waiting() == 0 {
		p.turns.settle() // nobody uses anything: there is nothing to share
	}
}

// discard closes an instance that nobody may use again.
func (p *pool) discard(in *instance) {
	// The place comes back even if closing what is left of the instance panics.
	defer p.vacate()
	p.retire(in)
}

// retire closes an instance whose place is somebody's to give up or to fill.
func (p *pool) retire(in *instance) {
	p.bill(in)
	in.close()
}

// bill counts what the instance's calls have used so far for whom the last of them was.
func (p *pool) bill(in *instance) {
	p.Lock()
	p.charge(in)
	p.Unlock()
}

// renew closes an instance that has failed and makes a new one in its place. On an error the place is given up.
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

// spare reports whether nobody waits and the next call finds an idle instance.
func (p *pool) spare() bool {
	p.Lock()
	defer p.Unlock()
	return p.closed || len(p.idle) > 0 && p.turns.waiting() == 0
}

// vacate gives up the place of an instance that is gone.
func (p *pool) vacate() {
	p.Lock()
	p.live--
	p.offer()
	p.Unlock()
}

// charge counts what the instance's calls have used since it was acquired. The caller holds the lock.
func (p *pool) charge(in *instance) {
	p.turns.charge("", in.last, in.spent)
	in.spent = 0
}

// sweep closes the instances that were given back before a tick.
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

// takeIdle takes the idle instance that wants, nil if there is none. It goes back with release or discard.
func (p *pool) takeIdle(wants func(*instance) bool) *instance {
	p.Lock()
	defer p.Unlock()
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
	p.Lock()
	defer p.Unlock()
	s.Instances, s.Idle, s.Waiting = p.live, len(p.idle), p.turns.waiting()
	for _, in := range p.idle {
		s.Memory += int64(in.guest.memory())
	}
}

// close closes the idle instances and turns everyone away. An instance in use is closed when it comes back.
func (p *pool) close() {
	p.Lock()
	p.closed = true
	idle := p.idle
	p.idle = nil
	p.live -= len(idle)
	p.turns.drain(ErrClosed)
	p.Unlock()
	for _, in := range idle {
		in.close()
	}
}
