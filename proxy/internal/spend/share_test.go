package spend_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/spend/spendtest"
)

// clock is a manual clock.
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

// shared returns a budget that is shared by gateways.
func shared(limit cost.Nano, per config.Period) config.Budget {
	return config.Budget{Limit: limit, Per: per, Strict: true, WhenDown: config.DownShare}
}

// gateway is one of several gateways that share a store.
type gateway struct {
	*spend.Book
	accounts *spend.Accounts
	mu       sync.Mutex
	events   []spend.EventKind
}

// start starts a gateway that reports only on calls of Sync.
func start(tb interface{ Fatal(...any) }, store spend.Store, c *clock, name string, journal spend.Journal, limits ...spend.Limit) *gateway {
	g := new(gateway)
	g.Book = spend.NewBook(spend.Options{
		Store: store, Instance: name, Journal: journal, Now: c.now, Manual: true, Timeout: time.Minute,
		Events: func(e spend.Event) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.events = append(g.events, e.Kind)
		},
	})
	accounts, err := g.Open(limits, c.now())
	if err != nil {
		tb.Fatal(err)
	}
	g.accounts = accounts
	return g
}

// TestShareOfZero checks that with a share of 0 a gateway is granted only what its requests need.
func TestShareOfZero(t *testing.T) {
	clock := func() time.Time { return now }
	for name, c := range map[string]struct {
		share *float64
		fits  bool
	}{"default": {nil, false}, "zero": {new(float64), true}} {
		t.Run(name, func(t *testing.T) {
			store := spendtest.NewStore(clock)
			for _, needs := range []cost.Nano{10, 990} { // of one gateway, and of another one
				book := spend.NewBook(spend.Options{Store: store, Share: c.share, Manual: true, Timeout: time.Minute, Now: clock})
				a := open(t, book, spend.Limit{Scope: keyScope, Budgets: []config.Budget{shared(1000, config.PerDay)}})
				e := new(spend.Hold).Reserve(scopes(a), &spend.Need{Fixed: needs}, now)
				if fits := c.fits || needs == 10; (e == nil) != fits {
					t.Errorf("%d of 1000: got error %v, want one: %t", needs, e, !fits)
				}
			}
		})
	}
}

func TestGatewaysShareBudget(t *testing.T) {
	c := &clock{at: now}
	store := spendtest.NewStore(c.now)
	limit := spend.Limit{Scope: keyScope, Budgets: []config.Budget{shared(1000, config.PerDay)}}
	a, b := start(t, store, c, "a", nil, limit), start(t, store, c, "b", nil, limit)
	var first, second, third spend.Hold
	if e := first.Reserve(scopes(a.accounts), &spend.Need{Fixed: 700}, now); e != nil {
		t.Fatal(e)
	}
	e := second.Reserve(scopes(b.accounts), &spend.Need{Fixed: 301}, now)
	if e == nil || e.Status != 429 || e.Code != "rate_limit_exceeded" || e.NoRetry || e.RetryAfter == 0 {
		t.Fatalf("budget held by another gateway: got error %+v", e)
	}
	if e := second.Reserve(scopes(b.accounts), &spend.Need{Fixed: 300}, now); e != nil {
		t.Fatal(e)
	}
	if a, b := a.Stats(), b.Stats(); a.Requests.Done != 1 || a.Denied != 0 || b.Requests.Done != 2 || b.Denied != 1 {
		t.Errorf("got statistics %+v and %+v", a, b)
	}
	first.Settle(spend.Used{Cost: 700}, now)
	second.Settle(spend.Used{Cost: 200}, now)
	for _, g := range []*gateway{a, b} {
		if err := g.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	e = third.Reserve(scopes(b.accounts), &spend.Need{Fixed: 101}, now)
	if e == nil || e.Code != "request_exceeds_budget" || !e.NoRetry {
		t.Fatalf("too little left: got error %+v", e)
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
		if s := onlyBudget(t, g.accounts, now); s.Spent != 950 || s.Held != 0 {
			t.Errorf("got status %+v", s)
		}
	}
	later := c.move(24 * time.Hour)
	if e := third.Reserve(scopes(b.accounts), &spend.Need{Fixed: 900}, later); e != nil {
		t.Errorf("on the next day: got error %v", e)
	}
}

// TestGrantNeedsNoRoundTrip checks that most requests are served from the gateway's grant, and that requests without
// shared limits never use the store.
func TestGrantNeedsNoRoundTrip(t *testing.T) {
	c := &clock{at: now}
	store := spendtest.NewStore(c.now)
	limits := config.Limits{RequestsPerMinute: 1_000_000, TokensPerMinute: 100_000_000, Concurrent: 1000, WhenDown: config.DownLocal}
	g := start(t, store, c, "a", nil,
		spend.Limit{Scope: keyScope, Limits: limits, Budgets: []config.Budget{shared(1_000_000, config.PerDay)}},
		spend.Limit{Scope: teamScope, Limits: config.Limits{RequestsPerMinute: 1 << 30}, Budgets: []config.Budget{budget(1<<40, config.PerDay)}})
	calls := func() int {
		n, _ := store.Syncs()
		return n
	}
	before := calls()
	request := func(s spend.Scopes) {
		var h spend.Hold
		if e := h.Reserve(s, &spend.Need{Prompt: 10, Completion: 10, Fixed: 20}, now); e != nil {
			t.Fatal(e)
		}
		h.Settle(spend.Used{Tokens: 15, Cost: 10}, now)
	}
	for range 1000 {
		request(scopes(g.accounts))
	}
	if n := calls() - before; n != 1 {
		t.Errorf("%d round trips for a grant that suffices for all requests, want 1", n)
	}
	before = calls()
	for range 1000 {
		request(spend.Scopes{spend.Team: g.accounts.Account(spend.Team, "research")})
	}
	if n := calls() - before; n != 0 {
		t.Errorf("%d round trips for a team without shared limits, want 0", n)
	}
	// A half-used grant is replenished in the background.
	for range 500 {
		request(scopes(g.accounts))
		if err := g.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	if s := g.Stats(); s.Requests.Done != 1 {
		t.Errorf("requests waited for %d round trips, want 1", s.Requests.Done)
	}
}

// TestReserveDoesNotAllocate measures a request that needs no round trip.
func TestReserveDoesNotAllocate(t *testing.T) {
	c := &clock{at: now}
	limits := config.Limits{RequestsPerMinute: 1 << 30, TokensPerMinute: 1 << 30, Concurrent: 1 << 10}
	alone := start(t, nil, c, "", nil, spend.Limit{Scope: keyScope, Limits: limits, Budgets: []config.Budget{budget(1<<50, config.PerDay)}})
	limits.WhenDown = config.DownLocal
	limit := spend.Limit{Scope: keyScope, Limits: limits, Budgets: []config.Budget{shared(1<<50, config.PerDay)}}
	for name, g := range map[string]*gateway{"alone": alone, "shared": start(t, spendtest.NewStore(c.now), c, "a", nil, limit)} {
		s := scopes(g.accounts)
		if n := testing.AllocsPerRun(100, func() {
			var h spend.Hold
			if e := h.Reserve(s, &spend.Need{Prompt: 10, Fixed: 20}, now); e != nil {
				t.Fatal(e)
			}
			h.Settle(spend.Used{Tokens: 15, Cost: 10}, now)
		}); n > 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}

// TestGatewaysRace lets clients of several gateways compete for a budget, a rate and concurrent requests, while round
// trips are lost and gateways report. The limits are never exceeded, and in the end nothing is held.
//
// A similar defect elsewhere: limits apply per replica (bifrost#3547).
//
// covers: F75
func TestGatewaysRace(t *testing.T) {
	const limit, maxRequests, concurrent = 1_000_000, 900, 8
	c := &clock{at: now}
	store := spendtest.NewStore(c.now)
	var trips atomic.Int64
	store.Inject(func() spendtest.Fault {
		if n := trips.Add(1); n%23 == 0 {
			return spendtest.Fault(n / 23 % 5)
		}
		return spendtest.None
	})
	limits := []spend.Limit{
		{Scope: keyScope, Budgets: []config.Budget{shared(limit, config.PerDay), shared(2*limit, config.PerMonth)}},
		{Scope: teamScope, Limits: config.Limits{RequestsPerMinute: maxRequests, WhenDown: config.DownShare}},
		{Scope: modelScope, Limits: config.Limits{Concurrent: concurrent, WhenDown: config.DownDeny}},
	}
	var gateways []*gateway
	for _, name := range []string{"a", "b", "c"} {
		gateways = append(gateways, start(t, store, c, name, nil, limits...))
	}
	var spent, admitted, inflight atomic.Int64
	var all sync.WaitGroup
	for client := range 24 {
		all.Go(func() {
			g := gateways[client%len(gateways)]
			for i := range 200 {
				if i%10 == client%10 {
					g.Sync()
				}
				var h spend.Hold
				fixed := cost.Nano(1 + (client*7919+i*104729)%4000)
				if h.Reserve(scopes(g.accounts), &spend.Need{Fixed: fixed}, now) != nil {
					continue
				}
				if n := inflight.Add(1); n > concurrent {
					t.Errorf("%d concurrent requests with a limit of %d", n, concurrent)
				}
				admitted.Add(1)
				amount := fixed * cost.Nano(i%3) / 2 // none, half or all
				spent.Add(int64(amount))
				inflight.Add(-1)
				h.Settle(spend.Used{Cost: amount}, now)
			}
		})
	}
	all.Wait()
	store.Inject(nil)
	store.Deliver()
	for _, g := range gateways {
		g.Sync()
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if spent.Load() > limit || admitted.Load() > maxRequests {
		t.Errorf("%d spent with a budget of %d; %d requests with a limit of %d", spent.Load(), limit, admitted.Load(), maxRequests)
	}
	if admitted.Load() < maxRequests/2 {
		t.Errorf("only %d requests were admitted", admitted.Load())
	}
	day, month := spend.Window{Per: config.PerDay}, spend.Window{Per: config.PerMonth}
	day.Start, day.End = config.PerDay.Window(now, time.UTC)
	month.Start, month.End = config.PerMonth.Window(now, time.UTC)
	for name, at := range map[string]spendtest.Total{
		"day": store.Total(keyScope, spend.Money, day, limit), "month": store.Total(keyScope, spend.Money, month, 2*limit),
	} {
		if at.Used != spent.Load() || at.Taken != at.Used {
			t.Errorf("budget per %s: the store has %+v, want %d spent", name, at, spent.Load())
		}
	}
	if at := store.Total(teamScope, spend.Requests, spend.Window{}, maxRequests); at.Taken != admitted.Load() || at.Outstanding != 0 {
		t.Errorf("requests: the store has %+v, want %d taken", at, admitted.Load())
	}
	if at := store.Total(modelScope, spend.Concurrent, spend.Window{}, concurrent); at.Taken != 0 {
		t.Errorf("concurrent requests: the store has %+v, want 0 taken", at)
	}
}

// TestMaxTokensAreLoweredToSharedBudget checks that max_tokens are lowered to what all gateways together have left, not
// to the grant of the gateway.
//
// A similar defect elsewhere: requests rejected far below the limit (bifrost#5770).
func TestMaxTokensAreLoweredToSharedBudget(t *testing.T) {
	c := &clock{at: now}
	store := spendtest.NewStore(c.now)
	limit := spend.Limit{Scope: keyScope, Budgets: []config.Budget{shared(100_000, config.PerDay)}}
	a, b := start(t, store, c, "a", nil, limit), start(t, store, c, "b", nil, limit)
	need := func(tokens int64) *spend.Need {
		return &spend.Need{Fixed: 100, PerMillion: 10_000_000, MaxTokens: tokens}
	}
	var first, second, third spend.Hold
	if e := first.Reserve(scopes(a.accounts), need(100), now); e != nil || first.Lowered() != 0 {
		t.Fatal(e, first.Lowered())
	}
	if e := second.Reserve(scopes(b.accounts), need(8000), now); e != nil || second.Lowered() != 0 {
		t.Fatalf("with 98 %% of the budget left: got error %v, lowered to %d", e, second.Lowered())
	}
	if e := third.Reserve(scopes(a.accounts), need(8000), now); e != nil || third.Lowered() != 1870 {
		t.Errorf("with 18,800 left: got error %v, lowered to %d, want 1870", e, third.Lowered())
	}
	if e := new(spend.Hold).Reserve(scopes(b.accounts), need(8000), now); e == nil || e.Code != "rate_limit_exceeded" {
		t.Errorf("with nothing left: got error %v", e)
	}
}

// TestRemovedScopeReturnsGrants checks that the grants of a scope that a reload removes are returned when its requests
// have ended.
func TestRemovedScopeReturnsGrants(t *testing.T) {
	c := &clock{at: now}
	store := spendtest.NewStore(c.now)
	limit := spend.Limit{Scope: keyScope, Budgets: []config.Budget{shared(1000, config.PerTotal)}}
	g := start(t, store, c, "a", nil, limit)
	var h spend.Hold
	if e := h.Reserve(scopes(g.accounts), &spend.Need{Fixed: 400}, now); e != nil {
		t.Fatal(e)
	}
	g.Prune(open(t, g.Book))
	total := func() int64 {
		t.Helper()
		if err := g.Sync(); err != nil {
			t.Fatal(err)
		}
		return store.Total(keyScope, spend.Money, spend.Window{Per: config.PerTotal}, 1000).Taken
	}
	if n := total(); n != 400 {
		t.Errorf("%d taken while a request is in flight, want 400", n)
	}
	h.Settle(spend.Used{Cost: 50}, now)
	if n := total(); n != 50 {
		t.Errorf("%d taken after the request, want 50", n)
	}
	// If the scope is added again, it has spent 50, or 0 until the store has reported its usage.
	if s := onlyBudget(t, open(t, g.Book, limit), now); s.Spent != 0 && s.Spent != 50 {
		t.Errorf("got status %+v", s)
	}
}

// TestRemainingIncludesAllGateways checks the values of x-ratelimit headers.
func TestRemainingIncludesAllGateways(t *testing.T) {
	c := &clock{at: now}
	store := spendtest.NewStore(c.now)
	limit := spend.Limit{Scope: keyScope, Limits: config.Limits{RequestsPerMinute: 100, TokensPerMinute: 10_000, WhenDown: config.DownLocal}}
	a, b := start(t, store, c, "a", nil, limit), start(t, store, c, "b", nil, limit)
	var h spend.Hold
	for range 40 {
		if e := h.Reserve(scopes(a.accounts), &spend.Need{Prompt: 100}, now); e != nil {
			t.Fatal(e)
		}
		h.Settle(spend.Used{Tokens: 100}, now)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if e := h.Reserve(scopes(b.accounts), &spend.Need{Prompt: 100}, now); e != nil {
		t.Fatal(e)
	}
	h.Settle(spend.Used{Tokens: 100}, now)
	r := b.accounts.Account(spend.Key, "k").Remaining(now)
	if r.Requests != 59 || r.Tokens != 5900 || r.RequestsReset != 24600*time.Millisecond || r.TokensReset != 24600*time.Millisecond {
		t.Errorf("got %+v", r)
	}
	if r := b.accounts.Account(spend.Key, "k").Remaining(now.Add(6 * time.Second)); r.Requests != 69 {
		t.Errorf("after six seconds: got %+v", r)
	}
	// Without the store, the gateway counts only its own request, which has drained in the six seconds since.
	store.Inject(func() spendtest.Fault { return spendtest.Lose })
	b.Sync()
	if r := b.accounts.Account(spend.Key, "k").Remaining(now); r.Requests != 100 {
		t.Errorf("while the store is down: got %+v", r)
	}
}
