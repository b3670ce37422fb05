package plugin_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// hostileImports are the imports of the hostile guests below.
var hostileImports = []string{"text", "log", "request_path", "state_get", "tool_arguments", "done", "fail"}

// hostile returns a guest that runs hostile code if an event begins with x, and echoes other events.
func hostile(code func(m *module) w.Op) *module {
	m := newModule(hostileImports...)
	m.base()
	// A chain of functions, each of which calls the previous one twice: 2^40 calls without a loop.
	chain := m.Func(nil, nil, nil)
	for range 40 {
		chain = m.Func(nil, nil, nil, w.Call(chain), w.Call(chain))
	}
	recursion := chain + 1
	m.Func(types("i"), nil, nil, w.LocalGet(0), i32(1), w.I32Add, w.Call(recursion))
	m.imports["chain"], m.imports["recursion"] = chain, recursion
	return m.provider(when('x', code(m)), m.echo())
}

// choiceOutOfRange emits a text for an invalid choice, a protocol error.
func choiceOutOfRange(m *module) w.Op {
	return w.Code(i32(-1), i32(0), i32(0), i32(0), m.call("text"))
}

// covers: C22
func TestHostileCalls(t *testing.T) {
	if testing.Short() {
		t.Skip("calls every import with hostile arguments")
	}
	ops := func(o ...w.Op) func(*module) w.Op { return func(*module) w.Op { return w.Code(o...) } }
	textAt := func(addr, length int32) func(*module) w.Op {
		return func(m *module) w.Op { return m.text(i32(addr), i32(length)) }
	}
	grow := w.Code(i32(100), w.MemoryGrow)
	tests := []struct {
		name   string
		code   func(m *module) w.Op
		kind   plugin.CallErrorKind
		reason string
		client string // error code for the client
	}{
		// covers: F90
		{"unreachable", ops(w.Unreachable), plugin.KindTrap, "trap: unreachable", "plugin_crashed"},
		{"division by zero", ops(i32(1), i32(0), w.I32DivU, w.Drop), plugin.KindTrap, "integer divide by zero", "plugin_crashed"},
		{"load out of bounds", ops(i32(-8), w.I32Load, w.Drop), plugin.KindTrap, "memory access out of bounds", "plugin_crashed"},
		// covers: F91
		{"memory to the limit, then a panic", ops(w.Loop(w.Void, grow, i32(-1), w.I32Ne, w.BrIf(0)), w.Unreachable), plugin.KindMemory, "out of memory", "plugin_crashed"},
		// covers: F92
		{"endless loop", ops(forever()), plugin.KindOutOfFuel, "out of fuel", "plugin_timeout"},
		{"exponential recursion without a loop", func(m *module) w.Op { return m.call("chain") }, plugin.KindOutOfFuel, "out of fuel", "plugin_timeout"},
		{"deep recursion", func(m *module) w.Op { return w.Code(i32(0), m.call("recursion")) }, plugin.KindDepth, "call stack too deep", "plugin_crashed"},
		{"memory.fill in a loop", ops(i32(900), w.MemoryGrow, w.Drop, forever(i32(0), i32(0), i32(50<<20), w.MemoryFill)), plugin.KindOutOfFuel, "out of fuel", "plugin_timeout"},
		// covers: F93
		{"output without end", func(m *module) w.Op { return forever(m.text(i32(0), i32(1024))) }, plugin.KindOutput, "text: more than 65680 bytes", "plugin_protocol"},
		// covers: F94
		{"address beyond the memory", textAt(1<<28, 1), plugin.KindTrap, "text: 1 bytes at address 268435456, outside", "plugin_crashed"},
		{"end beyond the memory", textAt(16*64<<10-1, 2), plugin.KindTrap, "text: 2 bytes at address 1048575, outside", "plugin_crashed"},
		{"address and length overflow", textAt(-1, -1), plugin.KindTrap, "text: 4294967295 bytes at address 4294967295, outside", "plugin_crashed"},
		{"buffer outside of the memory", func(m *module) w.Op { return w.Code(i32(-16), i32(100), m.call("state_get"), w.Drop) }, plugin.KindTrap, "state_get: 100 bytes at address 4294967280, outside", "plugin_crashed"},
		{"the second of two addresses", func(m *module) w.Op {
			return w.Code(i32(0), i32(0), i32(1), i32(-1), i32(5), i32(0), i32(0), i32(-1), m.call("fail"))
		}, plugin.KindTrap, "outside of the guest's memory", "plugin_crashed"},
		// covers: F96
		{"flood of host calls", func(m *module) w.Op { return forever(i32(1), i32(0), i32(16), m.call("log")) }, plugin.KindOutOfFuel, "out of fuel", "plugin_timeout"},
		{"flood of calls without output", func(m *module) w.Op { return forever(i32(0), i32(1000), m.call("state_get"), w.Drop) }, plugin.KindOutOfFuel, "out of fuel", "plugin_timeout"},
		{"flood of host calls without a loop", func(m *module) w.Op {
			return w.Code(slices.Repeat([]w.Op{i32(0), i32(1000), m.call("state_get"), w.Drop}, 20_000)...)
		}, plugin.KindOutOfFuel, "out of fuel", "plugin_timeout"},
		{"import of another phase", func(m *module) w.Op { return w.Code(i32(0), i32(1), m.call("request_path"), w.Drop) }, plugin.KindProtocol, "request_path: not allowed in this call", "plugin_protocol"},
		{"status", ops(i32(5), w.Return), plugin.KindStatus, "failed: status 5", "plugin_crashed"},
		{"a loop after an error", func(m *module) w.Op { return w.Code(choiceOutOfRange(m), forever()) }, plugin.KindProtocol, "text: choice out of range", "plugin_protocol"},
		{"success after an error", func(m *module) w.Op { return w.Code(choiceOutOfRange(m), i32(0), w.Return) }, plugin.KindProtocol, "text: choice out of range", "plugin_protocol"},
		{"imports after an error", func(m *module) w.Op { return w.Code(choiceOutOfRange(m), m.text(i32(-1), i32(-1))) }, plugin.KindProtocol, "text: choice out of range", "plugin_protocol"},
	}
	h := newHost(t, plugin.Options{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := load(t, h, plugin.Spec{Wasm: hostile(tt.code).Bytes()})
			bound := bind(t, p, plugin.BindingConfig{})
			neighbour := newAttempt(t, body)
			echo(t, bound, neighbour, "before")

			a := newAttempt(t, body)
			err := bound.Event(t.Context(), a, abi.EventPlain, nil, b("x marks the prompt"))
			e := wantCallError(t, err, tt.kind)
			if !strings.HasPrefix(e.Error(), "plugin test: binding binding: provider_event: ") || !strings.Contains(e.Error(), tt.reason) {
				t.Errorf("error %q, want it to contain %q", e, tt.reason)
			}
			if strings.Contains(e.Error(), "prompt") {
				t.Errorf("error %q quotes the input", e)
			}
			c := e.ClientError()
			if c.Status != 502 || c.Kind != "server_error" || c.Code != tt.client || !c.TryNext {
				t.Errorf("the client sees %v, want %s", c, tt.client)
			}
			if output(a) != "" {
				t.Errorf("output of the failed call: %s", output(a))
			}
			echo(t, bound, neighbour, "after")
		})
	}
}

// echo makes a call that succeeds.
func echo(t testing.TB, bound *plugin.Binding, a *plugin.Attempt, text string) {
	t.Helper()
	if err := bound.Event(t.Context(), a, abi.EventPlain, nil, b(text)); err != nil {
		t.Fatalf("event %q: %v", text, err)
	}
	if !strings.Contains(output(a), `"content":"`+text+`"`) {
		t.Fatalf("event %q: output %s", text, output(a))
	}
	a.Writer.Consume()
}

// covers: F94 C23
func TestEmptyRangeHasNoAddress(t *testing.T) {
	m := newModule("text", "state_get").base()
	m.provider(m.text(i32(-1), i32(0)), i32(-1), i32(0), m.call("state_get"), w.Return)
	bound := bind(t, load(t, newHost(t, plugin.Options{}), plugin.Spec{Wasm: m.Bytes()}), plugin.BindingConfig{})
	if err := bound.Event(t.Context(), newAttempt(t, body), abi.EventPlain, nil, nil); err != nil {
		t.Error(err)
	}
}

// covers: C24
func TestInvalidInputBuffers(t *testing.T) {
	tests := []struct {
		name   string
		code   func(m *module) w.Op
		kind   plugin.CallErrorKind
		reason string
	}{
		{"refuses", func(*module) w.Op { return i32(0) }, plugin.KindMemory, "sluice_buffer refused the input"},
		{"outside of the memory", func(*module) w.Op { return i32(-64) }, plugin.KindTrap, "sluice_buffer returned an address outside"},
		{"traps", func(*module) w.Op { return w.Unreachable }, plugin.KindTrap, "sluice_buffer: unreachable"},
		{"loops", func(*module) w.Op { return w.Code(forever(), i32(0)) }, plugin.KindOutOfFuel, "sluice_buffer: out of fuel"},
		{"emits", func(m *module) w.Op { return w.Code(m.text(i32(0), i32(1)), i32(inputAt)) }, plugin.KindProtocol, "text: not allowed in this call"},
	}
	h := newHost(t, plugin.Options{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newModule("text")
			m.ExportMemory(16, w.NoMax)
			m.export(abi.ExportVersion, "", i32(0))
			// The first input, the settings of the binding, is short.
			m.export(abi.ExportBuffer, "i", w.LocalGet(0), i32(20<<10), w.I32LtU, w.If(w.Void, i32(inputAt), w.Return), tt.code(m))
			m.export(abi.ExportConfigure, "ii", i32(0))
			m.provider(m.echo())
			bound := bind(t, load(t, h, plugin.Spec{Wasm: m.Bytes()}), plugin.BindingConfig{})
			a := newAttempt(t, body)
			echo(t, bound, a, "before")
			e := wantCallError(t, bound.Event(t.Context(), a, abi.EventPlain, nil, make([]byte, 30<<10)), tt.kind)
			if !strings.Contains(e.Error(), tt.reason) {
				t.Errorf("error %q, want it to contain %q", e, tt.reason)
			}
			echo(t, bound, a, "after")
		})
	}
}

// covers: C17
func TestLoadRejects(t *testing.T) {
	without := func(missing string) func() []byte {
		return func() []byte {
			m := newModule("text")
			m.ExportMemory(16, w.NoMax)
			for _, e := range []struct {
				name, params string
			}{{abi.ExportVersion, ""}, {abi.ExportBuffer, "i"}, {abi.ExportConfigure, "ii"}, {abi.ExportRequest, "ii"}} {
				if e.name != missing {
					m.export(e.name, e.params, i32(0))
				}
			}
			return m.Bytes()
		}
	}
	importing := func(module, name string, params, results []byte) func() []byte {
		return func() []byte {
			m := newModule()
			m.Import(module, name, params, results)
			m.base()
			return m.provider(i32(0)).Bytes()
		}
	}
	build := func(change func(m *module)) func() []byte {
		return func() []byte {
			m := newModule("text", "done", "log")
			m.base()
			change(m)
			return m.Bytes()
		}
	}
	tests := []struct {
		name   string
		wasm   func() []byte
		reason string
	}{
		// covers: F97
		{"no version", without(abi.ExportVersion), "missing export sluice_abi_v1 () -> i32"},
		{"no buffer", without(abi.ExportBuffer), "missing export sluice_buffer (i32) -> i32"},
		{"no configure", without(abi.ExportConfigure), "missing export sluice_configure (i32, i32) -> i32"},
		{"neither provider nor router", without(abi.ExportRequest), "neither a provider nor a router nor a filter: it exports none of provider_request, router_choose and filter_text"},
		{"another major version", func() []byte {
			m := newModule()
			m.ExportMemory(16, w.NoMax)
			m.export("sluice_abi_v2", "", i32(0))
			return m.provider(i32(0)).Bytes()
		}, "built for abi_v2, but this gateway supports abi_v1"},
		{"negative minor version", func() []byte {
			m := newModule()
			m.ExportMemory(16, w.NoMax)
			m.export(abi.ExportVersion, "", i32(-1))
			m.export(abi.ExportBuffer, "i", i32(0))
			m.export(abi.ExportConfigure, "ii", i32(0))
			return m.provider(i32(0)).Bytes()
		}, "sluice_abi_v1 returned -1"},
		{"mistyped export", build(func(m *module) {
			m.export(abi.ExportRequest, "ii", i32(0))
			m.export(abi.ExportEvent, "iiI", i32(0))
		}), "export provider_event is (i32, i32, i64) -> i32, want (i32, i32, i32, i32) -> i32"},
		{"mistyped optional export", build(func(m *module) {
			m.provider(i32(0))
			m.export(abi.ExportCollect, "", i32(0))
		}), "export sluice_collect is () -> i32, want () -> ()"},
		{"export that is no function", build(func(m *module) {
			m.Export(abi.ExportRequest, w.KindGlobal, m.Global(w.I32, false, i32(0)))
		}), "neither a provider nor a router"},
		{"start function traps", build(func(m *module) {
			m.provider(i32(0))
			m.Start(m.Func(nil, nil, nil, w.Unreachable))
		}), "unreachable"},
		{"start function loops", build(func(m *module) {
			m.provider(i32(0))
			m.Start(m.Func(nil, nil, nil, forever()))
		}), "start: "},
		{"initialize traps", build(func(m *module) {
			m.provider(i32(0))
			m.ExportFunc(abi.ExportInitialize, nil, nil, nil, w.Unreachable)
		}), "unreachable"},
		{"initialize breaks the contract", build(func(m *module) {
			m.provider(i32(0))
			m.ExportFunc(abi.ExportInitialize, nil, nil, nil, i32(0), m.call("done"))
		}), "done: not allowed in this call"},
		{"no memory", func() []byte {
			m := newModule()
			m.export(abi.ExportVersion, "", i32(0))
			m.export(abi.ExportBuffer, "i", i32(0))
			m.export(abi.ExportConfigure, "ii", i32(0))
			return m.provider(i32(0)).Bytes()
		}, "memory"},
		{"import of another module", importing("env", "system", types("s"), types("i")), `"system"`},
		{"import of a function that WASI does not have", importing("wasi_snapshot_preview1", "steal", types("s"), types("i")), `"steal"`},
		{"import with another signature", importing(abi.Module, "text", types("is"), nil), `"text"`},
		// covers: F100
		{"nothing", func() []byte { return nil }, ""},
		{"no module", func() []byte { return b("#!/bin/sh") }, ""},
		{"half a module", func() []byte { m := echoModule().Bytes(); return m[:len(m)/2] }, ""},
	}
	h := newHost(t, plugin.Options{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g, err := h.Load(t.Context(), []plugin.Spec{{Name: "good", Wasm: echoModule().Bytes()}, {Name: "bad", Wasm: tt.wasm()}})
			if err == nil {
				g.Close()
				t.Fatal("the invalid plugin was loaded")
			}
			if !strings.Contains(err.Error(), "plugin bad: ") || !strings.Contains(err.Error(), tt.reason) || strings.Contains(err.Error(), "good") {
				t.Errorf("error %q, want it to name the plugin and %q", err, tt.reason)
			}
		})
	}
	t.Run("the same name twice", func(t *testing.T) {
		_, err := h.Load(t.Context(), []plugin.Spec{{Name: "a", Wasm: echoModule().Bytes()}, {Name: "a", Wasm: echoModule().Bytes()}})
		if err == nil || !strings.Contains(err.Error(), "plugin a: listed twice") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("error names every invalid plugin", func(t *testing.T) {
		_, err := h.Load(t.Context(), []plugin.Spec{{Name: "one", Wasm: nil}, {Name: "two", Wasm: b("x")}})
		if err == nil || !strings.Contains(err.Error(), "plugin one: ") || !strings.Contains(err.Error(), "plugin two: ") {
			t.Errorf("error %v", err)
		}
	})
}

// TestFailedCallCostsWhatItUsed checks that a protocol error ends the call at once.
//
// covers: C40
func TestFailedCallCostsWhatItUsed(t *testing.T) {
	bound := bind(t, load(t, newHost(t, plugin.Options{}), plugin.Spec{Wasm: hostile(func(m *module) w.Op { return w.Code(choiceOutOfRange(m), forever()) }).Bytes()}), plugin.BindingConfig{})
	a := newAttempt(t, body)
	wantCallError(t, bound.Event(t.Context(), a, abi.EventPlain, nil, b("x")), plugin.KindProtocol)
	if a.Fuel <= 32 || a.Fuel > 200 {
		t.Errorf("the call used %d units, want 33 to 200", a.Fuel)
	}
}

// TestImportOfNewerVersion checks that a plugin with an import of a newer ABI is loaded with a warning, and fails only
// when it calls it.
//
// covers: C78
func TestImportOfNewerVersion(t *testing.T) {
	m := newModule("text")
	m.imports["later"] = m.Import(abi.Module, "later", types("isI"), types("I"))
	m.Import(abi.Module, "later", types("isI"), types("I"))
	m.base()
	m.provider(when('x', i32(0), i32(0), i32(0), w.I64Const(0), m.call("later"), w.Drop), m.echo())
	var log bytes.Buffer
	h := newHost(t, plugin.Options{Log: textLog(&log)})
	for range 2 { // the second time from the cache
		bound := bind(t, load(t, h, plugin.Spec{Wasm: m.Bytes()}), plugin.BindingConfig{})
		if got := log.String(); !strings.Contains(got, "plugin imports functions of a newer ABI") || !strings.Contains(got, "later") {
			t.Errorf("log:\n%s", got)
		}
		log.Reset()
		a := newAttempt(t, body)
		echo(t, bound, a, "before")
		e := wantCallError(t, bound.Event(t.Context(), a, abi.EventPlain, nil, b("x")), plugin.KindProtocol)
		if want := fmt.Sprintf(`"later" is not an import of ABI %d.%d: it needs a newer gateway`, abi.Major, abi.Minor); !strings.Contains(e.Error(), want) {
			t.Errorf("error %q, want it to contain %q", e, want)
		}
		echo(t, bound, a, "after")
	}
	m = newModule()
	m.Import(abi.Module, "later", types("i"), nil)
	m.Import(abi.Module, "later", types("I"), nil)
	m.base()
	_, err := h.Load(t.Context(), []plugin.Spec{{Name: "bad", Wasm: m.provider(i32(0)).Bytes()}})
	if err == nil || !strings.Contains(err.Error(), `"later" is (i64) -> (), want (i32) -> ()`) {
		t.Errorf("the same import with two types: error %v", err)
	}
}

// TestFlippedBits flips each bit of a plugin in turn, or each fifth with -short. The module must be rejected or stay
// within its limits. It is interpreted, because compiling two thousand modules would take too long; package engine
// flips bits of compiled ones.
//
// covers: F100
func TestFlippedBits(t *testing.T) {
	h := newHost(t, plugin.Options{Fuel: plugin.Fuel{Event: 100_000, Call: 100_000, Start: 100_000}, Engine: engine.Options{Interpreter: true}})
	wasm := echoModule().Bytes()
	loaded, step := 0, 1
	if testing.Short() {
		step = 5
	}
	for bit := 0; bit < len(wasm)*8; bit += step {
		flipped := append([]byte(nil), wasm...)
		flipped[bit/8] ^= 1 << (bit % 8)
		g, err := h.Load(t.Context(), []plugin.Spec{{Name: "flipped", Wasm: flipped}})
		if err != nil {
			continue
		}
		loaded++
		if bound, err := g.Plugin("flipped").Bind(t.Context(), plugin.BindingConfig{Name: "b"}); err == nil {
			a := newAttempt(t, body)
			if err := bound.Event(t.Context(), a, abi.EventPlain, nil, b("hello")); err != nil {
				wantAnyCallError(t, err)
			}
		}
		g.Close()
	}
	if loaded == 0 {
		t.Error("no flipped module was loaded, so no calls were tested")
	}
}
