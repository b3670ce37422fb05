package routing

import (
	"sync/atomic"
	"time"
)

// Measurement is a value that a provider reports about itself, such as the length of its queue.
type Measurement struct {
	Name  string
	Value float64 // finite
}

// Measurements are the latest measurements of a provider. The zero value has none. They are safe for concurrent use.
type Measurements struct{ latest atomic.Pointer[measured] }

type measured struct {
	values []Measurement
	until  time.Time
}

// Store replaces the measurements. They are valid until a time. The slice must not be modified afterwards.
func (m *Measurements) Store(values []Measurement, until time.Time) {
	m.latest.Store(&measured{values, until})
}

// Load returns the measurements that are valid at a time. A nil *Measurements has none. The slice must not be modified.
func (m *Measurements) Load(now time.Time) []Measurement {
	if m == nil {
		return nil
	}
	if l := m.latest.Load(); l != nil && now.Before(l.until) {
		return l.values
	}
	return nil
}

// Inherit takes over the measurements of another generation of the same provider, unless there are newer ones.
func (m *Measurements) Inherit(old *Measurements) { m.latest.CompareAndSwap(nil, old.latest.Load()) }
