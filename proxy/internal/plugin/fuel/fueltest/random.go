package fueltest

//lint:file-ignore ST1001 modules are written in wasmtest's instructions

import (
	"math/rand/v2"

	. "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
)

// generator generates random functions that measure themselves. Each piece of
// straight code adds its weight to global 0 and updates a checksum in global 1,
// which identifies the path.
type generator struct {
	*rand.Rand
	budget int // parts that may still be generated
	// Each loop counts down in a local of its own, so that it ends.
	local  uint32 // index of the next local
	locals []byte // types of the locals so far
}

const (
	countGlobal = 0
	sumGlobal   = 1
)

// piece returns straight code of a random weight.
func (a *generator) piece() Op {
	filler := a.IntN(40)
	// 12 instructions: 8 of weight 1, 4 of weight 2.
	weight := 8 + 4*2 + filler
	return Code(
		Repeat(filler/2, Code(I32Const(7), Drop)), Repeat(filler/2+filler%2, Code(I32Const(7), Drop)),
		GlobalGet(countGlobal), I64Const(int64(weight)), I64Add, GlobalSet(countGlobal),
		GlobalGet(sumGlobal), I64Const(31), I64Mul, I64Const(a.Int64N(1000)), I64Add, GlobalSet(sumGlobal),
		I32Const(0), Drop)
}

// choice pushes 0 or 1 depending on the checksum, so that a path depends on the code before it.
func (a *generator) choice() Op {
	return Code(GlobalGet(sumGlobal), I64Const(1<<a.IntN(6)), Op{0x83}, I64Eqz)
}

// forward picks a label that is not a loop's, because a branch to the head of a
// loop would skip its countdown. loops says which labels are loops, the innermost last.
func (a *generator) forward(loops []bool) (uint32, bool) {
	start := a.IntN(len(loops))
	for i := range loops {
		d := (start + i) % len(loops)
		if !loops[len(loops)-1-d] {
			return uint32(d), true
		}
	}
	return 0, false
}

// code returns a random sequence of pieces, blocks and branches inside the given labels, the innermost last.
func (a *generator) code(loops []bool) Op {
	var out Op
	for range 1 + a.IntN(5) {
		if a.budget--; a.budget < 0 || len(loops) > 12 {
			return append(out, a.piece()...)
		}
		switch a.IntN(9) {
		case 0, 1:
			out = append(out, a.piece()...)
		case 2:
			out = append(out, Block(Void, a.code(append(loops[:len(loops):len(loops)], false)))...)
		case 3:
			out = append(out, Code(a.choice(), If(Void, a.code(append(loops[:len(loops):len(loops)], false))))...)
		case 4:
			inner := append(loops[:len(loops):len(loops)], false)
			out = append(out, Code(a.choice(), If(Void, a.code(inner), Else, a.code(inner)))...)
		case 5:
			l := a.local
			a.local++
			a.locals = append(a.locals, I32)
			out = append(out, Code(I32Const(int32(1+a.IntN(4))), LocalSet(l),
				Loop(Void, a.code(append(loops[:len(loops):len(loops)], true)),
					LocalGet(l), I32Const(1), I32Sub, LocalTee(l), BrIf(0)))...)
		case 6:
			if d, ok := a.forward(loops); ok {
				out = append(out, Code(a.choice(), BrIf(d))...)
			}
		case 7:
			d1, _ := a.forward(loops)
			d2, _ := a.forward(loops)
			d3, ok := a.forward(loops)
			if ok {
				out = append(out, Code(Block(Void, a.choice(), BrTable(0, d1+1, d2+1, d3+1)), a.piece())...)
			}
		case 8:
			if a.IntN(2) == 0 {
				out = append(out, Code(a.choice(), If(Void, Return))...)
			} else if d, ok := a.forward(loops); ok {
				out = append(out, Code(a.piece(), Br(d), a.piece())...)
			}
		}
	}
	return out
}

// RandomProgram returns a module whose export "f" takes a random path through random blocks. It adds up the weight of
// the path in the global "count" and a checksum in the global "sum".
func RandomProgram(seed uint64) []byte {
	a := &generator{Rand: rand.New(rand.NewPCG(seed, 17)), budget: 20 + int(seed)}
	body := a.code([]bool{false})
	return Page(func(m *Module) {
		a.addGlobals(m, seed)
		if seed%2 == 0 {
			m.ExportFunc("f", none, none, a.locals, body)
			return
		}
		leaf := m.Func(none, none, none)
		m.ExportFunc("f", none, none, a.locals, Call(leaf), body)
	})
}

func (a *generator) addGlobals(m *Module, seed uint64) {
	m.Global(I64, true, I64Const(0))
	m.Global(I64, true, I64Const(int64(seed)))
	m.Export("count", KindGlobal, countGlobal)
	m.Export("sum", KindGlobal, sumGlobal)
}

// Repeat returns n copies of code.
func Repeat(n int, code ...Op) Op {
	var out Op
	one := Code(code...)
	for range n {
		out = append(out, one...)
	}
	return out
}
