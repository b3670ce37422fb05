package telemetry

import (
	"sync/atomic"
	"time"
)

// bounds are the upper bounds of the buckets: from a response made by the gateway itself up to the default total timeout of a
// provider.
var bounds = [...]time.Duration{
	5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond,
	500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 15 * time.Minute,
}

// histogram counts durations. It is safe for concurrent use; a read during writes is approximately consistent.
type histogram struct {
	buckets [len(bounds) + 1]atomic.Uint64 // not cumulative
	sum     atomic.Int64                   // nanoseconds
}

func (h *histogram) observe(d time.Duration) {
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	h.buckets[i].Add(1)
	h.sum.Add(int64(d))
}

// addTo adds the counts to t.
func (h *histogram) addTo(t *tally) {
	for i := range h.buckets {
		t.buckets[i] += h.buckets[i].Load()
	}
	t.sum += time.Duration(h.sum.Load())
}

// tally is a sum of histograms.
type tally struct {
	buckets [len(bounds) + 1]uint64
	sum     time.Duration
}

// cumulative returns the counts as Prometheus exposes them: for each bound, the observations up to it.
func (t *tally) cumulative() (count uint64, buckets map[float64]uint64) {
	buckets = make(map[float64]uint64, len(bounds))
	for i, n := range t.buckets {
		count += n
		if i < len(bounds) {
			buckets[bounds[i].Seconds()] = count
		}
	}
	return count, buckets
}
