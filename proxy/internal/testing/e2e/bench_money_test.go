package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// BenchmarkBudgets compares the CPU time of requests, client and provider included, between gateways that account for
// nothing, for the budget of another key, for all requests in the ledger, for the key's own budget in memory, and for
// that budget in a journal. The gateways take turns, and each metric is the median over all rounds of the ratio to the
// named baseline, so that a busy machine has little influence. A ratio of 1.01 is one percent more.
func BenchmarkBudgets(b *testing.B) {
	provider := serveBench(b, fixedResponse("application/json", `{"id":"c","object":"chat.completion","created":1,"model":"gpt","choices":[{"index":0,"message":{"role":"assistant","content":"`+
		strings.Repeat("An answer of some words. ", 20)+`"},"finish_reason":"stop"}],"usage":{"prompt_tokens":50,"completion_tokens":120,"total_tokens":170}}`))
	const other = "[[keys]]\nname = \"other\"\nsecret = \"sk-other-0123456789\"\nbudgets = [{ usd = 1, per = \"day\" }]\n"
	const budget = `budgets = [{ usd = 1_000_000, per = "day" }]`
	kinds := []struct {
		name, key, more string
		state           bool
		baseline        int // index of the gateway to compare with
	}{
		{"nothing", "", "", false, 0}, {"nothing-again", "", "", false, 0}, {"budget-of-another-key", "", other, true, 0},
		{"ledger", "", "[store]\njournal = %q\n", true, 0}, {"budget-in-memory", budget, "", false, 0}, {"budget", budget, "", true, 4},
	}
	const rounds, perRound = 60, 100
	do := make([]func(), len(kinds))
	for i, k := range kinds {
		more := k.more
		if strings.Contains(more, "%q") {
			more = fmt.Sprintf(more, b.TempDir())
		}
		g := proxytest.StartWith(b, budgetConfiguration("http://"+provider, k.key, "", "", "")+more, func(o *proxy.Options) {
			if k.state {
				o.StateDir = b.TempDir()
			}
		})
		do[i] = benchRequest(b, g.Addr, string(budgetRequest(100, false)))
	}
	for b.Loop() {
		took := alternate(rounds, perRound, do)
		for i, k := range kinds[1:] {
			b.ReportMetric(medianRatio(took[i+1], took[k.baseline]), k.name+"/"+kinds[k.baseline].name)
		}
	}
}

// BenchmarkUsers compares the CPU time of requests, client and provider included, between gateways whose key has limits
// and a budget, and those whose key also has 100,000 users with limits and budgets of their own: in memory, and in a
// journal.
func BenchmarkUsers(b *testing.B) {
	provider := serveBench(b, fixedResponse("application/json", `{"id":"c","object":"chat.completion","created":1,"model":"gpt","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":50,"completion_tokens":120,"total_tokens":170}}`))
	const (
		key   = `limits = { requests_per_minute = 1_000_000_000 }, budgets = [{ usd = 1_000_000, per = "day" }]`
		users = `users = { from = "body", limits = { requests_per_minute = 20_000 }, budgets = [{ usd = 1, per = "day" }] }`
	)
	kinds := []struct {
		name, users string
		state       bool
	}{{"key", "", false}, {"users", users, false}, {"key-journal", "", true}, {"users-journal", users, true}}
	const rounds, perRound = 60, 100
	do := make([]func(), len(kinds))
	for i, k := range kinds {
		g := proxytest.StartWith(b, budgetConfiguration("http://"+provider, strings.Replace(key, ", budgets", "\nbudgets", 1)+"\n"+k.users, "", "", ""), func(o *proxy.Options) {
			if k.state {
				o.StateDir = b.TempDir()
			}
		})
		do[i] = benchRequest(b, g.Addr, strings.Replace(budgetRequest(100, false), "{", fmt.Sprintf(`{"user":%q,`, benchUser), 1))
	}
	for b.Loop() {
		took := alternate(rounds, perRound, do)
		b.ReportMetric(medianRatio(took[1], took[0]), "users/key")
		b.ReportMetric(medianRatio(took[3], took[2]), "users/key-journal")
	}
}
