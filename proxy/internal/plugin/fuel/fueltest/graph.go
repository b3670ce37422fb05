package fueltest

//lint:file-ignore ST1001 modules are written in wasmtest's instructions

import (
	"math/rand/v2"

	. "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
)

// Locals of a function of basic blocks.
const (
	toLocal    = 0 // number of the next basic block
	stepsLocal = 1 // remaining jumps
	otherLocal = 2 // not read
)

// graph returns the code of a function of n basic blocks that jump to each other as in the output of Go's compiler,
// through a loop that begins with a branch table. values is the number of values in the table.
func (a *generator) graph(n, values int) Op {
	labels := make([]uint32, values+1)
	for v := range labels {
		labels[v] = uint32(a.IntN(n))
		if a.IntN(12) == 0 {
			labels[v] = uint32(n + 1) // out of the function
		}
	}
	code := Code(LocalGet(toLocal), BrTable(labels...))
	for i := range n {
		code = Code(Block(Void, code), a.basicBlock(n-1-i, values))
	}
	after := Block(Void, I32Const(int32(a.IntN(values))), LocalSet(toLocal), Br(0)) // has the depth of the loop
	return Code(I32Const(40), LocalSet(stepsLocal), Loop(Void, code), after, a.piece())
}

// basicBlock returns a basic block. loop is the label of the loop.
func (a *generator) basicBlock(loop, values int) Op {
	out := a.piece()
	for range a.IntN(4) {
		switch a.IntN(5) {
		case 0:
			out = Code(out, a.choice(), If(Void, a.jump(loop+1, values)), a.piece())
		case 1:
			// Blocks with the same depth as blocks that have ended.
			out = Code(out, Block(Void, a.choice(), BrIf(0), Block(Void, a.piece(), a.choice(), BrIf(1)), a.jump(loop+1, values)), a.piece())
		case 2:
			out = Code(out, a.choice(), If(Void, a.jump(loop+1, values), Else, a.piece()))
		case 3:
			out = Code(out, a.piece())
		case 4:
			out = Code(out, a.jump(loop, values), a.piece())
		}
	}
	return out
}

// jump jumps to a random basic block, or returns if no jumps are left.
func (a *generator) jump(loop, values int) Op {
	to := I32Const(int32(a.IntN(values + 3)))
	count := Code(LocalGet(stepsLocal), I32Const(1), I32Sub, LocalTee(stepsLocal), I32Eqz, If(Void, Return))
	again := Br(uint32(loop))
	if loop > 0 && a.IntN(8) == 0 {
		return Code(to, LocalSet(toLocal), Br(0)) // sets the local, but does not branch to the loop
	}
	switch a.IntN(8) {
	case 0:
		return Code(count, to, LocalSet(toLocal), a.piece(), again)
	case 1:
		return Code(count, to, LocalTee(toLocal), LocalSet(otherLocal), again)
	case 2:
		return Code(count, to, LocalSet(toLocal), I32Const(int32(a.IntN(values))), LocalSet(otherLocal), again)
	case 3:
		return Code(count, I32Const(-int32(a.IntN(values)+1)), LocalSet(toLocal), again)
	}
	return Code(count, to, LocalSet(toLocal), again)
}

// RandomGraph returns a module whose exports "f" and "g" run a random graph of basic blocks. Their argument selects the
// first block; the branch table has a label for each argument below values. "g" also calls a function. Both measure
// themselves like RandomProgram.
func RandomGraph(seed uint64) (wasm []byte, values int) {
	a := &generator{Rand: rand.New(rand.NewPCG(seed, 23))}
	values = 1 + a.IntN(12)
	if seed%4 == 0 {
		values += 120 // so that some values take two bytes in LEB128
	}
	body := a.graph(1+a.IntN(10), values)
	return Page(func(m *Module) {
		a.addGlobals(m, seed)
		leaf := m.Func(none, none, none)
		m.ExportFunc("f", i32, none, Types(I32, I32), body)
		m.ExportFunc("g", i32, none, Types(I32, I32), Call(leaf), body)
	}), values
}
