package e2e_test

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

func TestCheapestUsesTargetPrices(t *testing.T) {
	g := proxytest.Start(t, proxytest.Keys+`
[providers.one]
plugin = "demo"
[providers.two]
plugin = "demo"
[providers.three]
plugin = "demo"
[[models]]
id           = "m"
display_name = "M"
owned_by     = "x"
created      = 2026-01-01
pricing      = { input = 3, output = 9 }
targets      = [
  { provider = "one", model = "a" },
  { provider = "two", model = "b", pricing = { input = 1, output = 2 } },
  { provider = "three", model = "c", pricing = { input = 1, output = 4 } },
]
[router]
plugin   = "router"
strategy = "cheapest"
`)
	r := g.Chat(t, `{"model":"m","messages":[{"role":"user","content":"x"}]}`)
	if r.Status != 200 || r.Header.Get("X-Gateway-Provider") != "two" {
		t.Errorf("got status %d from provider %s, want 200 from two", r.Status, r.Header.Get("X-Gateway-Provider"))
	}
}
