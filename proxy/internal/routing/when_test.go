package routing_test

import (
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
)

// TestConditionsOnClients checks the conditions about who asks: a condition leaves exactly one of two targets.
func TestConditionsOnClients(t *testing.T) {
	values := func(name string, globs ...config.Glob) []config.TagMatch {
		return []config.TagMatch{{Name: name, Values: globs}}
	}
	claim := func(globs ...config.Glob) []config.ClaimMatch {
		return []config.ClaimMatch{{Claim: "groups", Values: globs}}
	}
	parameter := func(name string, from, to float64) config.When {
		return config.When{Parameters: []config.ParameterRange{{Name: name, Range: config.Range{From: from, To: to}}}}
	}
	left := func(from, to float64) config.When { return config.When{BudgetLeft: &config.Range{From: from, To: to}} }
	const chat = `{"temperature":0.2,"n":2,"metadata":{"tier":"gold","level":3,"deep":{}}}`
	for name, c := range map[string]struct {
		when config.When
		body string
		want bool
	}{
		"header":                        {config.When{Headers: values("x-tier", "silver", "g*")}, chat, true},
		"another value":                 {config.When{Headers: values("x-tier", "silver")}, chat, false},
		"missing header":                {config.When{Headers: values("x-plan", "*")}, chat, false},
		"claim":                         {config.When{Claims: claim("ai-*")}, chat, true},
		"another claim":                 {config.When{Claims: claim("hr-*")}, chat, false},
		"metadata":                      {config.When{Metadata: values("tier", "gold")}, chat, true},
		"a number in metadata":          {config.When{Metadata: values("level", "3")}, chat, true},
		"an object in metadata":         {config.When{Metadata: values("deep", "*")}, chat, false},
		"another value in metadata":     {config.When{Metadata: values("tier", "silver")}, chat, false},
		"labels of Gemini":              {config.When{Metadata: values("tier", "gold")}, `{"labels":{"tier":"gold"}}`, true},
		"no metadata":                   {config.When{Metadata: values("tier", "*")}, `{}`, false},
		"parameter at the end of range": {parameter("temperature", 0, 0.2), chat, true},
		"parameter below the range":     {parameter("temperature", 0.21, 1), chat, false},
		"parameter above the range":     {parameter("n", 0, 1), chat, false},
		"parameter is missing":          {parameter("top_p", -1, 1), chat, false},
		"parameter of Gemini":           {parameter("top_p", 0.5, 0.5), `{"generationConfig":{"topP":0.5}}`, true},
		"parameter is no number":        {parameter("seed", 0, 9), `{"seed":"1"}`, false},
		"little is left":                {left(0, 0.1), chat, true},
		"more must be left":             {left(0.11, 1), chat, false},
		"less must be left":             {left(0, 0.09), chat, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := &routing.Policy{Model: "m", ReadsBudget: true, Targets: []routing.Target{
				{Provider: "a", Model: "x", When: &c.when, Stats: new(routing.Stats)}, {Provider: "b", Model: "x", Stats: new(routing.Stats)},
			}}
			head, doc := new(fasthttp.RequestHeader), new(jsondoc.Doc)
			head.Set("X-Tier", "gold")
			if err := doc.Parse([]byte(c.body), jsondoc.Limits{}); err != nil {
				t.Fatal(err)
			}
			r := &routing.Request{
				Claims: map[string][]string{"groups": {"staff", "ai-users"}}, Budget: routing.BudgetShare{Left: 0.1, Of: "key k per day"},
				Identity: routing.Identity{Header: head, Doc: doc},
			}
			d := new(routing.Decision)
			if err := p.Decide(t.Context(), r, time.Unix(0, 0), d); err != nil {
				t.Fatal(err)
			}
			if got := d.Left(0) == routing.NotLeft; got != c.want {
				t.Errorf("the condition holds: %t, want %t", got, c.want)
			}
			if n := len(p.Candidates(r, time.Unix(0, 0))); n != len(d.Order()) {
				t.Errorf("%d candidates, and %d targets in the order", n, len(d.Order()))
			}
		})
	}
	p := &routing.Policy{Targets: []routing.Target{{When: &config.When{Headers: values("a", "b")}}, {When: &config.When{Parameters: []config.ParameterRange{{Name: "n"}}}}}}
	if left := p.Candidates(new(routing.Request), time.Time{}); len(left) != 0 {
		t.Errorf("without a head and a body, %d conditions hold", len(left))
	}
}
