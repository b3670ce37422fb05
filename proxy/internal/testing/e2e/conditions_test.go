package e2e_test

import (
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/issuertest"
)

// TestBudgetLeft checks that a conversation goes on at a cheaper target once 90 % of a budget is spent, even where the
// other target would not fit what is left, and that explanations say so before and after.
func TestBudgetLeft(t *testing.T) {
	b := newBiller(t)
	toml := budgetConfiguration(b.URL, `explain = true
budgets = [{ usd = 0.1, per = "total" }]`, "", "", "")
	toml, _, _ = strings.Cut(toml, "[[models]]")
	g := proxytest.Start(t, toml+`
[[models]]
id      = "m"
max_tokens = 4096
targets = [
  { provider = "bill", model = "large", pricing = { input = 1, output = 10 } },
  { provider = "bill", model = "small", pricing = { input = 0.1, output = 1 } },
]
rules = [
  { name = "saving", when = { budget_left = [0, 0.1] }, targets = ["bill/small"] },
  { name = "normal", targets = ["bill/large"] },
]
`)
	explain := func(want ...string) {
		t.Helper()
		got, err := g.Server.Explain(t.Context(), &proxy.ExplainRequest{Model: "m", Key: "tests"})
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if !strings.Contains(string(got.Text), part) && !strings.Contains(string(got.JSON), part) {
				t.Errorf("the explanation has no %q:\n%s%s", part, got.Text, got.JSON)
			}
		}
	}
	explain("budget    100% left, of key tests per total\n", `"rule":"normal"`, `"budget":{"left":1.0000,"of":"key tests per total"}`)
	for n := range 14 {
		r := g.Do(t, "POST", "/v1/chat/completions", budgetRequest(1000, n%2 == 0), "Authorization: Bearer "+proxytest.Key, "x-session-id: one", "x-gateway-explain: 1")
		rule, target := "normal", "large"
		if n >= 9 { // a request costs a little more than a hundredth of the budget
			rule, target = "saving", "small"
		}
		if line := g.Log.Request(t, r.RequestID()); r.Status != 200 || line["rule"] != rule || line["target"] != target {
			t.Errorf("request %d: %d by rule %v at %v, want %s and %s", n, r.Status, line["rule"], line["target"], rule, target)
		}
		if route := r.Header.Get("X-Gateway-Route"); n == 0 && !strings.Contains(route, "budget 100% left") {
			t.Errorf("got route %q", route)
		}
	}
	explain("rule      saving\n", `"rule":"saving"`, `"of":"key tests per total"`, `{"target":"bill/large","left_out":"rule"}`)
}

// TestConditionsOnWhoAsks sends requests that each match one rule.
func TestConditionsOnWhoAsks(t *testing.T) {
	issuer, b := issuertest.New(t), newBiller(t)
	toml := strings.Replace(tokenConfiguration(issuer.URL, b.URL, ""), `targets = [{ provider = "bill" }]`, `targets = [{ provider = "bill" }]
rules = [
  { name = "header", when = { header = { "X-Tier" = ["gold"] } } },
  { name = "claim", when = { claim = { roles = ["admin*"] } } },
  { name = "metadata", when = { metadata = { tier = ["gold"] } } },
  { name = "parameter", when = { parameter = { temperature = [0, 0.2] } } },
]`, 1)
	g := proxytest.Start(t, "[router]\nreads = [\"header:x-tier\"]\n"+toml)
	claims := person("alice", "red")
	user := withToken(issuer.Token(claims))
	claims["roles"] = []string{"user", "administrators"}
	admin := withToken(issuer.Token(claims))
	chat := func(members string) string {
		return `{"model":"m","max_tokens":10,"messages":[{"role":"user","content":"Hello"}]` + members + "}"
	}
	for name, c := range map[string]struct {
		path, body string
		headers    []string
		rule       string
	}{
		"nothing":           {"/v1/chat/completions", chat(""), []string{user}, ""},
		"header":            {"/v1/chat/completions", chat(""), []string{user, "x-tier: gold"}, "header"},
		"another header":    {"/v1/chat/completions", chat(""), []string{user, "x-tier: silver"}, ""},
		"claim":             {"/v1/chat/completions", chat(""), []string{admin}, "claim"},
		"metadata":          {"/v1/responses", `{"model":"m","input":"Hello","max_output_tokens":10,"metadata":{"tier":"gold"}}`, []string{user}, "metadata"},
		"parameter":         {"/v1/chat/completions", chat(`,"temperature":0.2`), []string{user}, "parameter"},
		"another parameter": {"/v1/chat/completions", chat(`,"temperature":0.3`), []string{user}, ""},
		"of Gemini":         {"/v1beta/models/m:generateContent", `{"contents":[{"role":"user","parts":[{"text":"Hello"}]}],"generationConfig":{"temperature":0,"maxOutputTokens":10}}`, []string{user}, "parameter"},
	} {
		r := g.Do(t, "POST", c.path, c.body, c.headers...)
		if line := g.Log.Request(t, r.RequestID()); r.Status != 200 || line["rule"] != c.rule {
			t.Errorf("%s: %d by rule %q, want %q: %s", name, r.Status, line["rule"], c.rule, r.Body)
		}
	}
}
