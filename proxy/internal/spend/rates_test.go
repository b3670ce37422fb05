package spend_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
)

var now = time.Date(2026, 11, 4, 10, 30, 0, 0, time.UTC)

// client sends requests with a key that has limits.
type client struct{ account *spend.Account }

func (c client) Admit(prompt, completion int64, at time.Time) (admitted, *apierror.Error) {
	h := new(spend.Hold)
	e := h.Reserve(spend.Scopes{spend.Key: c.account}, &spend.Need{Prompt: prompt, Completion: completion}, at)
	return admitted{h}, e
}

func (c client) Remaining(at time.Time) (spend.Remaining, bool) {
	if c.account == nil {
		return spend.Remaining{}, false
	}
	return c.account.Remaining(at), true
}

type admitted struct{ *spend.Hold }

func (a admitted) Release(tokens int64, at time.Time) { a.Settle(spend.Used{Tokens: tokens}, at) }

// TestFurtherAttemptIsNoRequest checks that a further attempt of a request in flight uses neither the rate of requests
// nor a slot.
func TestFurtherAttemptIsNoRequest(t *testing.T) {
	c := limitedKey(t, spend.NewBook(spend.Options{}), config.Limits{Concurrent: 1, RequestsPerMinute: 3})
	for range 2 {
		first, e := c.Admit(1, 1, now)
		if e != nil {
			t.Fatal(e)
		}
		var again spend.Hold
		if e := again.Reserve(spend.Scopes{spend.Key: c.account}, &spend.Need{Again: true}, now); e != nil {
			t.Fatal(e)
		}
		again.Settle(spend.Used{}, now)
		if _, e := c.Admit(1, 1, now); e == nil {
			t.Error("a second request was admitted while the first one is in flight")
		}
		first.Release(2, now)
	}
	if r, _ := c.Remaining(now); r.Requests != 1 {
		t.Errorf("%d requests are left, want 1", r.Requests)
	}
}

func open(tb interface{ Fatal(...any) }, b *spend.Book, limits ...spend.Limit) *spend.Accounts {
	a, err := b.Open(limits, now)
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

// limitedKey returns a key with these limits in the book.
func limitedKey(tb interface{ Fatal(...any) }, b *spend.Book, l config.Limits) client {
	s := spend.Scope{Kind: spend.Key, Name: "limited"}
	return client{open(tb, b, spend.Limit{Scope: s, Limits: l}).Account(s.Kind, s.Name)}
}

// covers: F139
func TestRequestsPerMinute(t *testing.T) {
	k := limitedKey(t, spend.NewBook(spend.Options{}), config.Limits{RequestsPerMinute: 60})
	for i := range 60 {
		if _, e := k.Admit(10, 10, now); e != nil {
			t.Fatalf("request %d: %v", i, e)
		}
	}
	_, e := k.Admit(10, 10, now)
	if e == nil || e.Status != 429 || e.Kind != apierror.KindRateLimit || e.Code != "rate_limit_exceeded" || e.RetryAfter != time.Second || e.NoRetry {
		t.Fatalf("request 61: got error %+v", e)
	}
	if s, ok := k.Remaining(now); !ok || s.Requests != 0 || s.RequestsReset != time.Minute {
		t.Errorf("remaining %+v", s)
	}
	// One more request is admitted each second.
	for _, after := range []time.Duration{time.Second - time.Microsecond, time.Second, 2*time.Second - time.Microsecond, 2 * time.Second} {
		_, e := k.Admit(10, 10, now.Add(after))
		if want := after%time.Second == 0; (e == nil) != want {
			t.Errorf("after %s: got error %v, want admitted: %t", after, e, want)
		}
	}
	if s, _ := k.Remaining(now.Add(2 * time.Minute)); s.Requests != 60 || s.RequestsReset != 0 {
		t.Errorf("after two minutes: %+v", s)
	}
}

// covers: F139
func TestConcurrentRequestLimit(t *testing.T) {
	k := limitedKey(t, spend.NewBook(spend.Options{}), config.Limits{Concurrent: 2})
	first, e := k.Admit(1, 1, now)
	if e != nil {
		t.Fatal(e)
	}
	if _, e := k.Admit(1, 1, now); e != nil {
		t.Fatal(e)
	}
	if _, e := k.Admit(1, 1, now.Add(time.Hour)); e == nil || e.RetryAfter != time.Second || !strings.Contains(e.Message, "2 concurrent requests") {
		t.Fatalf("third request: got error %v", e)
	}
	first.Release(5, now)
	// Releasing twice counts once.
	first.Release(5, now)
	if _, e := k.Admit(1, 1, now); e != nil {
		t.Fatal(e)
	}
	if _, e := k.Admit(1, 1, now); e == nil {
		t.Fatal("a third concurrent request was admitted")
	}
}

// covers: F139
func TestTokensPerMinute(t *testing.T) {
	k := limitedKey(t, spend.NewBook(spend.Options{}), config.Limits{TokensPerMinute: 6000})
	a, e := k.Admit(1000, 4000, now)
	if e != nil {
		t.Fatal(e)
	}
	// Tokens reserved by a request in flight are not available to others.
	if _, e := k.Admit(1000, 1, now); e == nil || !strings.Contains(e.Message, "1000 remain, and the request may need 1001") {
		t.Fatalf("more than the remaining tokens: got error %v", e)
	}
	b, e := k.Admit(900, 100, now)
	if e != nil {
		t.Fatal(e)
	}
	// Unused reserved tokens become available at the end of a request.
	a.Release(1500, now)
	if s, _ := k.Remaining(now); s.Tokens != 3500 || s.TokensReset != 15*time.Second {
		t.Errorf("remaining %+v", s)
	}
	// Usage beyond the reservation has to drain first, so that the limit holds on average.
	b.Release(14_500, now)
	if s, _ := k.Remaining(now); s.Tokens != 0 || s.TokensReset != 160*time.Second {
		t.Errorf("remaining %+v", s)
	}
	if _, e := k.Admit(1, 0, now.Add(100*time.Second)); e == nil || e.RetryAfter != 10*time.Millisecond {
		t.Errorf("before the excess has drained: got error %v", e)
	}
	d, e := k.Admit(1, 0, now.Add(100*time.Second+10*time.Millisecond))
	if e != nil {
		t.Errorf("after the excess has drained: got error %v", e)
	}
	d.Release(0, now.Add(101*time.Second))
	// A prompt longer than the limit is rejected without Retry-After. A response that may exceed the limit reserves the
	// whole limit.
	if _, e := k.Admit(6001, 0, now.Add(time.Hour)); e == nil || !e.NoRetry || e.RetryAfter != 0 {
		t.Errorf("prompt longer than the limit: got error %v", e)
	}
	c, e := k.Admit(100, 1_000_000, now.Add(time.Hour))
	if e != nil {
		t.Errorf("response that may exceed the limit: got error %v", e)
	}
	if _, e := k.Admit(1, 0, now.Add(2*time.Hour)); e == nil || e.RetryAfter < time.Second {
		t.Errorf("concurrent request: got error %v", e)
	}
	c.Release(1<<60, now.Add(2*time.Hour))
	if s, _ := k.Remaining(now.Add(2 * time.Hour)); s.Tokens != 0 || s.TokensReset <= 0 {
		t.Errorf("after an enormous usage: %+v", s)
	}
}

// covers: F139
func TestRejectedRequestUsesNothing(t *testing.T) {
	k := limitedKey(t, spend.NewBook(spend.Options{}), config.Limits{RequestsPerMinute: 10, TokensPerMinute: 1000, Concurrent: 5})
	a, e := k.Admit(900, 0, now)
	if e != nil {
		t.Fatal(e)
	}
	before, _ := k.Remaining(now)
	for range 100 {
		if _, e := k.Admit(200, 0, now); e == nil {
			t.Fatal("admitted a request for more than the remaining tokens")
		}
	}
	if after, _ := k.Remaining(now); after != before {
		t.Errorf("rejected requests changed what remains from %+v to %+v", before, after)
	}
	a.Release(0, now)
	if s, _ := k.Remaining(now); s.Tokens != 1000 || s.Requests != 9 {
		t.Errorf("got status %+v", s)
	}
}

// TestUsageSurvivesReload checks that a key keeps its usage if it has the same name after a reload.
//
// covers: F139
func TestUsageSurvivesReload(t *testing.T) {
	book := spend.NewBook(spend.Options{})
	before := limitedKey(t, book, config.Limits{RequestsPerMinute: 2, Concurrent: 1})
	a, e := before.Admit(1, 1, now)
	if e != nil {
		t.Fatal(e)
	}
	scope := spend.Scope{Kind: spend.Key, Name: "limited"}
	accounts := open(t, book, spend.Limit{Scope: scope, Limits: config.Limits{RequestsPerMinute: 3, Concurrent: 1}})
	book.Prune(accounts)
	after := client{accounts.Account(spend.Key, "limited")}
	if _, e := after.Admit(1, 1, now); e == nil {
		t.Error("the request in flight no longer counts after the reload")
	}
	a.Release(1, now)
	for i := range 3 {
		a, e := after.Admit(1, 1, now)
		if (e == nil) != (i < 2) {
			t.Errorf("request %d under the new limit: got error %v", i+2, e)
		}
		a.Release(1, now)
	}
	// The usage of a removed key is dropped.
	book.Prune(open(t, book))
	again := limitedKey(t, book, config.Limits{RequestsPerMinute: 2})
	if s, _ := again.Remaining(now); s.Requests != 2 {
		t.Errorf("got status %+v", s)
	}
}

// covers: F139
func TestUnsetLimitsAreUnlimited(t *testing.T) {
	k := limitedKey(t, spend.NewBook(spend.Options{}), config.Limits{})
	a, e := k.Admit(1<<40, 1<<40, now)
	if _, limited := k.Remaining(now); e != nil || limited || a.Held() {
		t.Errorf("got error %v, limited %t, held %t", e, limited, a.Held())
	}
	a.Release(5, now)
}

// TestLimitsUnderConcurrency sends requests from several goroutines. No request above the limit is admitted.
//
// covers: F139
func TestLimitsUnderConcurrency(t *testing.T) {
	for name, c := range map[string]struct {
		limits config.Limits
		want   int64
	}{
		"requests":   {config.Limits{RequestsPerMinute: 500}, 500},
		"tokens":     {config.Limits{TokensPerMinute: 5000}, 500},
		"concurrent": {config.Limits{Concurrent: 500}, 500},
	} {
		t.Run(name, func(t *testing.T) {
			k := limitedKey(t, spend.NewBook(spend.Options{}), c.limits)
			var admitted atomic.Int64
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					for range 200 {
						if _, e := k.Admit(4, 6, now); e == nil {
							admitted.Add(1)
						}
					}
				})
			}
			all.Wait()
			if n := admitted.Load(); n != c.want {
				t.Errorf("%d requests admitted, want %d", n, c.want)
			}
		})
	}
}

// TestLimitHoldsInEveryWindow starts and ends requests at random times. In any interval, the admitted requests and
// tokens do not exceed the limit plus what is replenished in the interval, and a client that waits for Retry-After is
// admitted.
//
// covers: F139
func TestLimitHoldsInEveryWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := config.Limits{
			RequestsPerMinute: rapid.SampledFrom([]int64{1, 3, 60, 61, 1_000_000_000}).Draw(t, "requests per minute"),
			TokensPerMinute:   rapid.SampledFrom([]int64{1, 7, 1000, 999_999_937}).Draw(t, "tokens per minute"),
		}
		k := limitedKey(t, spend.NewBook(spend.Options{}), limits)
		type use struct {
			at time.Time
			n  int64
		}
		type flight struct {
			a        admitted
			reserved int64
		}
		var requests, tokens []use
		var inflight []flight
		at := now
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			at = at.Add(time.Duration(rapid.SampledFrom([]int64{0, 0, 1, 999, 1_000_000, 1_000_000_007, 59_999_999_999, 600_000_000_000}).Draw(t, "ns")))
			if len(inflight) > 0 && rapid.Bool().Draw(t, "end") {
				i := rapid.IntRange(0, len(inflight)-1).Draw(t, "which")
				f := inflight[i]
				used := rapid.Int64Range(0, f.reserved).Draw(t, "used")
				f.a.Release(used, at)
				tokens = append(tokens, use{at, used})
				inflight = append(inflight[:i], inflight[i+1:]...)
				continue
			}
			prompt := rapid.Int64Range(0, limits.TokensPerMinute+1).Draw(t, "prompt")
			completion := rapid.Int64Range(0, limits.TokensPerMinute).Draw(t, "completion")
			a, e := k.Admit(prompt, completion, at)
			if e != nil {
				if prompt <= limits.TokensPerMinute && e.RetryAfter <= 0 {
					t.Fatalf("no Retry-After: %v", e)
				}
				if prompt > limits.TokensPerMinute || len(inflight) > 0 {
					continue
				}
				// Both limits may be exceeded, one after the other.
				for range 2 {
					if e != nil {
						at = at.Add(e.RetryAfter)
						a, e = k.Admit(prompt, completion, at)
					}
				}
				if e != nil {
					t.Fatalf("after Retry-After: %v", e)
				}
			}
			requests = append(requests, use{at, 1})
			inflight = append(inflight, flight{a, min(prompt+completion, limits.TokensPerMinute)})
		}
		for limit, uses := range map[int64][]use{limits.RequestsPerMinute: requests, limits.TokensPerMinute: tokens} {
			for from := range uses {
				sum := int64(0)
				for _, u := range uses[from:] {
					sum += u.n
					interval := u.at.Sub(uses[from].at) + time.Microsecond
					if allowed := float64(limit) * (1 + interval.Minutes()); float64(sum) > allowed+1e-6*float64(limit) {
						t.Fatalf("%d uses in %s with a limit of %d per minute", sum, interval, limit)
					}
				}
			}
		}
	})
}
