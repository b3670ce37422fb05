package upstream

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Stats are a Client's connections and what became of them.
type Stats struct {
	Open    int // idle, in use, or being dialled
	Idle    int
	InUse   int // in use or being dialled
	Waiting int // requests that wait for one

	Dialled uint64 // connections that were made
	Reused  uint64 // requests that went out on a connection that had carried one
	Stale   uint64 // idle connections found dead
	Retried uint64 // requests that were sent again, for their connection was dead and nobody had noticed
}

// pool holds the idle connections and counts all of them. The one used last is taken first, so that the others grow old
// and are closed.
//
// A connection that is not idle, or the right to make one, is a slot. Whoever holds a slot gives it back: with release, as
// an idle connection, or with discard.
type pool struct {
	max, maxIdle int
	age, wait    time.Duration
	now          func() time.Time // what connections grow old by; nil: the time

	mu      sync.Mutex
	idle    []*conn // the one used last at the end
	open    int     // slots taken and idle connections
	waiting []chan grant
	closed  bool
	sweeper *time.Timer // set while there are idle connections
	stats   Stats
}

// grant is a slot that is handed over to a waiting request, with a connection or without.
type grant struct{ conn *conn }

// acquire takes a slot. The connection is nil where one must be dialled. now is the time before the wait for a slot, in
// which nothing grows idle.
func (p *pool) acquire(ctx context.Context, now time.Time) (*conn, error) {
	c, err := p.slot(ctx)
	for c != nil {
		old := p.old(c, now)
		if !old && now.Sub(c.idle) < p.age && !c.stale() {
			p.count(func(s *Stats) { s.Reused++ })
			return c, nil
		}
		c.close()
		c = p.instead(old)
	}
	return nil, err
}

// old reports that a connection has lived for long enough. One that is always in use would otherwise keep to an address
// that the name has long left.
func (p *pool) old(c *conn, now time.Time) bool {
	if p.now != nil {
		now = p.now()
	}
	return !now.Before(c.retire)
}

// instead gives another idle connection for one that was old, or found dead, nil if there is none. The slot stays.
func (p *pool) instead(old bool) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !old {
		p.stats.Stale++
	}
	c := p.pop()
	if c != nil {
		p.open--
	}
	return c
}

// pop takes the idle connection that was used last. p.mu is held.
func (p *pool) pop() *conn {
	n := len(p.idle) - 1
	if n < 0 {
		return nil
	}
	c := p.idle[n]
	p.idle[n] = nil
	p.idle = p.idle[:n]
	return c
}

func (p *pool) slot(ctx context.Context) (*conn, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, &Error{Kind: Closed, Phase: PhaseConnect}
	}
	if c := p.pop(); c != nil {
		p.mu.Unlock()
		return c, nil
	}
	if p.open < p.max {
		p.open++
		p.mu.Unlock()
		return nil, nil
	}
	ch := make(chan grant, 1)
	p.waiting = append(p.waiting, ch)
	p.mu.Unlock()

	t := time.NewTimer(p.wait)
	defer t.Stop()
	var err *Error
	select {
	case g, ok := <-ch:
		if !ok {
			return nil, &Error{Kind: Closed, Phase: PhaseConnect}
		}
		return g.conn, nil
	case <-t.C:
		err = &Error{Kind: Busy, Phase: PhaseConnect}
	case <-ctx.Done():
		err = &Error{Kind: Cancelled, Phase: PhaseConnect, Cause: context.Cause(ctx)}
	}
	p.mu.Lock()
	i := slices.Index(p.waiting, ch)
	if i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
	}
	p.mu.Unlock()
	if i < 0 {
		// A slot was handed over, or the pool closed, while the wait ended.
		if g, ok := <-ch; ok {
			return g.conn, nil
		}
	}
	return nil, err
}

// release gives a slot back with its connection, which can carry another request.
func (p *pool) release(c *conn) {
	now := time.Now()
	if p.old(c, now) {
		c.close()
		p.discard()
		return
	}
	c.idle, c.reused = now, true
	p.mu.Lock()
	if p.closed {
		p.open--
		p.mu.Unlock()
		c.close()
		return
	}
	if p.hand(grant{c}) {
		p.mu.Unlock()
		return
	}
	p.idle = append(p.idle, c)
	var drop *conn
	if len(p.idle) > p.maxIdle {
		drop = p.idle[0]
		p.idle = slices.Delete(p.idle, 0, 1)
		p.open--
	}
	if p.sweeper == nil && len(p.idle) > 0 {
		p.sweeper = time.AfterFunc(p.age, p.sweep)
	}
	p.mu.Unlock()
	if drop != nil {
		drop.close()
	}
}

// discard gives a slot back without a connection.
func (p *pool) discard() {
	p.mu.Lock()
	if p.closed || !p.hand(grant{}) {
		p.open--
	}
	p.mu.Unlock()
}

// hand gives a slot to the request that has waited longest. p.mu is held.
func (p *pool) hand(g grant) bool {
	if len(p.waiting) == 0 {
		return false
	}
	p.waiting[0] <- g
	p.waiting = slices.Delete(p.waiting, 0, 1)
	return true
}

// sweep closes the connections that have been idle for too long.
func (p *pool) sweep() {
	now := time.Now()
	p.mu.Lock()
	n := 0
	for n < len(p.idle) && now.Sub(p.idle[n].idle) >= p.age {
		n++
	}
	old := slices.Clone(p.idle[:n])
	p.idle = slices.Delete(p.idle, 0, n)
	p.open -= n
	p.sweeper = nil
	if len(p.idle) > 0 && !p.closed {
		p.sweeper = time.AfterFunc(p.idle[0].idle.Add(p.age).Sub(now), p.sweep)
	}
	p.mu.Unlock()
	for _, c := range old {
		c.close()
	}
}

// close closes what is idle, and lets what is in use be closed when it is given back.
func (p *pool) close() {
	p.mu.Lock()
	idle, waiting := p.idle, p.waiting
	p.idle, p.waiting, p.closed = nil, nil, true
	p.open -= len(idle)
	if p.sweeper != nil {
		p.sweeper.Stop()
		p.sweeper = nil
	}
	p.mu.Unlock()
	for _, ch := range waiting {
		close(ch)
	}
	for _, c := range idle {
		c.close()
	}
}

func (p *pool) count(f func(*Stats)) {
	p.mu.Lock()
	f(&p.stats)
	p.mu.Unlock()
}

func (p *pool) snapshot() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Open, s.Idle, s.InUse, s.Waiting = p.open, len(p.idle), p.open-len(p.idle), len(p.waiting)
	return s
}

// Plus returns the sums of two Clients' figures.
func (s Stats) Plus(o Stats) Stats {
	return Stats{
		Open: s.Open + o.Open, Idle: s.Idle + o.Idle, InUse: s.InUse + o.InUse, Waiting: s.Waiting + o.Waiting,
		Dialled: s.Dialled + o.Dialled, Reused: s.Reused + o.Reused, Stale: s.Stale + o.Stale, Retried: s.Retried + o.Retried,
	}
}

// Counts returns s without what is there at the moment.
func (s Stats) Counts() Stats {
	s.Open, s.Idle, s.InUse, s.Waiting = 0, 0, 0, 0
	return s
}
