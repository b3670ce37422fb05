package plugin_test

import (
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// keeper returns a guest that keeps the first text it gets, and emits it in every call.
func keeper() *module {
	m := newModule("text").base()
	m.Global(w.I32, true, i32(0)) // length of the kept text
	return m.provider(
		w.GlobalGet(0), w.I32Eqz, w.If(w.Void,
			i32(keepAt), i32(inputAt), w.LocalGet(3), w.MemoryCopy,
			w.LocalGet(3), w.GlobalSet(0),
		),
		m.text(i32(keepAt), w.GlobalGet(0)),
		i32(0),
	)
}

// covers: C76
func TestIsolation(t *testing.T) {
	// Each step is a call for a key with a text, and the text that the guest must emit.
	type step struct{ key, text, kept string }
	tests := []struct {
		isolation plugin.Isolation
		steps     []step
	}{
		{plugin.Shared, []step{{"alice", "a1", "a1"}, {"alice", "a2", "a1"}, {"bob", "b1", "a1"}, {"alice", "a3", "a1"}}},
		{plugin.PerKey, []step{{"alice", "a1", "a1"}, {"alice", "a2", "a1"}, {"bob", "b1", "b1"}, {"alice", "a3", "a3"}, {"alice", "a4", "a3"}}},
		{plugin.PerCall, []step{{"alice", "a1", "a1"}, {"alice", "a2", "a2"}, {"bob", "b1", "b1"}}},
	}
	// A guest that changes its table cannot be restored to an image, so it is replaced.
	tables := keeper()
	tables.Table(w.FuncRef, 1, w.NoMax)
	tables.Func(nil, nil, nil, i32(0), w.RefNull(w.FuncRef), w.TableSet(0))
	guests := map[string]*module{"image": keeper(), "no image": tables}

	h := newHost(t, plugin.Options{Instances: 1})
	for name, m := range guests {
		for _, tt := range tests {
			t.Run(name+"/"+tt.isolation.String(), func(t *testing.T) {
				bound := bind(t, load(t, h, plugin.Spec{Wasm: m.Bytes(), Isolation: tt.isolation}), plugin.BindingConfig{})
				for i, s := range tt.steps {
					a := newAttempt(t, body)
					a.Tenant = s.key
					if err := bound.Event(t.Context(), a, abi.EventPlain, nil, b(s.text)); err != nil {
						t.Fatal(err)
					}
					if !strings.Contains(output(a), `"content":"`+s.kept+`"`) {
						t.Errorf("step %d: %s gets %s, want %s", i, s.key, output(a), s.kept)
					}
				}
			})
		}
	}
}

// TestIsolationOfBindings checks that two bindings of a plugin whose instances are not shared have separate images.
//
// covers: C76
func TestIsolationOfBindings(t *testing.T) {
	for _, isolation := range []plugin.Isolation{plugin.PerKey, plugin.PerCall} {
		t.Run(isolation.String(), func(t *testing.T) {
			m := newModule("text")
			m.ExportMemory(16, w.NoMax)
			m.export(abi.ExportVersion, "", i32(0))
			m.export(abi.ExportBuffer, "i", i32(inputAt))
			// The guest keeps the settings of all bindings that it is configured for, concatenated.
			m.Global(w.I32, true, i32(keepAt))
			m.export(abi.ExportConfigure, "ii",
				w.GlobalGet(0), i32(inputAt), w.LocalGet(1), w.MemoryCopy,
				w.GlobalGet(0), w.LocalGet(1), w.I32Add, w.GlobalSet(0), i32(0))
			m.provider(m.text(i32(keepAt), w.Code(w.GlobalGet(0), i32(keepAt), w.I32Sub)), i32(0))
			p := load(t, newHost(t, plugin.Options{Instances: 1}), plugin.Spec{Wasm: m.Bytes(), Isolation: isolation})
			eu := bind(t, p, plugin.BindingConfig{Name: "eu", Settings: b(`{"eu":1}`)})
			us := bind(t, p, plugin.BindingConfig{Name: "us", Settings: b(`{"us":1}`)})
			for i, bound := range []*plugin.Binding{eu, us, us, eu, us} {
				a := newAttempt(t, body)
				if err := bound.Event(t.Context(), a, abi.EventPlain, nil, nil); err != nil {
					t.Fatal(err)
				}
				if want := `"content":"{\"` + bound.Name() + `\":1}"`; !strings.Contains(output(a), want) {
					t.Errorf("call %d of %s: %s", i, bound.Name(), output(a))
				}
			}
		})
	}
}

func TestKeysSharePoolNotInstances(t *testing.T) {
	p := load(t, newHost(t, plugin.Options{Instances: 2}), plugin.Spec{Wasm: keeper().Bytes(), Isolation: plugin.PerKey})
	bound := bind(t, p, plugin.BindingConfig{})
	first := map[string]string{}
	for i, key := range strings.Split("aabbabbac", "") {
		a := newAttempt(t, body)
		a.Tenant = key
		text := key + string(rune('0'+i))
		if first[key] == "" {
			first[key] = text
		}
		if err := bound.Event(t.Context(), a, abi.EventPlain, nil, b(text)); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(output(a), `"content":"`+first[key]+`"`) {
			t.Errorf("call %d of %s: got %s, want the text %s that the key's instance has kept", i, key, output(a), first[key])
		}
	}
	if s := p.Stats(); s.Instances != 2 {
		t.Errorf("%d instances for three keys, want 2", s.Instances)
	}
}

func TestGatewayAndUnknownKeyAreTenants(t *testing.T) {
	h := newHost(t, plugin.Options{Instances: 1})
	m := newModule("explain").base()
	m.Global(w.I32, true, i32('0'))
	m.export(abi.ExportChoose, "ii",
		w.GlobalGet(0), i32(1), w.I32Add, w.GlobalSet(0),
		i32(keepAt), w.GlobalGet(0), w.I32Store8,
		i32(keepAt), i32(1), m.call("explain"), i32(0))
	bound := bind(t, load(t, h, plugin.Spec{Wasm: m.Bytes(), Isolation: plugin.PerKey}), plugin.BindingConfig{})
	served := func(key string) string {
		t.Helper()
		var why string
		var err error
		if key == "" {
			_, why, err = bound.Choose(t.Context(), b("{}"), 1)
		} else {
			_, why, err = bound.ChooseFor(t.Context(), key, b("{}"), 1)
		}
		if err != nil {
			t.Fatal(err)
		}
		return why
	}
	for _, s := range [][2]string{{"alice", "1"}, {"alice", "2"}, {"", "1"}, {"", "1"}, {"nobody", "1"}, {"nobody", "2"}} {
		if got := served(s[0]); got != s[1] {
			t.Errorf("key %q: call %s of its instance, want %s", s[0], got, s[1])
		}
	}
}

// covers: C25
func TestInputIsClearedAfterCall(t *testing.T) {
	m := newModule("text").base()
	m.provider(m.text(i32(inputAt), i32(64)), i32(0))
	bound := bind(t, load(t, newHost(t, plugin.Options{Instances: 1}), plugin.Spec{Wasm: m.Bytes()}), plugin.BindingConfig{})
	secret := newAttempt(t, body)
	if err := bound.Event(t.Context(), secret, abi.EventPlain, b("name"), b("what alice said to the model")); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(output(secret), "what alice said") {
		t.Fatalf("the guest did not emit its input: %s", output(secret))
	}
	a := newAttempt(t, body)
	if err := bound.Event(t.Context(), a, abi.EventPlain, nil, b("r")); err != nil {
		t.Fatal(err)
	}
	if want := `"content":"r` + strings.Repeat(`\u0000`, 63) + `"`; !strings.Contains(output(a), want) {
		t.Errorf("output %s, want zeros after the input", output(a))
	}
}

func TestParseIsolation(t *testing.T) {
	for _, i := range []plugin.Isolation{plugin.Shared, plugin.PerKey, plugin.PerCall} {
		if got, err := plugin.ParseIsolation(i.String()); err != nil || got != i {
			t.Errorf("%s: %v, %v", i, got, err)
		}
	}
	if _, err := plugin.ParseIsolation("tenant"); err == nil || !strings.Contains(err.Error(), "want shared, key or call") {
		t.Errorf("error %v", err)
	}
}

// A new buffer is requested if the current one is too small, or so large that the guest should be able to free it.
//
// covers: C24
func TestInputBufferIsRequestedWhenNeeded(t *testing.T) {
	m := newModule("text")
	m.ExportMemory(64, w.NoMax)
	m.export(abi.ExportVersion, "", i32(0))
	m.Global(w.I32, true, i32('0'))
	m.export(abi.ExportBuffer, "i", w.GlobalGet(0), i32(1), w.I32Add, w.GlobalSet(0), i32(inputAt))
	m.export(abi.ExportConfigure, "ii", i32(0))
	m.provider(i32(keepAt), w.GlobalGet(0), w.I32Store8, m.text(i32(keepAt), i32(1)), i32(0))
	bound := bind(t, load(t, newHost(t, plugin.Options{Instances: 1}), plugin.Spec{Wasm: m.Bytes()}), plugin.BindingConfig{})
	a := newAttempt(t, body)
	for _, s := range []struct {
		size  int
		asked string
	}{{10, "1"}, {16 << 10, "1"}, {16<<10 + 1, "2"}, {10, "2"}, {2 << 20, "3"}, {3 << 19, "3"}, {10, "4"}, {10, "4"}} {
		if err := bound.Event(t.Context(), a, abi.EventPlain, nil, make([]byte, s.size)); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(output(a), `"content":"`+s.asked+`"`) {
			t.Errorf("%d bytes: output %s, want %s requests of a buffer", s.size, output(a), s.asked)
		}
		a.Writer.Consume()
	}
}
