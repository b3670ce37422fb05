// Package tokenbucket is a token bucket for limits per minute that are exact, may be exceeded, and may change.
package tokenbucket

import "time"

// Bucket is a token bucket, seen from the other side: its level is what has been used, and drains at the limit per minute. The
// whole limit can be used at once after an idle minute, and evenly for ever.
//
// golang.org/x/time/rate does not fit: usage is known only after a response and may exceed the limit, which leaves a debt; what
// remains and when the bucket resets are reported in response headers and must be exact; and a reload may change the limit.
//
// One use is 60,000,000 units, so that a limit of n per minute drains n units per microsecond and nothing is ever rounded. The
// level does not depend on the limit.
//
// The zero value is unused. It needs a lock around it.
type Bucket struct {
	level   int64     // units
	drained time.Time // up to when level is drained
}

const (
	unitsPerUse = int64(time.Minute / time.Microsecond)
	// maxUses bounds what is added at once, and maxLevel the level, so that no sum overflows.
	maxUses  = 1 << 36
	maxLevel = 1 << 62
)

// Drain drains the bucket up to now.
func (b *Bucket) Drain(limit int64, now time.Time) {
	elapsed := now.Sub(b.drained).Microseconds()
	switch {
	case elapsed <= 0:
		// Requests read the clock before they take the lock.
	case b.drained.IsZero() || elapsed > b.level/limit:
		b.level, b.drained = 0, now
	default:
		b.level -= elapsed * limit
		b.drained = b.drained.Add(time.Duration(elapsed) * time.Microsecond)
	}
}

// Add adds uses, which may exceed the limit.
func (b *Bucket) Add(uses int64) {
	b.level = min(b.level+min(uses, maxUses)*unitsPerUse, maxLevel)
}

// Restore adds uses of the last minute before now to a bucket. How much of them has drained depends on a limit that was another one:
// none of it counts as drained.
func (b *Bucket) Restore(uses int64, now time.Time) {
	b.Add(uses)
	b.drained = now
}

// Empty reports whether nothing is used.
func (b *Bucket) Empty() bool { return b.level == 0 }

// Level returns how many uses have not drained, rounded up.
func (b *Bucket) Level() int64 { return (b.level + unitsPerUse - 1) / unitsPerUse }

// Remaining returns how many uses are left.
func (b *Bucket) Remaining(limit int64) int64 {
	return max(0, (limit*unitsPerUse-b.level)/unitsPerUse)
}

// Wait returns how long it takes until the given uses are left, 0 if they are.
func (b *Bucket) Wait(uses, limit int64) time.Duration {
	return drainTime(b.level+min(uses, maxUses)*unitsPerUse-limit*unitsPerUse, limit)
}

// Reset returns how long it takes until nothing is used.
func (b *Bucket) Reset(limit int64) time.Duration { return drainTime(b.level, limit) }

// drainTime returns how long units take to drain, rounded up to a millisecond.
func drainTime(units, limit int64) time.Duration {
	if units <= 0 {
		return 0
	}
	perMillisecond := 1000 * limit
	return time.Duration((units+perMillisecond-1)/perMillisecond) * time.Millisecond
}
