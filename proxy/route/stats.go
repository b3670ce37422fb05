package route

import (
	"sync"
	"time"
)

// Outcome is how an attempt at a target ended, as far as the target's health is concerned.
type Outcome uint8

// The outcomes.
const (
	Answered Outcome = iota // the provider did its part
	Failed                  // the provider, or the way to it, failed
	Neither                 // the client left, or the client's request was at fault: it says nothing of the target
)

const (
	// unhealthyAfter failures in a row make a target unhealthy for cooldown, doubled with each further failure up to
	// maxCooldown. Once that has passed, requests go to it again, and the next answer makes it healthy.
	unhealthyAfter = 3
	cooldown       = 2 * time.Second
	maxCooldown    = time.Minute

	// The weight of the newest observation in the moving averages.
	newest = 0.2
)

// Stats is what the gateway has seen of one target of late. The zero value is a healthy target of which nothing is
// known.
type Stats struct {
	mu       sync.Mutex
	inflight int64
	latency  time.Duration // moving average of the time to the first event
	errors   float64       // moving average of failures, 0 to 1
	failures int           // in a row
	until    time.Time     // unhealthy until then
}

// Snapshot is a consistent copy of Stats.
type Snapshot struct {
	Healthy   bool
	Inflight  int64
	Latency   time.Duration // 0: nothing known
	ErrorRate float64       // 0 to 1
}

// Begin counts an attempt that is on its way. Each Begin needs one End.
func (s *Stats) Begin() {
	s.mu.Lock()
	s.inflight++
	s.mu.Unlock()
}

// End counts the end of an attempt. first is the time to the first event of an answer, 0 where none came.
func (s *Stats) End(o Outcome, first time.Duration, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inflight--
	switch o {
	case Answered:
		s.failures, s.until = 0, time.Time{}
		s.errors *= 1 - newest
	case Failed:
		s.failures++
		s.errors = s.errors*(1-newest) + newest
		if over := s.failures - unhealthyAfter; over >= 0 {
			pause := maxCooldown
			if over < 5 {
				pause = cooldown << over
			}
			s.until = now.Add(pause)
		}
	case Neither:
		return
	}
	if first <= 0 {
		return
	}
	if s.latency == 0 {
		s.latency = first
		return
	}
	s.latency += time.Duration(newest * float64(first-s.latency))
}

// Healthy reports whether the target is not in a pause after repeated failures.
func (s *Stats) Healthy(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !now.Before(s.until)
}

// Snapshot returns the figures at now.
func (s *Stats) Snapshot(now time.Time) Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Snapshot{Healthy: !now.Before(s.until), Inflight: s.inflight, Latency: s.latency, ErrorRate: s.errors}
}

// Board keeps the Stats of every target by provider and model, so that they outlive a reload.
type Board struct {
	mu sync.Mutex
	m  map[[2]string]*Stats
}

// Stats returns the statistics of a provider's model, made on first use.
func (b *Board) Stats(provider, model string) *Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := [2]string{provider, model}
	s := b.m[k]
	if s == nil {
		if b.m == nil {
			b.m = make(map[[2]string]*Stats)
		}
		s = new(Stats)
		b.m[k] = s
	}
	return s
}

// Keep drops the statistics of targets for which used is false.
func (b *Board) Keep(used func(provider, model string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k := range b.m {
		if !used(k[0], k[1]) {
			delete(b.m, k)
		}
	}
}
