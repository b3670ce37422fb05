package spend_test

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
)

// BenchmarkReserveAndSettle is what a request of a key, a team and a model with limits and budgets costs.
func BenchmarkReserveAndSettle(b *testing.B) {
	limits := config.Limits{RequestsPerMinute: 1 << 36, TokensPerMinute: 1 << 36, Concurrent: 1 << 20}
	var all []spend.Limit
	for _, s := range []spend.Scope{ofKey, ofTeam, ofModel} {
		all = append(all, spend.Limit{Scope: s, Limits: limits, Budgets: []config.Budget{budget(1<<60, config.PerDay), budget(1<<61, config.PerMonth)}})
	}
	of := scopes(open(b, spend.NewBook(spend.Options{}), all...))
	need := &spend.Need{Prompt: 2, Completion: 10, Fixed: 700, PerMillion: 15_000_000, MaxTokens: 8000, Estimate: 900}
	b.ReportAllocs()
	for b.Loop() {
		var h spend.Hold
		if e := h.Reserve(of, need, now); e != nil {
			b.Fatal(e)
		}
		h.Settle(spend.Used{Tokens: 5, Cost: 600}, now)
	}
}
