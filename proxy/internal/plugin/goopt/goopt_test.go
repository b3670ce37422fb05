package goopt_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel"
	. "github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel/fueltest"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/goopt"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"
	. "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
)

var (
	i32  = Types(I32)
	none = Types()
)

func optimize(t testing.TB, module []byte) []byte {
	t.Helper()
	out, _, err := goopt.Optimize(module)
	if err != nil {
		t.Fatalf("optimize: %v", err)
	}
	return out
}

// meterOptimized returns what the gateway runs if a plugin was built with the optimiser.
func meterOptimized(t testing.TB, module []byte) []byte {
	t.Helper()
	return Meter(t, optimize(t, module))
}

func TestOptimizedProgramsDoTheSame(t *testing.T)       { SamePrograms(t, meterOptimized) }
func TestOptimizedRandomProgramsDoTheSame(t *testing.T) { SameRandomPrograms(t, meterOptimized) }
func TestOptimizedGraphsDoTheSame(t *testing.T)         { SameGraphs(t, meterOptimized) }
func TestOptimizedGoFunctionsDoTheSame(t *testing.T)    { SameGoFunctions(t, meterOptimized) }
func TestOptimizedGoGuestDoesTheSame(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a Go guest twice; smaller programs run with -short")
	}
	SameGoGuest(t, meterOptimized)
}

// TestGoGuestIsOptimized fails if Go's compiler no longer generates the code that the optimiser looks for.
func TestGoGuestIsOptimized(t *testing.T) {
	if testing.Short() {
		t.Skip("builds guests in Go")
	}
	guest := GoGuest(t)
	m, err := wasm.Parse(guest)
	if err != nil {
		t.Fatal(err)
	}
	out, stats, err := goopt.Optimize(guest)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d functions, %d bytes became %d: %+v", len(m.Bodies), len(guest), len(out), stats)
	// The guest and its imports have some 60 functions, apart from the runtime.
	if stats.Copies < 10 || stats.Copies > len(m.Bodies)/2 {
		t.Errorf("copied %d of %d functions, want from 10 to half", stats.Copies, len(m.Bodies))
	}
	if stats.Shared < len(m.Bodies) {
		t.Errorf("%d accesses in %d functions share an address, want at least one per function", stats.Shared, len(m.Bodies))
	}
	if stats.Segments < 10_000 || stats.SegmentsMerged > 100 {
		t.Errorf("%d segments became %d, want at least 10,000 to become at most 100", stats.Segments, stats.SegmentsMerged)
	}
	before, after := RunGoGuest(t, Meter(t, guest)), RunGoGuest(t, Meter(t, out))
	for _, name := range []string{"digest", "words", "garbage"} {
		b, a := before.Call(t, BigBudget, name, 10_000), after.Call(t, BigBudget, name, 10_000)
		if b.Err != nil || a.Err != nil || a.Used > b.Used {
			t.Errorf("%s: %d units became %d; errors %v, %v", name, b.Used, a.Used, b.Err, a.Err)
		}
	}
}

func TestOptimizedModuleIsNotOptimizedAgain(t *testing.T) {
	once := optimize(t, GoGuest(t))
	again, stats, err := goopt.Optimize(once)
	if err != nil || !bytes.Equal(once, again) || stats != (goopt.Stats{}) {
		t.Errorf("the second run changed the module: %+v, %v", stats, err)
	}
}

func TestKeepsCustomSectionsExceptDebugInformation(t *testing.T) {
	out := optimize(t, Page(func(m *Module) {
		m.ExportFunc("f", none, none, none)
		m.Custom("name", []byte{0, 2, 1, 'm'})
		m.Custom("producers", []byte("go"))
		m.Custom(".debug_line", []byte("offsets"))
	}))
	m, err := wasm.Parse(out)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range m.Sections {
		if s.ID == wasm.SecCustom {
			names = append(names, string(s.Name))
		}
	}
	if want := []string{"name", "producers", goopt.Marker}; !slices.Equal(names, want) {
		t.Errorf("custom sections %q, want %q", names, want)
	}
}

// TestJumpCharges measures the cost of a chain of jumps: one unit for each backward jump, and a fraction of a unit for
// each forward jump.
func TestJumpCharges(t *testing.T) {
	const n = 50
	rt := NewRuntime(t)
	for _, c := range []struct {
		name       string
		step, from int
		min, max   int64
	}{
		{"forward", 1, 0, 1, n / 10},
		{"back", -1, n - 1, n, n + n/10},
	} {
		t.Run(c.name, func(t *testing.T) {
			labels := make([]uint32, n+1)
			for i := range labels {
				labels[i] = uint32(min(i, n-1))
			}
			code := Code(LocalGet(0), BrTable(labels...))
			for i := range n {
				leave := Code(I32Const(int32(i+c.step)), LocalSet(0), Br(uint32(n-1-i)))
				if i+c.step < 0 || i+c.step >= n {
					leave = Return
				}
				code = Code(Block(Void, code), leave)
			}
			module := Page(func(m *Module) { m.ExportFunc("f", i32, none, none, Loop(Void, code)) })
			got := Instantiate(t, rt, meterOptimized(t, module)).Call(t, 1000, "f", uint64(c.from))
			if got.Err != nil || got.Used < c.min || got.Used > c.max {
				t.Errorf("used %d units, want %d to %d; error %v", got.Used, c.min, c.max, got.Err)
			}
		})
	}
}

// TestFlippedBits flips bits of a real guest: it is optimised or rejected.
func TestFlippedBits(t *testing.T) {
	if testing.Short() {
		t.Skip("optimises a guest in Go fifty times")
	}
	module := GoGuest(t)
	r := rand.New(rand.NewPCG(4, 5))
	variant := make([]byte, len(module))
	rejected, variants := 0, 50
	for range variants {
		copy(variant, module)
		variant[r.IntN(len(module))] ^= 1 << r.IntN(8)
		out, _, err := goopt.Optimize(variant)
		if (err == nil) == (out == nil) {
			t.Fatalf("output of %d bytes, error %v", len(out), err)
		}
		if err != nil {
			rejected++
		}
	}
	if rejected == 0 || rejected == variants {
		t.Errorf("rejected %d of %d variants, want some", rejected, variants)
	}
}

// FuzzOptimize compares metered modules with and without optimisation: a valid module must stay valid, and every export
// that returns in both must return the same.
func FuzzOptimize(f *testing.F) {
	for _, p := range Programs {
		f.Add(p.Module())
	}
	for seed := range uint64(8) {
		f.Add(RandomGoModule(seed, 2, 3).Wasm)
		graph, _ := RandomGraph(seed)
		f.Add(graph)
	}
	f.Add(Page(func(m *Module) {
		m.Data(0, []byte("ab"))
		m.Data(9, []byte("cd"))
		m.CountData()
	}))
	ctx := context.Background()
	f.Fuzz(func(t *testing.T, module []byte) {
		if len(module) > 1<<16 {
			return
		}
		out, _, err := goopt.Optimize(module)
		if err != nil {
			if e := (*wasm.Error)(nil); !errors.As(err, &e) || e.Error() == "" || out != nil {
				t.Fatalf("error %v of type %T, output of %d bytes", err, err, len(out))
			}
			return
		}
		metered, info, err := fuel.Rewrite(module, fuel.Options{})
		if err != nil {
			return
		}
		rt := NewInterpreter(t)
		valid, err := rt.CompileModule(ctx, metered)
		if err != nil {
			return
		}
		defer valid.Close(ctx)
		other, _, err := fuel.Rewrite(out, fuel.Options{})
		if err != nil {
			t.Fatalf("optimised: %v", err)
		}
		optimized, err := rt.CompileModule(ctx, other)
		if err != nil {
			t.Fatalf("optimised: %v", err)
		}
		optimized.Close(ctx)
		if len(info.Imports) > 0 || info.Start || info.Memory.Min > 16 {
			return
		}
		before, err := TryInstantiate(t, rt, metered)
		after, otherErr := TryInstantiate(t, rt, other)
		if (err == nil) != (otherErr == nil) {
			t.Fatalf("instantiate: %v, optimised: %v", err, otherErr)
		}
		if err != nil {
			return
		}
		for _, e := range info.Exports {
			if e.Kind != wasm.ExternFunc {
				continue
			}
			args := make([]uint64, len(e.Type.Params))
			want, got := before.Call(t, 20_000, e.Name, args...), after.Call(t, 20_000, e.Name, args...)
			if want.Err != nil || got.Err != nil {
				return // effects before a trap may differ
			}
			if !slices.Equal(want.Results, got.Results) || !bytes.Equal(Memory(t, before), Memory(t, after)) {
				t.Fatalf("%s = %v, optimised: %v; or memory differs", e.Name, want.Results, got.Results)
			}
		}
	})
}
