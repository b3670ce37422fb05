package routing_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
)

// TestFirstEventQuantile compares quantiles with the exact ones of the last 512 times. Up to 15 times have been added
// since the last sort, which can move the rank by as many.
func TestFirstEventQuantile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfN(rapid.Int64Range(1, 60_000), 1, 1500).Draw(t, "milliseconds")
		q := rapid.Float64Range(0.01, 0.99).Draw(t, "quantile")
		queryEvery := rapid.IntRange(1, 50).Draw(t, "query every")
		target := &routing.Target{Stats: new(routing.Stats), Budget: new(routing.Budget)}
		now := time.Unix(1, 0)
		for i, ms := range times {
			ticket, _ := target.StartAttempt(now, false, false)
			if i%7 == 0 { // a cancelled attempt counts with its time so far
				target.CancelAttempt(ticket, time.Duration(ms)*time.Millisecond, now)
			} else {
				target.EndAttempt(ticket, routing.Succeeded, 0, time.Duration(ms)*time.Millisecond, now)
			}
			if i%queryEvery == 0 {
				target.FirstEventQuantile(q)
			}
		}
		got, ok := target.FirstEventQuantile(q)
		if ok != (len(times) >= 100) {
			t.Fatalf("quantile known after %d times: %v", len(times), ok)
		}
		if !ok {
			return
		}
		last := slices.Clone(times[max(0, len(times)-512):])
		slices.Sort(last)
		rank := int(math.Ceil(q*float64(len(last)))) - 1
		if lo, hi := last[max(rank-16, 0)], last[min(rank+16, len(last)-1)]; got.Milliseconds() < lo || got.Milliseconds() > hi {
			t.Fatalf("p%v of %d times is %s, want %d to %d ms", q*100, len(last), got, lo, hi)
		}
		if s := target.Stats.Snapshot(now); s.Inflight != 0 || s.Failures != 0 {
			t.Fatalf("%+v", s)
		}
	})
}

// TestHedgesKeepToTheirShare checks that hedges never exceed their share of the requests so far.
func TestHedgesKeepToTheirShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		share := rapid.Float64Range(0, 1).Draw(t, "share")
		var h routing.Hedges
		sent, suppressed := 0, 0
		for n := range rapid.IntRange(1, 500).Draw(t, "requests") {
			h.Earn(share)
			switch rapid.IntRange(0, 3).Draw(t, "action") {
			case 0: // the response comes before the hedge is due
			case 1: // the hedge is due, but not permitted
				if h.Spend() {
					h.GiveBack()
				}
				suppressed++
			default:
				if h.Spend() {
					sent++
				} else {
					suppressed++
				}
			}
			if float64(sent) > share*float64(n+1)+1e-6 {
				t.Fatalf("%d hedges of %d requests, with a share of %v", sent, n+1, share)
			}
		}
		if c := h.Counts(); c.Sent != uint64(sent) || c.Suppressed != uint64(suppressed) {
			t.Fatalf("%+v: want %d sent, %d suppressed", c, sent, suppressed)
		}
	})
}

func TestRetryWait(t *testing.T) {
	const ms = time.Millisecond
	retry := config.Retry{Attempts: 4, Backoff: 200 * ms}
	for _, c := range []struct {
		retry      config.Retry
		attempts   int
		retryAfter time.Duration
		want       time.Duration
		ok         bool
	}{
		{retry, 1, 0, 200 * ms, true},
		{retry, 2, 0, 400 * ms, true},
		{retry, 3, 0, 800 * ms, true},
		{retry, 4, 0, 0, false},
		{retry, 1, time.Second, time.Second, true},
		{retry, 3, 100 * ms, 800 * ms, true},
		{retry, 1, 2001 * ms, 0, false},
		{config.Retry{Attempts: 1, Backoff: ms}, 1, 0, 0, false},
		{config.Retry{Attempts: 2}, 1, 0, 0, true},
	} {
		if wait, ok := routing.RetryWait(c.retry, c.attempts, c.retryAfter); wait != c.want || ok != c.ok {
			t.Errorf("%+v after %d attempts, Retry-After %s: got %s, %v; want %s, %v", c.retry, c.attempts, c.retryAfter, wait, ok, c.want, c.ok)
		}
	}
}

func TestRegistryKeepsHedges(t *testing.T) {
	var r routing.Registry
	h := r.Hedges("m")
	h.Earn(1)
	h.Spend()
	r.PruneModels(func(model string) *routing.Policy {
		if model != "m" {
			return nil
		}
		return &routing.Policy{Hedge: new(config.Hedge)}
	})
	if r.Hedges("m") != h {
		t.Error("the hedges of a model in use were dropped")
	}
	r.EachHedges(func(model string, c routing.HedgeCounts) {
		if model != "m" || c.Sent != 1 {
			t.Errorf("%s: %+v", model, c)
		}
	})
	r.PruneModels(func(string) *routing.Policy { return new(routing.Policy) })
	if r.Hedges("m") == h {
		t.Error("the hedges of a model that is not in use were kept")
	}
}
