package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// BenchmarkRouting compares the CPU time that the gateway takes for requests of a model with three targets, for each
// strategy, with rules, and with affinity, with that for a model with one target. What the provider and the client take
// is measured without a gateway and subtracted. All take turns, and each metric is the median over all rounds of the
// ratio to the model with one target: 1.15 is fifteen percent more.
func BenchmarkRouting(b *testing.B) {
	provider := serveBench(b, fixedResponse("application/json", `{"id":"c","object":"chat.completion","created":1,"model":"gpt","choices":[{"index":0,"message":{"role":"assistant","content":"`+
		strings.Repeat("An answer of some words. ", 20)+`"},"finish_reason":"stop"}],"usage":{"prompt_tokens":50,"completion_tokens":120,"total_tokens":170}}`))
	const three = `[{ provider = "a", model = "m-1", weight = 3 }, { provider = "a", model = "m-2", weight = 2 }, { provider = "a", model = "m-3", weight = 1 }]`
	kinds := []struct{ name, model string }{
		{"direct", ""},
		{"plain", `targets = [{ provider = "a", model = "m-1" }]`},
		{"plain-again", `targets = [{ provider = "a", model = "m-1" }]`},
		{"weighted", "strategy = \"weighted\"\naffinity = \"none\"\ntargets = " + three},
		{"priority", "strategy = \"priority\"\naffinity = \"none\"\ntargets = " + three},
		{"least-latency", "strategy = \"least-latency\"\naffinity = \"none\"\ntargets = " + three},
		{"cheapest", "strategy = \"cheapest\"\naffinity = \"none\"\ntargets = " + three},
		{"two-rules", "strategy = \"weighted\"\naffinity = \"none\"\ntargets = " + three +
			"\nrules = [{ name = \"x\", when = { images = true }, targets = [\"a/m-1\"] }, { name = \"y\", when = { prompt_tokens = [1] }, targets = [\"a/m-2\", \"a/m-3\"] }]"},
		{"affinity", "strategy = \"weighted\"\naffinity = \"conversation\"\ntargets = " + three},
	}
	var text strings.Builder
	fmt.Fprintf(&text, "[[keys]]\nname = \"tests\"\nsecret = %q\n[providers.a]\nplugin = \"openai\"\nbase_url = %q\nauth = { secret = \"sk-upstream-0123456789\" }\n", proxytest.Key, "http://"+provider)
	for _, k := range kinds[1:] {
		fmt.Fprintf(&text, "[[models]]\nid = %q\npricing = { input = 1, output = 10 }\n%s\n", k.name, k.model)
	}
	g := proxytest.Start(b, text.String())
	do := make([]func(), len(kinds))
	for i, k := range kinds {
		addr := g.Addr
		if i == 0 {
			addr = provider
		}
		do[i] = benchRequest(b, addr, fmt.Sprintf(`{"model":%q,"max_tokens":100,"messages":[{"role":"user","content":%q}]}`, k.name, strings.Repeat("A question of some words. ", 8)))
	}
	const rounds, perRound = 60, 100
	for b.Loop() {
		took := alternate(rounds, perRound, do)
		for i := range took[1:] {
			for round, direct := range took[0] {
				took[i+1][round] -= direct
			}
		}
		for i, k := range kinds[2:] {
			b.ReportMetric(medianRatio(took[i+2], took[1]), k.name+"/plain")
		}
	}
}
