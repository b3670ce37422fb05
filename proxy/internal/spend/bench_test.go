package spend_test

import (
	"fmt"
	"runtime"
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

// BenchmarkUsers measures what the users of a key add to a request, and how much memory each of 100,000 takes.
func BenchmarkUsers(b *testing.B) {
	const users = 100_000
	limits, day := config.Limits{RequestsPerMinute: 1 << 36}, budget(1<<52, config.PerDay)
	bounds := &config.Bounds{Limits: limits, Budgets: []config.Budget{day}}
	need := &spend.Need{Prompt: 2, Completion: 10, Fixed: 700, PerMillion: 15_000_000, MaxTokens: 8000, Estimate: 900}
	names := make([]string, users)
	for n := range names {
		names[n] = fmt.Sprintf("%032x", n)
	}
	for _, with := range []bool{false, true} {
		b.Run(fmt.Sprintf("users=%t", with), func(b *testing.B) {
			a := open(b, spend.NewBook(spend.Options{}), spend.Limit{Scope: keyScope, Limits: limits, Budgets: []config.Budget{day}})
			key := a.Account(spend.Key, "k")
			request := func(n int) {
				s := spend.Scopes{spend.Key: key}
				if with {
					s[spend.User] = a.User("k", names[n%users], "k/"+names[n%users], bounds, users, now)
				}
				var h spend.Hold
				if e := h.Reserve(s, need, now); e != nil {
					b.Fatal(e)
				}
				h.Settle(spend.Used{Tokens: 5, Cost: 600}, now)
			}
			before := heap()
			for n := range users {
				request(n)
			}
			size := float64(heap()-before) / users
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				request(n)
				n += 7919
			}
			if with {
				b.ReportMetric(size, "B/user")
			}
		})
	}
}

// heap returns the bytes in use after a collection.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
