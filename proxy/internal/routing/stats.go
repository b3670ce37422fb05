package routing

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/breaker"
)

// Outcome is how an attempt at a target ended, as far as the target's health is concerned.
type Outcome uint8

// The outcomes.
const (
	Answered Outcome = iota // the provider did its part
	Failed                  // the provider, or the way to it, failed
	Limited                 // the provider has had enough, and said for how long
	Neither                 // the client left, or the client's request was at fault: it says nothing of the target
	outcomes = iota
)

// newest is the weight of the newest observation in the moving averages.
const newest = 0.2

// Stats is what the gateway has seen of one target of late, and the target's breaker. The zero value is a target of
// which nothing is known.
type Stats struct {
	mu       sync.Mutex
	inflight int64
	latency  time.Duration // moving average of the time to the first event
	errors   float64       // moving average of failures, 0 to 1
	opened   uint64        // times that the breaker opened
	refused  uint64        // attempts that it did not let pass
	breaker  breaker.Breaker

	ended [outcomes]atomic.Uint64
}

// Snapshot is a consistent copy of Stats.
type Snapshot struct {
	Healthy   bool // a request that has a choice may go to it
	Inflight  int64
	Latency   time.Duration // 0: nothing known
	ErrorRate float64       // 0 to 1

	Breaker breaker.State
	Until   time.Time // Open: when a probe may be sent; Closed: until when the target asked to be spared, if that is later than now
	Opened  uint64    // times that the breaker opened
	Refused uint64    // attempts that were not made because of it

	Ended [outcomes]uint64 // attempts that are over, by Outcome
}

// begin counts an attempt, if the breaker lets it pass. Each that passes needs one end.
func (s *Stats) begin(c *breaker.Config, now time.Time, again bool) (breaker.Ticket, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applySwitch(c)
	if !again || s.breaker.Ready(now) {
		if t, ok := s.breaker.Allow(c, now); ok {
			s.inflight++
			return t, true
		}
	}
	s.refused++
	return breaker.Ticket{}, false
}

// applySwitch closes a breaker that a reload has switched off.
func (s *Stats) applySwitch(c *breaker.Config) {
	if c.Consecutive <= 0 && s.breaker.State() != breaker.Closed {
		s.breaker.Close()
	}
}

// answering counts the first event of an answer.
func (s *Stats) answering(t breaker.Ticket) {
	s.mu.Lock()
	s.breaker.Responding(t)
	s.mu.Unlock()
}

// end counts the end of an attempt. first is the time to the first event of an answer, 0 where none came, and spare how
// long the target asked to be left alone.
func (s *Stats) end(c *breaker.Config, t breaker.Ticket, o Outcome, spare, first time.Duration, now time.Time) breaker.Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applySwitch(c)
	s.inflight--
	change := breaker.Unchanged
	switch o {
	case Answered:
		change = s.breaker.Success(c, t, now)
	case Failed, Limited:
		change = s.breaker.Failure(c, t, now, spare, o == Limited)
	case Neither:
		s.breaker.Cancel(t)
	}
	if change == breaker.Opened {
		s.opened++
	}
	switch o {
	case Answered:
		s.errors *= 1 - newest
	case Failed, Limited:
		s.errors = s.errors*(1-newest) + newest
	case Neither:
		return change
	}
	switch {
	case first <= 0:
	case s.latency == 0:
		s.latency = first
	default:
		s.latency += time.Duration(newest * float64(first-s.latency))
	}
	return change
}

// ready reports whether a request that has a choice may go to the target.
func (s *Stats) ready(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.breaker.Ready(now)
}

func (s *Stats) wait(now time.Time) (d time.Duration, limited bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.breaker.Wait(now)
}

// Snapshot returns the figures at now.
func (s *Stats) Snapshot(now time.Time) Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	shot := Snapshot{
		Healthy: s.breaker.Ready(now), Inflight: s.inflight, Latency: s.latency, ErrorRate: s.errors,
		Breaker: s.breaker.State(), Until: s.breaker.Until(), Opened: s.opened, Refused: s.refused,
	}
	for o := range s.ended {
		shot.Ended[o] = s.ended[o].Load()
	}
	return shot
}

// Board keeps the Stats of every target by provider and model, and the Budget of every provider, so that they outlive a
// reload.
type Board struct {
	mu      sync.Mutex
	stats   map[[2]string]*Stats
	budgets map[string]*Budget
}

// Stats returns the statistics of a provider's model, made on first use.
func (b *Board) Stats(provider, model string) *Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := [2]string{provider, model}
	s := b.stats[k]
	if s == nil {
		if b.stats == nil {
			b.stats = make(map[[2]string]*Stats)
		}
		s = new(Stats)
		b.stats[k] = s
	}
	return s
}

// Budget returns the budget of a provider, made on first use.
func (b *Board) Budget(provider string) *Budget {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.budgets[provider]
	if g == nil {
		if b.budgets == nil {
			b.budgets = make(map[string]*Budget)
		}
		g = new(Budget)
		b.budgets[provider] = g
	}
	return g
}

// Keep drops what is known of targets for which used is false.
func (b *Board) Keep(used func(provider, model string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	providers := make(map[string]bool)
	for k := range b.stats {
		if !used(k[0], k[1]) {
			delete(b.stats, k)
			continue
		}
		providers[k[0]] = true
	}
	for p := range b.budgets {
		if !providers[p] {
			delete(b.budgets, p)
		}
	}
}

// Seen is what the Board knows of one target.
type Seen struct {
	Provider, Model string
	Snapshot
}

// Snapshot returns what is known of all targets at now, by provider and model.
func (b *Board) Snapshot(now time.Time) []Seen {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]Seen, 0, len(b.stats))
	for k, s := range b.stats {
		all = append(all, Seen{k[0], k[1], s.Snapshot(now)})
	}
	slices.SortFunc(all, func(x, y Seen) int {
		return cmp.Or(cmp.Compare(x.Provider, y.Provider), cmp.Compare(x.Model, y.Model))
	})
	return all
}

// Purse is what is left of a provider's budget.
type Purse struct {
	Provider string
	Left     float64 // repetitions
	Denied   uint64  // repetitions that were not made because nothing was left
}

// Purses returns all budgets, by provider.
func (b *Board) Purses() []Purse {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]Purse, 0, len(b.budgets))
	for p, g := range b.budgets {
		left, denied := g.snapshot()
		all = append(all, Purse{p, left, denied})
	}
	slices.SortFunc(all, func(x, y Purse) int { return cmp.Compare(x.Provider, y.Provider) })
	return all
}
