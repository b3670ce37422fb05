package fuel_test

import (
	"math"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	. "github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel/fueltest"
	. "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
)

// workload is a guest that repeats one operation until its fuel is used up.
type workload struct {
	name     string
	build    func(m *Module)
	uncached bool // it loads from more memory than the caches hold
}

// repeat exports a function that repeats code in an endless loop. Its parameter is 0; locals 1 to 4 are an i32, an i64,
// an f32 and an f64.
func repeat(m *Module, code ...Op) {
	repeatAfter(m, nil, code...)
}

// repeatAfter is like repeat, but first runs other code once.
func repeatAfter(m *Module, first Op, code ...Op) {
	m.ExportFunc("f", i32, none, Types(I32, I64, F32, F64), first, Loop(Void, Code(code...), Br(0)))
}

// unaryOp applies an instruction to a local.
func unaryOp(local uint32, op ...byte) Op { return Code(LocalGet(local), Op(op), LocalSet(local)) }

// binaryOp applies an instruction to a local and another operand.
func binaryOp(local uint32, other Op, op ...byte) Op {
	return Code(LocalGet(local), other, Op(op), LocalSet(local))
}

const (
	pages  = 1024 // 64 MiB
	unroll = 100
)

// workloads returns guests whose operations are slow for their price, or might be.
func workloads() []workload {
	var all []workload
	add := func(name string, build func(m *Module)) { all = append(all, workload{name: name, build: build}) }
	plain := func(name string, code Op) {
		add(name, func(m *Module) { repeat(m, Repeat(unroll, code)) })
	}
	add("empty loop", func(m *Module) { repeat(m) })
	plain("i32.add", binaryOp(1, I32Const(3), 0x6a))
	plain("i64.mul", binaryOp(2, I64Const(3), 0x7e))
	plain("i32.div_u", Code(LocalGet(1), I32Const(-1), Op{0x72}, I32Const(3), Op{0x6e}, LocalSet(1)))
	plain("i32.rem_s", Code(I32Const(-5), LocalGet(1), I32Const(3), Op{0x72}, Op{0x6f}, LocalSet(1)))
	plain("i64.div_s", Code(I64Const(-1<<62), LocalGet(2), I64Const(3), Op{0x84}, Op{0x7f}, LocalSet(2)))
	plain("i64.rem_u", Code(I64Const(-1), LocalGet(2), I64Const(3), Op{0x84}, Op{0x82}, LocalSet(2)))
	plain("i64.rotl", binaryOp(2, LocalGet(2), 0x89))
	plain("i64.popcnt", unaryOp(2, 0x7b))
	plain("i64.clz", unaryOp(2, 0x79))
	plain("f64.add", binaryOp(4, F64Const(1.5), 0xa0))
	plain("f64.div", binaryOp(4, F64Const(1.5), 0xa3))
	plain("f64.sqrt", unaryOp(4, 0x9f))
	plain("f64.min", binaryOp(4, F64Const(1.5), 0xa4))
	plain("f64.nearest", unaryOp(4, 0x9e))
	plain("f64.copysign", binaryOp(4, F64Const(1.5), 0xa6))
	plain("f32.div", binaryOp(3, F32Const(1.5), 0x95))
	plain("f64.convert_i64_u", Code(LocalGet(2), Op{0xba}, LocalSet(4), LocalGet(4), Op{0xfc, 7}, LocalSet(2)))
	plain("i64.trunc_f64_u", Code(LocalGet(4), Op{0xb1}, LocalSet(2), LocalGet(2), Op{0xb9}, LocalSet(4)))
	plain("i32.trunc_sat_f32_s", Code(LocalGet(3), Op{0xfc, 0}, LocalSet(1), LocalGet(1), Op{0xb2}, LocalSet(3)))
	plain("select", Code(LocalGet(1), I32Const(5), LocalGet(1), Select, LocalSet(1)))
	plain("memory.size", Code(MemorySize, Drop))
	plain("i32.store", Code(I32Const(0), LocalGet(1), I32Store))
	plain("i32.load", Code(LocalGet(1), I32Load, LocalSet(1)))
	plain("store and load", Code(I32Const(0), LocalGet(1), I32Store, I32Const(0), I32Load, LocalSet(1)))
	plain("i64.load across lines", Code(I32Const(61), I64Load, LocalSet(2)))
	add("global.get and set", func(m *Module) {
		g := m.Global(I64, true, I64Const(0))
		repeat(m, Repeat(unroll, GlobalGet(g), I64Const(1), I64Add, GlobalSet(g)))
	})
	add("many locals", func(m *Module) {
		var code Op
		for i := range uint32(200) {
			code = Code(code, LocalGet(i), I32Const(1), I32Add, LocalSet((i+77)%200))
		}
		m.ExportFunc("f", i32, none, Values(200), Loop(Void, code, Br(0)))
	})
	add("branches that cannot be predicted", func(m *Module) {
		repeat(m, Repeat(unroll/4,
			LocalGet(2), I64Const(6364136223846793005), I64Mul, I64Const(1442695040888963407), I64Add, LocalTee(2),
			I64Const(0), I64LtS, If(Void, LocalGet(1), I32Const(3), I32Xor, LocalSet(1))))
	})
	add("br_table that cannot be predicted", func(m *Module) {
		repeat(m, Repeat(unroll/4,
			LocalGet(2), I64Const(6364136223846793005), I64Mul, I64Const(1442695040888963407), I64Add, LocalTee(2),
			I64Const(61), Op{0x88}, I32WrapI64,
			LocalSet(1),
			Block(Void, Block(Void, Block(Void, Block(Void, LocalGet(1), BrTable(0, 1, 2, 3))), Br(1)))))
	})
	add("call of a leaf", func(m *Module) {
		leaf := m.Func(none, none, none)
		repeat(m, Repeat(unroll, Call(leaf)))
	})
	add("call of a wide leaf", func(m *Module) {
		leaf := m.Func(Values(100), Values(100), none, Numbered(100, LocalGet))
		repeat(m, Repeat(100, I32Const(1)), Repeat(10, Call(leaf)), Repeat(100, Drop))
	})
	add("call_indirect", func(m *Module) {
		m.Table(FuncRef, 2, 2)
		leaf := m.Func(none, none, none)
		m.Elem(0, leaf)
		typ := m.Type(none, none)
		repeat(m, Repeat(unroll, I32Const(0), CallIndirect(typ, 0)))
	})
	add("deep recursion", func(m *Module) {
		deep := m.Func(i32, none, none, LocalGet(0), If(Void, LocalGet(0), I32Const(1), I32Sub, Call(0)))
		repeat(m, I32Const(3000), Call(deep))
	})
	add("recursion with large frames", func(m *Module) {
		code := Numbered(1000, func(i uint32) Op { return Code(LocalGet(i+1), I32Const(1), I32Add, LocalSet(i+1)) })
		sum := Numbered(1000, func(i uint32) Op { return Code(LocalGet(i+1), LocalGet(1), I32Add, LocalSet(1)) })
		deep := m.Func(i32, none, Values(1000), LocalGet(0), If(Void, code, LocalGet(0), I32Const(1), I32Sub, Call(0), sum))
		repeat(m, I32Const(8), Call(deep))
	})
	add("ref.func", func(m *Module) {
		leaf := m.Func(none, none, none)
		m.Elem(0, leaf)
		m.Table(FuncRef, 2, 2)
		repeat(m, Repeat(unroll, RefFunc(leaf), Drop))
	})
	add("table.get and set", func(m *Module) {
		m.Table(FuncRef, 2, 2)
		repeat(m, Repeat(unroll, I32Const(0), I32Const(1), TableGet(0), TableSet(0)))
	})
	add("table.size", func(m *Module) {
		m.Table(FuncRef, 2, 2)
		repeat(m, Repeat(unroll, TableSize(0), Drop))
	})
	for _, n := range []int32{0, 1, 100, 100_000} {
		add("table.fill of "+strconv.Itoa(int(n)), func(m *Module) {
			m.Table(FuncRef, 100_000, 100_000)
			repeat(m, I32Const(0), RefNull(FuncRef), I32Const(n), TableFill(0))
		})
		add("table.copy of "+strconv.Itoa(int(n)), func(m *Module) {
			m.Table(FuncRef, 100_001, 100_001)
			repeat(m, I32Const(0), I32Const(1), I32Const(n), TableCopy(0, 0), I32Const(1), I32Const(0), I32Const(n), TableCopy(0, 0))
		})
	}
	add("table.init of 1000", func(m *Module) {
		m.Table(FuncRef, 1000, 1000)
		f := m.Func(none, none, none)
		elems := make([]uint32, 1000)
		for i := range elems {
			elems[i] = f
		}
		m.PassiveElem(elems...)
		repeat(m, I32Const(0), I32Const(0), I32Const(1000), TableInit(0, 0))
	})
	add("table.grow by 0", func(m *Module) {
		m.Table(FuncRef, 0, 1<<17)
		repeat(m, Repeat(10, RefNull(FuncRef), I32Const(0), TableGrow(0), Drop))
	})
	add("table.grow by 1", func(m *Module) {
		m.Table(FuncRef, 0, 1<<17)
		repeat(m, Repeat(10, RefNull(FuncRef), I32Const(1), TableGrow(0), Drop))
	})
	add("table.grow by too much", func(m *Module) {
		m.Table(FuncRef, 0, 1<<17)
		repeat(m, Repeat(10, RefNull(FuncRef), I32Const(1<<20), TableGrow(0), Drop))
	})
	add("memory.grow by 0", func(m *Module) { repeat(m, Repeat(10, I32Const(0), MemoryGrow, Drop)) })
	add("memory.grow by too much", func(m *Module) { repeat(m, Repeat(10, I32Const(1<<15), MemoryGrow, Drop)) })
	for _, n := range []int32{0, 1, 16, 64, 256, 1000, 10_000, 100_000, 1 << 20, 16 << 20, 48 << 20} {
		grow := Code(I32Const(pages-1), MemoryGrow, I32Const(-1), I32Ne, If(Void, I32Const(0), I32Const(3), I32Const(64<<20-1), MemoryFill))
		add("memory.fill of "+strconv.Itoa(int(n)), func(m *Module) {
			repeatAfter(m, grow, I32Const(1), I32Const(7), I32Const(n), MemoryFill)
		})
		if n <= 24<<20 {
			add("memory.copy of "+strconv.Itoa(int(n)), func(m *Module) {
				repeatAfter(m, grow, I32Const(32<<20), I32Const(1), I32Const(n), MemoryCopy)
			})
		}
		add("memory.copy onto itself of "+strconv.Itoa(int(n)), func(m *Module) {
			repeatAfter(m, grow, I32Const(17), I32Const(1), I32Const(n), MemoryCopy)
		})
	}
	for _, n := range []int32{0, 16, 100_000} {
		add("memory.init of "+strconv.Itoa(int(n)), func(m *Module) {
			m.PassiveData(make([]byte, 100_000))
			repeatAfter(m, Code(I32Const(10), MemoryGrow, Drop), I32Const(1), I32Const(0), I32Const(n), MemoryInit(0))
		})
	}
	for _, kb := range []int32{16, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10} {
		mask := kb<<10 - 1
		add("load at random from "+strconv.Itoa(int(kb))+" KB", func(m *Module) {
			touch := Loop(Void, LocalGet(1), LocalGet(1), I32Store, LocalGet(1), I32Const(4096), I32Add, LocalTee(1), I32Const(mask-4096), I32LtU, BrIf(0))
			repeatAfter(m, Code(I32Const(pages-1), MemoryGrow, Drop, touch),
				Repeat(unroll,
					LocalGet(1), I32Const(1664525), I32Mul, I32Const(1013904223), I32Add, LocalTee(1), I32Const(mask&^7), I32And, I32Load,
					I32Const(0), I32And, LocalGet(1), I32Add, LocalSet(1)))
		})
		all[len(all)-1].uncached = kb > 1<<10
		add("chase from "+strconv.Itoa(int(kb))+" KB", func(m *Module) {
			// Every cache line contains the address of the next.
			n := (mask + 1) / 64
			fill := Loop(Void,
				LocalGet(1), I32Const(6), I32Shl,
				LocalGet(1), I32Const(1664525), I32Mul, I32Const(1013904223), I32Add, I32Const(n-1), I32And, I32Const(6), I32Shl, I32Store,
				LocalGet(1), I32Const(1), I32Add, LocalTee(1), I32Const(n-1), I32LtU, BrIf(0))
			repeatAfter(m, Code(I32Const(pages-1), MemoryGrow, Drop, fill, I32Const(0), LocalSet(1)), Repeat(unroll, LocalGet(1), I32Load, LocalSet(1)))
		})
		all[len(all)-1].uncached = kb > 1<<10
	}
	add("store into every line", func(m *Module) {
		repeatAfter(m, Code(I32Const(pages-1), MemoryGrow, Drop),
			Repeat(unroll, LocalGet(1), LocalGet(1), I32Store, LocalGet(1), I32Const(4160), I32Add, I32Const(1<<26-64), I32And, LocalSet(1)))
	})
	return all
}

func threadTime(t testing.TB) time.Duration {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// unitTime is the maximum processor time that a unit of fuel should buy, whatever a guest does with it. The budget of a
// call, 3 million units, is then 60 ms.
const unitTime = 20 * time.Nanosecond

// BenchmarkPrices runs guests that repeat one operation until their fuel is used up, and reports the processor time
// that a unit buys. It fails if that is far more than unitTime. Loads from more memory than the caches hold are exempt,
// because a price that covers them would be too high for ordinary code.
func BenchmarkPrices(b *testing.B) {
	for _, p := range workloads() {
		b.Run(p.name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			i := Instantiate(b, NewRuntime(b), Meter(b, Page(p.build)))
			const budget = 1_000_000
			best := math.Inf(1)
			for range b.N + 1 { // the first one also faults in the memory
				began := threadTime(b)
				used := int64(0)
				for used < budget {
					o := i.Call(b, budget, "f", 0)
					if !o.Exhausted {
						b.Fatal(o.Err)
					}
					used += o.Used
				}
				best = min(best, float64(threadTime(b)-began)/float64(used))
			}
			b.ReportMetric(best, "ns/unit")
			b.ReportMetric(0, "ns/op")
			if best > 3*float64(unitTime) && !p.uncached {
				b.Errorf("a unit buys %.0f ns, want at most about %v", best, unitTime)
			}
		})
	}
}
