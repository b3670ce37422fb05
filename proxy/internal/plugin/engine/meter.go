package engine

import (
	"github.com/tetratelabs/wazero/api"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel"
)

// meter is the fuel and depth of one instance: the three globals that package fuel put into the module, and the budget
// of the call. Reading or writing a global costs 5 to 10 ns, so an ordinary call touches as few as it can.
type meter struct {
	slice, rest, depth api.MutableGlobal
	budget             int64
	pending            int64 // charged by the host, not subtracted from the slice yet
	overdrawn          bool  // the host's charges have used up the budget

	// What rest was read to be since the call began. It changes where the guest refills its slice, in a call only.
	restRead  int64
	restKnown bool
}

// maxPending is how many units the host charges before it writes them to the guest's global.
const maxPending = 1000

// bind finds the globals in a new instance.
func (m *meter) bind(guest api.Module) {
	m.slice = guest.ExportedGlobal(fuel.ExportSlice).(api.MutableGlobal)
	m.rest = guest.ExportedGlobal(fuel.ExportRest).(api.MutableGlobal)
	m.depth = guest.ExportedGlobal(fuel.ExportDepth).(api.MutableGlobal)
	m.budget, m.pending, m.overdrawn, m.restKnown = fuel.DefaultInitialUnits, 0, false, false
}

// restore undoes what a call that did not return may have left.
func (m *meter) restore() {
	m.depth.Set(fuel.DefaultInitialDepth)
	m.restKnown = false
}

// begin sets the budget of the next call. The depth needs no setting: a call that returns has restored it, and after one
// that does not the instance is dead, or restored to an image.
func (m *meter) begin(budget int64) {
	m.budget, m.pending, m.overdrawn = max(budget, 0), 0, false
	slice, rest := fuel.Split(m.budget, 0)
	m.slice.Set(uint64(slice))
	if !m.restKnown || m.restRead != rest {
		m.rest.Set(uint64(rest))
	}
	m.restKnown = false
}

// globals returns what is left of the budget.
func (m *meter) globals() (slice, rest int64) {
	m.flush()
	return int64(m.slice.Get()), int64(m.rest.Get())
}

// charge takes units out of the budget. It writes them to the slice, where the guest's next check finds them, once they
// add up to maxPending.
func (m *meter) charge(units int64) {
	m.pending += min(units, maxCharge)
	if m.pending >= maxPending {
		m.flush()
	}
}

// flush subtracts the pending charges from the slice, and sets overdrawn if they have used up the budget.
func (m *meter) flush() {
	if m.pending == 0 {
		return
	}
	slice := int64(m.slice.Get())
	if slice >= -maxCharge {
		slice -= m.pending
		m.slice.Set(uint64(slice))
	}
	m.pending = 0
	m.overdrawn = slice < 0 && fuel.Exhausted(slice, int64(m.rest.Get()))
}

// maxCharge keeps sums of charges far from overflow. No budget comes near.
const maxCharge = 1 << 60

// empty reports whether nothing is left.
func (m *meter) empty() bool { return fuel.Exhausted(m.globals()) }

// used returns what the call has spent of its budget, and never more than that, although the last stretch before a check
// may cost a little more.
func (m *meter) used() int64 {
	slice, rest := int64(m.slice.Get()), int64(m.rest.Get())
	m.restRead, m.restKnown = rest, true
	return min(fuel.Used(m.budget, slice-m.pending, rest), m.budget)
}

func (m *meter) tooDeep() bool { return fuel.TooDeep(int64(m.depth.Get())) }
