//go:build !race

package plugin_test

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugin"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

func TestAnEventDoesNotAllocate(t *testing.T) {
	h := newHost(t, plugin.Options{})
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
				a.Machine.Take()
			})
			if n != 0 {
				t.Errorf("%v allocations an event", n)
			}
		})
	}
}
