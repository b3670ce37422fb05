// Package fueltest runs WebAssembly modules with and without metering, for tests of the packages that
// rewrite modules. It has programs that exercise every instruction that the rewriters change, generators of
// random programs, and a Go guest. The functions Same* run a program before and after rewriting and compare
// the results.
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

// features are the WebAssembly features that the gateway allows.
const features = api.CoreFeaturesV2 &^ api.CoreFeatureSIMD

// BigBudget is more fuel than any well-behaved call in these tests uses.
const BigBudget = 1 << 40

// NewRuntime returns a compiling runtime, as the gateway uses, with a host module "env".
func NewRuntime(t testing.TB) wazero.Runtime {
	return newRuntimeWith(t, wazero.NewRuntimeConfigCompiler())
}

// NewInterpreter returns an interpreting runtime, which loads modules fast and runs them slowly.
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

// Instantiate compiles and instantiates a module, and fails the test on an error.
func Instantiate(t testing.TB, rt wazero.Runtime, wasm []byte) Instance {
	t.Helper()
	i, err := TryInstantiate(t, rt, wasm)
	if err != nil {
		t.Fatalf("instantiate: %v", err)
	}
	return i
}

// TryInstantiate compiles and instantiates a module. It returns an error if instantiation fails; an invalid module
// fails the test.
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

// InstanceOf returns an Instance for a running module, with the globals of the metering if it has them.
func InstanceOf(m api.Module) Instance {
	i := Instance{Module: m}
	if g := m.ExportedGlobal(fuel.ExportSlice); g != nil {
		i.slice = g.(api.MutableGlobal)
		i.rest = m.ExportedGlobal(fuel.ExportRest).(api.MutableGlobal)
		i.depth = m.ExportedGlobal(fuel.ExportDepth).(api.MutableGlobal)
	}
	return i
}

// SetBudget sets the budget and the depth for a call. It does nothing if the module is not metered.
func (i Instance) SetBudget(budget int64) {
	if i.slice == nil {
		return
	}
	slice, rest := fuel.Split(budget, 0)
	i.slice.Set(uint64(slice))
	i.rest.Set(uint64(rest))
	i.depth.Set(fuel.DefaultInitialDepth)
}

// Account returns the Outcome of a call, without results, from the globals of the metering.
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

// Outcome describes how a call ended and what it has used.
type Outcome struct {
	Results   []uint64
	Err       error
	Used      int64
	Exhausted bool
	TooDeep   bool
	Depth     int64 // depth left; all of it if the call returned
}

// Call calls an exported function. In a metered module it sets the budget and
// the depth first.
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

// GoGuest returns the compiled module of testdata/guest.
func GoGuest(t testing.TB) []byte {
	t.Helper()
	b, err := goGuest()
	if err != nil {
		t.Fatalf("build the Go guest: %v", err)
	}
	return b
}

// RunGoGuest instantiates the Go guest, rewritten or not, and starts its runtime.
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

// Global returns an exported mutable global.
func Global(i Instance, name string) api.MutableGlobal {
	return i.ExportedGlobal(name).(api.MutableGlobal)
}
