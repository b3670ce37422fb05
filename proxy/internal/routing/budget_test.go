package routing_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/internal/routing"
)

// TestRetryBudget checks that a provider sees at most 1.2 times the requests plus 10, in any order, and no less than
// that if all fail.
//
// covers: F57
func TestRetryBudget(t *testing.T) {
	const share, purse = 0.2, 10
	rapid.Check(t, func(t *rapid.T) {
		target := newTarget(routing.Target{})
		target.Breaker.Consecutive = 0
		target.RetryShare = share
		requests, repeated := 0, 0
		for range rapid.IntRange(0, 400).Draw(t, "attempts") {
			again := rapid.Bool().Draw(t, "again")
			ticket, ok := target.StartAttempt(now, again, again)
			switch {
			case ok && again:
				repeated++
			case ok:
				requests++
			case !again:
				t.Fatal("request rejected")
			}
			if ok {
				target.EndAttempt(ticket, routing.Failed, 0, 0, now)
			}
			if float64(repeated) > share*float64(requests)+purse+1e-6 {
				t.Fatalf("%d retries of %d requests", repeated, requests)
			}
		}
		if s := target.Stats.Snapshot(now); s.Inflight != 0 {
			t.Fatalf("%+v", s)
		}
	})

	var b routing.Registry
	target := newTarget(routing.Target{Provider: "p"})
	target.Breaker.Consecutive, target.Budget = 0, b.Budget("p")
	repeated := 0
	for range 1000 {
		for _, again := range []bool{false, true} {
			if ticket, ok := target.StartAttempt(now, again, again); ok {
				target.EndAttempt(ticket, routing.Failed, 0, 0, now)
				if again {
					repeated++
				}
			}
		}
	}
	if repeated < 200 || repeated > 210 {
		t.Errorf("%d of 1000 requests were repeated", repeated)
	}
	if p := b.Budgets()[0]; p.Left >= 1 || p.Denied != uint64(1000-repeated) {
		t.Errorf("%+v", p)
	}
}
