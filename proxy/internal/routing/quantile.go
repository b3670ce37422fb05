package routing

import (
	"math"
	"slices"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/breaker"
)

const (
	// maxSamples is how many of the last times a quantile is taken from.
	maxSamples = 512

	// minSamples is how many of them a quantile needs.
	minSamples = 100

	// sortEvery is how many more samples there are before they are sorted again.
	sortEvery = 16
)

// samples are the last times to the first event of a target. A time that ended before the event was there, since another target's was, is
// one of them: without it, what is slow would be missing.
type samples struct {
	n      int                // that have been added
	last   [maxSamples]uint32 // in microseconds, the one numbered i at i % maxSamples
	sorted []uint32           // those of the last after sortedAt
	at     int                // n when they were sorted
}

func (s *samples) add(d time.Duration) {
	s.last[s.n%maxSamples] = uint32(min(max(d.Microseconds(), 0), math.MaxUint32))
	s.n++
}

// quantile returns the time that a share q of the samples does not exceed (nearest rank), and false while there are too few.
func (s *samples) quantile(q float64) (time.Duration, bool) {
	if s == nil || s.n < minSamples {
		return 0, false
	}
	if s.sorted == nil || s.n-s.at >= sortEvery {
		s.sorted = append(s.sorted[:0], s.last[:min(s.n, maxSamples)]...)
		slices.Sort(s.sorted)
		s.at = s.n
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

// FirstEventQuantile returns the time to the first event that a share q of the target's last responses, 0 to 1, did not exceed. It is
// false while too few are known.
func (t *Target) FirstEventQuantile(q float64) (time.Duration, bool) {
	t.Stats.mu.Lock()
	defer t.Stats.mu.Unlock()
	return t.Stats.times.quantile(q)
}

// CancelAttempt records that an attempt was cancelled after a time, before its first event, as another attempt had been faster. That
// says nothing of the target's health.
func (t *Target) CancelAttempt(ticket breaker.Ticket, after time.Duration, now time.Time) {
	t.Stats.outcomes[Inconclusive].Add(1)
	t.Stats.end(&t.Breaker, ticket, Inconclusive, 0, after, now)
}
