// Package fueltest runs WebAssembly modules with and without metering, for the tests of the packages that
// rewrite them. It has programs that exercise every instruction that is rewritten, generators of random ones,
// and a Go guest; Same* run them before and after a rewriting and compare what they do.
package fueltest

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/buildtest"
)

// features is what the gateway allows a guest.
const features = api.CoreFeaturesV2 &^ api.CoreFeatureSIMD

// BigBudget is more than any well-behaved call of these tests uses.
const BigBudget = 1 << 40

// NewRuntime returns a runtime of the gateway's kind, with a host module "env".
func NewRuntime(t testing.TB) wazero.Runtime {
	return newRuntimeWith(t, wazero.NewRuntimeConfigCompiler())
}

// NewInterpreter returns a runtime that compiles fast and runs slowly.
func NewInterpreter(t testing.TB) wazero.Runtime {
	return newRuntimeWith(t, wazero.NewRuntimeConfigInterpreter())
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

// Instance is a running module, rewritten or not.
type Instance struct {
	api.Module
	slice, rest, depth api.MutableGlobal // nil if not rewritten
}

// Instantiate makes an instance.
func Instantiate(t testing.TB, rt wazero.Runtime, wasm []byte) Instance {
	t.Helper()
	i, err := TryInstantiate(t, rt, wasm)
	if err != nil {
		t.Fatalf("instantiate: %v", err)
	}
	return i
}

// TryInstantiate makes an instance, if the module can be instantiated. It must be valid.
func TryInstantiate(t testing.TB, rt wazero.Runtime, wasm []byte) (Instance, error) {
	t.Helper()
	ctx := context.Background()
	c, err := rt.CompileModule(ctx, wasm)
	if err != nil {
		t.Fatalf("compile: %v", err)
	}
	m, err := rt.InstantiateModule(ctx, c, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		return Instance{}, err
	}
	t.Cleanup(func() { m.Close(ctx) })
	return InstanceOf(m), nil
}

// InstanceOf finds the globals of the metering.
func InstanceOf(m api.Module) Instance {
	i := Instance{Module: m}
	if g := m.ExportedGlobal(fuel.ExportSlice); g != nil {
		i.slice = g.(api.MutableGlobal)
		i.rest = m.ExportedGlobal(fuel.ExportRest).(api.MutableGlobal)
		i.depth = m.ExportedGlobal(fuel.ExportDepth).(api.MutableGlobal)
	}
	return i
}

// SetBudget prepares a rewritten module for a call.
func (i Instance) SetBudget(budget int64) {
	if i.slice == nil {
		return
	}
	slice, rest := fuel.Split(budget, 0)
	i.slice.Set(uint64(slice))
	i.rest.Set(uint64(rest))
	i.depth.Set(fuel.DefaultInitialDepth)
}

// Account reads what a call did.
func (i Instance) Account(budget int64, err error) Outcome {
	o := Outcome{Err: err}
	if i.slice == nil {
		return o
	}
	slice, rest := int64(i.slice.Get()), int64(i.rest.Get())
	o.Used = fuel.Used(budget, slice, rest)
	o.Exhausted = fuel.Exhausted(slice, rest)
	o.Depth = int64(i.depth.Get())
	o.TooDeep = fuel.TooDeep(o.Depth)
	return o
}

// Outcome is what a call did.
type Outcome struct {
	Results   []uint64
	Err       error
	Used      int64
	Exhausted bool
	TooDeep   bool
	Depth     int64 // given back if the call returned
}

// Call runs an exported function. For a rewritten module it sets the budget and
// the depth before and reads the account afterwards.
func (i Instance) Call(t testing.TB, budget int64, name string, args ...uint64) Outcome {
	t.Helper()
	i.SetBudget(budget)
	f := i.ExportedFunction(name)
	if f == nil {
		t.Fatalf("no export %q", name)
	}
	results, err := f.Call(context.Background(), args...)
	o := i.Account(budget, err)
	o.Results = results
	return o
}

// Meter returns the metered form of a module.
func Meter(t testing.TB, wasm []byte) []byte {
	t.Helper()
	out, _, err := fuel.Rewrite(wasm, fuel.Options{})
	if err != nil {
		t.Fatalf("meter: %v", err)
	}
	return out
}

// Memory returns a copy of an instance's memory.
func Memory(t testing.TB, i Instance) []byte {
	t.Helper()
	mem := i.Memory()
	b, ok := mem.Read(0, mem.Size())
	if !ok {
		t.Fatal("memory is not readable")
	}
	return bytes.Clone(b)
}

var goGuest = sync.OnceValues(func() ([]byte, error) {
	root, err := buildtest.ModuleRoot(".")
	if err != nil {
		return nil, err
	}
	job := buildtest.Guest(filepath.Join(root, "proxy/internal/plugin/fuel/fueltest/testdata/guest"), "")
	file, err := job.Run()
	if err != nil {
		return nil, err
	}
	return os.ReadFile(file)
})

// GoGuest returns the module of testdata/guest.
func GoGuest(t testing.TB) []byte {
	t.Helper()
	b, err := goGuest()
	if err != nil {
		t.Fatalf("build the Go guest: %v", err)
	}
	return b
}

// RunGoGuest instantiates a build of the Go guest and starts its runtime.
func RunGoGuest(t testing.TB, wasm []byte) Instance {
	t.Helper()
	rt := NewRuntime(t)
	wasi_snapshot_preview1.MustInstantiate(context.Background(), rt)
	i := Instantiate(t, rt, wasm)
	if o := i.Call(t, BigBudget, "_initialize"); o.Err != nil {
		t.Fatalf("_initialize: %v", o.Err)
	}
	return i
}

// Global is an exported global that can be written.
func Global(i Instance, name string) api.MutableGlobal {
	return i.ExportedGlobal(name).(api.MutableGlobal)
}
