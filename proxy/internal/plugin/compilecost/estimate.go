// Package compilecost estimates how long the runtime's compiler takes for a module, and refuses modules that would keep it busy
// out of proportion to their size.
//
// The compiler takes time that grows with the size of a module, and in some places faster: with the square of
// the values that are live where paths meet, for each path and each level of loops; with the square of a function's
// basic blocks; with the types of a module for each function. A few kilobytes can thus keep it busy for minutes, and it
// cannot be interrupted. So what it does beyond the usual for each byte is estimated before anything is compiled, in
// nanoseconds. BenchmarkCompileEstimate compares the two.
//
// It reads code that somebody else decodes, and compiles nothing.
package compilecost

import (
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"
)

const (
	// A module may take baseWork, and workPerByte for each of its bytes. A large Go program
	// (esbuild, 14 MB) is estimated at 650 for each byte, and SQLite, made by LLVM, at 1,050.
	baseWork    = 5e9
	workPerByte = 1000

	// maxBlocks bounds the basic blocks of a function: the compiler recurses over them. A large Go program has 15,000.
	maxBlocks = 1 << 15

	// maxLive bounds the values that are live in a function's basic blocks, summed over these: the compiler lists
	// them, in 8 to 16 bytes each. A large Go program has 300,000.
	maxLive = 1 << 24

	workPerPhi     = 4   // for each pair of values that meet, path, and level of loops
	workPerPair    = 4   // for each pair of basic blocks
	workPerLive    = 60  // for each value that is live in a block
	workPerSearch  = 10  // for each block that a read of a local is traced back through
	workPerGlobal  = 800 // for each mutable global at a call, after which it is loaded again
	workPerOperand = 800 // for each parameter and result of a call
	workPerType    = 8   // for each type, in each function
	workPerWidest  = 4   // for each basic block of the largest function so far, in each function
)

// Estimate adds up what compiling the functions of one module takes. One goroutine uses it.
type Estimate struct {
	flow    flow
	types   int
	globals int     // mutable ones
	limit   float64 // of work
	work    float64 // of the functions so far
	widest  int     // most basic blocks of a function so far
}

// New begins with no function of the module.
func New(m *wasm.Module) *Estimate {
	e := &Estimate{types: len(m.Types), limit: baseWork + workPerByte*float64(len(m.Bytes))}
	for _, g := range m.Globals {
		if g.Mutable {
			e.globals++
		}
	}
	return e
}

// BeginFunction begins a function with a number of locals, its parameters included.
func (e *Estimate) BeginFunction(locals, results int) { e.flow.reset(locals, results) }

// Note records the instruction that the decoder has read, the next one of the function.
func (e *Estimate) Note(d *wasm.Decoder) { e.flow.note(d) }

// EndFunction adds the function to the module's work. The error is a *wasm.Error: the work, or a part of it, is above its limit.
func (e *Estimate) EndFunction(b *wasm.Body) error {
	f := &e.flow
	refuse := func(detail string) error {
		return &wasm.Error{Reason: wasm.Limit, Section: "code", Function: b.Function, Offset: b.Entry, Detail: detail}
	}
	if f.blocks > maxBlocks {
		return refuse("blocks and labels of branch tables")
	}
	e.widest = max(e.widest, f.blocks)
	work, live := f.work(e.globals)
	e.work += work + float64(e.types)*workPerType + float64(e.widest)*workPerWidest
	switch {
	case live > maxLive:
		return refuse("locals and operands that are live across blocks")
	case e.work > e.limit:
		return refuse("work of compiling locals, blocks, branches and calls")
	}
	return nil
}

// Work is the estimate for the functions so far.
func (e *Estimate) Work() time.Duration { return time.Duration(e.work) }
