package plugin_test

import (
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// failsWhenUsed returns a guest that runs code in an event beginning with x, if the instance has served other calls.
func failsWhenUsed(code func(m *module) w.Op) *module {
	m := newModule("text", "state_set", "state_get", "openai_event").base()
	m.Global(w.I32, true, i32(0))
	return m.provider(
		w.GlobalGet(0), w.If(w.Void, when('x', code(m))),
		i32(1), w.GlobalSet(0),
		m.echo(),
	)
}

// covers: C35
func TestRetryAfterTrap(t *testing.T) {
	tests := []struct {
		name    string
		code    func(m *module) w.Op
		retried bool
	}{
		{"trap", func(*module) w.Op { return w.Unreachable }, true},
		{"bad address", func(m *module) w.Op { return m.text(i32(-1), i32(1)) }, true},
		{"trap after output and state", func(m *module) w.Op {
			return w.Code(m.text(i32(inputAt), i32(1)), i32(inputAt), i32(1), m.call("state_set"), w.Drop, w.Unreachable)
		}, true},
		{"out of memory", func(*module) w.Op {
			return w.Code(i32(2000), w.MemoryGrow, w.Drop, w.Unreachable)
		}, true},
		{"endless loop", func(*module) w.Op { return forever() }, false},
		{"status", func(*module) w.Op { return w.Code(i32(1), w.Return) }, false},
		{"protocol", func(m *module) w.Op { return choiceOutOfRange(m) }, false},
		{"trap after openai_event", func(m *module) w.Op {
			return w.Code(i32(inputAt), i32(1), m.call("openai_event"), w.Drop, w.Unreachable)
		}, false},
	}
	h := newHost(t, plugin.Options{Instances: 1})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := load(t, h, plugin.Spec{Wasm: failsWhenUsed(tt.code).Bytes()})
			bound := bind(t, p, plugin.BindingConfig{})
			a := newAttempt(t, body)
			echo(t, bound, a, "first")
			err := bound.Event(t.Context(), a, abi.EventPlain, nil, b("xyz"))
			if !tt.retried {
				wantAnyCallError(t, err)
				if err == nil || p.Stats().Retries != 0 || output(a) != "" {
					t.Errorf("error %v, %d retries, output %q", err, p.Stats().Retries, output(a))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if strings.Count(output(a), "data:") != 1 || !strings.Contains(output(a), `"content":"xyz"`) || len(a.State()) != 0 {
				t.Errorf("output %s, state %q", output(a), a.State())
			}
			if s := p.Stats(); s.Retries != 1 || s.Failures != 1 {
				t.Errorf("%d retries, %d failures", s.Retries, s.Failures)
			}
		})
	}
}

// covers: C35
func TestNoRetryOfDeterministicFailure(t *testing.T) {
	m := newModule("text").base()
	m.provider(when('x', w.Unreachable), m.echo())
	for _, isolation := range []plugin.Isolation{plugin.Shared, plugin.PerCall} {
		p := load(t, newHost(t, plugin.Options{}), plugin.Spec{Wasm: m.Bytes(), Isolation: isolation})
		bound := bind(t, p, plugin.BindingConfig{})
		wantCallError(t, bound.Event(t.Context(), newAttempt(t, body), abi.EventPlain, nil, b("x")), plugin.KindTrap)
		if s := p.Stats(); s.Retries != 0 || s.Failures != 1 {
			t.Errorf("%s: %d retries, %d failures on an unused instance, want 0 and 1", isolation, s.Retries, s.Failures)
		}
	}
	// A call on a used instance is retried only once.
	p := load(t, newHost(t, plugin.Options{}), plugin.Spec{Wasm: m.Bytes()})
	bound := bind(t, p, plugin.BindingConfig{})
	a := newAttempt(t, body)
	echo(t, bound, a, "first")
	wantCallError(t, bound.Event(t.Context(), a, abi.EventPlain, nil, b("x")), plugin.KindTrap)
	if s := p.Stats(); s.Retries != 1 || s.Failures != 2 {
		t.Errorf("%d retries, %d failures, want 1 and 2", s.Retries, s.Failures)
	}
}

// covers: C36
func TestErrorDiscardsInstance(t *testing.T) {
	codes := map[string]func(m *module) w.Op{
		"trap":     func(*module) w.Op { return w.Unreachable },
		"status":   func(*module) w.Op { return w.Code(i32(1), w.Return) },
		"protocol": func(m *module) w.Op { return choiceOutOfRange(m) },
		"fuel":     func(*module) w.Op { return forever() },
	}
	h := newHost(t, plugin.Options{Instances: 1})
	for name, code := range codes {
		t.Run(name, func(t *testing.T) {
			m := newModule("text").base()
			m.Global(w.I32, true, i32(0))
			m.provider(
				w.GlobalGet(0), w.If(w.Void, i32(9), w.Return), // an x was in an earlier event
				when('x', i32(1), w.GlobalSet(0), code(m)),
				m.echo(),
			)
			p := load(t, h, plugin.Spec{Wasm: m.Bytes()})
			bound := bind(t, p, plugin.BindingConfig{})
			a := newAttempt(t, body)
			if err := bound.Event(t.Context(), a, abi.EventPlain, nil, b("x")); err == nil {
				t.Fatal("no error")
			}
			// There was no other instance for the next call, so the failed one was replaced.
			if s := p.Stats(); s.Made != 2 || s.Instances != 1 || s.Idle != 1 {
				t.Errorf("after the error: %d instances made, %d left, %d idle; want 2, 1 and 1", s.Made, s.Instances, s.Idle)
			}
			echo(t, bound, a, "next")
		})
	}
}

// TestFailedInstanceIsRestored checks that from the second failure on, an instance is restored to its state before its
// first call instead of being replaced, unless that is not safe.
func TestFailedInstanceIsRestored(t *testing.T) {
	if testing.Short() {
		t.Skip("fails in every call of many guests")
	}
	page := w.Code(i32(1), w.MemoryGrow, w.Drop)
	codes := []struct {
		name     string
		code     func(m *module) w.Op
		replaced bool
	}{
		{"trap", func(*module) w.Op { return w.Unreachable }, false},
		{"trap deep in calls", func(m *module) w.Op { return w.Code(i32(3000), m.call("deep")) }, false},
		{"trap with more memory than before", func(*module) w.Op { return w.Code(page, w.Unreachable) }, false},
		{"status", func(*module) w.Op { return w.Code(i32(1), w.Return) }, false},
		{"protocol", func(m *module) w.Op { return choiceOutOfRange(m) }, false},
		{"bad address", func(m *module) w.Op { return m.text(i32(-1), i32(1)) }, false},
		{"fuel", func(*module) w.Op { return forever() }, false},
		{"depth", func(m *module) w.Op { return w.Code(i32(0), m.call("recursion")) }, true},
	}
	for _, isolation := range []plugin.Isolation{plugin.Shared, plugin.PerKey, plugin.PerCall} {
		for _, c := range codes {
			t.Run(isolation.String()+" "+c.name, func(t *testing.T) {
				m := newModule("text").base()
				m.Global(w.I32, true, i32(0))
				recursion := m.Func(types("i"), nil, nil)
				m.imports["recursion"] = recursion + 1
				m.Func(types("i"), nil, nil, w.LocalGet(0), i32(1), w.I32Add, w.Call(recursion+1))
				m.imports["deep"] = recursion + 2
				m.Func(types("i"), nil, nil, w.LocalGet(0), w.I32Eqz, w.If(w.Void, w.Unreachable), w.LocalGet(0), i32(1), w.I32Sub, w.Call(recursion+2))
				m.provider(
					// Fails if a global or the memory shows that there was an earlier x.
					w.GlobalGet(0), i32(keepAt), w.I32Load8U, w.I32Or, w.If(w.Void, i32(9), w.Return),
					when('x', i32(1), w.GlobalSet(0), i32(keepAt), i32('x'), w.I32Store8, c.code(m)),
					m.echo(),
				)
				p := load(t, newHost(t, plugin.Options{Instances: 1}), plugin.Spec{Wasm: m.Bytes(), Isolation: isolation})
				bound := bind(t, p, plugin.BindingConfig{})
				a := newAttempt(t, body)
				var before plugin.Stats
				for n := range 5 {
					if err := bound.Event(t.Context(), a, abi.EventPlain, nil, b("x")); err == nil {
						t.Fatal("no error")
					}
					echo(t, bound, a, "next")
					if n == 0 {
						before = p.Stats()
					}
				}
				s := p.Stats()
				if made, revived := s.Made-before.Made, s.Revived-before.Revived; (made > 0) != c.replaced || (revived > 0) == c.replaced {
					t.Errorf("%d instances made and %d restored for %d failures; want them replaced: %v", made, revived, s.Failures-before.Failures, c.replaced)
				}
				if s.Instances != 1 || s.Idle != 1 {
					t.Errorf("%d instances, %d idle", s.Instances, s.Idle)
				}
			})
		}
	}
}
