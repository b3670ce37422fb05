package plugin

import (
	"context"
	"sync"
	"time"
)

// gate bounds how many whole-body calls run at once in the process, so that an event never finds every core in a long
// guest call. Who waits at it is let in by turns.
type gate struct {
	max int

	sync.Mutex // a leaf
	inside     int
	turns      turns
}

func newGate(n, queue int) *gate {
	return &gate{max: n, turns: turns{max: queue}}
}

// enter waits for room, no longer than limit. waited tells whether there was none at once. After nil the caller leaves.
func (g *gate) enter(ctx context.Context, plugin string, who tenant, limit time.Duration) (waited bool, err error) {
	g.Lock()
	if g.available() > 0 && (g.turns.waiting() == 0 || !g.turns.ahead(plugin, who)) {
		g.inside++
		g.Unlock()
		return false, nil
	}
	w := newWaiter(who)
	defer w.release()
	g.turns.push(plugin, who, w)
	return true, g.turns.await(ctx, g, w, limit)
}

// leave makes room for another call. used is the fuel of the one that ends.
func (g *gate) leave(plugin string, who tenant, used int64) {
	g.Lock()
	g.turns.charge(plugin, who, used)
	g.inside--
	g.turns.offer(g)
	if g.inside == 0 && g.turns.waiting() == 0 {
		g.turns.settle()
	}
	g.Unlock()
}

// load returns how many calls are inside, and how many wait.
func (g *gate) load() (inside, waiting int) {
	g.Lock()
	defer g.Unlock()
	return g.inside, g.turns.waiting()
}

func (g *gate) available() int { return g.max - g.inside }

func (g *gate) take(*waiter) bool {
	if g.available() == 0 {
		return false
	}
	g.inside++
	return true
}

func (g *gate) untake(*waiter) { g.inside-- }

var _ scarce = (*gate)(nil)
