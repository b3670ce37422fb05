package fuel_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/tetratelabs/wazero"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel"
	. "github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel/fueltest"
	. "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
)

var (
	i32  = Types(I32)
	i64  = Types(I64)
	none = Types()
)

// covers: C74
func TestCostIsAsDocumented(t *testing.T) {
	plain := Code(I32Const(1), Drop) // weight 1
	countdown := func(body ...Op) Op {
		return Loop(Void, Code(body...), LocalGet(0), I32Const(1), I32Sub, LocalTee(0), BrIf(0))
	}
	tests := []struct {
		name string
		code Op
		arg  uint64
		want int64
	}{
		{"empty function", nil, 0, 1},
		{"64 weights", Repeat(64, plain), 0, 1},
		{"65 weights", Repeat(65, plain), 0, 2},
		{"640 weights", Repeat(640, plain), 0, 10},
		{"641 weights", Repeat(641, plain), 0, 11},
		{"blocks are free", Repeat(1000, Nop, Block(Void)), 0, 1},
		{"loop at the entry", countdown(), 100, 100},
		{"loop soon after the entry", Code(Repeat(16, plain), countdown()), 100, 100},
		{"loop later", Code(Repeat(17, plain), countdown()), 100, 101},
		{"loop in a block at the entry", Block(Void, countdown()), 100, 100},
		{"loop after a block", Code(Block(Void), countdown()), 100, 101},
		{"nested loops", countdown(Loop(Void)), 10, 20},
		{"long loop", countdown(Repeat(64, plain)), 10, 20},
		{"loop head resets the weight", Code(Repeat(60, plain), Loop(Void, Repeat(60, plain))), 0, 2},
		{"bulk instruction resets the weight", Code(
			Repeat(50, plain), I32Const(0), I32Const(0), I32Const(0), MemoryFill, Repeat(60, plain)), 0, 1 + fuel.BulkBase},
		{"skipped code is not charged", Code(
			Block(Void, LocalGet(0), BrIf(0), Repeat(640, plain))), 1, 1},
		{"the same code is charged if it runs", Code(
			Block(Void, LocalGet(0), BrIf(0), Repeat(640, plain))), 0, 11},
		{"both arms of an if", Code(LocalGet(0), If(Void, Repeat(60, plain), Else, Repeat(60, plain)), Repeat(2, plain)), 0, 1},
		{"the heavier arm of an if counts", Code(LocalGet(0), If(Void, Repeat(60, plain), Else, Repeat(10, plain)), Repeat(3, plain)), 0, 2},
		{"6 loads", Repeat(6, Code(I32Const(0), Drop, I32Const(0), I32Load, Drop)), 0, 1},
		{"7 loads", Repeat(7, Code(I32Const(0), Drop, I32Const(0), I32Load, Drop)), 0, 2},
		{"3 divisions", Repeat(3, Code(I32Const(1), I32Const(1), I32DivS, Drop)), 0, 1},
		{"4 divisions", Repeat(4, Code(I32Const(1), I32Const(1), I32DivS, Drop)), 0, 2},
		{"memory.fill", Code(I32Const(0), I32Const(0), LocalGet(0), MemoryFill), 6400, 1 + fuel.BulkBase + 200},
		{"memory.copy", Code(I32Const(0), I32Const(0), LocalGet(0), MemoryCopy), 640, 1 + fuel.BulkBase + 20},
		{"memory.copy of nothing", Code(I32Const(0), I32Const(0), LocalGet(0), MemoryCopy), 0, 1 + fuel.BulkBase},
		{"memory.init", Code(I32Const(0), I32Const(0), LocalGet(0), MemoryInit(0)), 128, 1 + fuel.BulkBase + 4},
		{"memory.grow", Code(LocalGet(0), MemoryGrow, Drop), 3, 1 + fuel.BulkBase + 3*64},
		{"memory.grow that fails", Code(LocalGet(0), MemoryGrow, Drop), 1 << 16, 1 + fuel.BulkBase + 64<<16},
		{"table.fill", Code(I32Const(0), RefNull(FuncRef), LocalGet(0), TableFill(0)), 64, 1 + fuel.BulkBase + 8},
		{"table.copy", Code(I32Const(0), I32Const(0), LocalGet(0), TableCopy(0, 0)), 80, 1 + fuel.BulkBase + 10},
		{"table.init", Code(I32Const(0), I32Const(0), LocalGet(0), TableInit(0, 0)), 2, 1 + fuel.BulkBase},
		{"table.grow", Code(RefNull(FuncRef), LocalGet(0), TableGrow(0), Drop), 800, 1 + fuel.BulkBase + 100},
	}
	rt := NewRuntime(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wasm := Page(func(m *Module) {
				m.Table(FuncRef, 100, NoMax)
				m.PassiveData(make([]byte, 128))
				f := m.ExportFunc("f", i32, none, none, tt.code)
				m.PassiveElem(f, f)
			})
			i := Instantiate(t, rt, Meter(t, wasm))
			o := i.Call(t, BigBudget, "f", tt.arg)
			if o.Err != nil {
				t.Fatal(o.Err)
			}
			if o.Used != tt.want {
				t.Errorf("used %d units, want %d", o.Used, tt.want)
			}
		})
	}
}

func TestCallCostsOnePerEntry(t *testing.T) {
	wasm := Page(func(m *Module) {
		leaf := m.Func(none, none, none)
		middle := m.Func(none, none, none, Call(leaf), Call(leaf))
		m.ExportFunc("f", none, none, none, Call(middle), Call(middle), Call(leaf))
	})
	o := Instantiate(t, NewRuntime(t), Meter(t, wasm)).Call(t, BigBudget, "f")
	if o.Err != nil || o.Used != 8 {
		t.Errorf("used %d units, error %v; want 8", o.Used, o.Err)
	}
}

func TestFuelDependsOnPathOnly(t *testing.T) {
	rt := NewRuntime(t)
	for _, p := range Programs {
		t.Run(p.Name, func(t *testing.T) {
			wasm := p.Module()
			args := p.Args[len(p.Args)-1]
			want := Instantiate(t, rt, Meter(t, wasm)).Call(t, BigBudget, "f", args...)
			for _, slice := range []int64{1, 7, 1 << 40} {
				out, _, err := fuel.Rewrite(wasm, fuel.Options{SliceUnits: slice})
				if err != nil {
					t.Fatal(err)
				}
				if got := Instantiate(t, rt, out).Call(t, BigBudget, "f", args...); got.Used != want.Used {
					t.Errorf("slice %d: used %d units, want %d", slice, got.Used, want.Used)
				}
			}
		})
	}
}

func TestEndlessGuestsRunOutOfFuel(t *testing.T) {
	if testing.Short() {
		t.Skip("runs guests until their fuel is used up")
	}
	tests := []struct {
		name  string
		build func(m *Module)
	}{
		{"loop", func(m *Module) {
			m.ExportFunc("f", none, none, none, Loop(Void, Br(0)))
		}},
		{"loop by br_if", func(m *Module) {
			m.ExportFunc("f", none, none, none, Loop(Void, I32Const(1), BrIf(0)))
		}},
		{"loop by br_table out of inner blocks", func(m *Module) {
			m.ExportFunc("f", none, none, none, Loop(Void, Block(Void, Block(Void, I32Const(9), BrTable(0, 1, 2)))))
		}},
		{"loop with parameters", func(m *Module) {
			m.ExportFunc("f", none, none, none, I32Const(1), Loop(FuncType(m.Type(i32, none)), Br(0)))
		}},
		{"loop around an inner loop that ends", func(m *Module) {
			m.ExportFunc("f", none, none, none, Loop(Void, Loop(Void), Br(0)))
		}},
		{"loop after dead code", func(m *Module) {
			m.ExportFunc("f", none, none, none, Block(Void, Br(0), Loop(Void, Br(0))), Loop(Void, Br(0)))
		}},
		{"loop in a leaf called from a loop", func(m *Module) {
			leaf := m.Func(none, none, none, Loop(Void, Br(0)))
			m.ExportFunc("f", none, none, none, Loop(Void, Call(leaf), Br(0)))
		}},
		{"calls in a loop", func(m *Module) {
			leaf := m.Func(none, none, none)
			m.ExportFunc("f", none, none, none, Loop(Void, Call(leaf), Br(0)))
		}},
		{"exponential recursion without a loop", func(m *Module) {
			m.ExportFunc("f", none, none, none, I32Const(60), Call(1))
			m.Func(i32, none, none, LocalGet(0), If(Void,
				LocalGet(0), I32Const(1), I32Sub, Call(1),
				LocalGet(0), I32Const(1), I32Sub, Call(1)))
		}},
		{"exponential tree of functions without recursion", func(m *Module) {
			f := m.Func(none, none, none)
			for range 60 {
				f = m.Func(none, none, none, Call(f), Call(f))
			}
			m.Export("f", KindFunc, f)
		}},
		{"memory.fill of 48 MB in a loop", func(m *Module) {
			m.ExportFunc("f", none, none, none,
				I32Const(800), MemoryGrow, Drop,
				Loop(Void, I32Const(0), I32Const(1), I32Const(48<<20), MemoryFill, Br(0)))
		}},
		{"memory.copy without a loop", func(m *Module) {
			m.ExportFunc("f", none, none, none, Repeat(2_100, I32Const(0), I32Const(1), I32Const(65_000), MemoryCopy))
		}},
		{"memory.grow by 0 in a loop", func(m *Module) {
			m.ExportFunc("f", none, none, none, Loop(Void, I32Const(0), MemoryGrow, Drop, Br(0)))
		}},
		{"host calls in a loop", func(m *Module) {
			double := m.Import("env", "double", i64, i64)
			m.ExportFunc("f", none, none, none, Loop(Void, I64Const(1), Call(double), Drop, Br(0)))
		}},
		{"long straight code, called many times", func(m *Module) {
			long := m.Func(none, none, none, Repeat(8_000, I64Const(1), I64Const(3), Op{0x7f}, Drop))
			m.ExportFunc("f", none, none, none, Repeat(1_000, Call(long)))
		}},
	}
	const budget = 2_000_000
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rt := NewRuntime(t)
			i := Instantiate(t, rt, Meter(t, Page(tt.build)))
			o := i.Call(t, budget, "f")
			if o.Err == nil || !o.Exhausted || o.TooDeep {
				t.Fatalf("error %v, exhausted %v, too deep %v; want a trap out of fuel", o.Err, o.Exhausted, o.TooDeep)
			}
			// The last bulk instruction, or stretch between two checks, is charged in
			// full before the trap.
			if over := o.Used - budget; over <= 0 || over > 2_000_000 {
				t.Errorf("used %d units of a budget of %d", o.Used, budget)
			}
		})
	}
}

func TestGuestTrapsAreDistinguished(t *testing.T) {
	wasm := Page(func(m *Module) {
		m.ExportFunc("unreachable", none, none, none, Unreachable)
		m.ExportFunc("divide", none, none, none, I32Const(1), I32Const(0), I32DivS, Drop)
		m.ExportFunc("load", none, none, none, I32Const(-1), I32Load, Drop)
		m.ExportFunc("deeper", none, none, none, Call(0))
	})
	i := Instantiate(t, NewRuntime(t), Meter(t, wasm))
	for _, name := range []string{"unreachable", "divide", "load", "deeper"} {
		if o := i.Call(t, 1000, name); o.Err == nil || o.Exhausted || o.TooDeep {
			t.Errorf("%s: error %v, exhausted %v, too deep %v", name, o.Err, o.Exhausted, o.TooDeep)
		}
	}
}

func TestCallDepthIsLimited(t *testing.T) {
	many := make([]byte, 1000)
	for i := range many {
		many[i] = I64
	}
	tests := []struct {
		name    string
		build   func(m *Module)
		arg     uint64
		tooDeep bool
	}{
		{"a thousand frames", recursive(none), 1000, false},
		{"twelve thousand frames", recursive(none), 12_000, true},
		{"fifty frames with a thousand locals", recursive(many), 50, false},
		{"a hundred frames with a thousand locals", recursive(many), 100, true},
		{"endless recursion", func(m *Module) {
			m.ExportFunc("f", i32, none, none, LocalGet(0), Call(0))
		}, 0, true},
		{"endless recursion through a table", func(m *Module) {
			m.Table(FuncRef, 1, NoMax)
			f := m.ExportFunc("f", i32, none, none, LocalGet(0), I32Const(0), CallIndirect(m.Type(i32, none), 0))
			m.Elem(0, f)
		}, 0, true},
		{"endless mutual recursion with return", func(m *Module) {
			m.ExportFunc("f", i32, none, none, LocalGet(0), Call(1), Return)
			m.Func(i32, none, none, Block(Void, LocalGet(0), Call(0), Br(1)))
		}, 0, true},
		{"a leaf costs no depth", func(m *Module) {
			leaf := m.Func(none, none, floats(700))
			m.ExportFunc("f", i32, none, none, Loop(Void, Call(leaf), LocalGet(0), I32Const(1), I32Sub, LocalTee(0), BrIf(0)))
		}, 10_000, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			i := Instantiate(t, NewRuntime(t), Meter(t, Page(tt.build)))
			o := i.Call(t, BigBudget, "f", tt.arg)
			if (o.Err != nil) != tt.tooDeep || o.TooDeep != tt.tooDeep || o.Exhausted {
				t.Errorf("error %v, too deep %v, exhausted %v", o.Err, o.TooDeep, o.Exhausted)
			}
			if o.Err == nil && o.Depth != fuel.DefaultInitialDepth {
				t.Errorf("depth %d after a call that returned", o.Depth)
			}
		})
	}
}

// recursive exports f, whose argument is how many times it calls itself.
func recursive(locals []byte) func(m *Module) {
	return func(m *Module) {
		m.ExportFunc("f", i32, none, locals, LocalGet(0), If(Void, LocalGet(0), I32Const(1), I32Sub, Call(0)))
	}
}

// floats returns n locals of type f64.
func floats(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = F64
	}
	return out
}

func TestDepthIncludesCallResults(t *testing.T) {
	build := func(results int) func(m *Module) {
		return func(m *Module) {
			types := make([]byte, results)
			for i := range types {
				types[i] = I32
			}
			drops := Repeat(results, Drop)
			wide := m.Func(none, types, none, Repeat(results, I32Const(1)))
			body := Code(Call(wide), Call(1), drops)
			f := m.Func(none, none, none, body)
			m.Export("f", KindFunc, f)
		}
	}
	narrow := Instantiate(t, NewRuntime(t), Meter(t, Page(build(1)))).Call(t, BigBudget, "f")
	wide := Instantiate(t, NewRuntime(t), Meter(t, Page(build(500)))).Call(t, BigBudget, "f")
	if !narrow.TooDeep || !wide.TooDeep {
		t.Fatalf("too deep: %v with one result, %v with 500; want true", narrow.TooDeep, wide.TooDeep)
	}
	// Each level costs two units, one for each function, and with 500 results eight more for the call.
	if narrow.Used/2 < 25*wide.Used/10 {
		t.Errorf("used %d units up to the limit with one result, %d with 500", narrow.Used, wide.Used)
	}
}

func TestStartFunctionUsesInitialBudget(t *testing.T) {
	wasm := Page(func(m *Module) {
		m.Start(m.Func(none, none, none, Loop(Void, Br(0))))
	})
	rt := NewRuntime(t)
	ctx := context.Background()
	c, err := rt.CompileModule(ctx, Meter(t, wasm))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rt.InstantiateModule(ctx, c, wazero.NewModuleConfig()); err == nil {
		t.Error("an endless start function returned")
	}
}

func TestTableGrowthIsBounded(t *testing.T) {
	wasm := Page(func(m *Module) {
		m.Table(FuncRef, 1, NoMax)
		m.Table(ExternRef, 0, 1<<30)
		m.ExportFunc("f", i32, i32, none,
			RefNull(FuncRef), LocalGet(0), TableGrow(0),
			RefNull(ExternRef), LocalGet(0), TableGrow(1), I32Add)
	})
	i := Instantiate(t, NewRuntime(t), Meter(t, wasm))
	if o := i.Call(t, BigBudget, "f", 1000); o.Err != nil || o.Results[0] != 1 {
		t.Errorf("small growth: %v, %v", o.Results, o.Err)
	}
	if o := i.Call(t, BigBudget, "f", fuel.DefaultTableElements); o.Err != nil || int32(o.Results[0]) != -2 {
		t.Errorf("large growth: %v, %v; want -1 and -1", o.Results, o.Err)
	}
}

// TestGarbageCollectionDoesNotWaitForGuest runs a guest that loops until it sees a flag, which is set after a garbage
// collection. Without scheduling points neither would ever end.
func TestGarbageCollectionDoesNotWaitForGuest(t *testing.T) {
	wasm := Page(func(m *Module) {
		started := m.Import("test", "started", none, none)
		m.ExportFunc("f", none, none, none, Call(started), Loop(Void, I32Const(0), I32Load, I32Eqz, BrIf(0)))
	})
	rt := NewRuntime(t)
	started := make(chan struct{})
	_, err := rt.NewHostModuleBuilder("test").NewFunctionBuilder().
		WithFunc(func() { close(started) }).Export("started").Instantiate(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	i := Instantiate(t, rt, Meter(t, wasm))
	done := make(chan Outcome)
	go func() { done <- i.Call(t, 1<<60, "f") }()
	<-started
	for range 3 {
		runtime.GC()
	}
	i.Memory().WriteUint32Le(0, 1)
	if o := <-done; o.Err != nil {
		t.Error(o.Err)
	}
}

func TestSplitAndUsedAgree(t *testing.T) {
	for _, budget := range []int64{0, 1, fuel.DefaultSliceUnits, fuel.DefaultSliceUnits + 1, 1 << 50} {
		slice, rest := fuel.Split(budget, 0)
		if slice < 0 || rest < 0 || slice > fuel.DefaultSliceUnits || fuel.Used(budget, slice, rest) != 0 || fuel.Exhausted(slice, rest) {
			t.Errorf("Split(%d) = %d, %d", budget, slice, rest)
		}
	}
}
