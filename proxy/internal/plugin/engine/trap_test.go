package engine_test

import (
	"context"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
)

func TestTrapKinds(t *testing.T) {
	const nan = 0x7fc00000
	var (
		f32ReinterpretI32 = w.Op{0xbe}
		i32TruncF32       = w.Op{0xa8}
	)
	tests := []struct {
		name   string
		module *w.Module
		want   engine.Kind
	}{
		// covers: F90
		{"unreachable", guest(w.Unreachable), engine.Unreachable},
		{"divide by zero", guest(w.I32Const(1), w.I32Const(0), w.I32DivS, w.Drop), engine.IntegerDivideByZero},
		{"integer overflow", guest(w.I32Const(-1<<31), w.I32Const(-1), w.I32DivS, w.Drop), engine.IntegerOverflow},
		{"invalid conversion", guest(w.I32Const(nan), f32ReinterpretI32, i32TruncF32, w.Drop), engine.InvalidConversion},
		{"memory out of bounds", guest(w.I32Const(65536), w.I32Load, w.Drop), engine.MemoryOutOfBounds},
		{"table out of bounds", indirect(nil, 2), engine.TableOutOfBounds},
		{"empty table element", indirect(nil, 1), engine.TableOutOfBounds},
		{"wrong signature", indirect(w.Types(w.I64), 0), engine.IndirectCallMismatch},
		{"memory growth", growing(), engine.MemoryLimit}, // covers: F91
		// covers: F92
		{"endless loop", endless(), engine.OutOfFuel},
		{"endless recursion", recursive(), engine.Depth},
		{"exponential recursion", exponential(), engine.OutOfFuel},
		{"endless memory.fill", filling(), engine.OutOfFuel},
	}
	for _, interpreter := range []bool{false, true} {
		if interpreter && testing.Short() {
			continue // the interpreter is a hundred times slower
		}
		e := newEngine(t, engine.Options{MemoryPages: 2000, Interpreter: interpreter})
		for _, test := range tests {
			name := test.name
			if interpreter {
				name += " interpreted"
			}
			t.Run(name, func(t *testing.T) {
				i := instantiate(t, compile(t, e, test.module.Bytes()))
				f := function(t, i, "run")
				_, err := i.Call(f, 3_000_000)
				trap := wantTrap(t, err, test.want)
				if trap.Func != "run" {
					t.Errorf("trap in %q, want run", trap.Func)
				}
				if trap.Stack() == "" {
					t.Error("the trap has no stack")
				}
				if used := i.Used(); used < 0 || used > 3_000_000 {
					t.Errorf("used %d units, want 0 to 3000000", used)
				}
				if i.Alive() {
					t.Error("the instance is alive after a trap")
				}
				_, err = i.Call(f, plenty)
				wantTrap(t, err, engine.Dead)
			})
		}
	}
}

// TestStartFunctionIsBounded checks that a start function ends. wazero does not report the cause.
func TestStartFunctionIsBounded(t *testing.T) {
	e := newEngine(t, engine.Options{})
	tests := []struct {
		name string
		body w.Op
		want engine.Kind
	}{
		{"traps", w.Unreachable, engine.Unreachable}, // covers: F97
		{"loops", w.Loop(w.Void, w.Br(0)), engine.Unreachable},
		{"recurses", w.Call(0), engine.Unreachable},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := guest(test.body)
			m.Start(0)
			_, err := compile(t, e, m.Bytes()).Instantiate(context.Background(), nil, plenty)
			wantTrap(t, err, test.want)
		})
	}
}
