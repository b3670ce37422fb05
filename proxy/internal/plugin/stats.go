package plugin

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"
)

// Stats holds a plugin's counters and its current use of resources. Plugin.Stats covers one loaded plugin, Host.Stats
// all plugins of that name in the Host's Sets, including closed ones.
type Stats struct {
	Plugin string // the name under which it was loaded

	Calls    int64 // calls of all exports
	Failures int64 // calls that ended in a *CallError, retried or not
	Retries  int64 // failed calls that were retried on a fresh instance
	Fuel     int64 // units used
	Unknown  int64 // elements of provider responses unknown to the plugin, plus numbers used by it that are unknown to the host

	// Failed counts, by kind, the Failures and the calls that were not made because no instance became free or the
	// circuit was open. Kinds with a count of 0 are missing.
	Failed map[CallErrorKind]int64

	Waits   int64 // times that a call waited for an instance, or for the semaphore of whole-body calls
	Waiting int   // calls waiting for an instance

	Made      int64 // instances opened
	Revived   int64 // instances restored after a failure
	Instances int   // idle, in use or being opened
	Idle      int
	Memory    int64 // bytes of the idle instances' memories

	Generations int // open Sets that have the plugin

	Breaker BreakerState // of the plugin that was loaded last
	Opened  int64        // times that the circuit opened, for all keys or for one
}

// HostStats is the Stats of all plugins of a Host, and the load of its semaphore.
type HostStats struct {
	Plugins    []Stats // by name, including those no longer loaded
	WholeCalls int     // whole-body calls in progress
	Waiting    int     // whole-body calls waiting for the semaphore
}

// BreakerState is the state of a plugin's circuit breaker.
type BreakerState uint8

// The states of a circuit breaker.
const (
	BreakerClosed BreakerState = iota // closed for all gateway keys
	BreakerSome                       // open for some gateway keys
	BreakerOpen                       // open for all keys: only trials are admitted
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

// counts holds a plugin's running totals.
type counts struct {
	calls, retries, fuel, waits, made, revived, opened atomic.Int64
	failed                                             [callErrorKinds]atomic.Int64
}

// recordFailure counts a call that has failed or was not made.
func (c *counts) recordFailure(k CallErrorKind) { c.failed[k].Add(1) }

// snapshot returns the counts as Stats.
func (c *counts) snapshot() Stats {
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
		if kind.called() {
			s.Failures += n
		}
	}
	return s
}

// Stats returns the counts of the plugin in its Set.
func (p *Plugin) Stats() Stats {
	s := p.counts.snapshot()
	s.Plugin, s.Generations = p.name, 1
	s.Unknown = p.unknown.count()
	s.Breaker = p.breaker.state()
	p.pool.addStats(&s)
	return s
}

// add adds the Stats of another plugin of the same name.
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

// Stats returns the counts of all plugins by name. Closed Sets are included, so that counts never decrease.
func (h *Host) Stats() HostStats {
	var s HostStats
	s.WholeCalls, s.Waiting = h.whole.Load()
	h.mu.Lock()
	defer h.mu.Unlock()
	byName := make(map[string]*Stats)
	newest := make(map[string]int64)
	addTo := func(o *Stats) {
		sum := byName[o.Plugin]
		if sum == nil {
			sum = &Stats{Plugin: o.Plugin, Failed: make(map[CallErrorKind]int64)}
			byName[o.Plugin] = sum
		}
		sum.add(o)
	}
	for _, closed := range h.archive {
		addTo(closed)
	}
	for p := range h.plugins {
		o := p.Stats()
		addTo(&o)
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

// archiveStats adds the counts of a closed plugin to the archive. The caller holds h.mu.
func (h *Host) archiveStats(p *Plugin) {
	o := p.Stats()
	o.Generations, o.Instances, o.Idle, o.Memory, o.Waiting, o.Breaker = 0, 0, 0, 0, 0, BreakerClosed
	total := h.archive[p.name]
	if total == nil {
		total = &Stats{Plugin: p.name, Failed: make(map[CallErrorKind]int64)}
		h.archive[p.name] = total
	}
	total.add(&o)
}
