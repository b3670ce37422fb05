package routing_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/breaker"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
)

var now = time.Unix(1_700_000_000, 0)

// defaultBreaker is the configuration's default.
var defaultBreaker = breaker.Config{Consecutive: 5, Share: 0.8, Window: 30 * time.Second, Pause: 2 * time.Second, MaxPause: time.Minute}

func newTarget(t routing.Target) routing.Target {
	t.Stats, t.Breaker, t.Budget, t.RetryShare = new(routing.Stats), defaultBreaker, new(routing.Budget), 0.2
	return t
}

// attempt starts an attempt and ends it with an outcome.
func attempt(tb testing.TB, t *routing.Target, o routing.Outcome, cooldown time.Duration, at time.Time) breaker.Change {
	tb.Helper()
	ticket, ok := t.StartAttempt(at, false, false)
	if !ok {
		tb.Fatalf("attempt at %s rejected: %+v", t.Provider, t.Stats.Snapshot(at))
	}
	return t.EndAttempt(ticket, o, cooldown, 0, at)
}

func fail(tb testing.TB, t *routing.Target, times int) {
	tb.Helper()
	for range times {
		attempt(tb, t, routing.Failed, 0, now)
	}
}

func TestMovingAverages(t *testing.T) {
	target := newTarget(routing.Target{})
	fail(t, &target, 1)
	ticket, _ := target.StartAttempt(now, false, false)
	if s := target.Stats.Snapshot(now); s.Inflight != 1 || s.Latency != 0 || s.ErrorRate <= 0 {
		t.Errorf("after a failure: %+v", s)
	}
	before := target.Stats.Snapshot(now).ErrorRate
	target.EndAttempt(ticket, routing.Succeeded, 0, 80*time.Millisecond, now)
	if s := target.Stats.Snapshot(now); s.Inflight != 0 || s.Latency != 80*time.Millisecond || s.ErrorRate >= before {
		t.Errorf("after a success: %+v", s)
	}
}

func TestUsageAverages(t *testing.T) {
	target := newTarget(routing.Target{})
	check := func(speed, cached float64) {
		t.Helper()
		if s := target.Stats.Snapshot(now); math.Abs(s.TokensPerSecond-speed) > 1e-9 || math.Abs(s.CachedShare-cached) > 1e-9 {
			t.Errorf("%.3f tokens per second, share %.3f cached; want %.3f, %.3f", s.TokensPerSecond, s.CachedShare, speed, cached)
		}
	}
	target.RecordUsage(routing.Usage{Prompt: 100, Completion: 3, Streamed: time.Millisecond})
	target.RecordUsage(routing.Usage{Prompt: 100, Cached: 100, Completion: 1000}) // not a stream, and without counts of cached tokens
	check(0, 0)
	target.RecordUsage(routing.Usage{Prompt: 100, Completion: 100, CountsCached: true, Streamed: 2 * time.Second})
	check(50, 0)
	target.RecordUsage(routing.Usage{Prompt: 100, Cached: 200, Completion: 100, CountsCached: true, Streamed: time.Second})
	check(60, 0.2)
}

func TestPrune(t *testing.T) {
	var b routing.Registry
	s, g := b.Stats("p", "m"), b.Budget("p")
	b.Stats("p", "n")
	b.Stats("q", "n")
	b.Budget("q")
	if b.Stats("p", "m") != s || b.Stats("p", "n") == s || b.Budget("p") != g || b.Budget("q") == g {
		t.Error("want one Stats for each provider and model, and one Budget for each provider")
	}
	var names []string
	for seen := range b.Snapshots(now) {
		names = append(names, seen.Provider+"/"+seen.Model)
	}
	slices.Sort(names)
	if want := []string{"p/m", "p/n", "q/n"}; !slices.Equal(names, want) {
		t.Errorf("snapshots of %v, want %v", names, want)
	}
	b.Prune(func(p, m string) bool { return p == "p" && m == "n" })
	if b.Stats("p", "m") == s || b.Budget("p") != g {
		t.Error("Prune kept Stats that are not in use, or dropped a Budget that is")
	}
	if all := b.Budgets(); len(all) != 1 || all[0].Provider != "p" || all[0].Left != 10 {
		t.Errorf("budgets: %+v", all)
	}
}
