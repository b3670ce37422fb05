package plugin

// Budgets of calls and prices of imports, in units of fuel. A unit is about 3 ns of ordinary guest code on a small server, and
// 20 ns of the code and the imports that take longest for their price: BenchmarkPrices here and in package fuel measure
// them. An event through a hand-written Go guest takes some 300 units, a Go guest's collector up to 30,000 in one call,
// and the largest request of 100 KB that a bundled plugin was measured with 400,000, a twentieth of its budget.
const (
	// DefaultEventFuel is the base of a call for one event, for the end of a body, or for a router's choice: up to 9 ms.
	// These are the calls that do not need the semaphore of whole-body calls.
	DefaultEventFuel = 450_000
	// DefaultCallFuel is the base of every other call: up to 60 ms.
	DefaultCallFuel = 3_000_000
	// DefaultStartFuel bounds the start of an instance, with the initialisation of its language's runtime.
	DefaultStartFuel = 30_000_000
	// DefaultFuelPerByte is added for each byte of a call's input. A general JSON package needs about 20.
	DefaultFuelPerByte = 64

	// importFuel is charged for each import, and one unit more for each fuelBytes bytes that the host moves for it.
	importFuel = 32
	fuelBytes  = 16
	// searchBytes is how much text is searched for a credential for one unit, and searchOverhead what each search counts
	// besides the text.
	searchBytes    = 128
	searchOverhead = 64
)

// Fuel has the budgets of calls. Zero members stand for the defaults.
//
// For provider_request the client's body counts as input, although it is read piece by piece and perhaps not at all: the
// budget is fixed before the call begins, so that it is the same for every try, and reading the same bytes repeatedly
// does not increase it.
type Fuel struct {
	Event   int64
	Call    int64
	Start   int64
	PerByte int64
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

// budget returns the fuel of one call with n bytes of input.
func (f Fuel) budget(e export, n int) int64 {
	base := f.Call
	if !exports[e].whole {
		base = f.Event
	}
	return base + f.PerByte*int64(n)
}
