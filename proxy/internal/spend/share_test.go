package spend_test

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
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

// TestShareInHandNeedsNoRoundTrip serves most requests from what was granted at once, and all that nothing is shared of.
func TestShareInHandNeedsNoRoundTrip(t *testing.T) {
	c := &clock{at: now}
	store := spendtest.NewStore(c.now)
	limits := config.Limits{RequestsPerMinute: 1_000_000, TokensPerMinute: 100_000_000, Concurrent: 1000, WhenDown: config.DownLocal}
	g := start(t, store, c, "a", nil,
		spend.Limit{Scope: ofKey, Limits: limits, Budgets: []config.Budget{shared(1_000_000, config.PerDay)}},
		spend.Limit{Scope: ofTeam, Limits: config.Limits{RequestsPerMinute: 1 << 30}, Budgets: []config.Budget{budget(1<<40, config.PerDay)}})
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
		t.Errorf("%d round trips for a share that suffices for all requests", n)
	}
	before = calls()
	for range 1000 {
		request(spend.Scopes{spend.Team: g.accounts.Account(spend.Team, "research")})
	}
	if n := calls() - before; n != 0 {
		t.Errorf("%d round trips for a team that shares nothing", n)
	}
	// What is half used is topped up in the background.
	for range 500 {
		request(scopes(g.accounts))
		if err := g.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	if s := g.Stats(); s.Requests.Done != 1 {
		t.Errorf("%d round trips that requests waited for", s.Requests.Done)
	}
}

// TestReserveAllocatesNothing pins what a request costs that no round trip is needed for.
func TestReserveAllocatesNothing(t *testing.T) {
	c := &clock{at: now}
	limits := config.Limits{RequestsPerMinute: 1 << 30, TokensPerMinute: 1 << 30, Concurrent: 1 << 10}
	alone := start(t, nil, c, "", nil, spend.Limit{Scope: ofKey, Limits: limits, Budgets: []config.Budget{budget(1<<50, config.PerDay)}})
	limits.WhenDown = config.DownLocal
	of := spend.Limit{Scope: ofKey, Limits: limits, Budgets: []config.Budget{shared(1<<50, config.PerDay)}}
	for name, g := range map[string]*gateway{"alone": alone, "shared": start(t, spendtest.NewStore(c.now), c, "a", nil, of)} {
		s := scopes(g.accounts)
		if n := testing.AllocsPerRun(100, func() {
			var h spend.Hold
			if e := h.Reserve(s, &spend.Need{Prompt: 10, Fixed: 20}, now); e != nil {
				t.Fatal(e)
			}
			h.Settle(spend.Used{Tokens: 15, Cost: 10}, now)
		}); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// TestModesWhileStoreIsDown checks what each mode promises once the store is gone, that no request waits for it then, and that it is told.
//
// covers: litellm#32232 (per process without a word)
func TestModesWhileStoreIsDown(t *testing.T) {
	for _, c := range []struct {
		mode   config.WhenDown
		served int // requests of 100, of 20, with a share of 200 of 1000
	}{
		{mode: config.DownDeny, served: 0},
		{mode: config.DownShare, served: 2},
		{mode: config.DownLocal, served: 10},
	} {
		for _, what := range []string{"budget", "rate"} {
			t.Run(string(c.mode)+" "+what, func(t *testing.T) {
				clock := &clock{at: now}
				store := spendtest.NewStore(clock.now)
				limit := spend.Limit{Scope: ofKey, Limits: config.Limits{TokensPerMinute: 1000, WhenDown: c.mode}}
				need := func(n int64) *spend.Need { return &spend.Need{Prompt: n} }
				if what == "budget" {
					b := shared(1000, config.PerDay)
					b.WhenDown = c.mode
					limit = spend.Limit{Scope: ofKey, Budgets: []config.Budget{b}}
					need = func(n int64) *spend.Need { return &spend.Need{Fixed: cost.Nano(n)} }
				}
				g := start(t, store, clock, "a", nil, limit)
				var h spend.Hold
				if e := h.Reserve(scopes(g.accounts), need(200), now); e != nil {
					t.Fatal(e)
				}
				h.Settle(spend.Used{}, now) // 200 are granted, and free
				store.Inject(func() spendtest.Fault { return spendtest.Lose })
				g.Sync()
				if s, ok := g.State(); !ok || !s.Down || s.Err == nil {
					t.Errorf("state %+v", s)
				}
				before, _ := store.Syncs()
				served := 0
				for range 20 {
					e := new(spend.Hold).Reserve(scopes(g.accounts), need(100), now)
					switch {
					case e == nil:
						served++
					case c.mode == config.DownLocal && e.Status != 429,
						c.mode != config.DownLocal && (e.Status != 503 || e.Code != "store_unavailable" || e.RetryAfter == 0 || !errors.Is(e.Cause, spend.ErrStoreDown)):
						t.Fatalf("%+v", e)
					}
				}
				if served != c.served {
					t.Errorf("%d requests were served, want %d", served, c.served)
				}
				if after, _ := store.Syncs(); after != before {
					t.Errorf("%d round trips on the way of requests while the store is down", after-before)
				}
				// The store is back: what was used meanwhile counts.
				store.Inject(nil)
				if err := g.Sync(); err != nil {
					t.Fatal(err)
				}
				if s, _ := g.State(); s.Down {
					t.Errorf("state %+v", s)
				}
				var later time.Time
				for range 2 { // after more than the lease, what is not held is given back
					later = clock.move(6 * time.Second)
					if err := g.Sync(); err != nil {
						t.Fatal(err)
					}
				}
				other := start(t, store, clock, "b", nil, limit)
				var last spend.Hold
				left := int64(1000 - 100*c.served)
				if e := last.Reserve(scopes(other.accounts), need(left+1), later); e == nil {
					t.Errorf("more than %d are left", left)
				}
				if e := last.Reserve(scopes(other.accounts), need(left), later); e != nil {
					t.Errorf("%d are left: %v", left, e)
				}
				if want := []spend.EventKind{spend.EventStoreDown, spend.EventStoreUp}; !slices.Equal(g.events, want) {
					t.Errorf("events %v, want %v", g.events, want)
				}
			})
		}
	}
}

// TestGatewaysRace has clients of several gateways race for a budget, a rate and concurrent requests, with round trips that are lost, while
// gateways report in the background. Not one nano-dollar and not one request more is admitted, and in the end nothing is held.
//
// covers: bifrost#3547 (limits per replica)
func TestGatewaysRace(t *testing.T) {
	const limit, most, concurrent = 1_000_000, 900, 8
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
		{Scope: ofKey, Budgets: []config.Budget{shared(limit, config.PerDay), shared(2*limit, config.PerMonth)}},
		{Scope: ofTeam, Limits: config.Limits{RequestsPerMinute: most, WhenDown: config.DownShare}},
		{Scope: ofModel, Limits: config.Limits{Concurrent: concurrent, WhenDown: config.DownDeny}},
	}
	var gateways []*gateway
	for _, name := range []string{"a", "b", "c"} {
		gateways = append(gateways, start(t, store, c, name, nil, limits...))
	}
	var spent, admitted, flying atomic.Int64
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
				if n := flying.Add(1); n > concurrent {
					t.Errorf("%d at a time", n)
				}
				admitted.Add(1)
				amount := fixed * cost.Nano(i%3) / 2 // none, half or all
				spent.Add(int64(amount))
				flying.Add(-1)
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
	if spent.Load() > limit || admitted.Load() > most {
		t.Errorf("%d spent, with a budget of %d; %d requests, with a limit of %d", spent.Load(), limit, admitted.Load(), most)
	}
	if admitted.Load() < most/2 {
		t.Errorf("only %d requests were admitted", admitted.Load())
	}
	day, month := spend.Window{Per: config.PerDay}, spend.Window{Per: config.PerMonth}
	day.Start, day.End = config.PerDay.Window(now, time.UTC)
	month.Start, month.End = config.PerMonth.Window(now, time.UTC)
	for name, at := range map[string]spendtest.Total{
		"day": store.Total(ofKey, spend.Money, day, limit), "month": store.Total(ofKey, spend.Money, month, 2*limit),
	} {
		if at.Used != spent.Load() || at.Taken != at.Used {
			t.Errorf("per %s the store has %+v, and %d was spent", name, at, spent.Load())
		}
	}
	if at := store.Total(ofTeam, spend.Requests, spend.Window{}, most); at.Taken != admitted.Load() || at.Outstanding != 0 {
		t.Errorf("of requests the store has %+v, and %d were admitted", at, admitted.Load())
	}
	if at := store.Total(ofModel, spend.Concurrent, spend.Window{}, concurrent); at.Taken != 0 {
		t.Errorf("in flight the store has %+v", at)
	}
}

// TestBackgroundReports has a gateway report by itself: what was used, what happens to the store, and what it gives back.
func TestBackgroundReports(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for reports, which are made each second")
	}
	store := spendtest.NewStore(time.Now)
	changes := make(chan spend.EventKind, 100)
	book := spend.NewBook(spend.Options{Store: store, Timeout: time.Minute, Events: func(e spend.Event) { changes <- e.Kind }})
	at := time.Now()
	accounts, err := book.Open([]spend.Limit{{Scope: ofKey, Budgets: []config.Budget{shared(1000, config.PerTotal)}}}, at)
	if err != nil {
		t.Fatal(err)
	}
	var h spend.Hold
	if e := h.Reserve(scopes(accounts), &spend.Need{Fixed: 100}, at); e != nil {
		t.Fatal(e)
	}
	h.Settle(spend.Used{Cost: 70}, at)
	total := func() spendtest.Total {
		return store.Total(ofKey, spend.Money, spend.Window{Per: config.PerTotal}, 1000)
	}
	trips := make(chan struct{}, 1)
	store.Inject(func() spendtest.Fault {
		select {
		case trips <- struct{}{}:
		default:
		}
		return spendtest.None
	})
	for total().Used != 70 {
		<-trips
	}
	store.Inject(func() spendtest.Fault { return spendtest.Lose })
	if k := <-changes; k != spend.EventStoreDown {
		t.Errorf("event %d", k)
	}
	store.Inject(nil)
	if k := <-changes; k != spend.EventStoreUp {
		t.Errorf("event %d", k)
	}
	if err := book.Close(); err != nil {
		t.Fatal(err)
	}
	if err := book.Close(); err != nil { // once is enough
		t.Fatal(err)
	}
	if at := total(); at.Taken != 70 || at.Used != 70 {
		t.Errorf("%+v", at)
	}
}

// TestWindowsAreThoseOfTheStore has a gateway whose clock is wrong by hours.
func TestWindowsAreThoseOfTheStore(t *testing.T) {
	for _, wrong := range []time.Duration{-20 * time.Hour, 20 * time.Hour, 40 * 24 * time.Hour} {
		c := &clock{at: now}
		store := spendtest.NewStore(c.now)
		own := &clock{at: now.Add(wrong)}
		limits := []spend.Limit{{Scope: ofKey, Budgets: []config.Budget{shared(1000, config.PerMinute), shared(2000, config.PerDay)}}}
		g, other := start(t, store, own, "a", nil, limits...), start(t, store, c, "b", nil, limits...)
		var h spend.Hold
		if e := h.Reserve(scopes(g.accounts), &spend.Need{Fixed: 900}, own.now()); e != nil {
			t.Fatalf("%s: %v", wrong, e)
		}
		if e := new(spend.Hold).Reserve(scopes(other.accounts), &spend.Need{Fixed: 101}, c.now()); e == nil {
			t.Errorf("%s: the budget was passed", wrong)
		}
		h.Settle(spend.Used{Cost: 900}, own.now())
		start, end := config.PerDay.Window(now, time.UTC)
		if s := g.accounts.Status(own.now()); !s[1].Start.Equal(start) || !s[1].End.Equal(end) || s[1].Spent != 900 {
			t.Errorf("%s: %+v", wrong, s)
		}
		// The next window is there when the store says so.
		c.move(time.Minute)
		if e := h.Reserve(scopes(g.accounts), &spend.Need{Fixed: 1000}, own.now()); e == nil {
			t.Errorf("%s: before the gateway knows of it", wrong)
		}
		if err := g.Sync(); err != nil {
			t.Fatal(err)
		}
		if e := h.Reserve(scopes(g.accounts), &spend.Need{Fixed: 900}, own.now()); e != nil {
			t.Errorf("%s: in the next window: %v", wrong, e)
		}
	}
}

// TestCopiedIdentity has two processes with one identity, as a copied state folder makes them: the one that learns of it goes on under a
// new identity, and the budget holds once it has.
func TestCopiedIdentity(t *testing.T) {
	c := &clock{at: now}
	store := spendtest.NewStore(c.now)
	limit := spend.Limit{Scope: ofKey, Budgets: []config.Budget{shared(1000, config.PerDay)}}
	first := start(t, store, c, "same", nil, limit)
	var h spend.Hold
	if e := h.Reserve(scopes(first.accounts), &spend.Need{Fixed: 300}, now); e != nil {
		t.Fatal(e)
	}
	h.Settle(spend.Used{Cost: 300}, now)
	later := c.move(time.Minute)
	copied := start(t, store, c, "same", nil, limit)
	if e := h.Reserve(scopes(copied.accounts), &spend.Need{Fixed: 400}, later); e != nil {
		t.Fatal(e)
	}
	h.Settle(spend.Used{Cost: 400}, later)
	for range 2 {
		for _, g := range []*gateway{first, copied} {
			if err := g.Sync(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !slices.Equal(first.events, []spend.EventKind{spend.EventIdentity}) || len(copied.events) > 0 {
		t.Errorf("events %v and %v", first.events, copied.events)
	}
	e := h.Reserve(scopes(copied.accounts), &spend.Need{Fixed: 301}, later)
	if e == nil || e.Code != "insufficient_quota" {
		t.Errorf("%v", e)
	}
	// A process whose clock was set back since the last one is no copy.
	c.move(-time.Hour)
	again := start(t, store, c, "same", nil, limit)
	if e := h.Reserve(scopes(again.accounts), &spend.Need{Fixed: 100}, c.now()); e != nil {
		t.Errorf("after the clock was set back: %v", e)
	}
	if len(again.events) > 0 {
		t.Errorf("events %v", again.events)
	}
}

// TestRaisedBudgetIsRaisedForAll raises a budget on one gateway: once, whatever is repeated, and again after the store lost its data.
func TestRaisedBudgetIsRaisedForAll(t *testing.T) {
	c := &clock{at: now}
	store := spendtest.NewStore(c.now)
	journal := newLog()
	limit := spend.Limit{Scope: ofKey, Budgets: []config.Budget{shared(1000, config.PerDay)}}
	a, b := start(t, store, c, "a", journal, limit), start(t, store, c, "b", nil, limit)
	sync := func() {
		t.Helper()
		for range 2 {
			for _, g := range []*gateway{a, b} {
				c.move(2 * time.Second)
				if err := g.Refresh(); err != nil {
					t.Fatal(err)
				}
				if err := g.Sync(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	check := func(what string) {
		t.Helper()
		for _, g := range []*gateway{a, b} {
			if s := only(t, g.accounts, c.now()); s.Limit != 1500 || s.Raised != 500 {
				t.Errorf("%s: %+v", what, s)
			}
		}
	}
	store.Inject(func() spendtest.Fault { return spendtest.LoseBack })
	if err := a.Adjust(spend.Adjustment{Scope: ofKey, Per: config.PerDay, At: c.now(), Credit: 500, Reason: "a demo", ID: "1"}); err != nil {
		t.Fatal(err)
	}
	store.Inject(nil)
	sync()
	check("after a reply that was lost")
	a = start(t, store, c, "a", journal, limit)
	sync()
	check("after a restart")
	store.Wipe()
	sync()
	check("after a loss of data")
	if e := new(spend.Hold).Reserve(scopes(b.accounts), &spend.Need{Fixed: 1500}, c.now()); e != nil {
		t.Error(e)
	}
}

// TestLostDataIsTold checks what a gateway says and does when the store has lost its data, and that one that is idle notices.
func TestLostDataIsTold(t *testing.T) {
	c := &clock{at: now}
	store := spendtest.NewStore(c.now)
	limit := spend.Limit{Scope: ofKey, Budgets: []config.Budget{shared(1000, config.PerTotal)}}
	a, b := start(t, store, c, "a", nil, limit), start(t, store, c, "b", nil, limit)
	var h spend.Hold
	if e := h.Reserve(scopes(a.accounts), &spend.Need{Fixed: 900}, now); e != nil {
		t.Fatal(e)
	}
	h.Settle(spend.Used{Cost: 900}, now)
	for range 3 { // until it is idle
		c.move(5 * time.Second)
		if err := a.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	store.Wipe()
	// The first to ask is a gateway that never used anything: it gets nothing before the other one has reported.
	e := h.Reserve(scopes(b.accounts), &spend.Need{Fixed: 500}, c.now())
	if e == nil || e.Status != 503 {
		t.Fatalf("%v", e)
	}
	c.move(time.Second)
	for range 2 {
		for _, g := range []*gateway{a, b} {
			if err := g.Sync(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if s, _ := a.State(); !s.Lost || s.Down {
		t.Errorf("state %+v", s)
	}
	c.move(spend.Recovery)
	for _, g := range []*gateway{a, b} {
		if err := g.Sync(); err != nil {
			t.Fatal(err)
		}
		if s, _ := g.State(); s.Lost {
			t.Errorf("state %+v", s)
		}
		if want := []spend.EventKind{spend.EventStoreLost, spend.EventStoreUp}; !slices.Equal(g.events, want) {
			t.Errorf("events %v, want %v", g.events, want)
		}
	}
	if e := h.Reserve(scopes(b.accounts), &spend.Need{Fixed: 101}, c.now()); e == nil || e.Code != "insufficient_quota" {
		t.Errorf("%v", e)
	}
	if e := h.Reserve(scopes(b.accounts), &spend.Need{Fixed: 100}, c.now()); e != nil {
		t.Error(e)
	}
}

// TestResponseIsLoweredToWhatIsLeftForAll lowers a response to what other gateways have left, and not to what happens to be granted here.
//
// covers: bifrost#5770 (refused far below the limit)
func TestResponseIsLoweredToWhatIsLeftForAll(t *testing.T) {
	c := &clock{at: now}
	store := spendtest.NewStore(c.now)
	limit := spend.Limit{Scope: ofKey, Budgets: []config.Budget{shared(100_000, config.PerDay)}}
	a, b := start(t, store, c, "a", nil, limit), start(t, store, c, "b", nil, limit)
	need := func(tokens int64) *spend.Need {
		return &spend.Need{Fixed: 100, PerMillion: 10_000_000, MaxTokens: tokens}
	}
	var first, second, third spend.Hold
	if e := first.Reserve(scopes(a.accounts), need(100), now); e != nil || first.Lowered() != 0 {
		t.Fatal(e, first.Lowered())
	}
	if e := second.Reserve(scopes(b.accounts), need(8000), now); e != nil || second.Lowered() != 0 {
		t.Fatalf("%v, lowered to %d, with 98 %% of the budget left", e, second.Lowered())
	}
	if e := third.Reserve(scopes(a.accounts), need(8000), now); e != nil || third.Lowered() != 1870 {
		t.Errorf("%v, lowered to %d, with 18,800 left", e, third.Lowered())
	}
	if e := new(spend.Hold).Reserve(scopes(b.accounts), need(8000), now); e == nil || e.Code != "rate_limit_exceeded" {
		t.Errorf("with nothing left: %v", e)
	}
}

// TestScopeThatIsGoneGivesBack gives back what was granted of a scope that a reload removes, once its requests have ended.
func TestScopeThatIsGoneGivesBack(t *testing.T) {
	c := &clock{at: now}
	store := spendtest.NewStore(c.now)
	limit := spend.Limit{Scope: ofKey, Budgets: []config.Budget{shared(1000, config.PerTotal)}}
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
		return store.Total(ofKey, spend.Money, spend.Window{Per: config.PerTotal}, 1000).Taken
	}
	if n := total(); n != 400 {
		t.Errorf("%d are taken while a request is in flight", n)
	}
	h.Settle(spend.Used{Cost: 50}, now)
	if n := total(); n != 50 {
		t.Errorf("%d are taken", n)
	}
	// It comes back with what it has used.
	if s := only(t, open(t, g.Book, limit), now); s.Spent != 0 && s.Spent != 50 {
		t.Errorf("%+v", s)
	}
}

// TestRemainingIsThatOfAllGateways checks what clients read in x-ratelimit headers.
func TestRemainingIsThatOfAllGateways(t *testing.T) {
	c := &clock{at: now}
	store := spendtest.NewStore(c.now)
	limit := spend.Limit{Scope: ofKey, Limits: config.Limits{RequestsPerMinute: 100, TokensPerMinute: 10_000, WhenDown: config.DownLocal}}
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
		t.Errorf("%+v", r)
	}
	if r := b.accounts.Account(spend.Key, "k").Remaining(now.Add(6 * time.Second)); r.Requests != 69 {
		t.Errorf("after six seconds %+v", r)
	}
	// By itself, a gateway counts for itself: its own request was six seconds ago.
	store.Inject(func() spendtest.Fault { return spendtest.Lose })
	b.Sync()
	if r := b.accounts.Account(spend.Key, "k").Remaining(now); r.Requests != 100 {
		t.Errorf("while the store is down %+v", r)
	}
}
