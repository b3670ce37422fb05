package spend_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/spend/spendtest"
)

// reserve reserves an amount for a principal.
func reserve(a *spend.Accounts, n int, rights *config.Bounds, amount cost.Nano, at time.Time) (*spend.Hold, *apierror.Error) {
	h := new(spend.Hold)
	e := h.Reserve(spend.Scopes{spend.Key: a.Principal(fmt.Sprint("idp:", n), fmt.Sprint("idp:user-", n), rights, at)}, &spend.Need{Fixed: amount}, at)
	return h, e
}

func TestPrincipalsHaveOwnLimits(t *testing.T) {
	a := open(t, spend.NewBook(spend.Options{}))
	rights := &config.Bounds{Limits: config.Limits{RequestsPerMinute: 2}, Budgets: []config.Budget{budget(100, config.PerDay)}}
	for n := range 3 {
		for range 2 {
			if _, e := reserve(a, n, rights, 50, now); e != nil {
				t.Fatal(e)
			}
		}
		_, e := reserve(a, n, rights, 0, now)
		if e == nil || e.Message != "The identity is limited to 2 requests per minute. Retry in 30s." {
			t.Errorf("the third request: %v", e)
		}
	}
	now := now.Add(time.Minute)
	_, e := reserve(a, 1, rights, 1, now)
	if e == nil || !strings.Contains(e.Message, "budget of the identity idp:user-1 per day") || e.Cause.(*spend.LimitError).Scope.Name != "idp:user-1" {
		t.Errorf("beyond the budget: %v, %v", e, e.Cause)
	}
	listed := a.Principals(now, 2, func(s spend.Scope) bool { return s.Name != "idp:user-0" })
	if len(listed) != 2 || listed[0].Scope != (spend.Scope{Kind: spend.Key, Name: "idp:user-1"}) || listed[1].Held != 100 {
		t.Errorf("got principals %+v", listed)
	}
	if len(a.Principals(now, 1, func(spend.Scope) bool { return true })) != 1 {
		t.Error("more principals are listed than asked for")
	}
	if a.Principal("idp:1", "idp:user-1", new(config.Bounds), now) != nil {
		t.Error("a principal without limits has an account")
	}
	// Another rule for the same principal counts what it has used so far.
	_, e = reserve(a, 1, &config.Bounds{Budgets: []config.Budget{budget(120, config.PerDay)}}, 21, now)
	if e == nil || e.Status != 429 {
		t.Errorf("beyond the budget of another rule: %v", e)
	}
}

// TestEvictionGivesNothingBack checks that a principal which was forgotten finds its budget as it was.
func TestEvictionGivesNothingBack(t *testing.T) {
	rights := &config.Bounds{Limits: config.Limits{RequestsPerMinute: 1}, Budgets: []config.Budget{budget(100, config.PerDay)}}
	for name, journal := range map[string]spend.Journal{"with a journal": newMemoryJournal(), "without one": nil} {
		t.Run(name, func(t *testing.T) {
			const most, all = 100, 300
			c := &clock{at: now}
			b := spend.NewBook(spend.Options{Journal: journal, Principals: most})
			a := open(t, b)
			for n := range all {
				h, e := reserve(a, n, rights, 90, c.move(time.Second))
				if e != nil {
					t.Fatal(e)
				}
				h.Settle(spend.Used{Cost: 80}, c.now())
			}
			inFlight, e := reserve(a, all, rights, 90, c.now())
			if e != nil {
				t.Fatal(e)
			}
			c.move(5 * time.Minute)
			if _, e := reserve(a, all+1, rights, 90, c.now()); e != nil {
				t.Fatal(e)
			}
			switch used := b.Usages(); {
			case journal != nil && used > most:
				t.Errorf("%d principals are kept, want at most %d", used, most)
			case journal == nil && used != all+2:
				t.Errorf("%d principals are kept, want all that have spent something", used)
			}
			for n := range all {
				if _, e := reserve(a, n, rights, 21, c.now()); e == nil || e.Status != 429 {
					t.Fatalf("principal %d: %v, want 80 of 100 spent", n, e)
				}
			}
			if _, e := reserve(a, 0, rights, 20, c.now()); e != nil {
				t.Errorf("the rest of the budget: %v", e)
			}
			if _, e := reserve(a, all, rights, 11, c.now()); e == nil {
				t.Error("what a request in flight holds was forgotten")
			}
			inFlight.Settle(spend.Used{Cost: 0}, c.now())
			if _, e := reserve(a, all, rights, 100, c.now()); e != nil {
				t.Errorf("after the request: %v", e)
			}
			if journal != nil {
				return
			}
			// When their windows have ended, they are forgotten too.
			c.move(24 * time.Hour)
			if _, e := reserve(a, all+2, rights, 1, c.now()); e != nil {
				t.Fatal(e)
			}
			if used := b.Usages(); used > most {
				t.Errorf("%d principals are kept on the next day, want at most %d", used, most)
			}
		})
	}
}

// TestIdleRateIsForgotten checks that a principal is not forgotten while its rate limit counts earlier requests.
func TestIdleRateIsForgotten(t *testing.T) {
	rights := &config.Bounds{Limits: config.Limits{RequestsPerMinute: 1}}
	c := &clock{at: now}
	b := spend.NewBook(spend.Options{Principals: 10})
	a := open(t, b)
	for n := range 100 {
		h, e := reserve(a, n, rights, 0, c.now())
		if e != nil {
			t.Fatal(e)
		}
		h.Settle(spend.Used{}, c.now())
	}
	c.move(30 * time.Second)
	for n := range 100 {
		if _, e := reserve(a, n, rights, 0, c.now()); e == nil {
			t.Fatalf("principal %d: a second request after 30 s", n)
		}
	}
	c.move(3 * time.Minute)
	if _, e := reserve(a, 1000, rights, 0, c.now()); e != nil {
		t.Fatal(e)
	}
	if used := b.Usages(); used > 10 {
		t.Errorf("%d principals are kept", used)
	}
}

// TestPrincipalsOfFourGateways has four gateways spend the budgets of 20 principals at the same time, one of which is
// killed and starts again. No budget is exceeded, and most of each is spent.
func TestPrincipalsOfFourGateways(t *testing.T) {
	const principals, limit = 20, 10_000
	rights := &config.Bounds{Budgets: []config.Budget{shared(limit, config.PerDay)}}
	c := &clock{at: now}
	store := spendtest.NewStore(c.now)
	journals := make([]*memoryJournal, 4)
	gateways := make([]*gateway, 4)
	for i := range gateways {
		journals[i] = newMemoryJournal()
		gateways[i] = start(t, store, c, fmt.Sprint("gateway-", i), journals[i])
	}
	var spent [principals]atomic.Int64
	race := func(requests int) {
		var all sync.WaitGroup
		for client := range 16 {
			random := rand.New(rand.NewPCG(uint64(client), uint64(requests)))
			all.Go(func() {
				for range requests {
					n, amount := random.IntN(principals), cost.Nano(1+random.IntN(300))
					h, e := reserve(gateways[client%4].accounts, n, rights, amount, c.now())
					if e != nil {
						if e.Status != 429 {
							t.Errorf("status %d: %v", e.Status, e)
						}
						continue
					}
					used := amount - cost.Nano(random.IntN(int(amount)))
					spent[n].Add(int64(used))
					h.Settle(spend.Used{Cost: used}, c.now())
				}
			})
		}
		all.Wait()
	}
	race(50)
	for i := range 3 { // the last one is killed: it reports nothing more
		if err := gateways[i].Sync(); err != nil {
			t.Fatal(err)
		}
	}
	gateways[3] = start(t, store, c, "gateway-3", journals[3])
	race(400)
	for n := range spent {
		if got := spent[n].Load(); got > limit || got < limit/2 {
			t.Errorf("principal %d has spent %d of %d", n, got, limit)
		}
	}
}

// TestUsersShareBeyondMost checks that the users of a key are counted separately up to a number, beyond which they share
// one account until others have been idle; and that the users of another key do not count.
func TestUsersShareBeyondMost(t *testing.T) {
	const most = 8
	bounds := &config.Bounds{Limits: config.Limits{RequestsPerMinute: 1}}
	c := &clock{at: now}
	b := spend.NewBook(spend.Options{})
	a := open(t, b)
	use := func(key string, n int) (other bool, e *apierror.Error) {
		user := a.User(key, fmt.Sprint(n), fmt.Sprint(key, "/user-", n), bounds, most, c.now())
		h := new(spend.Hold)
		if e = h.Reserve(spend.Scopes{spend.User: user}, &spend.Need{}, c.now()); e == nil {
			h.Settle(spend.Used{}, c.now())
		}
		return user.IsOther(), e
	}
	for n := range most {
		if other, e := use("k", n); other || e != nil {
			t.Fatalf("user %d: other is %t, %v", n, other, e)
		}
	}
	if other, e := use("l", 0); other || e != nil {
		t.Errorf("a user of another key: other is %t, %v", other, e)
	}
	if other, e := use("k", most); !other || e != nil {
		t.Errorf("the first user beyond: other is %t, %v", other, e)
	}
	if other, e := use("k", most+1); !other || e == nil || e.Message != "The user is limited to 1 requests per minute. Retry in 1m0s." {
		t.Errorf("the second user beyond: other is %t, %v", other, e)
	}
	c.move(5 * time.Minute)
	if other, e := use("k", most); other || e != nil {
		t.Errorf("after others have been idle: other is %t, %v", other, e)
	}
}
