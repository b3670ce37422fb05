package plugin

// Budgets of calls and prices of imports, in units of fuel. On a small server a unit is about 3 ns of ordinary guest
// code, and about 20 ns of the instructions and imports that take longest for their price. BenchmarkPrices here and in
// package fuel measures both. For comparison: an event costs a hand-written Go guest some 300 units, the garbage
// collector of a Go guest costs up to 30,000 units in one call, and the most expensive 100 KB request of a bundled
// plugin costs 400,000, a twentieth of its budget.
const (
	// DefaultEventFuel is the base budget of the calls that do not take a whole body, such as an event, the end of a
	// body or a router's choice: up to 9 ms. They do not need the semaphore of whole-body calls.
	DefaultEventFuel = 450_000
	// DefaultCallFuel is the base budget of every other call: up to 60 ms.
	DefaultCallFuel = 3_000_000
	// DefaultStartFuel is the budget for starting an instance, including the initialisation of its language's runtime.
	DefaultStartFuel = 30_000_000
	// DefaultFuelPerByte is added for each byte of a call's input. A general JSON package needs about 20.
	DefaultFuelPerByte = 64

	// importFuel is the price of calling an import. Each fuelBytes bytes that the host copies or scans for it cost one
	// more unit.
	importFuel = 32
	fuelBytes  = 16
	// Searching searchBytes bytes of a text for one form of a credential costs one unit. searchOverhead is added to the
	// length of the text.
	searchBytes    = 128
	searchOverhead = 64
)

// Fuel sets the budgets of calls. A zero field means the default.
//
// A budget is fixed before the call begins: the guest cannot raise it by reading the same bytes repeatedly, and a
// retried call gets the same budget. For provider_request the client's body counts as input, whether the guest reads it
// or not.
type Fuel struct {
	Event   int64 // base of calls without a whole body
	Call    int64 // base of whole-body calls
	Start   int64 // start of an instance
	PerByte int64 // added for each byte of input
}

func (f Fuel) withDefaults() Fuel {
	set := func(v *int64, d int64) {
		if *v <= 0 {
			*v = d
		}
	}
	set(&f.Event, DefaultEventFuel)
	set(&f.Call, DefaultCallFuel)
	set(&f.Start, DefaultStartFuel)
	set(&f.PerByte, DefaultFuelPerByte)
	return f
}

// budget returns the fuel for one call with n bytes of input.
func (f Fuel) budget(e export, n int) int64 {
	base := f.Call
	if !exports[e].whole {
		base = f.Event
	}
	return base + f.PerByte*int64(n)
}
