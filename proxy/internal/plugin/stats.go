package plugin

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"
)

// Stats are a plugin's counts since it was loaded, or of all generations that the Host has had of a name, and what is in
// use at the moment.
type Stats struct {
	Plugin string // the name that it was loaded by

	Calls    int64 // of all exports
	Failures int64 // calls that ended in a *CallError, tried again or not
	Retries  int64 // of them, tried again on a fresh instance
	Fuel     int64 // units used
	Unknown  int64 // things that the plugin reported as unknown to it

	// Failed says of the Failures, and of the calls that were not made for want of an instance or by the breaker, how
	// many there were of each kind. Kinds without any are not in it.
	Failed map[CallErrorKind]int64

	Waits   int64 // calls that waited for an instance, or at the gate for whole-body calls
	Waiting int   // that wait now

	Made      int64 // instances made
	Revived   int64 // instances put back to what they were before their first call, after a failure
	Instances int   // idle and in use
	Idle      int
	Memory    int64 // bytes of the idle instances' memories

	Generations int // that are open and have the plugin; 1 in the Stats of one

	Breaker BreakerState // of the generation that was loaded last
	Opened  int64        // times that the breaker opened, for all keys or for one
}

// HostStats are what all plugins of a Host do and have done.
type HostStats struct {
	Plugins    []Stats // by name, with those that are not loaded any more
	WholeCalls int     // whole-body calls that run now
	Waiting    int     // whole-body calls that wait at the gate now
}

// BreakerState is whether new attempts may use a plugin.
type BreakerState uint8

// The states of a breaker.
const (
	BreakerClosed BreakerState = iota // all may
	BreakerSome                       // all but those of some gateway keys may
	BreakerOpen                       // none may, but one now and then to try it
	breakerStates = iota
)

var breakerNames = [breakerStates]string{BreakerClosed: "closed", BreakerSome: "partly open", BreakerOpen: "open"}

// String returns the state in a word or two.
func (s BreakerState) String() string {
	if int(s) < len(breakerNames) {
		return breakerNames[s]
	}
	return "unknown"
}

// counts are what a plugin has done.
type counts struct {
	calls, retries, fuel, waits, made, revived, opened atomic.Int64
	failed                                             [callErrorKinds]atomic.Int64
}

// fail counts a call that was not made or failed.
func (c *counts) fail(k CallErrorKind) { c.failed[k].Add(1) }

// read is a Stats of the counts.
func (c *counts) read() Stats {
	s := Stats{
		Calls: c.calls.Load(), Retries: c.retries.Load(), Fuel: c.fuel.Load(), Waits: c.waits.Load(), Made: c.made.Load(), Revived: c.revived.Load(), Opened: c.opened.Load(),
		Failed: make(map[CallErrorKind]int64),
	}
	for k := range c.failed {
		kind := CallErrorKind(k)
		n := c.failed[k].Load()
		if n == 0 {
			continue
		}
		s.Failed[kind] = n
		if kind.made() {
			s.Failures += n
		}
	}
	return s
}

// Stats returns the counts of the plugin in this generation.
func (p *Plugin) Stats() Stats {
	s := p.counts.read()
	s.Plugin, s.Generations = p.name, 1
	s.Unknown = p.unknown.count()
	s.Breaker = p.breaker.state()
	p.pool.measure(&s)
	return s
}

// add adds the counts of another generation, and what it has in use.
func (s *Stats) add(o *Stats) {
	s.Calls += o.Calls
	s.Failures += o.Failures
	s.Retries += o.Retries
	s.Fuel += o.Fuel
	s.Unknown += o.Unknown
	s.Waits += o.Waits
	s.Made += o.Made
	s.Revived += o.Revived
	s.Opened += o.Opened
	for k, n := range o.Failed {
		s.Failed[k] += n
	}
	s.Waiting += o.Waiting
	s.Instances += o.Instances
	s.Idle += o.Idle
	s.Memory += o.Memory
	s.Generations += o.Generations
}

// Stats returns the counts of all plugins, by name and over all generations, those that are closed among them: no count
// ever goes down.
func (h *Host) Stats() HostStats {
	var s HostStats
	s.WholeCalls, s.Waiting = h.whole.Load()
	h.mu.Lock()
	defer h.mu.Unlock()
	byName := make(map[string]*Stats)
	newest := make(map[string]int64)
	take := func(o *Stats) {
		sum := byName[o.Plugin]
		if sum == nil {
			sum = &Stats{Plugin: o.Plugin, Failed: make(map[CallErrorKind]int64)}
			byName[o.Plugin] = sum
		}
		sum.add(o)
	}
	for _, past := range h.past {
		take(past)
	}
	for p := range h.plugins {
		o := p.Stats()
		take(&o)
		if p.number > newest[p.name] {
			newest[p.name] = p.number
			byName[p.name].Breaker = o.Breaker
		}
	}
	for _, sum := range slices.SortedFunc(maps.Values(byName), func(a, b *Stats) int { return cmp.Compare(a.Plugin, b.Plugin) }) {
		s.Plugins = append(s.Plugins, *sum)
	}
	return s
}

// bury keeps the counts of a plugin that is closed. The caller holds h.mu.
func (h *Host) bury(p *Plugin) {
	o := p.Stats()
	o.Generations, o.Instances, o.Idle, o.Memory, o.Waiting, o.Breaker = 0, 0, 0, 0, 0, BreakerClosed
	past := h.past[p.name]
	if past == nil {
		past = &Stats{Plugin: p.name, Failed: make(map[CallErrorKind]int64)}
		h.past[p.name] = past
	}
	past.add(&o)
}
