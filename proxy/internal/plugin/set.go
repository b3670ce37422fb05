package plugin

import (
	"math"
	"sync/atomic"
)

// Set is a group of plugins that were loaded together, one generation of the configuration. They stay usable and can
// make new instances until Close. The owner closes the Set when no binding of its plugins is used any more.
//
// It is safe for concurrent use. Calls in flight when it is closed run to their end.
type Set struct {
	host    *Host
	plugins map[string]*Plugin // not changed after Load
	closed  atomic.Bool
}

func newSet(h *Host) *Set { return &Set{host: h, plugins: make(map[string]*Plugin)} }

// Close closes the plugins' instances and compiled modules. An instance in use is closed when its call ends. Only the
// first Close has an effect.
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

// Plugin returns the plugin that was loaded under a name, or nil.
func (s *Set) Plugin(name string) *Plugin { return s.plugins[name] }

// Retire closes idle instances. It is called when the Set has been replaced by a reload: its remaining users are mostly
// streams that rarely call a plugin, and each instance holds megabytes. They can still make new instances.
func (s *Set) Retire() {
	for _, p := range s.plugins {
		p.pool.sweep(math.MaxInt64)
	}
	s.host.free()
}
