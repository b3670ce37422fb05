package routing_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/internal/routing"
)

// TestRetryBudget checks that retries never exceed a fifth of the requests plus 10, and reach that number if all
// attempts fail.
//
// covers: F57
func TestRetryBudget(t *testing.T) {
	const share, budgetSize = 0.2, 10
	rapid.Check(t, func(t *rapid.T) {
		target := newTarget(routing.Target{})
		target.Breaker.Consecutive = 0
		target.RetryShare = share
		requests, retries := 0, 0
		for range rapid.IntRange(0, 400).Draw(t, "attempts") {
			retry := rapid.Bool().Draw(t, "retry")
			ticket, ok := target.StartAttempt(now, retry, retry)
			switch {
			case ok && retry:
				retries++
			case ok:
				requests++
			case !retry:
				t.Fatal("first attempt rejected")
			}
			if ok {
				target.EndAttempt(ticket, routing.Failed, 0, 0, now)
			}
			if float64(retries) > share*float64(requests)+budgetSize+1e-6 {
				t.Fatalf("%d retries of %d requests", retries, requests)
			}
		}
		if s := target.Stats.Snapshot(now); s.Inflight != 0 {
			t.Fatalf("%+v", s)
		}
	})

	var b routing.Registry
	target := newTarget(routing.Target{Provider: "p"})
	target.Breaker.Consecutive, target.Budget = 0, b.Budget("p")
	retries := 0
	for range 1000 {
		for _, retry := range []bool{false, true} {
			if ticket, ok := target.StartAttempt(now, retry, retry); ok {
				target.EndAttempt(ticket, routing.Failed, 0, 0, now)
				if retry {
					retries++
				}
			}
		}
	}
	if retries < 200 || retries > 210 {
		t.Errorf("%d retries of 1000 requests, want 200 to 210", retries)
	}
	if p := b.Budgets()[0]; p.Left >= 1 || p.Denied != uint64(1000-retries) {
		t.Errorf("after %d retries of 1000 requests: %+v", retries, p)
	}
}
