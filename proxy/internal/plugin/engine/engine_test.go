package engine_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/buildtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plenty is more fuel than any test uses up by accident: some seconds of guest code.
const plenty = 1 << 30

// newEngine returns an engine that provides the module "test" and is closed with the test.
func newEngine(tb testing.TB, o engine.Options, imports ...engine.Import) *engine.Engine {
	tb.Helper()
	e, err := engine.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := e.Close(); err != nil {
			tb.Error(err)
		}
	})
	if len(imports) == 0 {
		imports = noteImports
	}
	if err := e.Provide("test", imports); err != nil {
		tb.Fatal(err)
	}
	return e
}

func compile(tb testing.TB, e *engine.Engine, wasm []byte) *engine.Module {
	tb.Helper()
	m, err := e.Compile(context.Background(), tb.Name(), wasm)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := m.Close(); err != nil {
			tb.Error(err)
		}
	})
	return m
}

func instantiate(tb testing.TB, m *engine.Module) *engine.Instance {
	tb.Helper()
	return instantiateFor(tb, m, nil)
}

func instantiateFor(tb testing.TB, m *engine.Module, user any) *engine.Instance {
	tb.Helper()
	i, err := m.Instantiate(context.Background(), user, plenty)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(i.Close)
	return i
}

// function returns an exported function, which must exist.
func function(tb testing.TB, i *engine.Instance, name string) *engine.Func {
	tb.Helper()
	f, ok := i.Func(name)
	if !ok {
		tb.Fatalf("no function %q", name)
	}
	return f
}

// run calls an exported function, which must not fail.
func run(tb testing.TB, i *engine.Instance, name string, args ...uint64) uint64 {
	tb.Helper()
	result, err := i.Call(function(tb, i, name), plenty, args...)
	if err != nil {
		tb.Fatalf("%v\n%s", err, stackOf(err))
	}
	return result
}

// wantTrap fails the test unless err is a trap of the given kind.
func wantTrap(tb testing.TB, err error, want engine.Kind) *engine.Trap {
	tb.Helper()
	var trap *engine.Trap
	if !errors.As(err, &trap) {
		tb.Fatalf("error %v, want a trap: %v", err, want)
	}
	if trap.Kind != want {
		tb.Fatalf("trap %v, want %v\n%s", trap.Kind, want, trap.Stack())
	}
	if strings.Contains(trap.Error(), "\n") {
		tb.Errorf("error of more than one line: %q", trap.Error())
	}
	return trap
}

func stackOf(err error) string {
	var trap *engine.Trap
	if errors.As(err, &trap) {
		return trap.Stack()
	}
	return ""
}

// goGuest builds a guest from testdata, once for all tests.
func goGuest(tb testing.TB, name string) []byte {
	tb.Helper()
	guests.mu.Lock()
	defer guests.mu.Unlock()
	if wasm, ok := guests.built[name]; ok {
		return wasm
	}
	dir, err := filepath.Abs("testdata/" + name)
	if err != nil {
		tb.Fatal(err)
	}
	job := buildtest.Guest(dir, "")
	file, err := job.Run()
	if err != nil {
		tb.Fatal(err)
	}
	wasm, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	guests.built[name] = wasm
	return wasm
}

// guests holds what takes long to build and is not changed by tests: the Go guests, and an engine in which each is
// compiled once.
var guests = struct {
	mu       sync.Mutex
	built    map[string][]byte
	engine   *engine.Engine
	compiled map[string]*engine.Module
}{built: make(map[string][]byte), compiled: make(map[string]*engine.Module)}

// goModule returns a Go guest in the shared engine. Its output is added to the user value of the instance, if that is a
// *guestText.
func goModule(tb testing.TB, name string) *engine.Module {
	tb.Helper()
	wasm := goGuest(tb, name)
	guests.mu.Lock()
	defer guests.mu.Unlock()
	if guests.engine == nil {
		// With -short the machine code of earlier runs is used, because compiling takes seconds.
		cache := ""
		if testing.Short() {
			var err error
			if cache, err = buildtest.CacheDir("compiled"); err != nil {
				tb.Fatal(err)
			}
		}
		e, err := engine.New(engine.Options{CacheDir: cache, OutputBytes: sharedOutput, Output: func(i *engine.Instance, _ int32, p []byte) {
			if s, ok := i.User().(*guestText); ok {
				s.text.Write(p)
			}
		}})
		if err != nil {
			tb.Fatal(err)
		}
		if err := e.Provide("test", noteImports); err != nil {
			tb.Fatal(err)
		}
		guests.engine = e
	}
	m, ok := guests.compiled[name]
	if !ok {
		var err error
		if m, err = guests.engine.Compile(context.Background(), name, wasm); err != nil {
			tb.Fatal(err)
		}
		guests.compiled[name] = m
	}
	return m
}

// sharedOutput is the shared engine's limit of a call's output, in bytes.
const sharedOutput = 1 << 10

// guestText collects the standard output and error of a guest.
type guestText struct{ text strings.Builder }

// noteImports is the default of the module "test": note reads a text of the guest and returns its length.
var noteImports = []engine.Import{{
	Name:    "note",
	Params:  []engine.ValueType{engine.I32, engine.I32},
	Results: []engine.ValueType{engine.I32},
	Func: func(i *engine.Instance, stack []uint64) {
		p, ok := i.Read(uint32(stack[0]), uint32(stack[1]))
		if !ok {
			i.Stop()
			return
		}
		i.Charge(int64(1 + len(p)/16))
		stack[0] = uint64(len(p))
	},
}}
