// Package tokenbucket implements a token bucket for limits per minute that are exact, may be exceeded, and may change.
package tokenbucket

import (
	"math"
	"time"
)

// Bucket is a token bucket in the form of a leaky bucket (as a meter): its level is the usage, which drains at the
// limit per minute. After an idle minute the whole limit can be used at once.
//
// golang.org/x/time/rate does not fit, for three reasons. Usage is known only after a response and may exceed the
// limit, which leaves a debt. Response headers report the remaining uses and the time of the reset, which must be
// exact. A reload may change the limit.
//
// One use is 60,000,000 units, so that a limit of n per minute drains n units per microsecond and nothing is rounded.
// The level does not depend on the limit.
//
// The zero value is an unused bucket. A Bucket must be protected by a lock.
type Bucket struct {
	level   int64     // units
	drained time.Time // time up to which level has been drained
}

const (
	unitsPerUse = int64(time.Minute / time.Microsecond)
	// maxUses bounds the uses added at once and maxLevel bounds the level, so that sums do not overflow.
	maxUses  = 1 << 36
	maxLevel = 1 << 62
	maxWait  = math.MaxInt64 / int64(time.Millisecond) // milliseconds
)

// Drain drains the bucket up to now.
func (b *Bucket) Drain(limit int64, now time.Time) {
	elapsed := now.Sub(b.drained).Microseconds()
	switch {
	case elapsed <= 0:
		// Requests read the clock before they acquire the lock, so now may be in the past.
	case b.drained.IsZero() || elapsed > b.level/limit:
		b.level, b.drained = 0, now
	default:
		b.level -= elapsed * limit
		b.drained = b.drained.Add(time.Duration(elapsed) * time.Microsecond)
	}
}

// Add adds uses. The level may exceed the limit.
func (b *Bucket) Add(uses int64) {
	b.level = min(b.level+min(uses, maxUses)*unitsPerUse, maxLevel)
}

// Restore adds the uses of the minute before now, for example after a restart. The part that has drained since depends
// on the limit at that time, which is unknown, so all of them count as undrained.
func (b *Bucket) Restore(uses int64, now time.Time) {
	b.Add(uses)
	b.drained = now
}

// Empty reports whether the level is 0.
func (b *Bucket) Empty() bool { return b.level == 0 }

// Level returns the number of uses that have not drained, rounded up.
func (b *Bucket) Level() int64 { return (b.level + unitsPerUse - 1) / unitsPerUse }

// Remaining returns the number of uses left.
func (b *Bucket) Remaining(limit int64) int64 {
	return max(0, (limit*unitsPerUse-b.level)/unitsPerUse)
}

// Wait returns the time until the given number of uses is left; 0 if it is left already.
func (b *Bucket) Wait(uses, limit int64) time.Duration {
	return drainTime(b.level+min(uses, maxUses)*unitsPerUse-limit*unitsPerUse, limit)
}

// Reset returns the time until the bucket is empty.
func (b *Bucket) Reset(limit int64) time.Duration { return drainTime(b.level, limit) }

// drainTime returns the time in which units drain, rounded up to a millisecond.
func drainTime(units, limit int64) time.Duration {
	if units <= 0 {
		return 0
	}
	perMillisecond := 1000 * limit
	return time.Duration(min((units+perMillisecond-1)/perMillisecond, maxWait)) * time.Millisecond
}
