package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestCheapestUsesExpectedCost checks for each kind of price that the strategy cheapest compares what the request
// probably costs. In most cases the first target has the lower input and output prices.
func TestCheapestUsesExpectedCost(t *testing.T) {
	long := strings.Repeat("word ", 800) // 1000 tokens
	for name, c := range map[string]struct {
		one, two string // prices
		request  string // members
		prompt   string
		want     string
		cost     string // of the chosen target
	}{
		"prices":              {"input = 3, output = 9", "input = 1, output = 2", "", "x", "two", "0.002049"}, // 1 + 1024×2
		"completion":          {"input = 1, output = 9", "input = 2, output = 3", `,"max_tokens":10`, long, "one", "0.00109"},
		"long prompts":        {"input = 1, tiers = [{ above = 900, input = 6 }]", "input = 2", "", long, "two", "0.002"},
		"short prompts":       {"input = 1, tiers = [{ above = 900, input = 6 }]", "input = 2", "", "xxxx", "one", "0.000001"},
		"fee per request":     {"input = 1, per_request = 0.01", "input = 2", "", long, "two", "0.002"},
		"service tier":        {"input = 1, service_tiers = [{ name = \"priority\", factor = 10 }]", "input = 2", `,"service_tier":"priority"`, long, "two", "0.002"},
		"another tier":        {"input = 1, service_tiers = [{ name = \"priority\", factor = 10 }]", "input = 2", `,"service_tier":"default"`, long, "one", "0.001"},
		"below a nano-dollar": {"input = 0.0002", "input = 0.0001", "", "x", "two", "0"},
		"no price":            {"input = 0", "input = 1", "", long, "one", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			g := proxytest.Start(t, proxytest.Keys+fmt.Sprintf(`
[providers.one]
plugin = "demo"
[providers.two]
plugin = "demo"
[[models]]
id       = "m"
strategy = "cheapest"
targets  = [{ provider = "one", pricing = { %s } }, { provider = "two", pricing = { %s } }]
`, c.one, c.two))
			body := `{"model":"m","messages":[{"role":"user","content":"` + c.prompt + `"}]` + c.request + `}`
			if r := g.Chat(t, body); r.Status != 200 || r.Header.Get("X-Gateway-Provider") != c.want {
				t.Errorf("got status %d from provider %s, want 200 from %s", r.Status, r.Header.Get("X-Gateway-Provider"), c.want)
			}
			e, err := g.Server.Explain(t.Context(), &proxy.ExplainRequest{Model: "m", Key: "tests", Body: []byte(body)})
			if err != nil || !strings.Contains(string(e.JSON), fmt.Sprintf(`{"target":"%s/m","expected_cost":%s}`, c.want, c.cost)) || !strings.Contains(string(e.Text), "expected cost "+c.cost+" USD\n") {
				t.Errorf("%v\n%s%s", err, e.JSON, e.Text)
			}
		})
	}
}

// TestCheapestUsesCachedPrices checks that the share of cached tokens that a target has reported makes it cheaper.
func TestCheapestUsesCachedPrices(t *testing.T) {
	answer := upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", `{"id":"x","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],`+
		`"usage":{"prompt_tokens":1000,"completion_tokens":1,"total_tokens":1001,"prompt_tokens_details":{"cached_tokens":900}}}`)}
	up := upstreamtest.New(t, answer, answer)
	g := proxytest.Start(t, proxytest.Keys+fmt.Sprintf(`
[providers.one]
plugin = "demo"
[providers.two]
preset   = "vllm"
base_url = %q
direct   = true
[[models]]
id       = "m"
strategy = "cheapest"
affinity = "none"
targets  = [{ provider = "one", pricing = { input = 2 } }, { provider = "two", pricing = { input = 3, cached_input = 0.3 } }]
`, up.URL()))
	for i, want := range []string{"one", "two", "two"} {
		model := "m"
		if i == 1 {
			model = "two/m"
		}
		r := g.Chat(t, `{"model":"`+model+`","messages":[{"role":"user","content":"`+strings.Repeat("word ", 800)+`"}]}`)
		if r.Status != 200 || r.Header.Get("X-Gateway-Provider") != want {
			t.Errorf("request %d: status %d from provider %s, want 200 from %s", i, r.Status, r.Header.Get("X-Gateway-Provider"), want)
		}
	}
}
