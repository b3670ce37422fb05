package plugin_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// formsModule returns the trivial provider with an export sluice_forms.
func formsModule(code func(m *module) w.Op) *module {
	m := newModule("text", "log", "done").base()
	m.export(abi.ExportForms, "i", code(m))
	return m.provider(m.echo())
}

func formsBits(bits int32) func(*module) w.Op { return func(*module) w.Op { return i32(bits) } }

// covers: C31
func TestForms(t *testing.T) {
	h := newHost(t, plugin.Options{})
	tests := []struct {
		name string
		m    *module
		want abi.Forms
	}{
		{"no export", echoModule(), 0},
		{"none", formsModule(formsBits(0)), abi.FormChat},
		{"one", formsModule(formsBits(1)), abi.FormMessages},
		{"several", formsModule(formsBits(2 | 16)), abi.FormResponses | abi.FormEmbeddings},
		{"unknown bits", formsModule(formsBits(1<<30 | 128 | 1)), abi.FormMessages},
		{"all", formsModule(formsBits(1<<31 - 1)), abi.FormsKnown},
		{"depending on the binding", formsModule(func(*module) w.Op { return w.Code(w.LocalGet(0), i32(1), w.I32Add) }), abi.FormMessages},
		{"with a log line", formsModule(func(m *module) w.Op {
			return w.Code(i32(3), i32(0), i32(4), m.call("log"), i32(2))
		}), abi.FormResponses},
	}
	for _, tt := range tests {
		for _, isolation := range []plugin.Isolation{plugin.Shared, plugin.PerKey, plugin.PerCall} {
			t.Run(tt.name+"/"+isolation.String(), func(t *testing.T) {
				bound := bind(t, load(t, h, plugin.Spec{Wasm: tt.m.Bytes(), Isolation: isolation}), plugin.BindingConfig{})
				want(t, "forms", bound.Forms(), tt.want)
				for _, text := range []string{"first", "second"} {
					echo(t, bound, newAttempt(t, body), text)
				}
			})
		}
	}
}

func TestFormsOfEachBinding(t *testing.T) {
	m := formsModule(func(*module) w.Op { return w.Code(w.LocalGet(0), i32(1), w.I32Add) })
	p := load(t, newHost(t, plugin.Options{}), plugin.Spec{Wasm: m.Bytes()})
	for i := range 5 {
		want(t, "forms", bind(t, p, plugin.BindingConfig{}).Forms(), abi.Forms(i+1))
	}
}

// covers: C31
func TestInvalidForms(t *testing.T) {
	tests := []struct {
		name string
		code func(m *module) w.Op
		kind plugin.CallErrorKind
		want string
	}{
		{"negative", formsBits(-1), plugin.KindProtocol, "protocol error: returned -1, not a valid set of forms"},
		{"the least number", formsBits(-1 << 31), plugin.KindProtocol, "returned -2147483648, not a valid set of forms"},
		{"trap", func(*module) w.Op { return w.Unreachable }, plugin.KindTrap, "unreachable"},
		{"endless loop", func(*module) w.Op { return w.Code(forever(), i32(1)) }, plugin.KindOutOfFuel, "out of fuel"},
		{"output", func(m *module) w.Op { return w.Code(m.text(i32(0), i32(1)), i32(1)) }, plugin.KindProtocol, "text: not allowed in this call"},
		{"done", func(m *module) w.Op { return w.Code(i32(0), m.call("done"), i32(1)) }, plugin.KindProtocol, "done: not allowed in this call"},
		{"address outside of the memory", func(m *module) w.Op {
			return w.Code(i32(3), i32(-1), i32(100), m.call("log"), i32(1))
		}, plugin.KindTrap, "log: 100 bytes at address 4294967295, outside of the guest's memory"},
	}
	h := newHost(t, plugin.Options{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := load(t, h, plugin.Spec{Wasm: formsModule(tt.code).Bytes()})
			for range 2 { // the instance that failed serves no further call
				_, err := p.Bind(t.Context(), plugin.BindingConfig{Name: "binding"})
				e := wantCallError(t, err, tt.kind)
				if !strings.HasPrefix(e.Error(), "plugin test: binding binding: sluice_forms: ") || !strings.Contains(e.Error(), tt.want) {
					t.Errorf("error %q, want it to contain %q", e, tt.want)
				}
			}
		})
	}
	t.Run("mistyped", func(t *testing.T) {
		m := newModule("text").base()
		m.export(abi.ExportForms, "ii", i32(0))
		_, err := h.Load(t.Context(), []plugin.Spec{{Name: "bad", Wasm: m.provider(m.echo()).Bytes()}})
		if err == nil || !strings.Contains(err.Error(), "export sluice_forms is (i32, i32) -> i32, want (i32) -> i32") {
			t.Errorf("error %v", err)
		}
	})
}

// A module of several plugins exports sluice_forms for all of them, but it is called for providers only.
func TestRoutersHaveNoForms(t *testing.T) {
	m := multiModule()
	m.export(abi.ExportForms, "i", i32(letterAt), w.I32Load8U, i32('r'), w.I32Eq, w.If(w.Void, w.Unreachable), i32(3))
	g := loadAll(t, newHost(t, plugin.Options{}), multiSpecs(m.Bytes(), plugin.Shared, "a", "r"))
	want(t, "forms of a", bind(t, g.Plugin("a"), plugin.BindingConfig{}).Forms(), abi.FormMessages|abi.FormResponses)
	want(t, "forms of r", bind(t, g.Plugin("r"), plugin.BindingConfig{}).Forms(), 0)
}

func TestFormsOfNativePlugin(t *testing.T) {
	bound := bindNative(t, native{forms: func(abi.Host) int32 { return 2 }}, plugin.BindingConfig{})
	want(t, "forms", bound.Forms(), abi.FormResponses)
	var log bytes.Buffer
	h := newHost(t, plugin.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	_, err := loadNative(t, h, native{forms: func(abi.Host) int32 { panic("a bug") }}).Bind(t.Context(), plugin.BindingConfig{Name: "b"})
	if e := wantCallError(t, err, plugin.KindTrap); !strings.Contains(e.Error(), "sluice_forms: trap: panic: a bug") {
		t.Errorf("error %v", e)
	}
}
