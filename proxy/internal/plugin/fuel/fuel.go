// Package fuel rewrites a guest's WebAssembly module so that running it is
// bounded: every loop and every function pays for its steps, call depth is
// limited, and a long call gives the Go scheduler a chance now and then.
//
// It owns the rewriting and the meaning of the globals that it adds. It does
// not run anything, does not validate types (the runtime that compiles the
// result does), does not optimise, and decides no budget. Its functions may be
// called from any goroutine.
//
// Besides the budget of a call it bounds the cost of loading and of instances: it refuses
// what package compilecost finds too much work for the compiler, and limits the growth of
// tables; package wasm checks counts and sizes.
//
// # What is added
//
// Three mutable i64 globals, exported under names that no other module may
// use, and one function:
//
//   - the slice: units left until the next scheduling point;
//   - the rest: units left in the budget after the slice;
//   - the depth: units of call depth left;
//   - refill, called where a check finds the slice below zero. It moves the next
//     slice out of the rest and executes memory.grow 0, which wazero serves in
//     Go, so that a garbage collection is not kept waiting. With nothing left to
//     move it traps.
//
// All of them are appended, and package wasm guarantees that no index in the module
// reaches beyond the module, so the guest can neither read nor write them.
//
// The module's own mutable globals are exported as well, for a host that restores an
// instance to an earlier state; Info says whether they and the memory are all of the state.
//
// Before a call the host writes Split(budget) to slice and rest and its limit to
// depth. Afterwards Used tells what the call cost, however it ended, and after
// a trap Exhausted and TooDeep tell the traps of this package from the guest's own.
//
// # What it costs
//
//   - 1 unit at the head of a loop, for each pass, and at the entry of a function;
//     a function that runs straight into a loop, as each of Go's does, pays only there;
//   - 1 unit wherever a path has come StretchWeight further since the last charge,
//     so that code without loops cannot run for free. An instruction weighs 1, a slow
//     one more: a memory access 8, a division 16, a call 4 and 1 for each operand;
//   - for memory.fill, memory.copy and memory.init BulkBase units and one for every
//     32 bytes; for table.fill, table.copy, table.init and table.grow the same and
//     one for every 8 elements; for memory.grow the same and 64 for every page.
//     They are charged before the instruction, also when it then fails.
//
// Hence, whatever the guest does, weight ≤ units × (StretchWeight + entryWeight).
// Charges inside a stretch are not checked: a check follows at the next loop head
// or entry, so a call may use a little more than its budget and still return.
// The cost depends on the path alone, not on slices, so it is the same in every run.
//
// Depth is charged for each frame of a function that calls others: 4, and 1 for
// each parameter, local, result and 8 bytes of code, and for each value beyond the
// first that its calls and blocks yield. Functions that call nothing cost no depth.
package fuel

import "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"

// Version names the rewriting. It changes whenever the output for some module
// changes, so it belongs in the key of every cache of outputs.
const Version = "10"

// ReservedPrefix begins the names of all exports that this package adds. A
// module that already exports such a name is refused.
const ReservedPrefix = "sluice.fuel."

// Names of the exported globals, all of type i64.
const (
	ExportSlice = ReservedPrefix + "slice"
	ExportRest  = ReservedPrefix + "rest"
	ExportDepth = ReservedPrefix + "depth"
)

// ExportGlobal and an index make the name under which a mutable global of the
// module's own is exported, so that the host can restore it to an earlier value.
const ExportGlobal = ReservedPrefix + "global."

// MaxGlobals bounds how many mutable globals are exported. A module with more of
// them has none exported; compilers make a handful.
const MaxGlobals = 256

// StretchWeight is the weight of instructions that one unit pays for.
const StretchWeight = 64

// BulkBase is what a bulk instruction costs in addition to its length.
const BulkBase = 4

// Defaults of Options.
const (
	DefaultSliceUnits    = 10_000
	DefaultInitialUnits  = 1 << 20
	DefaultInitialDepth  = 1 << 16
	DefaultTableElements = 1 << 17
)

// Options say how to rewrite. The zero value is good for use.
type Options struct {
	// SliceUnits is the distance of scheduling points in units.
	// Zero is DefaultSliceUnits.
	SliceUnits int64

	// InitialUnits is the budget that the globals hold until the host writes
	// them. Only a start function runs on it. Zero is DefaultInitialUnits.
	InitialUnits int64

	// InitialDepth is the depth that the global holds until the host writes
	// it. Zero is DefaultInitialDepth.
	InitialDepth int64

	// TableElements bounds the length of each table; the maximum of a larger
	// one is lowered, and a larger minimum is refused. Zero is
	// DefaultTableElements.
	TableElements uint32
}

func (o Options) withDefaults() Options {
	if o.SliceUnits <= 0 {
		o.SliceUnits = DefaultSliceUnits
	}
	if o.InitialUnits <= 0 {
		o.InitialUnits = DefaultInitialUnits
	}
	if o.InitialDepth <= 0 {
		o.InitialDepth = DefaultInitialDepth
	}
	if o.TableElements == 0 {
		o.TableElements = DefaultTableElements
	}
	return o
}

// Split divides a budget into the values for ExportSlice and ExportRest.
// sliceUnits is that of the Options; zero is DefaultSliceUnits.
func Split(budget, sliceUnits int64) (slice, rest int64) {
	if sliceUnits <= 0 {
		sliceUnits = DefaultSliceUnits
	}
	slice = min(budget, sliceUnits)
	return slice, budget - slice
}

// Used returns what was spent of a budget, from the globals' values after a
// call. It can exceed the budget.
func Used(budget, slice, rest int64) int64 { return budget - slice - rest }

// Exhausted reports, from the globals' values after a trap, whether the budget
// was used up.
func Exhausted(slice, rest int64) bool { return slice+rest < 0 }

// TooDeep reports, from the global's value after a trap, whether the bound of
// the call depth was the reason.
func TooDeep(depth int64) bool { return depth < 0 }

// Info describes a module as it was before rewriting. It shares no memory with
// the module.
type Info struct {
	Imports []wasm.Import
	Exports []wasm.Export
	Memory  wasm.Limits // pages

	// Start says that a function runs at instantiation, on the initial budget.
	Start bool

	// Globals are the names under which rewriting has exported the module's own
	// mutable globals. Restorable says that those and the memory are all that a
	// call can change: no code writes a table or drops a segment, and no mutable
	// global holds a reference or is missing among Globals.
	Globals    []string
	Restorable bool
}

// Rewrite returns the metered form of a module that package wasm accepts.
//
// It reads module only until it returns, never writes to it, and the output
// shares no memory with it. An error is always a *wasm.Error. A module that is
// rewritten may still be invalid; no invalid module becomes a valid one.
func Rewrite(module []byte, o Options) ([]byte, Info, error) {
	m, err := wasm.Parse(module)
	if err != nil {
		return nil, Info{}, err
	}
	r := rewriter{m: m, o: o.withDefaults()}
	if err := r.rewrite(); err != nil {
		return nil, Info{}, err
	}
	return r.w.Out, r.info, nil
}
