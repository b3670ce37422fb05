package plugin

import (
	"context"
	"sync"
	"time"
)

// gate bounds how many whole-body calls run at once in the process, so that an event never finds every core in a long
// guest call. Who waits at it is let in by turns.
type gate struct {
	max  int
	wait time.Duration

	mu     sync.Mutex // a leaf
	inside int
	turns  turns
}

func newGate(n, queue int, wait time.Duration) *gate {
	return &gate{max: n, wait: wait, turns: turns{max: queue}}
}

// enter waits for room. waited tells whether there was none at once. After nil the caller leaves.
func (g *gate) enter(ctx context.Context, plugin string, who tenant) (waited bool, err error) {
	g.mu.Lock()
	if g.inside < g.max {
		g.inside++
		g.mu.Unlock()
		return false, nil
	}
	w := waiters.Get().(*waiter)
	g.turns.push(plugin, who, w)
	g.mu.Unlock()
	_, err = w.await(ctx, g, g.wait)
	return true, err
}

// leave makes room for another call. used is the fuel of the one that ends.
func (g *gate) leave(plugin string, who tenant, used int64) {
	g.mu.Lock()
	g.turns.charge(plugin, who, used)
	g.next()
	g.mu.Unlock()
}

// next gives the room of a call that has ended to who is next. The caller holds mu.
func (g *gate) next() {
	if w := g.turns.pop(); w != nil {
		w.granted <- grant{room: true}
		return
	}
	if g.inside--; g.inside == 0 {
		g.turns.settle()
	}
}

// load returns how many calls are inside, and how many wait.
func (g *gate) load() (inside, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inside, g.turns.waiting()
}

func (g *gate) cancel(w *waiter) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.turns.remove(w)
}

func (g *gate) decline(grant) {
	g.mu.Lock()
	g.next()
	g.mu.Unlock()
}
