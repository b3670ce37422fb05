package anthropic

import (
	"context"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// TestFuel bounds the fuel of requests and events. The bounds are a tenth above the measured values, to allow for
// another version of the compiler. Fuel is the same in every run, so the bounds can be tighter than those of a time.
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
	a = attemptOf(t, b, `{"model":"m","messages":[{"role":"user","content":"Hi"}]}`)
	for range 2 { // the first one learns in which order the members stand
		a.Writer.Reset(plugintest.WriterOptions{ID: "chatcmpl-fuel", Model: "m", Created: 1700000000, Aliases: a.Alias})
		a.Fuel = 0
		if err := b.Response(context.Background(), a, 200, wholeAnswer); err != nil {
			t.Fatal(err)
		}
	}
	if most := int64(1_560); a.Fuel > most {
		t.Errorf("a whole answer takes %d units of fuel, at most %d are expected", a.Fuel, most)
	}
	for name, request := range map[string]struct {
		body []byte
		most int64
	}{
		"of 200 bytes": {benchRequest(0), 1_350}, "of 100 KB": {benchRequest(100 << 10), 47_000},
		"with tools, of 1 KB": {conversation(1 << 10), 5_900}, "with tools, of 100 KB": {conversation(100 << 10), 370_000},
	} {
		var (
			r      plugintest.Request
			writer = plugintest.NewWriter()
		)
		if err := r.Parse(request.body, plugintest.Limits{}); err != nil {
			t.Fatal(err)
		}
		fuel := int64(0)
		for range 3 { // the first ones make memory
			again := plugintest.Attempt{Request: &r, Writer: writer}
			again.Summary = plugintest.Summary{RequestID: "req_fuel", Time: time.Now(), Attempt: 1, Target: "m"}
			again.Summary.Describe(&r)
			if err := b.Request(context.Background(), &again); err != nil {
				t.Fatal(err)
			}
			fuel = again.Fuel
		}
		t.Logf("%s: %d", name, fuel)
		if fuel > request.most {
			t.Errorf("a conversation %s takes %d units of fuel, at most %d are expected", name, fuel, request.most)
		}
	}
}
