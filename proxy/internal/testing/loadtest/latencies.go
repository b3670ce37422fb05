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
	l.classes[class(uint64(max(d, 0)))].Add(1)
	l.n.Add(1)
}

// class is the position of the highest bit, and the four bits after it.
func class(v uint64) int {
	n := bits.Len64(v)
	if n <= 5 {
		return int(v)
	}
	return (n-4)<<4 | int(v>>(n-5)&15)
}

// above is the least value of the class after one.
func above(c int) time.Duration {
	c++
	if c < 32 {
		return time.Duration(c)
	}
	return time.Duration(uint64(16+c&15) << (c>>4 - 1))
}

// Count is how many were counted.
func (l *Latencies) Count() int64 { return l.n.Load() }

// At is the duration that a share of all do not exceed.
func (l *Latencies) At(share float64) time.Duration {
	rest := int64(share * float64(l.n.Load()))
	for c := range l.classes {
		n := l.classes[c].Load()
		if rest < n {
			return above(c)
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
	return fmt.Sprintf("p50 %s, p99 %s", short(l.At(0.5)), short(l.At(0.99)))
}

// short is a duration with two or three digits.
func short(d time.Duration) string {
	for unit := time.Duration(1); ; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit).String()
		}
	}
}
