package fueltest

//lint:file-ignore ST1001 modules are written in wasmtest's instructions

import (
	"math/rand/v2"

	. "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
)

// Globals and locals of functions as Go's compiler generates them.
const (
	spGlobal   = 0 // i32, stack pointer
	hashGlobal = 1 // i64, checksum of the values read
	leftGlobal = 2 // i32, remaining jumps

	pcLocal      = 0 // number of the basic block
	spLocal      = 1
	numberLocal  = 2 // 2 to 4 are i64 numbers
	pointerLocal = 5 // 5 and 6 are i64 pointers
)

const (
	stackTop = 40_000
	page     = 65_536
)

// goGenerator generates random functions in the form of Go's compiler. Each has a frame, basic blocks, a loop with a
// branch table to the blocks, and calls with a return address below the frame. Its result is 1 if its caller must
// return as well.
type goGenerator struct {
	*rand.Rand
	self      int // index of the current function, which calls functions with higher indexes
	functions int
	panics    int   // index of the first of the four special functions after the others
	frame     int32 // size of the current function's frame
	wild      bool  // spLocal sometimes holds an address other than the stack pointer
	edge      bool  // pointers are near the end of the memory, where some accesses trap
}

// number returns code that pushes a constant or a value read from the frame or a local.
func (g *goGenerator) number() Op {
	switch g.IntN(4) {
	case 0:
		return I64Const(g.Int64N(1000))
	case 1:
		return Code(LocalGet(spLocal), g.at(Op{0x29, 3}, g.slot()))
	}
	return LocalGet(numberLocal + uint32(g.IntN(3)))
}

// slot returns a random offset in the frame, or in the arguments above it.
func (g *goGenerator) slot() int32 { return 8 * g.Int32N(g.frame/8+4) }

// at adds an offset to a memory access.
func (g *goGenerator) at(access Op, offset int32) Op { return Code(access, Op(U32(uint32(offset)))) }

// pointer returns code that accesses memory through a pointer, or changes the pointer. A pointer that happens to be
// near the stack does no harm, because it writes the same there in both forms of the module.
func (g *goGenerator) pointer() Op {
	p := pointerLocal + uint32(g.IntN(2))
	address := Code(LocalGet(p), I32WrapI64)
	offset := 8 * g.Int32N(4)
	switch g.IntN(6) {
	case 0:
		return Code(address, g.number(), g.at(Op{0x37, 3}, offset))
	case 1:
		return Code(address, g.at(Op{0x2d, 0}, offset+1), I64ExtendI32, LocalSet(numberLocal+uint32(g.IntN(3))))
	case 2:
		base := int64(1000 + 8*g.IntN(100))
		if g.edge {
			base = page - 8*int64(1+g.IntN(4))
		}
		return Code(I64Const(base), LocalTee(p), I32WrapI64, g.at(Op{0x29, 3}, 0), LocalSet(numberLocal))
	case 3:
		return Code(LocalGet(p), I64Const(8), I64Sub, LocalSet(p))
	}
	return Code(address, g.at(Op{0x29, 3}, offset), LocalSet(numberLocal+uint32(g.IntN(3))))
}

// straight returns straight code of a basic block.
func (g *goGenerator) straight() Op {
	var out Op
	if g.wild && g.IntN(4) == 0 {
		load := func(offset int32) Op {
			return Code(LocalGet(spLocal), g.at(Op{0x29, 3}, offset), LocalSet(numberLocal))
		}
		out = Code(I32Const(page-16), LocalSet(spLocal), load(0), load(8), g.condition(), I32Eqz, I32Eqz, If(Void, load(16)), GlobalGet(spGlobal), LocalSet(spLocal))
	}
	for range 1 + g.IntN(6) {
		switch g.IntN(7) {
		case 0:
			out = Code(out, LocalGet(spLocal), g.number(), g.at(Op{0x37, 3}, g.slot()))
		case 1:
			out = Code(out, LocalGet(spLocal), I64ExtendI32, I64Const(int64(g.slot())), I64Add, I32WrapI64, g.number(), g.at(Op{0x37, 3}, 0))
		case 2:
			out = Code(out, LocalGet(spLocal), g.at(Op{0x29, 3}, g.slot()), LocalSet(numberLocal+uint32(g.IntN(3))))
		case 3, 4:
			out = Code(out, g.pointer())
		case 5:
			out = Code(out, LocalGet(spLocal), I64ExtendI32, I64Const(int64(g.slot())), I64Add, I32WrapI64, g.at(Op{0x29, 3}, 8), LocalSet(numberLocal))
		case 6:
			out = Code(out, GlobalGet(hashGlobal), I64Const(31), I64Mul, g.number(), I64Add, GlobalSet(hashGlobal))
		}
	}
	return out
}

func (g *goGenerator) condition() Op {
	return Code(g.number(), I64Const(1<<g.IntN(4)), Op{0x83}, I64Eqz)
}

// push stores a return address and moves the stack pointer below it.
func (g *goGenerator) push(block int) Op {
	return Code(LocalGet(spLocal), I32Const(8), I32Sub, LocalTee(spLocal), GlobalSet(spGlobal),
		LocalGet(spLocal), I64Const(int64(g.self<<16|block)), I64Store)
}

// call calls another function, and branches to the label unwind if the caller must return as well.
func (g *goGenerator) call(block int, unwind uint32) Op {
	f := g.panics + g.IntN(4)
	if g.self+1 < g.functions && g.IntN(4) > 0 {
		f = g.self + 1 + g.IntN(g.functions-g.self-1)
	}
	return Code(g.push(block), I32Const(0), Call(uint32(f)), GlobalGet(spGlobal), LocalSet(spLocal), BrIf(unwind))
}

// leave pops the frame and the return address, and returns.
func (g *goGenerator) leave() Op {
	return Code(LocalGet(spLocal), I32Const(g.frame), I32Add, LocalTee(spLocal), GlobalSet(spGlobal),
		LocalGet(spLocal), I32Const(8), I32Add, LocalTee(spLocal), GlobalSet(spGlobal), I32Const(0), Return)
}

// jump sets pcLocal and branches to the loop. It leaves the function if no jumps are left.
func (g *goGenerator) jump(blocks int, loop uint32) Op {
	return Code(GlobalGet(leftGlobal), I32Const(1), I32Sub, GlobalSet(leftGlobal), GlobalGet(leftGlobal), I32Const(0), I32LtS, If(Void, g.leave()),
		I32Const(int32(1+g.IntN(blocks+1))), LocalSet(pcLocal), Br(loop))
}

// function returns the code of a function of n basic blocks.
func (g *goGenerator) function(n int) Op {
	g.frame = 8 * int32(1+g.IntN(8))
	labels := make([]uint32, n+1)
	for i := range labels {
		labels[i] = uint32(i)
	}
	labels[n] = uint32(n + 1)
	if g.IntN(2) == 0 {
		labels[n] = uint32(g.IntN(n))
	}
	code := Code(LocalGet(pcLocal), BrTable(labels...))
	for i := range n {
		loop := uint32(n - 1 - i)
		body := g.straight()
		if i == 0 {
			grow := Code(LocalGet(spLocal), I32Const(1000), I32LtU, If(Void, g.push(0), I32Const(0), Call(uint32(g.panics+1)), GlobalGet(spGlobal), LocalSet(spLocal), BrIf(loop+2)))
			if g.IntN(4) == 0 {
				grow = nil // as in functions that must not grow the stack
			}
			body = Code(grow, LocalGet(spLocal), I32Const(g.frame), I32Sub, LocalTee(spLocal), GlobalSet(spGlobal), body)
		}
		for range g.IntN(4) {
			switch g.IntN(6) {
			case 0:
				body = Code(body, g.condition(), If(Void, g.straight(), g.jump(n, loop+1)))
			case 1:
				body = Code(body, g.condition(), If(Void, g.straight(), g.call(i, loop+2)))
			case 2:
				body = Code(body, g.condition(), If(Void, g.push(i), I32Const(0), Call(uint32(g.panics)), GlobalGet(spGlobal), LocalSet(spLocal), BrIf(loop+2)))
			case 3:
				body = Code(body, g.condition(), If(Void, g.leave()))
			case 4:
				body = Code(body, g.condition(), If(Void, g.straight(), Else, g.straight()))
			case 5:
				body = Code(body, g.call(i, loop+1))
			}
			body = Code(body, g.straight())
		}
		if g.IntN(3) == 0 {
			body = Code(body, g.jump(n, loop))
		}
		code = Code(Block(Void, code), body)
	}
	return Code(GlobalGet(spGlobal), LocalSet(spLocal), Block(Void, Loop(Void, code)), I32Const(1))
}

// GoModule is a random module of functions in the form of Go's compiler. The export "f" calls the first one from its
// beginning, directly. The export "resume" calls the function whose index is its first argument through the table, to
// start at the basic block that is its second argument.
type GoModule struct {
	Wasm              []byte
	Functions, Blocks int
}

// RandomGoModule returns a module with the given number of functions, each with the given number of basic blocks.
func RandomGoModule(seed uint64, functions, blocks int) GoModule {
	g := &goGenerator{Rand: rand.New(rand.NewPCG(seed, 29)), functions: functions, panics: functions, edge: seed%5 == 0, wild: seed%7 == 0}
	return GoModule{g.module(blocks), functions, blocks}
}

func (g *goGenerator) module(blocks int) []byte {
	return Page(func(m *Module) {
		m.Global(I32, true, I32Const(stackTop))
		m.Global(I64, true, I64Const(g.Int64N(1000)))
		m.Global(I32, true, I32Const(60))
		for i, name := range []string{"sp", "hash", "left"} {
			m.Export(name, KindGlobal, uint32(i))
		}
		locals := Types(I32, I64, I64, I64, I64, I64)
		all := make([]uint32, g.functions)
		for i := range all {
			g.self = i
			all[i] = m.Func(i32, i32, locals, g.function(blocks))
		}
		// Two functions that always unwind: one by itself, the other because it calls the first.
		m.Func(i32, i32, Types(I32), GlobalGet(spGlobal), LocalSet(spLocal), LocalGet(spLocal), I32Const(16), I32Add, GlobalSet(spGlobal), I32Const(1))
		m.Func(i32, i32, Types(I32), GlobalGet(spGlobal), LocalSet(spLocal), I32Const(0), Call(uint32(g.panics)), GlobalGet(spGlobal), LocalSet(spLocal), Return)
		// A function that returns with another stack pointer, and one that calls it and passes its result on.
		m.Func(i32, i32, Types(I32), GlobalGet(spGlobal), LocalSet(spLocal), LocalGet(spLocal), I32Const(24), I32Add, GlobalSet(spGlobal), I32Const(0))
		m.Func(i32, i32, Types(I32), GlobalGet(spGlobal), LocalSet(spLocal), I32Const(0), Call(uint32(g.panics+2)), Return)
		m.Table(FuncRef, uint32(len(all)), NoMax)
		m.Elem(0, all...)
		m.ExportFunc("f", none, i32, none, I32Const(0), Call(all[0]))
		m.ExportFunc("resume", Types(I32, I32), i32, none, LocalGet(1), LocalGet(0), CallIndirect(m.Type(i32, i32), 0))
	})
}
