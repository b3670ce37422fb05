package routing

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/breaker"
)

// Outcome is the outcome of an attempt, as far as it concerns the target's health.
type Outcome uint8

// The outcomes.
const (
	Succeeded    Outcome = iota
	Failed               // the provider failed, or could not be reached
	RateLimited          // the provider rejected the request and said when to retry
	Inconclusive         // the client disconnected, or the request was at fault
	outcomes     = iota
)

// Health is the state of a target as shown to operators. Routing does not depend on it: when the pause of a target is
// over, its next request is sent as a trial, and until then its state remains Open.
type Health uint8

// The states.
const (
	Healthy  Health = iota
	Retrying        // a trial request is in flight, or has closed the circuit and no request has succeeded since
	Open            // the circuit is open, or the target asked not to be used for some time
)

var healthNames = [...]string{Healthy: "healthy", Retrying: "retrying", Open: "open"}

// String returns the state's name.
func (h Health) String() string { return healthNames[h] }

// LastError is the most recent error that a target returned or caused.
type LastError struct {
	At   time.Time // zero if there was none
	Code string
	Text string // contains nothing that a client or a provider sent
}

// smoothing is the weight of the newest value in the moving averages.
const smoothing = 0.2

// Stats are the statistics and the circuit breaker of one target. The zero value is a target that has not been used.
type Stats struct {
	mu       sync.Mutex
	inflight int64
	latency  time.Duration // moving average of the time to the first event
	errors   float64       // moving average of failures, 0 to 1
	speed    average       // moving average of completion tokens per second in streams
	cached   average       // moving average of the cached share of prompts
	opened   uint64        // times that the breaker opened
	rejected uint64        // attempts that the breaker rejected
	retries  uint64        // attempts at the target that were retries of a request
	breaker  breaker.Breaker
	last     LastError
	times    *samples // nil if there are none

	outcomes [outcomes]atomic.Uint64
}

// Snapshot is a consistent copy of Stats.
type Snapshot struct {
	Health    Health
	Ready     bool // a request that has a choice may be sent to it
	Inflight  int64
	Latency   time.Duration // moving average of the time to the first event; 0 if unknown
	ErrorRate float64       // moving average, 0 to 1

	TokensPerSecond float64 // moving average of completion tokens per second in streams; 0 if unknown
	CachedShare     float64 // moving average of the cached share of prompts, 0 to 1; 0 also if the provider does not report it

	Failures  int // consecutive failures
	LastError LastError

	Breaker     breaker.State
	Until       time.Time // end of an open breaker's pause or of a requested cooldown; may be in the past
	RateLimited bool      // Until is due to the target's rate limit

	Opened   uint64 // times that the breaker opened
	Rejected uint64 // attempts that the breaker rejected
	Retries  uint64 // attempts at the target that were retries of a request

	Outcomes [outcomes]uint64 // finished attempts, by Outcome
}

// start counts an attempt if the breaker allows it. A retry is not allowed while the target is in cooldown. Each
// allowed attempt needs exactly one call of end.
func (s *Stats) start(c *breaker.Config, now time.Time, retry bool) (breaker.Ticket, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeIfDisabled(c)
	if !retry || s.breaker.Ready(now) {
		if t, ok := s.breaker.Allow(c, now); ok {
			s.inflight++
			return t, true
		}
	}
	s.rejected++
	return breaker.Ticket{}, false
}

// closeIfDisabled closes a breaker that a reload has disabled.
func (s *Stats) closeIfDisabled(c *breaker.Config) {
	if c.Consecutive <= 0 && s.breaker.State() != breaker.Closed {
		s.breaker.Close()
	}
}

func (s *Stats) recordFirstEvent(t breaker.Ticket) {
	s.mu.Lock()
	s.breaker.Responding(t)
	s.mu.Unlock()
}

// end records the end of an attempt; see Target.EndAttempt.
func (s *Stats) end(c *breaker.Config, t breaker.Ticket, o Outcome, cooldown, firstEvent time.Duration, now time.Time) breaker.Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeIfDisabled(c)
	s.inflight--
	if firstEvent > 0 {
		s.addSample(firstEvent)
	}
	change := breaker.Unchanged
	switch o {
	case Succeeded:
		change = s.breaker.Success(c, t, now)
		s.errors *= 1 - smoothing
	case Failed, RateLimited:
		change = s.breaker.Failure(c, t, now, cooldown, o == RateLimited)
		s.errors = s.errors*(1-smoothing) + smoothing
	case Inconclusive:
		s.breaker.Cancel(t)
		return breaker.Unchanged
	}
	if change == breaker.Opened {
		s.opened++
	}
	switch {
	case firstEvent <= 0:
	case s.latency == 0:
		s.latency = firstEvent
	default:
		s.latency += time.Duration(smoothing * float64(firstEvent-s.latency))
	}
	return change
}

// minStreamed is the minimum number of tokens in a stream for its speed to count. The tokens of shorter streams mostly
// arrive at once.
const minStreamed = 16

func (s *Stats) recordUsage(u Usage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u.Completion >= minStreamed && u.Streamed > 0 {
		s.speed.add(float64(u.Completion) / u.Streamed.Seconds())
	}
	if u.CountsCached && u.Prompt > 0 {
		s.cached.add(float64(min(u.Cached, u.Prompt)) / float64(u.Prompt))
	}
}

// average is an exponential moving average that starts with its first value.
type average struct {
	value float64
	known bool
}

func (a *average) add(v float64) {
	if !a.known {
		a.value, a.known = v, true
		return
	}
	a.value += smoothing * (v - a.value)
}

func (s *Stats) recordError(e LastError) {
	s.mu.Lock()
	s.last = e
	s.mu.Unlock()
}

// ready reports whether a request that has a choice may be sent to the target.
func (s *Stats) ready(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.breaker.Ready(now)
}

func (s *Stats) wait(now time.Time) (d time.Duration, rateLimited bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.breaker.Wait(now)
}

// Snapshot returns the statistics at now.
func (s *Stats) Snapshot(now time.Time) Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	shot := Snapshot{
		Ready: s.breaker.Ready(now), Inflight: s.inflight, Latency: s.latency, ErrorRate: s.errors,
		TokensPerSecond: s.speed.value, CachedShare: s.cached.value,
		Failures: s.breaker.Consecutive(), LastError: s.last, Opened: s.opened, Rejected: s.rejected, Retries: s.retries,
		Breaker: s.breaker.State(), Until: s.breaker.Until(), RateLimited: s.breaker.RateLimited(),
	}
	switch {
	case s.breaker.Recovering():
		shot.Health = Retrying
	case now.Before(s.breaker.Until()), s.breaker.State() != breaker.Closed && !s.breaker.RateLimited():
		// A rate limit ends at the time that the target named. After failures, the target is open until an attempt
		// succeeds.
		shot.Health = Open
	}
	for o := range s.outcomes {
		shot.Outcomes[o] = s.outcomes[o].Load()
	}
	return shot
}
