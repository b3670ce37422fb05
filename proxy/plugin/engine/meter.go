package engine

import (
	"github.com/tetratelabs/wazero/api"

	"github.com/sluice-gateway/sluice/proxy/plugin/fuel"
)

// meter is the fuel and depth of one instance: the three globals that package fuel put into the module, and the budget
// of the call.
type meter struct {
	slice, rest, depth api.MutableGlobal
	budget             int64
}

// bind finds the globals in a new instance.
func (m *meter) bind(guest api.Module) {
	m.slice = guest.ExportedGlobal(fuel.ExportSlice).(api.MutableGlobal)
	m.rest = guest.ExportedGlobal(fuel.ExportRest).(api.MutableGlobal)
	m.depth = guest.ExportedGlobal(fuel.ExportDepth).(api.MutableGlobal)
	m.budget = fuel.DefaultInitialUnits
}

// begin sets what the next call may spend.
func (m *meter) begin(budget int64) {
	m.budget = max(budget, 0)
	slice, rest := fuel.Split(m.budget, 0)
	m.slice.Set(uint64(slice))
	m.rest.Set(uint64(rest))
	m.depth.Set(fuel.DefaultInitialDepth)
}

func (m *meter) globals() (slice, rest int64) {
	return int64(m.slice.Get()), int64(m.rest.Get())
}

// charge takes units out of the slice, so that the guest meets the loss at its very next check.
func (m *meter) charge(units int64) {
	slice := int64(m.slice.Get())
	if slice < -maxCharge {
		return
	}
	m.slice.Set(uint64(slice - min(units, maxCharge)))
}

// maxCharge keeps sums of charges far from the ends of the number range. No budget comes near.
const maxCharge = 1 << 60

// exhaust leaves nothing.
func (m *meter) exhaust() {
	slice, rest := m.globals()
	if slice+rest >= 0 {
		m.charge(slice + rest + 1)
	}
}

// empty reports whether nothing is left.
func (m *meter) empty() bool { return fuel.Exhausted(m.globals()) }

// used is what the call has spent of its budget, and never more than that, although the last stretch before a check may
// cost a little more.
func (m *meter) used() int64 {
	slice, rest := m.globals()
	return min(fuel.Used(m.budget, slice, rest), m.budget)
}

func (m *meter) tooDeep() bool { return fuel.TooDeep(int64(m.depth.Get())) }
