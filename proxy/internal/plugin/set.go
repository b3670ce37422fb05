package plugin

import (
	"math"
	"sync/atomic"
)

// Set is the plugins that were loaded together. They stay usable, and can make new instances, until Close; the owner of
// the Set closes it once nothing needs its plugins any more.
//
// It is safe for concurrent use. Calls in flight when it is closed run to their end.
type Set struct {
	host    *Host
	plugins map[string]*Plugin // not changed after Load
	closed  atomic.Bool
}

func newSet(h *Host) *Set { return &Set{host: h, plugins: make(map[string]*Plugin)} }

// Close closes the plugins' instances and compiled modules, those in use once their call has ended. Another Close does
// nothing.
func (s *Set) Close() {
	if s.closed.Swap(true) {
		return
	}
	for _, p := range s.plugins {
		if err := p.close(); err != nil && s.host.options.Log != nil {
			s.host.options.Log.Error("close plugin module", "plugin", p.name, "error", err)
		}
	}
	s.host.forget(s.plugins)
}

// Plugin returns a plugin by the name it was loaded by, nil if there is none.
func (s *Set) Plugin(name string) *Plugin { return s.plugins[name] }

// Retire closes idle instances. It is for a Set that has been replaced: what still uses it are mostly streams that need a
// plugin now and then, or not at all, and an instance takes megabytes.
func (s *Set) Retire() {
	for _, p := range s.plugins {
		p.pool.sweep(math.MaxInt64)
	}
	s.host.free()
}
