package main

import (
	"context"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/chat"
	"github.com/sluice-gateway/sluice/proxy/plugin"
	"github.com/sluice-gateway/sluice/sdk/plugintest"
)

// The bounds leave a tenth above what was measured, for another version of the compiler. Fuel is the same in every run,
// so that they hold a line that a time could not.
func TestFuel(t *testing.T) {
	b := suite.Bind(t, plugintest.Host(t), plugintest.Module)
	a := attempt(t, b)
	send(t, b, a, toolStart)
	for name, event := range map[string]struct {
		data []byte
		most int64
	}{"text": {textEvent, 137}, "tool": {toolEvent, 160}, "thinking": {thinkingEvent, 140}} {
		a.Fuel = 0
		if send(t, b, a, event.data); a.Fuel > event.most {
			t.Errorf("a %s event takes %d units of fuel, at most %d are expected", name, a.Fuel, event.most)
		}
	}
	for _, size := range []struct {
		bytes int
		most  int64
	}{{1 << 10, 6_700}, {100 << 10, 370_000}} {
		var (
			r       chat.Request
			machine chat.Machine
		)
		if err := r.Parse(conversation(size.bytes), chat.Limits{}); err != nil {
			t.Fatal(err)
		}
		fuel := int64(0)
		for range 3 { // the first ones make memory
			again := plugin.Attempt{Request: &r, Machine: &machine}
			again.Summary = plugin.Summary{RequestID: "req_fuel", Time: time.Now(), Attempt: 1, Target: "m"}
			again.Summary.Describe(&r)
			if err := b.Request(context.Background(), &again); err != nil {
				t.Fatal(err)
			}
			fuel = again.Fuel
		}
		if fuel > size.most {
			t.Errorf("a conversation of %d bytes takes %d units of fuel, at most %d are expected", size.bytes, fuel, size.most)
		}
	}
}
