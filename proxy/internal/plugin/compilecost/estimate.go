// Package compilecost estimates how long the runtime's compiler takes for a module, and rejects modules whose compile
// time is out of proportion to their size.
//
// Compile time grows with the size of a module, but some steps grow faster: with the square of the values that are live
// where paths meet, for each path and each level of loops; with the square of a function's basic blocks; and with the
// types of the module, for each function. A few kilobytes can thus keep the compiler busy for minutes, and it cannot be
// interrupted. So the time of these steps is estimated, in nanoseconds, before anything is compiled.
// BenchmarkCompileEstimate compares the estimate to the actual time.
//
// The package compiles nothing, and decodes nothing itself: callers pass it decoded instructions.
package compilecost

import "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"

const (
	// The limit of a module's work is baseWork plus workPerByte for each byte. The estimate for a large Go program
	// (esbuild, 14 MB) is 650 per byte, for SQLite, compiled by LLVM, 1,050.
	baseWork    = 5e9
	workPerByte = 1000

	// maxBlocks bounds the basic blocks of a function because the compiler recurses over them. A large Go program has
	// 15,000.
	maxBlocks = 1 << 15

	// maxLive bounds the sum of the live values over all basic blocks of a function, because the compiler keeps lists
	// of them, with 8 to 16 bytes for each. A large Go program has 300,000.
	maxLive = 1 << 24

	// Units of work, in nanoseconds.
	workPerPhi     = 4   // for each pair of values that meet, for each path and level of loops
	workPerPair    = 4   // for each pair of basic blocks
	workPerLive    = 60  // for each value that is live in a block
	workPerSearch  = 10  // for each block through which a read of a local is traced back
	workPerGlobal  = 800 // for each mutable global at each call, because it is reloaded after the call
	workPerOperand = 800 // for each parameter and result of a call
	workPerType    = 8   // for each type, in each function
	workPerWidest  = 4   // for each basic block of the largest function so far, in each function
)

// Estimate adds up the work of compiling the functions of one module. It is for one goroutine.
type Estimate struct {
	flow    flow
	types   int     // of the module
	globals int     // mutable globals
	limit   float64 // of work
	work    float64 // of the functions so far
	widest  int     // maximum number of basic blocks of a function so far
}

// New returns an Estimate for a module, without any functions yet.
func New(m *wasm.Module) *Estimate {
	e := &Estimate{types: len(m.Types), limit: baseWork + workPerByte*float64(len(m.Bytes))}
	for _, g := range m.Globals {
		if g.Mutable {
			e.globals++
		}
	}
	return e
}

// BeginFunction begins a function. locals includes its parameters.
func (e *Estimate) BeginFunction(locals, results int) { e.flow.reset(locals, results) }

// Note records the decoder's current instruction. It must be called for each instruction of the function, in order.
func (e *Estimate) Note(d *wasm.Decoder) { e.flow.note(d) }

// EndFunction adds the function to the module's work. It returns a *wasm.Error if the work, or a part of it, exceeds
// its limit.
func (e *Estimate) EndFunction(b *wasm.Body) error {
	f := &e.flow
	reject := func(detail string) error {
		return &wasm.Error{Reason: wasm.Limit, Section: "code", Function: b.Function, Offset: b.Entry, Detail: detail}
	}
	if f.blocks > maxBlocks {
		return reject("blocks and labels of branch tables")
	}
	e.widest = max(e.widest, f.blocks)
	work, live := f.work(e.globals)
	e.work += work + float64(e.types)*workPerType + float64(e.widest)*workPerWidest
	switch {
	case live > maxLive:
		return reject("locals and operands that are live across blocks")
	case e.work > e.limit:
		return reject("work of compiling locals, blocks, branches and calls")
	}
	return nil
}
