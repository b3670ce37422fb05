package routing_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
)

// session is a Header with x-session-id only. It has no header if it is nil.
type session []byte

func (s session) Peek(name string) []byte {
	if name == "x-session-id" {
		return s
	}
	return nil
}

// decisions returns functions that decide a request repeatedly, by the name of the benchmark.
func decisions(tb testing.TB) map[string]func(d *routing.Decision) {
	yes := true
	turn := `{"role":"user","content":"` + strings.Repeat("u", 500) + `"},{"role":"assistant","content":"` + strings.Repeat("a", 500) + `"}`
	var d jsondoc.Doc
	body := `{"model":"m","messages":[{"role":"system","content":"` + strings.Repeat("s", 2000) + `"},` + strings.Repeat(turn+",", 10) + turn + `],"tools":[{"type":"function","function":{"name":"f"}}]}`
	if err := d.Parse([]byte(body), jsondoc.Limits{}); err != nil {
		tb.Fatal(err)
	}
	var rules []routing.Rule
	for i := range 4 {
		when := &config.When{Keys: []config.Glob{config.Glob(fmt.Sprint("other-", i, "-*"))}, Times: []config.DayTime{{From: 0, To: 24 * 60}}}
		rules = append(rules, routing.Rule{Name: fmt.Sprint("rule", i), When: when, Allows: []bool{true, true, false}})
	}
	rules[3].When = &config.When{Keys: []config.Glob{"te*"}, Stream: &yes, PromptFrom: 10, Times: []config.DayTime{{From: 22 * 60, To: 21 * 60}}}
	all := map[string]func(d *routing.Decision){}
	add := func(name string, p *routing.Policy, header routing.Header) {
		ctx := tb.Context()
		all[name] = func(decision *routing.Decision) {
			r := routing.Request{
				Key: "team", API: "chat", Stream: true, PromptTokens: 100, Summary: summary{},
				Identity: routing.Identity{Salt: salt, Header: header, Doc: &d, Client: "team"},
			}
			if err := p.Decide(ctx, &r, now, decision); err != nil {
				tb.Fatal(err)
			}
		}
	}
	plain := func(weights ...int) *routing.Policy {
		p := sticky(weights...)
		p.Affinity.By = config.AffinityNone
		return p
	}
	add("one target", plain(1), nil)
	add("three targets", plain(1, 1, 1), nil)
	add("three targets, by a session's header", sticky(1, 1, 1), session("01998e0a-session"))
	add("three targets, by content", sticky(1, 1, 1), session(nil))
	ruled := plain(1, 1, 1)
	ruled.Rules = rules
	add("three targets, four rules", ruled, nil)
	both := sticky(1, 1, 1)
	both.Rules = rules
	add("three targets, by content, four rules", both, session(nil))
	return all
}

func BenchmarkDecide(b *testing.B) {
	for name, decide := range decisions(b) {
		b.Run(name, func(b *testing.B) {
			var d routing.Decision
			b.ReportAllocs()
			for b.Loop() {
				decide(&d)
			}
		})
	}
}

// A decision is made for every request.
func TestDecisionsDoNotAllocate(t *testing.T) {
	for name, decide := range decisions(t) {
		var d routing.Decision
		if n := testing.AllocsPerRun(100, func() { decide(&d) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
