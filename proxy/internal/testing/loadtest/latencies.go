package loadtest

import (
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"
)

// Latencies is a histogram of durations. The width of its buckets is a sixteenth of their value.
type Latencies struct {
	buckets [64 << 4]atomic.Int64
	n       atomic.Int64
}

// Add counts a duration.
func (l *Latencies) Add(d time.Duration) {
	l.buckets[bucketIndex(uint64(max(d, 0)))].Add(1)
	l.n.Add(1)
}

// bucketIndex returns the index of a value's bucket: the position of its highest bit, and the four bits after that.
func bucketIndex(v uint64) int {
	n := bits.Len64(v)
	if n <= 5 {
		return int(v)
	}
	return (n-4)<<4 | int(v>>(n-5)&15)
}

// upperBound returns the exclusive upper bound of a bucket.
func upperBound(i int) time.Duration {
	i++
	if i < 32 {
		return time.Duration(i)
	}
	return time.Duration(uint64(16+i&15) << (i>>4 - 1))
}

// Count returns the number of durations.
func (l *Latencies) Count() int64 { return l.n.Load() }

// Quantile returns the upper bound of the bucket with the quantile.
func (l *Latencies) Quantile(share float64) time.Duration {
	rest := int64(share * float64(l.n.Load()))
	for i := range l.buckets {
		n := l.buckets[i].Load()
		if rest < n {
			return upperBound(i)
		}
		rest -= n
	}
	return 0
}

// String returns the median and the 99th percentile.
func (l *Latencies) String() string {
	if l.Count() == 0 {
		return "none"
	}
	return fmt.Sprintf("p50 %s, p99 %s", roundDuration(l.Quantile(0.5)), roundDuration(l.Quantile(0.99)))
}

// roundDuration formats a duration with at most three significant digits.
func roundDuration(d time.Duration) string {
	for unit := time.Duration(1); ; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit).String()
		}
	}
}
