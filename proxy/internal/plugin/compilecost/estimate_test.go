package compilecost_test

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/compilecost"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel"
	. "github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel/fueltest"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"
	. "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
)

// nested wraps code in n nested blocks, each with the same instructions at its beginning and end.
func nested(n int, begin, code, end Op) Op {
	return Code(Repeat(n, begin), code, Repeat(n, end))
}

var (
	none      = Types()
	i32       = Types(I32)
	openBlock = Op{0x02, 0x40}
	openLoop  = Op{0x03, 0x40}
	openIf    = Code(LocalGet(0), Op{0x04, 0x40})
	condition = LocalGet(0)
)

// bomb is a kind of module whose compile time is out of proportion to its size.
type bomb struct {
	name  string
	build func(m *Module, n int) // n is the size
	small int                    // a size that compiles in a second or so
	large int                    // a size that is rejected
}

// f adds a function with one parameter and a number of locals.
func f(m *Module, locals int, code ...Op) { m.ExportFunc("f", i32, none, Values(locals), code...) }

// readAll reads locals 1 to n.
func readAll(n int) Op {
	return Numbered(n, func(i uint32) Op { return Code(LocalGet(i+1), Drop) })
}

var bombs = []bomb{
	{"locals live through consecutive loops", func(m *Module, n int) {
		f(m, n, Repeat(n, Loop(Void, condition, BrIf(0))), readAll(n))
	}, 400, 3000},
	{"locals live through nested loops", func(m *Module, n int) {
		f(m, n, nested(n, openLoop, readAll(n), Code(condition, BrIf(0), End)))
	}, 150, 1500},
	{"locals set in loops", func(m *Module, n int) {
		set := Numbered(n, func(i uint32) Op { return Code(condition, LocalSet(i+1)) })
		f(m, n, Repeat(n, Loop(Void, Block(Void, condition, BrIf(0), set), condition, BrIf(0))), readAll(n))
	}, 200, 1200},
	{"locals set in branches", func(m *Module, n int) {
		f(m, n, Numbered(n, func(i uint32) Op { return Code(condition, If(Void, condition, LocalSet(i+1))) }), readAll(n))
	}, 1000, 12000},
	{"locals and branches", func(m *Module, n int) {
		f(m, n, Block(Void, Numbered(n, func(i uint32) Op { return Code(condition, LocalSet(i+1), condition, BrIf(0)) })), readAll(n))
	}, 700, 6000},
	{"labels of a branch table", func(m *Module, n int) {
		f(m, 0, Block(Void, condition, BrTable(make([]uint32, n)...)))
	}, 10000, 1 << 20},
	{"branch tables with many locals", func(m *Module, n int) {
		set := Numbered(100, func(i uint32) Op { return Code(condition, LocalSet(i+1)) })
		f(m, 100, Block(Void, condition, BrIf(0), set, condition, BrTable(make([]uint32, n)...)), readAll(100))
	}, 5000, 1 << 20},
	{"consecutive blocks", func(m *Module, n int) {
		f(m, 0, Repeat(n, Block(Void, condition, BrIf(0))))
	}, 8000, 40000},
	{"nested blocks", func(m *Module, n int) { f(m, 0, nested(n, openBlock, nil, Code(condition, BrIf(0), End))) }, 8000, 40000},
	{"nested ifs", func(m *Module, n int) { f(m, 0, nested(n, openIf, nil, End)) }, 5000, 40000},
	{"nested loops", func(m *Module, n int) { f(m, 0, nested(n, openLoop, nil, Code(condition, BrIf(0), End))) }, 3000, 40000},
	{"reads far from the write", func(m *Module, n int) {
		f(m, 1, condition, LocalSet(1), Block(Void, Repeat(n, condition, BrIf(0))), Block(Void, Repeat(n, condition, BrIf(0)), Repeat(20*n, LocalGet(1), Drop)))
	}, 1000, 20000},
	{"operands live through branches", func(m *Module, n int) {
		f(m, 0, Repeat(n, condition), Repeat(n, Block(Void, condition, BrIf(0))), Repeat(n, Drop))
	}, 1500, 12000},
	{"operands of branches", func(m *Module, n int) {
		m.ExportFunc("f", i32, Values(900), none, Repeat(900, condition), Repeat(n, condition, BrIf(0)))
	}, 300, 12000},
	{"globals and calls", func(m *Module, n int) {
		for range n {
			m.Global(I32, true, I32Const(0))
		}
		leaf := m.Func(none, none, none)
		f(m, 0, Repeat(n, Call(leaf)))
	}, 1500, 50000},
	{"parameters of calls", func(m *Module, n int) {
		wide := m.Func(Values(900), Values(900), none, Numbered(900, LocalGet))
		f(m, 0, Repeat(900, condition), Repeat(n, Call(wide)), Repeat(900, Drop))
	}, 500, 500000},
	{"types and functions", func(m *Module, n int) {
		for k := range n {
			var params []byte
			for rest := k; rest > 0; rest /= 4 {
				params = append(params, []byte{I32, I64, F32, F64}[rest%4])
			}
			m.Type(params, none)
		}
		for range n {
			m.Func(none, none, none)
		}
	}, 5000, 60000},
	{"functions after a wide one", func(m *Module, n int) {
		f(m, 0, Repeat(10000, Block(Void, condition, BrIf(0))))
		for range n {
			m.Func(none, none, none)
		}
	}, 3000, 131000},
}

// cpuTime returns the processor time that this process has used.
func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// TestRejectsCompileBombs checks that modules that would keep the compiler busy for minutes are rejected at once. The
// second one, of 15 KB, took 139 s of processor time, and the branch table, of 1 MB, 169 s and 2.4 GB of memory.
func TestRejectsCompileBombs(t *testing.T) {
	for i, b := range bombs {
		t.Run(b.name, func(t *testing.T) {
			if testing.Short() && i%4 != 0 {
				t.Skip("runs one in four with -short")
			}
			module := Page(func(m *Module) { b.build(m, b.large) })
			_, _, err := fuel.Rewrite(module, fuel.Options{})
			if e, ok := errors.AsType[*wasm.Error](err); !ok || e.Reason != wasm.Limit {
				t.Fatalf("a module of %d bytes: got error %v, want one with reason %v", len(module), err, wasm.Limit)
			}
		})
	}
}

// BenchmarkCompileEstimate compiles smaller modules of the same kinds, and fails if one takes far longer than
// estimated.
func BenchmarkCompileEstimate(bench *testing.B) {
	for _, b := range bombs {
		bench.Run(b.name, func(t *testing.B) {
			module := Page(func(m *Module) { b.build(m, b.small) })
			estimate, err := compilecost.Of(module)
			if err != nil {
				t.Fatal(err)
			}
			out, _, err := fuel.Rewrite(module, fuel.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var took time.Duration
			for t.Loop() {
				rt := NewRuntime(t)
				began := cpuTime(t)
				if _, err := rt.CompileModule(t.Context(), out); err != nil {
					t.Fatal(err)
				}
				took = cpuTime(t) - began
			}
			t.ReportMetric(took.Seconds()/estimate.Seconds(), "of-estimate")
			if took > 3*estimate {
				t.Errorf("compiling %d bytes took %v, more than three times the estimate of %v", len(module), took, estimate)
			}
		})
	}
}
