package routing

import (
	"math"
	"slices"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/breaker"
)

const (
	// maxSamples is the number of recent samples that a quantile is computed from.
	maxSamples = 512

	// minSamples is the minimum number of samples for a quantile.
	minSamples = 100

	// sortEvery is the number of new samples after which they are sorted again.
	sortEvery = 16
)

// samples are recent times to the first event of a target. They include the durations of attempts that were cancelled
// before their first event because another target was faster. Otherwise slow responses would be missing.
type samples struct {
	n        int                // number of samples added so far
	last     [maxSamples]uint32 // recent samples in microseconds; sample i is at i % maxSamples
	sorted   []uint32           // sorted copy of last
	sortedAt int                // n when sorted was updated
}

func (s *samples) add(d time.Duration) {
	s.last[s.n%maxSamples] = uint32(min(max(d.Microseconds(), 0), math.MaxUint32))
	s.n++
}

// quantile returns the q-quantile of the samples (nearest rank), or false if there are too few samples.
func (s *samples) quantile(q float64) (time.Duration, bool) {
	if s == nil || s.n < minSamples {
		return 0, false
	}
	if s.sorted == nil || s.n-s.sortedAt >= sortEvery {
		s.sorted = append(s.sorted[:0], s.last[:min(s.n, maxSamples)]...)
		slices.Sort(s.sorted)
		s.sortedAt = s.n
	}
	rank := int(math.Ceil(q * float64(len(s.sorted))))
	return time.Duration(s.sorted[min(max(rank, 1), len(s.sorted))-1]) * time.Microsecond, true
}

func (s *Stats) addSample(d time.Duration) {
	if s.times == nil {
		s.times = new(samples)
	}
	s.times.add(d)
}

// FirstEventQuantile returns the q-quantile (0 to 1) of recent times to the first event of the target, or false if too
// few are known.
func (t *Target) FirstEventQuantile(q float64) (time.Duration, bool) {
	t.Stats.mu.Lock()
	defer t.Stats.mu.Unlock()
	return t.Stats.times.quantile(q)
}

// CancelAttempt records that an attempt was cancelled before its first event, after the given time, because another
// attempt was faster. This does not affect the target's health.
func (t *Target) CancelAttempt(ticket breaker.Ticket, after time.Duration, now time.Time) {
	t.Stats.outcomes[Inconclusive].Add(1)
	t.Stats.end(&t.Breaker, ticket, Inconclusive, 0, after, now)
}
