package loadtest

import (
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"
)

// Latencies counts durations in classes that are a sixteenth wide, so that any number of them takes the same memory.
type Latencies struct {
	classes [64 << 4]atomic.Int64
	n       atomic.Int64
}

// Add counts one.
func (l *Latencies) Add(d time.Duration) {
	l.classes[classOf(uint64(max(d, 0)))].Add(1)
	l.n.Add(1)
}

// classOf is the position of the highest bit, and the four bits after it.
func classOf(v uint64) int {
	n := bits.Len64(v)
	if n <= 5 {
		return int(v)
	}
	return (n-4)<<4 | int(v>>(n-5)&15)
}

// upperBound is the least value of the class after one.
func upperBound(c int) time.Duration {
	c++
	if c < 32 {
		return time.Duration(c)
	}
	return time.Duration(uint64(16+c&15) << (c>>4 - 1))
}

// Count is how many were counted.
func (l *Latencies) Count() int64 { return l.n.Load() }

// Quantile is the duration that a share of all do not exceed.
func (l *Latencies) Quantile(share float64) time.Duration {
	rest := int64(share * float64(l.n.Load()))
	for c := range l.classes {
		n := l.classes[c].Load()
		if rest < n {
			return upperBound(c)
		}
		rest -= n
	}
	return 0
}

// String is the median and the 99th of a hundred.
func (l *Latencies) String() string {
	if l.Count() == 0 {
		return "none"
	}
	return fmt.Sprintf("p50 %s, p99 %s", roundDuration(l.Quantile(0.5)), roundDuration(l.Quantile(0.99)))
}

// roundDuration is a duration with two or three digits.
func roundDuration(d time.Duration) string {
	for unit := time.Duration(1); ; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit).String()
		}
	}
}
