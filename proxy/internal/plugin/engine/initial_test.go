package engine_test

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
)

// initializing returns a guest whose _initialize adds 2 to a number from a data segment, and grows the memory.
func initializing() *w.Module {
	m := &w.Module{}
	m.ExportMemory(1, w.NoMax)
	m.Data(16, []byte{40})
	m.ExportFunc("_initialize", nil, nil, nil,
		w.I32Const(16), w.I32Const(16), w.I32Load, w.I32Const(2), w.I32Add, w.I32Store,
		w.I32Const(1), w.MemoryGrow, w.Drop)
	m.ExportFunc("get", nil, w.Types(w.I32), nil, w.I32Const(16), w.I32Load)
	m.ExportFunc("set", w.Types(w.I32), nil, nil, w.I32Const(16), w.LocalGet(0), w.I32Store)
	return m
}

func TestInstancesBeginAlike(t *testing.T) {
	for _, interpreter := range []bool{false, true} {
		m := compile(t, newEngine(t, engine.Options{Interpreter: interpreter}), initializing().Bytes())
		for n := range 5 {
			i := instantiate(t, m)
			if got := run(t, i, "get"); got != 42 {
				t.Errorf("instance %d begins with %d, want 42", n, got)
			}
			if got := i.Memory() >> 16; got != 2 {
				t.Errorf("instance %d begins with %d pages, want 2", n, got)
			}
			run(t, i, "set", 7)
		}
	}
}

// TestInitializationIsShared checks that instances from the third on do not run _initialize, which uses fuel, but start
// from an image of the memory after it.
func TestInitializationIsShared(t *testing.T) {
	m := compile(t, newEngine(t, engine.Options{}), initializing().Bytes())
	for n := range 4 {
		i := instantiate(t, m)
		if shared := i.Used() == 0; shared != (n >= 2) {
			t.Errorf("instance %d used %d units; want it to run _initialize: %v", n, i.Used(), n < 2)
		}
	}
}

func TestInitializationWithinLimits(t *testing.T) {
	m := compile(t, newEngine(t, engine.Options{}), initializing().Bytes())
	for range 3 {
		instantiate(t, m)
	}
	if _, err := m.Instantiate(t.Context(), nil, 1); err == nil {
		t.Error("Instantiate succeeded with less fuel than _initialize uses")
	} else {
		wantTrap(t, err, engine.OutOfFuel)
	}
	if err := m.LimitMemory(1); err != nil {
		t.Fatal(err)
	}
	if got := instantiate(t, m).Memory() >> 16; got != 1 {
		t.Errorf("%d pages, want 1, the limit", got)
	}
}

// TestInitializationWithHostIsRepeated checks that _initialize runs in each instance if it calls the host.
func TestInitializationWithHostIsRepeated(t *testing.T) {
	calls := 0
	e := newEngine(t, engine.Options{})
	if err := e.Provide("counter", []engine.Import{{Name: "count", Func: func(*engine.Instance, []uint64) { calls++ }}}); err != nil {
		t.Fatal(err)
	}
	m := &w.Module{}
	count := m.Import("counter", "count", nil, nil)
	m.ExportMemory(1, w.NoMax)
	m.ExportFunc("_initialize", nil, nil, nil, w.Call(count))
	compiled := compile(t, e, m.Bytes())
	for range 4 {
		instantiate(t, compiled)
	}
	if calls != 4 {
		t.Errorf("the host was called %d times for 4 instances, want 4", calls)
	}
}
