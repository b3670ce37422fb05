package spend_test

import (
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/spend/spendtest"
)

// BenchmarkReserveAndSettle measures a request with a key, a team and a model that all have limits and budgets.
func BenchmarkReserveAndSettle(b *testing.B) {
	b.Run("alone", func(b *testing.B) { benchmark(b, nil, config.NoStore) })
	b.Run("shared", func(b *testing.B) {
		store := spendtest.NewStore(func() time.Time { return now })
		benchmark(b, store, config.DownShare)
		if calls, _ := store.Syncs(); calls > 100 {
			b.Errorf("%d round trips, want at most 100", calls)
		}
	})
}

func benchmark(b *testing.B, store spend.Store, when config.WhenDown) {
	limits := config.Limits{RequestsPerMinute: 1 << 36, TokensPerMinute: 1 << 36, Concurrent: 1 << 20, WhenDown: when}
	day, month := budget(1<<52, config.PerDay), budget(1<<53, config.PerMonth)
	day.WhenDown, month.WhenDown = when, when
	var all []spend.Limit
	for _, s := range []spend.Scope{keyScope, teamScope, modelScope} {
		all = append(all, spend.Limit{Scope: s, Limits: limits, Budgets: []config.Budget{day, month}})
	}
	requestScopes := scopes(open(b, spend.NewBook(spend.Options{Store: store, Manual: true, Now: func() time.Time { return now }}), all...))
	need := &spend.Need{Prompt: 2, Completion: 10, Fixed: 700, PerMillion: 15_000_000, MaxTokens: 8000, Estimate: 900}
	b.ReportAllocs()
	for b.Loop() {
		var h spend.Hold
		if e := h.Reserve(requestScopes, need, now); e != nil {
			b.Fatal(e)
		}
		h.Settle(spend.Used{Tokens: 5, Cost: 600}, now)
	}
}
