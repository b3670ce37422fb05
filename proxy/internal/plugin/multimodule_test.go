package plugin_test

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// letterAt is where the module below keeps the letter of the selected plugin, in front of the kept text.
const letterAt = keepAt - 1

// multiModule returns a module of the providers a and b and the router r. In an event, a provider emits its letter and
// the first text that it has received, or traps if the event begins with x. Requests fail in a; b responds to them
// itself.
func multiModule() *module {
	const complaintAt = 8 << 10
	complaint := b("there are a, b and r")
	m := newModule("text", "log", "done", "candidate").base()
	m.Data(complaintAt, complaint)
	m.Global(w.I32, true, i32(0)) // length of the kept text
	become := func(letter byte, kind int32) w.Op {
		return when(letter, i32(letterAt), i32(int32(letter)), w.I32Store8, i32(kind), w.Return)
	}
	m.export(abi.ExportPlugin, "i",
		w.LocalGet(0), i32(1), w.I32Eq, w.If(w.Void, become('a', 1), become('b', 1), become('r', 2)),
		i32(int32(abi.LogError)), i32(complaintAt), i32(int32(len(complaint))), m.call("log"),
		i32(0))
	m.export(abi.ExportRequest, "ii",
		i32(letterAt), w.I32Load8U, i32('a'), w.I32Eq, w.If(w.Void, i32(1), w.Return),
		m.text(i32(letterAt), i32(1)), i32(0), m.call("done"), i32(0))
	m.export(abi.ExportEvent, "iiii",
		when('x', w.Unreachable),
		w.GlobalGet(0), w.I32Eqz, w.If(w.Void,
			i32(keepAt), i32(inputAt), w.LocalGet(3), w.MemoryCopy,
			w.LocalGet(3), w.GlobalSet(0)),
		m.text(i32(letterAt), w.Code(w.GlobalGet(0), i32(1), w.I32Add)),
		i32(0))
	m.export(abi.ExportChoose, "ii", i32(1), m.call("candidate"), i32(0))
	return m
}

// multiSpecs returns the specs of plugins of one module.
func multiSpecs(wasm []byte, isolation plugin.Isolation, names ...string) (specs []plugin.Spec) {
	for _, name := range names {
		specs = append(specs, plugin.Spec{Name: name, Wasm: wasm, Isolation: isolation})
	}
	return specs
}

func loadAll(t testing.TB, h *plugin.Host, specs []plugin.Spec) *plugin.Set {
	t.Helper()
	g, err := h.Load(t.Context(), specs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// wantEvent passes an event to the plugin and compares the text that it emits.
func wantEvent(t testing.TB, bound *plugin.Binding, key, event, want string) {
	t.Helper()
	a := newAttempt(t, body)
	a.Tenant = key
	if err := bound.Event(t.Context(), a, abi.EventPlain, nil, b(event)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(output(a), fmt.Sprintf(`"content":%q`, want)) {
		t.Errorf("event %q of %s: output %s, want text %q", event, key, output(a), want)
	}
}

// covers: C28
func TestPluginsOfModuleAreSeparate(t *testing.T) {
	h := newHost(t, plugin.Options{})
	g := loadAll(t, h, multiSpecs(multiModule().Bytes(), plugin.Shared, "a", "b"))
	one, other := bind(t, g.Plugin("a"), plugin.BindingConfig{}), bind(t, g.Plugin("b"), plugin.BindingConfig{})
	wantEvent(t, one, "alice", "1", "a1")
	wantEvent(t, other, "alice", "2", "b2")
	wantEvent(t, one, "alice", "3", "a1")
	wantEvent(t, other, "alice", "4", "b2")

	wantCallError(t, one.Event(t.Context(), newAttempt(t, body), abi.EventPlain, nil, b("x")), plugin.KindTrap)
	wantEvent(t, other, "alice", "5", "b2")
	wantEvent(t, one, "alice", "6", "a6") // a new instance of a
	if a, b := g.Plugin("a").Stats(), g.Plugin("b").Stats(); a.Failures == 0 || b.Failures != 0 || a.Calls <= b.Calls {
		t.Errorf("stats of a: %+v, of b: %+v", a, b)
	}
}

// TestImageKeepsSelectedPlugin checks that the plugin need not be selected again in a restored instance.
func TestImageKeepsSelectedPlugin(t *testing.T) {
	for _, isolation := range []plugin.Isolation{plugin.PerKey, plugin.PerCall} {
		h := newHost(t, plugin.Options{Instances: 1})
		g := loadAll(t, h, multiSpecs(multiModule().Bytes(), isolation, "a", "b"))
		for _, name := range []string{"a", "b"} {
			bound := bind(t, g.Plugin(name), plugin.BindingConfig{})
			for _, key := range []string{"alice", "bob", "alice"} {
				wantEvent(t, bound, key, key, name+key)
			}
			if s := g.Plugin(name).Stats(); s.Made != 1 {
				t.Errorf("%v: %d instances were made, want one that is restored", isolation, s.Made)
			}
		}
	}
}

// covers: C29
func TestKindOfPluginInModule(t *testing.T) {
	h := newHost(t, plugin.Options{})
	g := loadAll(t, h, multiSpecs(multiModule().Bytes(), plugin.Shared, "a", "r"))
	provider, router := g.Plugin("a"), g.Plugin("r")
	if !provider.Provider() || provider.Router() || router.Provider() || !router.Router() {
		t.Errorf("a is a provider %t and a router %t, r %t and %t", provider.Provider(), provider.Router(), router.Provider(), router.Router())
	}
	if order, _, err := bind(t, router, plugin.BindingConfig{}).Choose(t.Context(), b("{}"), 2); err != nil || !slices.Equal(order, []int{1}) {
		t.Errorf("order %v, error %v", order, err)
	}
	// The module exports the functions of both kinds, but a plugin of one kind must not be called as the other.
	_, _, err := bind(t, provider, plugin.BindingConfig{}).Choose(t.Context(), b("{}"), 2)
	wantCallError(t, err, plugin.KindProtocol)
	wantCallError(t, bind(t, router, plugin.BindingConfig{}).Request(t.Context(), newAttempt(t, body)), plugin.KindProtocol)
}

// covers: F90
func TestPluginsOfModuleFailAlone(t *testing.T) {
	c := &clock{now: time.Unix(1_700_000_000, 0)}
	h := newHost(t, plugin.Options{Now: c.Now})
	g := loadAll(t, h, multiSpecs(multiModule().Bytes(), plugin.Shared, "a", "b"))
	bad, good := bind(t, g.Plugin("a"), plugin.BindingConfig{}), bind(t, g.Plugin("b"), plugin.BindingConfig{})
	for i := range 40 {
		a := newAttempt(t, body)
		a.Tenant = fmt.Sprint(i % 4)
		if err := bad.Request(t.Context(), a); err == nil {
			t.Fatal("a request to a succeeded")
		}
		c.add(100 * time.Millisecond)
	}
	if s := g.Plugin("a").Stats(); s.Breaker != plugin.BreakerOpen {
		t.Fatalf("the circuit of a is %v, want open", s.Breaker)
	}
	if s := g.Plugin("b").Stats(); s.Breaker != plugin.BreakerClosed {
		t.Errorf("the circuit of b is %v, want closed", s.Breaker)
	}
	if err := good.Request(t.Context(), newAttempt(t, body)); err != nil {
		t.Errorf("a request to b: %v", err)
	}
}

// TestModuleIsReadOnce checks that a module is read and compiled once for all its plugins and generations.
func TestModuleIsReadOnce(t *testing.T) {
	var compiled []string
	var ended, reads atomic.Int32
	h := newHost(t, plugin.Options{Engine: engine.Options{CacheDir: t.TempDir(), Compiling: func(plugins string) func() {
		compiled = append(compiled, plugins)
		return func() { ended.Add(1) }
	}}})
	wasm := multiModule().Bytes()
	source := engine.Source{Digest: sha256.Sum256(wasm), Read: func() ([]byte, error) {
		reads.Add(1)
		return wasm, nil
	}}
	specs := []plugin.Spec{{Name: "a", Source: source}, {Name: "b", Source: source}, {Name: "r", Source: source}}
	first := loadAll(t, h, specs)
	if !slices.Equal(compiled, []string{"a, b, r"}) || ended.Load() != 1 {
		t.Errorf("compilations began for %q and %d ended, want one for all plugins", compiled, ended.Load())
	}
	loadAll(t, h, specs[1:])
	if reads.Load() != 1 {
		t.Errorf("the module was read %d times, want once", reads.Load())
	}
	wantEvent(t, bind(t, first.Plugin("a"), plugin.BindingConfig{}), "alice", "1", "a1")
}

// TestModuleOutlivesOneOfItsSets checks that a compiled module is closed with the last plugin that uses it.
func TestModuleOutlivesOneOfItsSets(t *testing.T) {
	h := newHost(t, plugin.Options{})
	wasm := multiModule().Bytes()
	old, err := h.Load(t.Context(), multiSpecs(wasm, plugin.Shared, "a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	next := loadAll(t, h, multiSpecs(wasm, plugin.Shared, "b"))
	bound := bind(t, next.Plugin("b"), plugin.BindingConfig{})
	wantEvent(t, bound, "alice", "1", "b1")
	old.Close()
	next.Retire() // the next call needs a new instance
	wantEvent(t, bound, "alice", "2", "b2")
}

// TestModuleLoadsAllPluginsOrNone checks that no plugin of a module is loaded if the module lacks one, and that the
// error names only the missing plugins.
func TestModuleLoadsAllPluginsOrNone(t *testing.T) {
	h := newHost(t, plugin.Options{})
	_, err := h.Load(t.Context(), multiSpecs(multiModule().Bytes(), plugin.Shared, "a", "mine", "b", "yours"))
	if err == nil {
		t.Fatal("loaded a plugin that the module does not have")
	}
	for _, want := range []string{"plugin mine: start: failed: the module has no plugin of that name: \"there are a, b and r\"", "plugin yours: "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q, want it to contain %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "plugin a:") || strings.Contains(err.Error(), "plugin b:") {
		t.Errorf("error %q names plugins that the module has", err)
	}
	_, err = h.Load(t.Context(), multiSpecs(b("no module"), plugin.Shared, "a", "b"))
	if err == nil || strings.Count(err.Error(), "plugins a, b: ") != 1 {
		t.Errorf("error %v, want it to name both once", err)
	}
}

// covers: C29
func TestInvalidPluginChoice(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles many modules")
	}
	returns := func(kind int32) func(*module) w.Op { return func(*module) w.Op { return i32(kind) } }
	tests := []struct {
		name   string
		code   func(m *module) w.Op
		reason string
	}{
		{"traps", func(*module) w.Op { return w.Unreachable }, "trap: sluice_plugin: unreachable"}, // covers: F90
		// covers: F92
		{"never returns", func(*module) w.Op { return w.Code(forever(), i32(1)) }, "out of fuel: sluice_plugin: out of fuel"},
		{"emits a text", func(m *module) w.Op { return w.Code(m.text(i32(0), i32(1)), i32(1)) }, "text: not allowed in this call"}, // covers: F93
		{"floods the log", func(m *module) w.Op { // covers: F96
			return w.Code(forever(i32(3), i32(0), i32(16), m.call("log")), i32(1))
		}, "out of fuel"},
		// covers: F97
		{"returns an unknown kind", returns(1 << 10), "sluice_plugin returned 1024, not a kind of plugin that this gateway supports"},
		{"returns a negative kind", returns(-1), "sluice_plugin returned -1, not a kind of plugin that this gateway supports"},
		{"has no such plugin and logs nothing", returns(0), "start: failed: the module has no plugin of that name"},
		{"is a router without its export", returns(2), "sluice_plugin declares a router, but the module does not export router_choose"},
		{"is a filter without its export", returns(4), "sluice_plugin declares a filter, but the module does not export filter_text"},
		{"is both without one export", returns(3), "sluice_plugin declares a router, but the module does not export router_choose"},
	}
	h := newHost(t, plugin.Options{})
	loadError := func(t *testing.T, m *module) string {
		t.Helper()
		g, err := h.Load(t.Context(), []plugin.Spec{{Name: "good", Wasm: echoModule().Bytes()}, {Name: "bad", Wasm: m.Bytes()}})
		if err == nil {
			g.Close()
			t.Fatal("the invalid plugin was loaded")
		}
		if !strings.HasPrefix(err.Error(), "plugin bad: ") {
			t.Errorf("error %q does not name the plugin", err)
		}
		return err.Error()
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newModule("text", "log").base()
			m.export(abi.ExportPlugin, "i", tt.code(m))
			m.provider(m.echo())
			if got := loadError(t, m); !strings.Contains(got, tt.reason) {
				t.Errorf("error %q, want it to contain %q", got, tt.reason)
			}
		})
	}
	// covers: F97
	t.Run("is a provider without its export", func(t *testing.T) {
		m := newModule().base()
		m.export(abi.ExportPlugin, "i", i32(1))
		m.export(abi.ExportChoose, "ii", i32(0))
		if got := loadError(t, m); !strings.Contains(got, "does not export provider_request") {
			t.Errorf("error %q", got)
		}
	})
	// covers: F97
	t.Run("another type", func(t *testing.T) {
		m := newModule("text").base()
		m.export(abi.ExportPlugin, "ii", i32(1))
		m.provider(m.echo())
		if got := loadError(t, m); !strings.Contains(got, "export sluice_plugin is (i32, i32) -> i32, want (i32) -> i32") {
			t.Errorf("error %q", got)
		}
	})
	// covers: F94
	t.Run("no buffer for the name", func(t *testing.T) {
		m := newModule("text")
		m.ExportMemory(16, w.NoMax)
		m.export(abi.ExportVersion, "", i32(0))
		m.export(abi.ExportBuffer, "i", i32(-16))
		m.export(abi.ExportConfigure, "ii", i32(0))
		m.export(abi.ExportPlugin, "i", i32(1))
		m.provider(m.echo())
		if got := loadError(t, m); !strings.Contains(got, "sluice_buffer returned an address outside") {
			t.Errorf("error %q", got)
		}
	})
}

// TestPluginNameIsCleared checks that later calls do not find the input of sluice_plugin.
//
// covers: C25
func TestPluginNameIsCleared(t *testing.T) {
	m := newModule("text").base()
	m.export(abi.ExportPlugin, "i", i32(1))
	m.provider(m.text(i32(inputAt+8), i32(4)), i32(0)) // after the bytes that the settings overwrite
	bound := bind(t, load(t, newHost(t, plugin.Options{}), plugin.Spec{Name: "the-long-name", Wasm: m.Bytes()}), plugin.BindingConfig{})
	a := newAttempt(t, body)
	if err := bound.Event(t.Context(), a, abi.EventPlain, nil, nil); err != nil || !strings.Contains(output(a), `"content":"\u0000\u0000\u0000\u0000"`) {
		t.Errorf("the input buffer holds %s, %v", output(a), err)
	}
}
