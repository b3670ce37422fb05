//go:build !race

package plugin_test

import (
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

func TestEventDoesNotAllocate(t *testing.T) {
	h := newGoHost(t, plugin.Options{})
	guests := map[string]*plugin.Plugin{
		"wasm": load(t, h, plugin.Spec{Wasm: echoModule().Bytes()}),
		"go":   loadGoGuest(t, h, plugin.PerKey),
	}
	for name, p := range guests {
		t.Run(name, func(t *testing.T) {
			bound := bind(t, p, plugin.BindingConfig{Redact: redact})
			a := newAttempt(t, body)
			event, text := b("content_block_delta"), b("some words of an answer")
			n := testing.AllocsPerRun(1000, func() {
				if err := bound.Event(t.Context(), a, abi.EventPlain, event, text); err != nil {
					t.Fatal(err)
				}
				a.Writer.Consume()
			})
			if n != 0 {
				t.Errorf("%v allocations per event, want none", n)
			}
		})
	}
}

func TestRequestDoesNotAllocate(t *testing.T) {
	bound := bindNative(t, editing, editingConfig)
	a := newAttempt(t, `{"model":"m","messages":[{"role":"user","content":"`+strings.Repeat("word ", 1000)+`"}],"stream":true}`)
	request := a.Request
	n := testing.AllocsPerRun(1000, func() {
		a.Request = request
		if err := bound.Request(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations per request, want none", n)
	}
	if a.Out.Path != string(chatPath) || len(a.Out.Headers) != 2 || a.Out.Headers[0].Value != string(version) || a.DialectOptions.ReasoningFormat != "deepseek" {
		t.Errorf("got request %+v and dialect options %+v", a.Out, a.DialectOptions)
	}
}
