package access

import "time"

// meter measures something of which there may be so much a minute. What is used is put into it, and runs out of it evenly:
// a whole limit in a minute. So the limit can be used at once after a minute of rest, and evenly for ever.
//
// One use is 60,000,000 units: a limit of n a minute drains n units a microsecond, and nothing is ever rounded. The level
// does not depend on the limit, which may change while the meter is in use.
//
// The zero value is an empty meter. It needs a lock around it.
type meter struct {
	level int64     // units
	at    time.Time // up to when it has drained
}

const (
	unit = int64(time.Minute / time.Microsecond)
	// maxUses bounds what is put in at once, and maxLevel what is in it, so that no sum overflows.
	maxUses  = 1 << 36
	maxLevel = 1 << 62
)

// drain lets run out what has run out until now.
func (m *meter) drain(limit int64, now time.Time) {
	elapsed := now.Sub(m.at).Microseconds()
	switch {
	case elapsed <= 0:
		// Requests read the clock before they take the lock.
	case m.at.IsZero() || elapsed > m.level/limit:
		m.level, m.at = 0, now
	default:
		m.level -= elapsed * limit
		m.at = m.at.Add(time.Duration(elapsed) * time.Microsecond)
	}
}

// put adds uses.
func (m *meter) put(uses int64) {
	m.level = min(m.level+min(uses, maxUses)*unit, maxLevel)
}

// left is how many uses fit in.
func (m *meter) left(limit int64) int64 { return max(0, (limit*unit-m.level)/unit) }

// wait is how long it takes until uses fit in, 0 where they do.
func (m *meter) wait(uses, limit int64) time.Duration {
	return drained(m.level+min(uses, maxUses)*unit-limit*unit, limit)
}

// reset is how long it takes until it is empty.
func (m *meter) reset(limit int64) time.Duration { return drained(m.level, limit) }

// drained is how long it takes until that many units have run out, to the next millisecond.
func drained(units, limit int64) time.Duration {
	if units <= 0 {
		return 0
	}
	perMillisecond := 1000 * limit
	return time.Duration((units+perMillisecond-1)/perMillisecond) * time.Millisecond
}
