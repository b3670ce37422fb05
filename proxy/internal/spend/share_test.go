package spend_test

import (
	"sync"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/spend/spendtest"
)

// clock is a clock that stands still until it is moved.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) move(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
	return c.at
}

// shared is a budget that gateways share.
func shared(limit cost.Nano, per config.Period) config.Budget {
	return config.Budget{Limit: limit, Per: per, Strict: true, WhenDown: config.DownShare}
}

// gateway is one of several gateways with one store.
type gateway struct {
	*spend.Book
	accounts *spend.Accounts
	events   []spend.EventKind
}

// start starts a gateway that reports when it is told to.
func start(tb interface{ Fatal(...any) }, store spend.Store, c *clock, name string, journal spend.Journal, limits ...spend.Limit) *gateway {
	g := new(gateway)
	g.Book = spend.NewBook(spend.Options{
		Store: store, Instance: name, Journal: journal, Now: c.now, Manual: true, Timeout: time.Minute,
		Events: func(e spend.Event) { g.events = append(g.events, e.Kind) },
	})
	accounts, err := g.Open(limits, c.now())
	if err != nil {
		tb.Fatal(err)
	}
	g.accounts = accounts
	return g
}

func TestGatewaysShareABudget(t *testing.T) {
	c := &clock{at: now}
	store := spendtest.NewStore(c.now)
	limit := spend.Limit{Scope: ofKey, Budgets: []config.Budget{shared(1000, config.PerDay)}}
	a, b := start(t, store, c, "a", nil, limit), start(t, store, c, "b", nil, limit)
	var first, second, third spend.Hold
	if e := first.Reserve(scopes(a.accounts), &spend.Need{Fixed: 700}, now); e != nil {
		t.Fatal(e)
	}
	e := second.Reserve(scopes(b.accounts), &spend.Need{Fixed: 301}, now)
	if e == nil || e.Status != 429 || e.Code != "rate_limit_exceeded" || e.NoRetry || e.RetryAfter == 0 {
		t.Fatalf("what another gateway holds: %+v", e)
	}
	if e := second.Reserve(scopes(b.accounts), &spend.Need{Fixed: 300}, now); e != nil {
		t.Fatal(e)
	}
	if a, b := a.Stats(), b.Stats(); a.Requests.Done != 1 || a.Denied != 0 || b.Requests.Done != 2 || b.Denied != 1 {
		t.Errorf("round trips: %+v, %+v", a, b)
	}
	first.Settle(spend.Used{Cost: 700}, now)
	second.Settle(spend.Used{Cost: 200}, now)
	for _, g := range []*gateway{a, b} {
		if err := g.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	e = third.Reserve(scopes(b.accounts), &spend.Need{Fixed: 101}, now)
	if e == nil || e.Code != "insufficient_quota" || !e.NoRetry {
		t.Fatalf("what was spent: %+v", e)
	}
	if e := third.Reserve(scopes(a.accounts), &spend.Need{Fixed: 100}, now); e != nil {
		t.Fatal(e)
	}
	third.Settle(spend.Used{Cost: 50}, now)
	for _, g := range []*gateway{a, b, a} {
		c.move(5 * time.Second)
		if err := g.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range []*gateway{a, b} {
		if s := only(t, g.accounts, now); s.Spent != 950 || s.Held != 0 {
			t.Errorf("%+v", s)
		}
	}
	later := c.move(24 * time.Hour)
	if e := third.Reserve(scopes(b.accounts), &spend.Need{Fixed: 900}, later); e != nil {
		t.Errorf("on the next day: %v", e)
	}
}
