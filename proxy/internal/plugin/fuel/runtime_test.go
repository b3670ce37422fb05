package fuel_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel"
)

// features is what the gateway allows a guest.
const features = api.CoreFeaturesV2 &^ api.CoreFeatureSIMD

// bigBudget is more than any well-behaved call of these tests uses.
const bigBudget = 1 << 40

// newRuntime returns a runtime of the gateway's kind, with a host module "env".
func newRuntime(t testing.TB) wazero.Runtime {
	return newRuntimeWith(t, wazero.NewRuntimeConfigCompiler())
}

func newRuntimeWith(t testing.TB, c wazero.RuntimeConfig) wazero.Runtime {
	t.Helper()
	ctx := context.Background()
	rt := wazero.NewRuntimeWithConfig(ctx, c.WithCoreFeatures(features).WithMemoryLimitPages(1024))
	t.Cleanup(func() { rt.Close(ctx) })
	_, err := rt.NewHostModuleBuilder("env").
		NewFunctionBuilder().WithFunc(func(v int64) int64 { return 2 * v }).Export("double").
		Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return rt
}

// instance is a running module, rewritten or not.
type instance struct {
	api.Module
	slice, rest, depth api.MutableGlobal // nil if not rewritten
}

func instantiate(t testing.TB, rt wazero.Runtime, wasm []byte) instance {
	t.Helper()
	ctx := context.Background()
	c, err := rt.CompileModule(ctx, wasm)
	if err != nil {
		t.Fatalf("compile: %v", err)
	}
	m, err := rt.InstantiateModule(ctx, c, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		t.Fatalf("instantiate: %v", err)
	}
	t.Cleanup(func() { m.Close(ctx) })
	return instanceOf(m)
}

func instanceOf(m api.Module) instance {
	i := instance{Module: m}
	if g := m.ExportedGlobal(fuel.ExportSlice); g != nil {
		i.slice = g.(api.MutableGlobal)
		i.rest = m.ExportedGlobal(fuel.ExportRest).(api.MutableGlobal)
		i.depth = m.ExportedGlobal(fuel.ExportDepth).(api.MutableGlobal)
	}
	return i
}

// setBudget prepares a rewritten module for a call.
func (i instance) setBudget(budget int64) {
	if i.slice == nil {
		return
	}
	slice, rest := fuel.Split(budget, 0)
	i.slice.Set(uint64(slice))
	i.rest.Set(uint64(rest))
	i.depth.Set(fuel.DefaultInitialDepth)
}

// account reads what a call did.
func (i instance) account(budget int64, err error) outcome {
	o := outcome{err: err}
	if i.slice == nil {
		return o
	}
	slice, rest := int64(i.slice.Get()), int64(i.rest.Get())
	o.used = fuel.Used(budget, slice, rest)
	o.exhausted = fuel.Exhausted(slice, rest)
	o.depth = int64(i.depth.Get())
	o.tooDeep = fuel.TooDeep(o.depth)
	return o
}

// outcome is what a call did.
type outcome struct {
	results   []uint64
	err       error
	used      int64
	exhausted bool
	tooDeep   bool
	depth     int64 // given back if the call returned
}

// call runs an exported function. For a rewritten module it sets the budget and
// the depth before and reads the account afterwards.
func (i instance) call(t testing.TB, budget int64, name string, args ...uint64) outcome {
	t.Helper()
	i.setBudget(budget)
	f := i.ExportedFunction(name)
	if f == nil {
		t.Fatalf("no export %q", name)
	}
	results, err := f.Call(context.Background(), args...)
	o := i.account(budget, err)
	o.results = results
	return o
}

func rewrite(t testing.TB, wasm []byte) []byte {
	t.Helper()
	out, _, err := fuel.Rewrite(wasm, fuel.Options{})
	if err != nil {
		t.Fatalf("rewrite: %v", err)
	}
	return out
}

func memoryOf(t testing.TB, i instance) []byte {
	t.Helper()
	mem := i.Memory()
	b, ok := mem.Read(0, mem.Size())
	if !ok {
		t.Fatal("memory is not readable")
	}
	return bytes.Clone(b)
}

// goGuest builds testdata/guest once.
var goGuest = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "fuel-guest")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "guest.wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w", "-o", file, "./testdata/guest")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if out, err := cmd.CombinedOutput(); err != nil {
		return out, err
	}
	return os.ReadFile(file)
})

func buildGoGuest(t testing.TB) []byte {
	t.Helper()
	b, err := goGuest()
	if err != nil {
		t.Fatalf("build the Go guest: %v\n%s", err, b)
	}
	return b
}

// runGoGuest instantiates a build of the Go guest and starts its runtime.
func runGoGuest(t testing.TB, wasm []byte) instance {
	t.Helper()
	rt := newRuntime(t)
	wasi_snapshot_preview1.MustInstantiate(context.Background(), rt)
	i := instantiate(t, rt, wasm)
	if o := i.call(t, bigBudget, "_initialize"); o.err != nil {
		t.Fatalf("_initialize: %v", o.err)
	}
	return i
}

// zeros is a host function that returns nothing but zeros.
func zeros(results int) api.GoFunc {
	return func(_ context.Context, stack []uint64) { clear(stack[:results]) }
}

// global is an exported global that can be written.
func global(i instance, name string) api.MutableGlobal {
	return i.ExportedGlobal(name).(api.MutableGlobal)
}
