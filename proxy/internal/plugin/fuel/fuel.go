// Package fuel rewrites a guest's WebAssembly module so that its execution is
// bounded: loops and functions are charged for the code they run, call depth is
// limited, and a long call yields to the Go runtime at regular intervals.
//
// It owns the rewriting and the globals that it adds. It does not run anything,
// validate types (the runtime that compiles the result does), optimise, or set
// budgets. Its functions are safe for concurrent use.
//
// It also bounds the cost of loading a module and of its instances: it rejects modules
// that are too much work for the compiler (package compilecost) and limits the growth
// of tables. Package wasm checks counts and sizes.
//
// # What is added
//
// Three mutable i64 globals, exported under reserved names, and one function:
//
//   - slice: units left until the next scheduling point;
//   - rest: units left in the budget after the slice;
//   - depth: units of call depth left;
//   - refill: called by a check that finds slice below zero. It moves the next
//     slice out of rest and executes memory.grow 0, which wazero handles in Go,
//     so that a garbage collection does not have to wait for the call. If rest is
//     used up, it traps.
//
// All of them are appended. Package wasm guarantees that every index in the module
// is below the first appended one, so the guest can neither read nor write them.
//
// The module's own mutable globals are exported as well, so that the host can restore
// an instance to an earlier state. Info.Restorable reports whether the globals and the
// memory are the whole state.
//
// Before a call the host writes Split(budget) to slice and rest, and its limit to
// depth. After the call, Used returns what it cost, however it ended. After a trap,
// Exhausted and TooDeep distinguish the traps of this package from the guest's own.
//
// # What it costs
//
//   - 1 unit for each iteration of a loop, charged at its head, and 1 for each entry
//     into a function. A function that runs straight into a loop, as every function
//     of Go does, is charged only at the loop;
//   - 1 unit for each StretchWeight of instructions executed since the last charge,
//     so that code without loops is not free. An instruction weighs 1, a slow one
//     more: a memory access 8, a division 16, a call 4 plus 1 for each operand;
//   - BulkBase units for a bulk instruction, plus 1 for every 32 bytes (memory.fill,
//     memory.copy, memory.init), 1 for every 8 elements (table.fill, table.copy,
//     table.init, table.grow), or 64 for every page (memory.grow). They are charged
//     before the instruction, even if it then fails.
//
// Hence, whatever the guest does, weight ≤ units × (StretchWeight + entryWeight).
// Charges inside a stretch are not checked until the next loop head or function
// entry, so a call may exceed its budget slightly and still return. The cost depends
// on the path alone, not on slices, so it is the same in every run.
//
// Depth is charged for each frame of a function that calls others: 4, plus 1 for each
// parameter, local, result and 8 bytes of code, and for each value beyond the first
// that its calls and blocks yield. Functions without calls cost no depth.
package fuel

import "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"

// Version identifies the rewriting. It changes whenever the output for any module
// changes, so it must be part of the key of every cache of outputs.
const Version = "10"

// ReservedPrefix is the prefix of the names of all exports that this package adds.
// A module that already exports such a name is rejected.
const ReservedPrefix = "sluice.fuel."

// Names of the exported globals, all of type i64.
const (
	ExportSlice = ReservedPrefix + "slice"
	ExportRest  = ReservedPrefix + "rest"
	ExportDepth = ReservedPrefix + "depth"
)

// ExportGlobal, followed by an index, is the name under which a mutable global of
// the module is exported, so that the host can restore it to an earlier value.
const ExportGlobal = ReservedPrefix + "global."

// MaxGlobals bounds how many mutable globals are exported. If a module has more,
// none is exported. Compilers emit a handful.
const MaxGlobals = 256

// StretchWeight is the weight of the instructions that one unit covers.
const StretchWeight = 64

// BulkBase is the fixed cost of a bulk instruction in units, charged in addition to
// the cost of its length.
const BulkBase = 4

// Defaults of Options.
const (
	DefaultSliceUnits    = 10_000
	DefaultInitialUnits  = 1 << 20
	DefaultInitialDepth  = 1 << 16
	DefaultTableElements = 1 << 17
)

// Options are the parameters of the rewriting. The zero value is ready to use.
type Options struct {
	// SliceUnits is the number of units between two scheduling points.
	// Zero means DefaultSliceUnits.
	SliceUnits int64

	// InitialUnits is the budget in the globals until the host writes them.
	// Only a start function runs on it. Zero means DefaultInitialUnits.
	InitialUnits int64

	// InitialDepth is the depth in the global until the host writes it.
	// Zero means DefaultInitialDepth.
	InitialDepth int64

	// TableElements bounds the length of each table: a larger maximum is
	// lowered, and a larger minimum is an error. Zero means
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
// sliceUnits is Options.SliceUnits; zero means DefaultSliceUnits.
func Split(budget, sliceUnits int64) (slice, rest int64) {
	if sliceUnits <= 0 {
		sliceUnits = DefaultSliceUnits
	}
	slice = min(budget, sliceUnits)
	return slice, budget - slice
}

// Used returns how many units of a budget a call has used, from the globals' values
// after it. The result can exceed the budget.
func Used(budget, slice, rest int64) int64 { return budget - slice - rest }

// Exhausted reports, from the globals' values after a trap, whether the call
// trapped because its budget was used up.
func Exhausted(slice, rest int64) bool { return slice+rest < 0 }

// TooDeep reports, from the global's value after a trap, whether the call trapped
// because it exceeded the limit of the call depth.
func TooDeep(depth int64) bool { return depth < 0 }

// Info describes a module before rewriting. It shares no memory with the module.
type Info struct {
	Imports []wasm.Import
	Exports []wasm.Export
	Memory  wasm.Limits // in pages

	// Start is set if the module has a start function, which runs at
	// instantiation, on the initial budget.
	Start bool

	// Globals are the names under which the module's own mutable globals are
	// exported after rewriting. Restorable is set if a call can change nothing
	// but these and the memory: no code writes to a table or drops a segment, no
	// mutable global holds a reference, and Globals lists all of them.
	Globals    []string
	Restorable bool
}

// Rewrite returns the metered form of a module that package wasm accepts.
//
// It does not retain or modify module, and the output shares no memory with it.
// An error is always a *wasm.Error. The output may still be invalid, but the
// output for an invalid module is never valid.
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
