package upstream

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Stats are statistics of a Client's connections.
type Stats struct {
	Open    int // connections that are idle, in use, or connecting
	Idle    int
	InUse   int // connections in use or connecting
	Waiting int // requests waiting for a connection

	Dialled uint64 // connections established
	Reused  uint64 // requests sent on a reused connection
	Stale   uint64 // idle connections found closed by the peer
	Retried uint64 // requests resent because their reused connection turned out to be closed or timed out

	// Unsolicited counts connections closed because the peer sent bytes that no request had asked for.
	Unsolicited uint64

	Reauthorized uint64 // requests resent with another credential because the provider rejected or rate-limited the first
}

// pool holds the idle connections and limits the number of all connections. It hands out the most recently used
// connection first, so that surplus ones reach the maximum idle time and are closed.
//
// A slot is a connection in use, or the right to establish one. Its holder returns it with release if the connection
// can be reused, and with discard otherwise.
type pool struct {
	max, maxIdle int
	age, wait    time.Duration
	now          func() time.Time // clock for the age of connections; nil means time.Now

	mu      sync.Mutex
	idle    []*conn // most recently used last
	open    int     // slots taken and idle connections
	waiting []chan grant
	closed  bool
	sweeper *time.Timer // set while there are idle connections
	stats   Stats
}

// grant is a slot handed over to a waiting request, with a connection or without.
type grant struct{ conn *conn }

// acquire takes a slot, waiting for one if necessary. The connection is nil if the caller must establish one. now is
// the time of the call.
func (p *pool) acquire(ctx context.Context, now time.Time) (*conn, error) {
	c, err := p.acquireSlot(ctx)
	if c != nil && p.expired(c, now) {
		c.close()
		c = p.replacement(now)
	}
	return c, err
}

// expired reports whether an idle connection must not be reused because of its age.
func (p *pool) expired(c *conn, now time.Time) bool {
	return p.tooOld(c, now) || now.Sub(c.idle) >= p.age
}

// tooOld reports whether a connection has reached its maximum age. Without one, a connection that is always in use
// would keep sending to an address that the name no longer resolves to.
func (p *pool) tooOld(c *conn, now time.Time) bool {
	if p.now != nil {
		now = p.now()
	}
	return !now.Before(c.retire)
}

// replacement returns another idle connection in place of one that cannot be used, or nil if there is none. The caller
// keeps its slot.
func (p *pool) replacement(now time.Time) *conn {
	for {
		p.mu.Lock()
		c := p.pop()
		if c != nil {
			p.open--
		}
		p.mu.Unlock()
		if c == nil || !p.expired(c, now) {
			return c
		}
		c.close()
	}
}

// pop takes the most recently used idle connection. p.mu is held.
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

// acquireSlot takes a slot, with an idle connection if there is one.
func (p *pool) acquireSlot(ctx context.Context) (*conn, error) {
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
		// A slot was handed over, or the pool was closed, just as the wait ended.
		if g, ok := <-ch; ok {
			return g.conn, nil
		}
	}
	return nil, err
}

// hasSpare reports whether at most half of the slots are taken and no request waits for one.
func (p *pool) hasSpare() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return 2*(p.open-len(p.idle)) <= p.max && len(p.waiting) == 0
}

// release returns a slot together with its connection, which can be reused.
func (p *pool) release(c *conn) {
	now := time.Now()
	if p.tooOld(c, now) {
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
	if p.handOver(grant{c}) {
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

// discard returns a slot without a connection.
func (p *pool) discard() {
	p.mu.Lock()
	if p.closed || !p.handOver(grant{}) {
		p.open--
	}
	p.mu.Unlock()
}

// handOver gives a slot to the request that has waited longest, and reports false if none waits. p.mu is held.
func (p *pool) handOver(g grant) bool {
	if len(p.waiting) == 0 {
		return false
	}
	p.waiting[0] <- g
	p.waiting = slices.Delete(p.waiting, 0, 1)
	return true
}

// sweep closes connections that have been idle for too long.
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

// close closes idle connections. Connections in use are closed when they are returned.
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

// Plus returns the sum of two Clients' statistics.
func (s Stats) Plus(o Stats) Stats {
	return Stats{
		Open: s.Open + o.Open, Idle: s.Idle + o.Idle, InUse: s.InUse + o.InUse, Waiting: s.Waiting + o.Waiting,
		Dialled: s.Dialled + o.Dialled, Reused: s.Reused + o.Reused, Stale: s.Stale + o.Stale, Retried: s.Retried + o.Retried,
		Unsolicited: s.Unsolicited + o.Unsolicited, Reauthorized: s.Reauthorized + o.Reauthorized,
	}
}

// Counts returns s without its gauges.
func (s Stats) Counts() Stats {
	s.Open, s.Idle, s.InUse, s.Waiting = 0, 0, 0, 0
	return s
}
