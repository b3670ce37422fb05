package engine_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel"
	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
)

// covers: C17
func TestRejectsInvalidModules(t *testing.T) {
	i32 := w.Types(w.I32)
	with := func(edit func(m *w.Module)) []byte {
		m := &w.Module{}
		edit(m)
		return m.Bytes()
	}
	importing := func(module, name string, params, results []byte) []byte {
		return with(func(m *w.Module) {
			m.Import(module, name, params, results)
			m.ExportMemory(1, w.NoMax)
		})
	}
	tests := []struct {
		name string
		wasm []byte
		want string // in the error
	}{
		{"empty file", nil, "malformed"},
		{"not a module", []byte("#!/bin/sh\necho hello\n"), "malformed"}, // covers: F100
		{"a component", []byte("\x00asm\x0d\x00\x01\x00"), "malformed"},
		// covers: F97
		{"unknown module", importing("sock", "open", nil, nil), `import "sock" "open": no such module`},
		{"unknown function", importing("test", "steal", nil, nil), `import "test" "steal": no such function`},
		{"function that WASI does not have", importing("wasi_snapshot_preview1", "steal", nil, nil), `import "wasi_snapshot_preview1" "steal": no such function`},
		// covers: F97
		{"wrong signature", importing("test", "note", i32, i32), `import "test" "note" is (i32) -> i32, want (i32, i32) -> i32`},
		{"wrong signature of WASI", importing("wasi_snapshot_preview1", "proc_exit", w.Types(w.I64), nil), "is (i64) -> (), want (i32) -> ()"},
		{"no memory", with(func(m *w.Module) { m.ExportFunc("run", nil, nil, nil) }), "no memory"},
		{"imported memory", with(func(m *w.Module) {
			m.ImportRaw("test", "memory", w.KindMemory, []byte{0, 1})
			m.ExportFunc("run", nil, nil, nil)
		}), "only functions may be imported"},
		{"imported global", with(func(m *w.Module) {
			m.ImportRaw("test", "g", w.KindGlobal, []byte{w.I32, 0})
			m.ExportMemory(1, w.NoMax)
		}), "only functions may be imported"},
		{"memory that is not exported", with(func(m *w.Module) {
			m.Memory(1, w.NoMax)
			m.ExportFunc("run", nil, nil, nil)
		}), `does not export its memory as "memory"`},
		{"memory exported under another name", with(func(m *w.Module) {
			m.Export("mem", w.KindMemory, m.Memory(1, w.NoMax))
			m.ExportFunc("memory", nil, nil, nil)
		}), `does not export its memory as "memory"`},
		{"more memory than the limit", with(func(m *w.Module) { m.ExportMemory(17, w.NoMax) }), "begins with 2 MiB of memory, more than the limit of 1 MiB"},
		{"_initialize with a parameter", with(func(m *w.Module) {
			m.ExportMemory(1, w.NoMax)
			m.ExportFunc("_initialize", i32, nil, nil)
		}), `export "_initialize" is a function of type (i32) -> (), want a function of type () -> ()`},
		{"_initialize is a memory", with(func(m *w.Module) {
			m.ExportMemory(1, w.NoMax)
			m.Export("_initialize", w.KindMemory, 0)
		}), `export "_initialize" is a memory`},
		{"a program", with(func(m *w.Module) {
			m.ExportMemory(1, w.NoMax)
			m.ExportFunc("_start", nil, nil, nil)
		}), "build it as a library (a reactor)"},
		{"reserved export", with(func(m *w.Module) {
			m.ExportMemory(1, w.NoMax)
			m.ExportFunc(fuel.ExportSlice, nil, nil, nil)
		}), "reserved"},
		{"SIMD", guest(w.Op{0xfd, 0x0c, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, w.Drop).Bytes(), "SIMD"},
		{"invalid code", guest(w.I32Const(1)).Bytes(), "invalid function"},
		{"a huge table", with(func(m *w.Module) {
			m.ExportMemory(1, w.NoMax)
			m.Table(w.FuncRef, 1<<27, w.NoMax)
		}), "table"},
	}
	e := newEngine(t, engine.Options{MemoryPages: 16})
	cached := newEngine(t, engine.Options{MemoryPages: 16, CacheDir: t.TempDir()})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, e := range []*engine.Engine{e, cached} {
				_, err := e.Compile(context.Background(), "guest", test.wasm)
				if err == nil {
					t.Fatal("the invalid module was compiled")
				}
				if !strings.Contains(err.Error(), test.want) {
					t.Errorf("error %q, want it to contain %q", err, test.want)
				}
			}
		})
	}
}

func TestExportSignatures(t *testing.T) {
	m := &w.Module{}
	m.ExportMemory(1, w.NoMax)
	m.ExportFunc("one", w.Types(w.I32, w.I64), w.Types(w.F32), nil, w.F32Const(1))
	m.ExportFunc("two", nil, w.Types(w.I32, w.I32), nil, w.I32Const(1), w.I32Const(2))
	m.ExportFunc("ref", w.Types(w.ExternRef), nil, nil)
	module := compile(t, newEngine(t, engine.Options{}), m.Bytes())
	want := map[string]string{
		"one": "(i32, i64) -> f32",
		"two": "() -> (i32, i32)",
		"ref": "(externref) -> ()",
	}
	for name, signature := range module.Exports() {
		if want[name] != signature.String() {
			t.Errorf("export %q is %v, want %q", name, signature, want[name])
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("exports missing: %v", want)
	}
	i := instantiate(t, module)
	for _, name := range []string{"two", "ref", "none", "memory"} {
		if _, ok := i.Func(name); ok {
			t.Errorf("Func(%q) returned a function", name)
		}
	}
}

// TestCorruptModules flips bits and truncates: the module must be rejected with a reason, or run within its limits.
//
// covers: F100
func TestCorruptModules(t *testing.T) {
	e := newEngine(t, engine.Options{MemoryPages: 64})
	m := forwarding("test", forward{"note", w.Types(w.I32, w.I32), w.Types(w.I32)})
	m.Table(w.FuncRef, 2, 2)
	m.Global(w.I32, true, w.I32Const(3))
	loop := m.Func(w.Types(w.I32), w.Types(w.I32), w.Types(w.I64),
		w.Loop(w.Void, w.LocalGet(0), w.I32Const(1), w.I32Sub, w.LocalTee(0), w.BrIf(0)), w.GlobalGet(0))
	m.Elem(0, loop, loop)
	m.ExportFunc("run", nil, w.Types(w.I32), nil, w.I32Const(9), w.I32Const(0), w.CallIndirect(m.Type(w.Types(w.I32), w.Types(w.I32)), 0),
		w.I32Const(0), w.I32Const(7), w.I32Const(100), w.MemoryFill, w.I32Const(1), w.MemoryGrow, w.I32Add)
	m.Data(16, []byte("some bytes of data"))
	whole := m.Bytes()
	run(t, instantiate(t, compile(t, e, whole)), "run")

	variants := 10_000
	if testing.Short() {
		variants = 300
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var rejected, ran, trapped int
	for k := range variants {
		wasm := append([]byte(nil), whole...)
		if k%10 == 0 {
			wasm = wasm[:rng.IntN(len(wasm))]
		} else {
			for range 1 + k%3 {
				wasm[8+rng.IntN(len(wasm)-8)] ^= 1 << rng.IntN(8)
			}
		}
		module, err := e.Compile(context.Background(), "damaged", wasm)
		if err != nil {
			rejected++
			if strings.Contains(err.Error(), "panic in") {
				t.Errorf("variant %d: %v", k, err)
			}
			continue
		}
		i, err := module.Instantiate(context.Background(), nil, 100_000)
		if err == nil {
			if f, ok := i.Func("run"); ok {
				if _, err := i.Call(f, 100_000, make([]uint64, len(module.Exports()["run"].Params))...); err != nil {
					trapped++
				}
				ran++
			}
			i.Close()
		}
		if err := module.Close(); err != nil {
			t.Errorf("variant %d: %v", k, err)
		}
	}
	t.Logf("of %d variants %d were rejected, %d ran, %d of them trapped", variants, rejected, ran, trapped)
	if rejected == 0 || ran == 0 {
		t.Errorf("%d variants were rejected and %d ran, want some of both", rejected, ran)
	}
}

func TestCompileInParallel(t *testing.T) {
	e := newEngine(t, engine.Options{CacheDir: t.TempDir()})
	var group sync.WaitGroup
	for k := range 8 {
		group.Go(func() {
			// Two goroutines for each of four modules.
			m, err := e.Compile(context.Background(), "guest", guest(w.I32Const(int32(k/2)), w.Drop).Bytes())
			if err != nil {
				t.Error(err)
				return
			}
			for range 3 {
				i, err := m.Instantiate(context.Background(), nil, plenty)
				if err != nil {
					t.Error(err)
					continue
				}
				f, _ := i.Func("run")
				if _, err := i.Call(f, plenty); err != nil {
					t.Error(err)
				}
				i.Close()
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

func TestModuleLifetime(t *testing.T) {
	e := newEngine(t, engine.Options{})
	wasm := guest().Bytes()
	first, second := compile(t, e, wasm), compile(t, e, wasm)
	survivor := instantiate(t, first)
	for range 2 {
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := first.Instantiate(context.Background(), nil, plenty); err == nil {
		t.Error("a closed module was instantiated")
	}
	run(t, instantiate(t, second), "run")
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	run(t, survivor, "run")
	run(t, instantiate(t, compile(t, e, wasm)), "run")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	run(t, survivor, "run")
	if _, err := e.Compile(context.Background(), "late", wasm); err == nil {
		t.Error("a closed engine compiled a module")
	}
}

func TestCancelledContext(t *testing.T) {
	e := newEngine(t, engine.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := e.Compile(ctx, "guest", guest().Bytes()); !errors.Is(err, context.Canceled) {
		t.Errorf("compile: error %v", err)
	}
	if _, err := compile(t, e, guest().Bytes()).Instantiate(ctx, nil, plenty); !errors.Is(err, context.Canceled) {
		t.Errorf("instantiate: error %v", err)
	}
}

// slowSource is a module whose compilation blocks until it is released.
type slowSource struct {
	engine.Source
	began, release chan struct{}
	reads          atomic.Int32
}

func newSlowSource(wasm []byte) *slowSource {
	s := &slowSource{Source: engine.Bytes(wasm), began: make(chan struct{}, 10), release: make(chan struct{})}
	s.Read = func() ([]byte, error) {
		s.reads.Add(1)
		s.began <- struct{}{}
		<-s.release
		return wasm, nil
	}
	return s
}

func TestCompileEndsWithItsContext(t *testing.T) {
	// Keep, because the module may be compiled before the next caller asks for it.
	e := newEngine(t, engine.Options{Keep: true})
	slow := newSlowSource(guest().Bytes())
	ctx, cancel := context.WithCancel(t.Context())
	cancelled := make(chan error)
	go func() {
		_, err := e.CompileFrom(ctx, "guest", slow.Source)
		cancelled <- err
	}()
	<-slow.began
	cancel()
	if err := <-cancelled; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	// Other modules do not wait for it, and the next caller gets the result of the same compilation.
	run(t, instantiate(t, compile(t, e, guest(w.Nop).Bytes())), "run")
	compiled := make(chan *engine.Module)
	go func() {
		m, err := e.CompileFrom(t.Context(), "guest", slow.Source)
		if err != nil {
			t.Error(err)
		}
		compiled <- m
	}()
	close(slow.release)
	m := <-compiled
	run(t, instantiate(t, m), "run")
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if n := slow.reads.Load(); n != 1 {
		t.Errorf("compiled %d times, want once", n)
	}
}

func TestCloseDoesNotWaitForCompiler(t *testing.T) {
	e, err := engine.New(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	slow := newSlowSource(guest().Bytes())
	failed := make(chan error)
	go func() {
		_, err := e.CompileFrom(t.Context(), "guest", slow.Source)
		failed <- err
	}()
	<-slow.began
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	close(slow.release)
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("error %v, want one that says that the engine is closed", err)
	}
}

func TestProvide(t *testing.T) {
	nothing := func(*engine.Instance, []uint64) {}
	e := newEngine(t, engine.Options{})
	tests := []struct {
		name    string
		module  string
		imports []engine.Import
		want    string
	}{
		{"twice", "test", nil, "already provided"},
		{"WASI", "wasi_snapshot_preview1", nil, "already provided"},
		{"no name", "", nil, "needs a name"},
		{"no body", "a", []engine.Import{{Name: "f"}}, "lacks"},
		{"duplicate function", "b", []engine.Import{{Name: "f", Func: nothing}, {Name: "f", Func: nothing}}, "named twice"},
		{"two results", "c", []engine.Import{{Name: "f", Func: nothing, Results: []engine.ValueType{engine.I32, engine.I32}}}, "cannot call"},
		{"no such type", "d", []engine.Import{{Name: "f", Func: nothing, Params: []engine.ValueType{0x7b}}}, "cannot call"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if err := e.Provide(test.module, test.imports); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want it to contain %q", err, test.want)
			}
		})
	}
	compile(t, e, guest().Bytes())
	if err := e.Provide("late", nil); err == nil || !strings.Contains(err.Error(), "already been compiled") {
		t.Errorf("error %v for a module provided after the first compile", err)
	}
}
