package engine

import (
	"github.com/tetratelabs/wazero/api"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel"
)

// meter accounts the fuel and depth of one instance: it holds the three globals that package fuel has added to the
// module, and the budget of the current call. Reading or writing a global takes 5 to 10 ns, so meter avoids it where
// possible.
type meter struct {
	slice, rest, depth api.MutableGlobal
	budget             int64
	pending            int64 // charged by the host, not subtracted from the slice yet
	overdrawn          bool  // the host's charges have used up the budget

	// The value of rest after the last call, if restKnown. Only the guest changes rest, when it refills its slice.
	restRead  int64
	restKnown bool
}

// maxPending is the number of units that the host charges before it writes them to the guest's slice. By as much a call
// may exceed its budget before the engine or the guest notices.
const maxPending = 1000

// bind looks up the globals of a new instance.
func (m *meter) bind(guest api.Module) {
	m.slice = guest.ExportedGlobal(fuel.ExportSlice).(api.MutableGlobal)
	m.rest = guest.ExportedGlobal(fuel.ExportRest).(api.MutableGlobal)
	m.depth = guest.ExportedGlobal(fuel.ExportDepth).(api.MutableGlobal)
	m.budget, m.pending, m.overdrawn, m.restKnown = fuel.DefaultInitialUnits, 0, false, false
}

// restore resets the globals that a call may have left in any state, if it did not return.
func (m *meter) restore() {
	m.depth.Set(fuel.DefaultInitialDepth)
	m.restKnown = false
}

// begin sets the budget of the next call. The depth is already right: a call that returns has restored it, and after
// any other call the instance is dead, or restored to an image.
func (m *meter) begin(budget int64) {
	m.budget, m.pending, m.overdrawn = max(budget, 0), 0, false
	slice, rest := fuel.Split(m.budget, 0)
	m.slice.Set(uint64(slice))
	if !m.restKnown || m.restRead != rest {
		m.rest.Set(uint64(rest))
	}
	m.restKnown = false
}

// globals returns the rest of the budget, as the values of the two globals.
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

// maxCharge limits charges so that their sums cannot overflow. It is far above any budget.
const maxCharge = 1 << 60

// empty reports whether the budget is used up.
func (m *meter) empty() bool { return fuel.Exhausted(m.globals()) }

// used returns the fuel that the call has used. It is capped at the budget, which a call can exceed a little before a
// check notices.
func (m *meter) used() int64 {
	slice, rest := int64(m.slice.Get()), int64(m.rest.Get())
	m.restRead, m.restKnown = rest, true
	return min(fuel.Used(m.budget, slice-m.pending, rest), m.budget)
}

func (m *meter) tooDeep() bool { return fuel.TooDeep(int64(m.depth.Get())) }
