package engine_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
)

// hosted returns an instance whose function "run" calls a host function, and then loops as many times as that returns.
func hosted(t *testing.T, f engine.HostFunc) (*engine.Instance, *engine.Func) {
	t.Helper()
	e := newEngine(t, engine.Options{}, engine.Import{Name: "host", Results: []engine.ValueType{engine.I32}, Func: f})
	m := &w.Module{}
	host := m.Import("test", "host", nil, w.Types(w.I32))
	m.ExportMemory(1, 4)
	m.ExportFunc("run", nil, w.Types(w.I32), w.Types(w.I32),
		w.Call(host), w.LocalSet(0),
		w.Loop(w.Void, w.LocalGet(0), w.I32Const(1), w.I32Sub, w.LocalTee(0), w.I32Const(0), w.I32GtS, w.BrIf(0)),
		w.I32Const(42))
	i := instantiate(t, compile(t, e, m.Bytes()))
	return i, function(t, i, "run")
}

func TestHostFunctionChargesFuel(t *testing.T) {
	tests := []struct {
		name string
		host func(i *engine.Instance)
		loop uint64
		fuel int64
		want engine.Kind // Unknown if the call succeeds
		used func(n int64) bool
	}{
		{"charges a little", func(i *engine.Instance) { i.Charge(500) }, 10, 10_000, engine.Unknown, func(n int64) bool { return n > 500 && n < 600 }},
		{"charges nothing", func(i *engine.Instance) { i.Charge(0) }, 10, 10_000, engine.Unknown, func(n int64) bool { return n > 0 && n < 100 }},
		{"negative charge", func(i *engine.Instance) { i.Charge(-5000) }, 10, 10_000, engine.Unknown, func(n int64) bool { return n > 0 && n < 100 }},
		{"charges more than a slice", func(i *engine.Instance) { i.Charge(70_000) }, 1000, 100_000, engine.Unknown, func(n int64) bool { return n > 71_000 && n < 72_000 }},
		{"charges all", func(i *engine.Instance) { i.Charge(10_000) }, 10, 10_000, engine.OutOfFuel, func(n int64) bool { return n == 10_000 }},
		{"charges too much, often", func(i *engine.Instance) {
			for range 20 {
				i.Charge(1<<63 - 1)
			}
		}, 10, 10_000, engine.OutOfFuel, func(n int64) bool { return n == 10_000 }},
		{"stops", (*engine.Instance).Stop, 10, 1 << 40, engine.Stopped, func(n int64) bool { return n > 0 && n < 100 }},
		{"charges and stops", func(i *engine.Instance) { i.Charge(500); i.Stop() }, 10, 1 << 40, engine.Stopped, func(n int64) bool { return n > 500 && n < 600 }},
		{"no fuel", func(*engine.Instance) {}, 10, 0, engine.OutOfFuel, func(n int64) bool { return n == 0 }},
		{"negative fuel", func(*engine.Instance) {}, 10, -5, engine.OutOfFuel, func(n int64) bool { return n == 0 }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			i, f := hosted(t, func(i *engine.Instance, stack []uint64) {
				test.host(i)
				stack[0] = test.loop
			})
			got, err := i.Call(f, test.fuel)
			if test.want == engine.Unknown {
				if err != nil || got != 42 {
					t.Errorf("result %d, %v", got, err)
				}
			} else {
				wantTrap(t, err, test.want)
			}
			if !test.used(i.Used()) {
				t.Errorf("used %d units", i.Used())
			}
			i.Charge(100)
			if !test.used(i.Used()) {
				t.Errorf("used %d units after a charge outside of a call", i.Used())
			}
		})
	}
}

// TestHostChargesEndStraightLineCode checks that the budget holds for host calls in straight code, where the guest has
// no check of its own between two calls.
//
// covers: F96
func TestHostChargesEndStraightLineCode(t *testing.T) {
	calls := 0
	e := newEngine(t, engine.Options{}, engine.Import{Name: "host", Func: func(i *engine.Instance, _ []uint64) {
		calls++
		i.Charge(100)
	}})
	m := &w.Module{}
	host := m.Import("test", "host", nil, nil)
	m.ExportMemory(1, w.NoMax)
	var code []w.Op
	for range 10_000 {
		code = append(code, w.Call(host))
	}
	m.ExportFunc("run", nil, nil, nil, code...)
	i := instantiate(t, compile(t, e, m.Bytes()))
	_, err := i.Call(function(t, i, "run"), 20_000)
	wantTrap(t, err, engine.OutOfFuel)
	if calls < 190 || calls > 210 || i.Used() != 20_000 {
		t.Errorf("%d host calls of 100 units and %d units used, want a budget of 20,000 to end the call", calls, i.Used())
	}
}

var nilMap map[string]int

func TestHostPanicFailsCall(t *testing.T) {
	cause := errors.New("cause")
	tests := map[string]func(){
		"error":              func() { panic(cause) },
		"text":               func() { panic("wasm error: unreachable") },
		"text of a trap":     func() { panic(errors.New("unreachable")) },
		"nil map":            func() { nilMap["a"] = 1 },
		"index out of range": func() { var s []int; _ = s[len(s)] },
	}
	for name, f := range tests {
		t.Run(name, func(t *testing.T) {
			i, run := hosted(t, func(*engine.Instance, []uint64) { f() })
			_, err := i.Call(run, plenty)
			trap := wantTrap(t, err, engine.HostPanic)
			if trap.Stack() == "" {
				t.Error("the trap has no stack")
			}
			_, err = i.Call(run, plenty)
			wantTrap(t, err, engine.Dead)
		})
	}
}

func TestRejectsMisuse(t *testing.T) {
	var inner error
	var self *engine.Func
	i, f := hosted(t, func(i *engine.Instance, stack []uint64) {
		_, inner = i.Call(self, plenty)
		stack[0] = 1
	})
	self = f
	if _, err := i.Call(f, plenty, 1); err == nil {
		t.Error("a call with too many arguments succeeded")
	} else {
		wantTrap(t, err, engine.BadCall)
	}
	if _, err := i.Call(nil, plenty); err == nil {
		t.Error("a call of a nil function succeeded")
	}
	if got, err := i.Call(f, plenty); err != nil || got != 42 {
		t.Errorf("result %d, %v after misuse", got, err)
	}
	wantTrap(t, inner, engine.BadCall)

	other, _ := hosted(t, func(*engine.Instance, []uint64) {})
	_, err := other.Call(f, plenty)
	wantTrap(t, err, engine.BadCall)
}

func TestHostFunctionCannotCloseInstance(t *testing.T) {
	i, f := hosted(t, func(i *engine.Instance, _ []uint64) { i.Close() })
	_, err := i.Call(f, plenty)
	wantTrap(t, err, engine.HostPanic)
	i.Close()
}

func TestClosedInstance(t *testing.T) {
	i, f := hosted(t, func(*engine.Instance, []uint64) {})
	p := []byte("p")
	if !i.Write(0, p) || i.Memory() != 1<<16 || !i.Alive() {
		t.Error("the instance does not work")
	}
	i.Close()
	i.Close()
	if _, ok := i.Read(0, 1); ok || i.Write(0, p) || i.Memory() != 0 || i.Alive() {
		t.Error("a closed instance has memory")
	}
	if _, ok := i.Func("run"); ok {
		t.Error("a closed instance has functions")
	}
	_, err := i.Call(f, plenty)
	wantTrap(t, err, engine.Dead)
}

func TestMemoryBounds(t *testing.T) {
	i, _ := hosted(t, func(*engine.Instance, []uint64) {})
	const size = 1 << 16
	tests := []struct {
		addr, n uint32
		ok      bool
	}{
		{0, size, true}, {size, 0, true}, {size - 1, 1, true},
		{0, size + 1, false}, {size, 1, false}, {size + 1, 0, false},
		{1<<32 - 1, 1, false}, {1<<32 - 1, 1<<32 - 1, false}, {8, 1<<32 - 8, false},
	}
	for _, test := range tests {
		if p, ok := i.Read(test.addr, test.n); ok != test.ok || ok && uint32(len(p)) != test.n {
			t.Errorf("read of %d bytes at %d: %d bytes, %v", test.n, test.addr, len(p), ok)
		}
		if test.n <= 2*size && i.Write(test.addr, make([]byte, test.n)) != test.ok {
			t.Errorf("write of %d bytes at %d: %v", test.n, test.addr, !test.ok)
		}
	}
}

func TestUserValue(t *testing.T) {
	var got any
	e := newEngine(t, engine.Options{}, engine.Import{Name: "host", Func: func(i *engine.Instance, _ []uint64) { got = i.User() }})
	m := &w.Module{}
	host := m.Import("test", "host", nil, nil)
	m.ExportMemory(1, w.NoMax)
	m.ExportFunc("_initialize", nil, nil, nil, w.Call(host))
	i, err := compile(t, e, m.Bytes()).Instantiate(t.Context(), "owner", plenty)
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	if got != "owner" || i.User() != "owner" {
		t.Errorf("user %v in the host function, %v outside", got, i.User())
	}
}

func TestInitializeIsBounded(t *testing.T) {
	m := &w.Module{}
	m.ExportMemory(1, w.NoMax)
	m.ExportFunc("_initialize", nil, nil, nil, w.Loop(w.Void, w.Br(0)))
	_, err := compile(t, newEngine(t, engine.Options{}), m.Bytes()).Instantiate(t.Context(), nil, 1_000_000)
	trap := wantTrap(t, err, engine.OutOfFuel)
	if trap.Func != "_initialize" || !strings.HasPrefix(err.Error(), "engine: instantiate ") {
		t.Errorf("error %q", err)
	}
}

// TestDepthIsBalanced calls a function that recurses nearly to the limit many times. Each call must release the depth
// that it has used.
func TestDepthIsBalanced(t *testing.T) {
	m := &w.Module{}
	m.ExportMemory(1, w.NoMax)
	m.ExportFunc("down", w.Types(w.I32), w.Types(w.I32), nil,
		w.LocalGet(0), w.I32Eqz, w.If(w.Void, w.I32Const(7), w.Return),
		w.LocalGet(0), w.I32Const(1), w.I32Sub, w.Call(0))
	i := instantiate(t, compile(t, newEngine(t, engine.Options{}), m.Bytes()))
	f := function(t, i, "down")
	deepest := uint64(0)
	for depth := uint64(1 << 16); depth > 0; depth /= 2 {
		if _, err := i.Call(f, 1<<30, depth); err == nil {
			deepest = depth
			break
		}
		i = instantiate(t, compile(t, newEngine(t, engine.Options{}), m.Bytes()))
		f = function(t, i, "down")
	}
	if deepest < 1000 {
		t.Fatalf("the deepest call has %d frames, want at least 1000", deepest)
	}
	for n := range 100 {
		if got, err := i.Call(f, 1<<30, deepest); err != nil || got != 7 {
			t.Fatalf("call %d: %d, %v", n, got, err)
		}
	}
}
