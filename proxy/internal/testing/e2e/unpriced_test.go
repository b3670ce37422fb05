package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// unpricedConfiguration returns a configuration with a budget in one scope, and with models that have a price, have
// none, and have one at their second target. The arguments are additional TOML of the key, its team, the models, and
// the provider without prices.
func unpricedConfiguration(url, key, team, model, provider string) string {
	return fmt.Sprintf(`
[[teams]]
name = "research"
%[3]s
[[keys]]
name   = "tests"
secret = %[1]q
team   = "research"
%[2]s
[providers.demo]
plugin = "demo"
[providers.own]
preset   = "vllm"
base_url = %[6]q
list_models = {}
%[5]s
[[models]]
id      = "priced"
pricing = { input = 1, output = 10 }
targets = [{ provider = "own", model = "m" }]
[[models]]
id      = "unpriced"
kinds   = ["chat", "embeddings", "rerank", "completions", "moderations"]
targets = [{ provider = "own", model = "x" }]
[[models]]
id      = "both"
targets = [{ provider = "own", model = "x" }, { provider = "demo" }]
%[4]s
`, proxytest.Key, key, team, model, provider, url)
}

const listOfModels = `{"object":"list","data":[{"id":"m","object":"model","created":1,"owned_by":"x"},{"id":"free","object":"model","created":1,"owned_by":"x"}]}`

// TestSpentBudgetStopsListedName checks that the target of a model costs the same by its listed name: with the budget
// spent, it was served there for nothing.
func TestSpentBudgetStopsListedName(t *testing.T) {
	answer := upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json",
		`{"id":"x","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":100000,"completion_tokens":1,"total_tokens":100001}}`)}
	up := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", listOfModels)}, answer)
	g := proxytest.Start(t, unpricedConfiguration(up.URL(), `budgets = [{ usd = 0.1, per = "day" }]`, "", "", ""))
	if r := g.Do(t, "GET", "/v1/models", ""); !strings.Contains(r.Body, `"id":"m","object":"model","created":1,"owned_by":"x","display_name":"m","pricing":{"input":1,"output":10}`) {
		t.Errorf("list of models: %s", r.Body)
	}
	for _, c := range []struct {
		model, code string
		status      int
	}{{"priced", "", 200}, {"priced", "insufficient_quota", 429}, {"m", "insufficient_quota", 429}, {"own/m", "insufficient_quota", 429}, {"free", "unpriced_model", 403}} {
		r := g.Chat(t, `{"model":"`+c.model+`","max_tokens":2000,"messages":[{"role":"user","content":"x"}]}`)
		if r.Status != c.status || !strings.Contains(r.Body, c.code) {
			t.Errorf("%s: %d %s, want %d %s", c.model, r.Status, r.Body, c.status, c.code)
		}
	}
	if n := len(up.Requests()); n != 2 {
		t.Errorf("the provider got %d requests, want the list and 1", n)
	}
}

// TestUnpricedModelUnderBudget checks each scope of a budget, and each kind of request. A model budget of its own cannot have this: without any price it is an error of the configuration.
func TestUnpricedModelUnderBudget(t *testing.T) {
	const budget, free = `budgets = [{ usd = 1, per = "total" }]`, `budgets = [{ usd = 1, per = "total", unpriced = "free" }]`
	up := upstreamtest.New(t) // must not get requests
	requests := map[string]string{
		"/v1/chat/completions":      `{"model":"unpriced","messages":[{"role":"user","content":"x"}]}`,
		"/v1/messages":              `{"model":"unpriced","max_tokens":9,"messages":[{"role":"user","content":"x"}]}`,
		"/v1/messages/count_tokens": `{"model":"unpriced","messages":[{"role":"user","content":"x"}]}`,
		"/v1/responses":             `{"model":"unpriced","input":"x"}`,
		"/v1/embeddings":            `{"model":"unpriced","input":"x"}`,
		"/v1/rerank":                `{"model":"unpriced","query":"x","documents":["y"]}`,
		"/v1/completions":           `{"model":"unpriced","prompt":"x"}`,
		"/v1/moderations":           `{"model":"unpriced","input":"x"}`,
	}
	for scope, c := range map[string]struct {
		arguments [4]string
		named     string // the scope in the message
	}{
		"key":                {[4]string{budget}, "budget of the key"},
		"team":               {[4]string{"", budget}, "budget of the team research"},
		"one of two is free": {[4]string{free, budget}, "budget of the team research"},
		"provider":           {[4]string{"", "", "", budget}, "budget of the provider own"},
	} {
		t.Run(scope, func(t *testing.T) {
			g := proxytest.Start(t, unpricedConfiguration(up.URL(), c.arguments[0], c.arguments[1], c.arguments[2], c.arguments[3]))
			for path, body := range requests {
				r := g.Do(t, "POST", path, body)
				if path == "/v1/messages/count_tokens" && scope == "provider" {
					continue // is answered without the provider
				}
				if r.Status != 403 || !strings.Contains(r.Body, c.named) || r.Header.Get("X-Should-Retry") != "false" {
					t.Errorf("%s: %d %v %s, want 403 by the %s", path, r.Status, r.Header, r.Body, c.named)
				}
			}
			// A target without a price is skipped as long as another one has a price.
			r := g.Chat(t, `{"model":"both","messages":[{"role":"user","content":"x"}]}`)
			if r.Status != 200 || r.Header.Get("X-Gateway-Provider") != "demo" || r.Header.Get("X-Gateway-Attempts") != "1" {
				t.Errorf("model with a priced target: %d %v %s", r.Status, r.Header, r.Body)
			}
		})
	}
	if n := len(up.Requests()); n > 0 {
		t.Errorf("the provider got %d requests", n)
	}
}

// TestReloadsPriceFile checks that a changed price list applies without a restart.
func TestReloadsPriceFile(t *testing.T) {
	up := upstreamtest.New(t)
	file := filepath.Join(t.TempDir(), "prices.toml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("[[vllm]]\nequals = [\"other\"]\npricing = { input = 1 }\n")
	configuration := fmt.Sprintf("[pricing]\nfile = %q\n", file) + unpricedConfiguration(up.URL(), `budgets = [{ usd = 0.001, per = "day" }]`, "", "", "")
	g := proxytest.Start(t, configuration)
	const request = `{"model":"unpriced","max_tokens":9,"messages":[{"role":"user","content":"x"}]}`
	if r := g.Chat(t, request); r.Status != 403 {
		t.Errorf("before: %d %s", r.Status, r.Body)
	}
	write("[[vllm]]\nequals = [\"X\"]\npricing = { per_request = 1 }\n")
	if err := g.Reload(t, configuration); err != nil {
		t.Fatal(err)
	}
	if r := g.Chat(t, request); r.Status != 429 || !strings.Contains(r.Body, "budget") {
		t.Errorf("after: %d %s", r.Status, r.Body)
	}
}

// TestUnpricedShadowUnderBudget checks that no copy is sent to a shadow without a price whose provider has a budget.
func TestUnpricedShadowUnderBudget(t *testing.T) {
	up := upstreamtest.New(t) // must not get requests
	g := proxytest.Start(t, proxytest.Keys+fmt.Sprintf(`
[providers.demo]
plugin = "demo"
[providers.own]
preset   = "vllm"
base_url = %q
budgets  = [{ usd = 1, per = "day" }]
[[models]]
id      = "m"
targets = [{ provider = "demo" }]
shadow  = [{ target = "own/x", share = 1 }]
[[models]]
id      = "priced"
pricing = { input = 1 }
targets = [{ provider = "own" }]
`, up.URL()))
	if r := g.Chat(t, `{"model":"m","messages":[{"role":"user","content":"x"}]}`); r.Status != 200 {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	admin := g.Admin(t)
	awaitCopies(t, admin, "m", 1)
	if m := proxytest.Scrape(t, admin); m.Sum("sluice_shadow_requests_total", "outcome", "spent") != 1 || len(up.Requests()) != 0 {
		t.Errorf("%d copies were sent to a target without a price", len(up.Requests()))
	}
}
