package anthropic

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// TestFuel bounds the fuel of requests and events. The bounds are a tenth above the measured values, to allow for
// another version of the compiler. Fuel is the same in every run, so the bounds can be tighter than those of a time.
func TestFuel(t *testing.T) {
	b := suite.Bind(t, plugintest.Module)
	limits := map[string]int64{"text": 155, "tool": 175, "thinking": 158, "text read member by member": 1_000}
	for name, fuel := range b.EventFuel(t, streamEvents) {
		if fuel > limits[name] {
			t.Errorf("event %s takes %d units of fuel, want at most %d", name, fuel, limits[name])
		}
	}
	a := b.Attempt(t, plugintest.Hello)
	var fuel int64
	for range 2 { // the first call learns the order of the members
		a.Restart()
		fuel = a.Fuel(func() {
			if err := a.Response(200, nonStreamingResponse); err != nil {
				t.Fatal(err)
			}
		})
	}
	if fuel > 1_560 {
		t.Errorf("a non-streaming response takes %d units of fuel, want at most 1,560", fuel)
	}
	for name, request := range map[string]struct {
		body  []byte
		limit int64
	}{
		"of 200 bytes": {benchRequest(0), 1_940}, "of 100 KB": {benchRequest(100 << 10), 51_000},
		"with tools, of 1 KB": {plugintest.Conversation(1 << 10), 6_400}, "with tools, of 100 KB": {plugintest.Conversation(100 << 10), 397_000},
		"of an agent, of 100 KB": {agentRequest(100 << 10), 157_000},
	} {
		fuel := b.RequestFuel(t, request.body)
		t.Logf("request %s: %d", name, fuel)
		if fuel > request.limit {
			t.Errorf("a request %s takes %d units of fuel, want at most %d", name, fuel, request.limit)
		}
	}
}
