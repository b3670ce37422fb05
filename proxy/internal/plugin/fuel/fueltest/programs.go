package fueltest

//lint:file-ignore ST1001 modules are written in wasmtest's instructions

import . "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"

// Program is a module with an exported function "f", and argument lists to call it with.
type Program struct {
	Name  string
	build func(m *Module)
	Args  [][]uint64
}

// one returns argument lists of one argument each.
func one(values ...uint64) (out [][]uint64) {
	for _, v := range values {
		out = append(out, []uint64{v})
	}
	return out
}

var (
	i32  = Types(I32)
	i64  = Types(I64)
	none = Types()
)

// addHelper adds a function that calls another function. Functions that call it are not leaves, so
// the rewriter charges them for depth and wraps their code in a block.
func addHelper(m *Module) uint32 {
	leaf := m.Func(i32, i32, none, LocalGet(0), I32Const(1), I32Add)
	return m.Func(i32, i32, none, LocalGet(0), Call(leaf))
}

// Programs exercise every instruction that the rewriters change, and every form of control flow.
var Programs = []Program{
	{"return inside nested blocks with a value", func(m *Module) {
		h := addHelper(m)
		m.ExportFunc("f", i32, i32, none,
			Block(Result(I32),
				Block(Void,
					Loop(Void,
						LocalGet(0), I32Const(10), I32Eq,
						If(Void, I32Const(77), LocalGet(0), Call(h), Return),
						LocalGet(0), I32Eqz, BrIf(1),
						LocalGet(0), I32Const(1), I32Sub, LocalSet(0),
						LocalGet(0), I32Const(100), I32GtS, BrIf(0),
					),
					I32Const(5), Br(1),
				),
				I32Const(6),
			),
			Call(h))
	}, one(0, 1, 10, 11, 200)},

	{"branch to the outermost label", func(m *Module) {
		h := addHelper(m)
		m.ExportFunc("f", i32, i32, none,
			LocalGet(0), Call(h),
			LocalGet(0), BrIf(0),
			Drop,
			Block(Void, Loop(Void, I32Const(9), Br(2))),
			I32Const(3))
	}, one(0, 1, 5)},

	{"branch table over every label", func(m *Module) {
		h := addHelper(m)
		m.ExportFunc("f", i32, i32, Types(I32),
			Block(Void,
				Block(Void,
					Loop(Void,
						Block(Void,
							LocalGet(1), I32Const(1), I32Add, LocalTee(1), I32Const(3), I32GtS, BrIf(2),
							LocalGet(0), BrTable(0, 1, 2, 3, 0),
						),
						I32Const(20), Call(h), Return,
					),
				),
				LocalGet(1), I32Const(30), I32Add, Return,
			),
			LocalGet(1), Call(h))
	}, one(0, 1, 2, 3, 4, 1000)},

	{"branch table with values and the function's label", func(m *Module) {
		h := addHelper(m)
		m.ExportFunc("f", i32, i32, none,
			Block(Result(I32),
				Block(Result(I32), I32Const(11), LocalGet(0), BrTable(0, 1, 2)),
				I32Const(100), I32Add,
			),
			Call(h))
	}, one(0, 1, 2, 3)},

	{"several results", func(m *Module) {
		pair := m.Func(i32, Types(I32, I64), none, LocalGet(0), I64Const(1<<40))
		m.ExportFunc("f", i32, Types(I32, I64, F64), none,
			LocalGet(0), I32Eqz,
			If(Void, I32Const(1), I64Const(2), F64Const(3), Return),
			LocalGet(0), Call(pair),
			LocalGet(0), I32Const(5), I32Eq,
			If(FuncType(m.Type(Types(I32, I64), Types(I32, I64))), I64Const(7), I64Add),
			F64Const(0.5))
	}, one(0, 1, 5)},

	{"blocks with parameters and several results", func(m *Module) {
		h := addHelper(m)
		swap := m.Type(Types(I32, I32), Types(I32, I32))
		m.ExportFunc("f", Types(I32, I32), i32, Types(I32, I32),
			LocalGet(0), LocalGet(1),
			Block(FuncType(swap), LocalSet(2), LocalSet(3), LocalGet(2), LocalGet(3)),
			Loop(FuncType(swap),
				LocalSet(2), I32Const(1), I32Sub, LocalTee(3), LocalGet(2),
				LocalGet(3), I32Const(3), I32GtS, BrIf(0)),
			I32Sub, Call(h))
	}, [][]uint64{{1, 2}, {3, 40}}},

	{"if without else", func(m *Module) {
		h := addHelper(m)
		m.ExportFunc("f", i32, i32, none,
			LocalGet(0),
			If(Void, LocalGet(0), Call(h), LocalSet(0)),
			LocalGet(0))
	}, one(0, 1, 9)},

	{"if with else and results", func(m *Module) {
		h := addHelper(m)
		m.ExportFunc("f", i32, i32, none,
			LocalGet(0),
			If(Result(I32), I32Const(4), Call(h), Else, I32Const(8), Return),
			I32Const(2), I32Mul)
	}, one(0, 1)},

	{"unreachable code is polymorphic", func(m *Module) {
		h := addHelper(m)
		m.ExportFunc("f", i32, i32, none,
			LocalGet(0),
			If(Result(I32),
				I32Const(1), Call(h), Return, I32Add, Drop, Loop(Void, Unreachable, I32Store, Br(0)), Select, Call(h), I32Add,
				Else,
				I32Const(2), Br(1), Call(h), MemoryGrow, MemoryFill, Return, I32Add,
			),
			Unreachable, I32Const(0), Drop)
	}, one(0, 1)},

	{"trap", func(m *Module) {
		h := addHelper(m)
		m.ExportFunc("f", i32, i32, none, I32Const(100), LocalGet(0), Call(h), I32Const(1), I32Sub, I32DivS)
	}, one(0, 7)},

	{"body that never reaches its end", func(m *Module) {
		h := addHelper(m)
		m.ExportFunc("f", i32, Types(I64, F32), none, LocalGet(0), Call(h), I32Const(3), I32Eq,
			If(Void, I64Const(9), F32Const(1.5), Return), Unreachable)
	}, one(0, 2)},

	{"call through a table", func(m *Module) {
		sig := m.Type(i32, i32)
		h := addHelper(m)
		double := m.Func(i32, i32, none, LocalGet(0), I32Const(2), I32Mul)
		other := m.Func(none, none, none)
		m.Table(FuncRef, 6, NoMax)
		m.Elem(1, h, double, other)
		m.ExportFunc("f", Types(I32, I32), i32, none, LocalGet(1), LocalGet(0), CallIndirect(sig, 0))
	}, [][]uint64{{0, 5}, {1, 5}, {2, 5}, {3, 5}, {4, 5}, {99, 5}}},

	{"recursion", func(m *Module) {
		// It is the only function, so its index is 0.
		m.ExportFunc("f", i64, i64, none,
			LocalGet(0), I64Const(2), I64LtS,
			If(Void, LocalGet(0), Return),
			LocalGet(0), I64Const(1), I64Sub, Call(0),
			LocalGet(0), I64Const(2), I64Sub, Call(0), I64Add)
	}, one(0, 1, 2, 15)},

	{"host calls", func(m *Module) {
		double := m.Import("env", "double", i64, i64)
		m.ExportFunc("f", i64, i64, none, LocalGet(0), Call(double), Call(double), I64Const(1), I64Add)
	}, one(0, 21)},

	{"locals of every type keep their values", func(m *Module) {
		h := addHelper(m)
		m.ExportFunc("f", Types(I32, I64), i64, Types(I32, I64, F32, F64, FuncRef, ExternRef, I64),
			LocalGet(0), Call(h), LocalSet(2), LocalGet(1), LocalSet(3),
			Loop(Void,
				LocalGet(8), LocalGet(3), I64Add, LocalSet(8),
				LocalGet(2), I32Const(1), I32Sub, LocalTee(2), BrIf(0)),
			LocalGet(8), LocalGet(2), I64ExtendI32, I64Add)
	}, [][]uint64{{1, 5}, {9, 1 << 33}}},

	{"a function that only begins like one of Go's, at the end of the memory", func(m *Module) {
		// Page gives the module one page of memory.
		sp := m.Global(I32, true, I32Const(65536-16))
		load := func(offset uint32) Op { return Code(LocalGet(1), Op{0x29, 3}, Op(U32(offset)), I32WrapI64) }
		m.ExportFunc("f", i32, i32, Types(I32),
			GlobalGet(sp), LocalSet(1), load(0), load(8), I32Add,
			LocalGet(0), If(Void, load(16), Drop))
	}, one(0, 1)},

	{"memory instructions", func(m *Module) {
		m.Data(8, []byte("hello, world"))
		p := m.PassiveData([]byte("passive data segment"))
		m.Global(I32, true, I32Const(3))
		m.ExportFunc("f", Types(I32, I32), i32, none,
			I32Const(100), I32Const(8), LocalGet(0), MemoryCopy,
			I32Const(200), I32Const(0xaa), LocalGet(0), MemoryFill,
			I32Const(300), LocalGet(1), LocalGet(0), MemoryInit(p),
			I32Const(400), I32Const(0), I32Const(0), MemoryInit(p),
			DataDrop(p),
			GlobalGet(0), LocalGet(0), I32Add, GlobalSet(0),
			I32Const(2), MemoryGrow, MemorySize, I32Add,
			I32Const(-1), MemoryGrow, I32Add,
			GlobalGet(0), I32Add)
	}, [][]uint64{{0, 0}, {12, 4}, {20, 0}, {21, 0}, {70_000, 0}}},

	{"table instructions", func(m *Module) {
		h := addHelper(m)
		m.Table(FuncRef, 8, NoMax)
		m.Table(FuncRef, 8, 100)
		m.Table(ExternRef, 2, 2)
		e := m.PassiveElem(h, 0, h)
		m.ExportFunc("f", Types(I32, I32), i32, none,
			I32Const(1), LocalGet(0), LocalGet(1), TableInit(e, 0),
			I32Const(0), I32Const(1), LocalGet(1), TableCopy(1, 0),
			I32Const(4), RefFunc(h), LocalGet(1), TableFill(1),
			RefNull(FuncRef), LocalGet(1), TableGrow(1),
			RefNull(FuncRef), I32Const(1000), TableGrow(1), I32Add,
			TableSize(1), I32Add,
			I32Const(0), I32Const(1), TableGet(1), TableSet(0),
			I32Const(4), TableGet(1), Op{0xd1}, I32Add,
			ElemDrop(e),
			I32Const(1), I32Const(0), CallIndirect(m.Type(i32, i32), 1), I32Add)
	}, [][]uint64{{0, 0}, {0, 1}, {0, 3}, {1, 2}, {2, 2}}},

	{"typed select and conversions", func(m *Module) {
		m.ExportFunc("f", i32, i64, none,
			I64Const(5), I64Const(-6), LocalGet(0), Op{0x1c, 1, I64},
			F64Const(1e30), Op{0xfc, 6}, I64Xor,
			LocalGet(0), Op{0xc0}, I64ExtendI32, I64Add)
	}, one(0, 1, 0x80)},

	{"long straight code", func(m *Module) {
		var body []Op
		for i := range 500 {
			body = append(body, LocalGet(0), I32Const(int32(i)), I32Add, LocalSet(0))
			if i%50 == 0 {
				body = append(body, Block(Void, LocalGet(0), I32Const(7), I32And, BrIf(0), LocalGet(0), I32Const(13), I32Mul, LocalSet(0)))
			}
		}
		m.ExportFunc("f", i32, i32, none, append(body, LocalGet(0))...)
	}, one(0, 1, 8)},

	{"start function", func(m *Module) {
		g := m.Global(I32, true, I32Const(1))
		s := m.Func(none, none, none, Loop(Void, GlobalGet(g), I32Const(2), I32Mul, GlobalSet(g), GlobalGet(g), I32Const(1000), I32LtS, BrIf(0)))
		m.Start(s)
		m.ExportFunc("f", none, i32, none, GlobalGet(g))
	}, [][]uint64{{}}},
}

// Module returns the module.
func (p Program) Module() []byte { return Page(p.build) }

// Page returns a module with a memory of one page and everything that build adds.
func Page(build func(m *Module)) []byte {
	var m Module
	m.ExportMemory(1, NoMax)
	build(&m)
	return m.Bytes()
}
