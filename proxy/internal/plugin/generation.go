package plugin

import (
	"math"
	"sync/atomic"
)

// Generation is a set of plugins that were loaded together. It is reference counted: the plugins stay usable, and can
// make new instances, until the last reference is released; then their instances and compiled modules are closed.
//
// It is safe for concurrent use. Lookups need a reference.
type Generation struct {
	host    *Host
	plugins map[string]*Plugin // not changed after Load
	refs    atomic.Int64
}

func newGeneration(h *Host) *Generation {
	g := &Generation{host: h, plugins: make(map[string]*Plugin)}
	g.refs.Store(1)
	return g
}

// Acquire takes a reference. It is false where the last one has been released already: then the generation is closed,
// and the caller looks for the one that took its place.
func (g *Generation) Acquire() bool {
	for {
		n := g.refs.Load()
		if n <= 0 {
			return false
		}
		if g.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Release gives a reference back. The last one closes the generation.
func (g *Generation) Release() {
	if g.refs.Add(-1) != 0 {
		return
	}
	for _, p := range g.plugins {
		if err := p.close(); err != nil && g.host.options.Log != nil {
			g.host.options.Log.Error("plugin module did not close", "plugin", p.name, "error", err)
		}
	}
	g.host.forget(g.plugins)
}

// Plugin returns a plugin by the name it was loaded by, nil if there is none.
func (g *Generation) Plugin(name string) *Plugin { return g.plugins[name] }

// Retire closes the instances that nobody uses at the moment. It is for a generation that has been replaced: most of what
// it is still asked for are streams that need a plugin now and then, or not at all, and an instance takes megabytes.
func (g *Generation) Retire() {
	for _, p := range g.plugins {
		p.pool.sweep(math.MaxInt64)
	}
	g.host.free()
}
