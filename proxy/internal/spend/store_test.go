package spend_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/spend/spendtest"
)

// TestModesWhileStoreIsDown checks that each mode of when_down keeps its promise, that no request waits for the store,
// and that events report the failure.
//
// A similar defect elsewhere: limits apply per process, without a message (litellm#32232).
//
// covers: F70
func TestModesWhileStoreIsDown(t *testing.T) {
	for _, c := range []struct {
		mode   config.WhenDown
		served int // number of 20 requests for 100 that are admitted, with a grant of 200 of 1000
	}{
		{mode: config.DownDeny, served: 0},
		{mode: config.DownShare, served: 2},
		{mode: config.DownLocal, served: 10},
	} {
		for _, kind := range []string{"budget", "rate"} {
			t.Run(string(c.mode)+" "+kind, func(t *testing.T) {
				clock := &clock{at: now}
				store := spendtest.NewStore(clock.now)
				limit := spend.Limit{Scope: keyScope, Limits: config.Limits{TokensPerMinute: 1000, WhenDown: c.mode}}
				need := func(n int64) *spend.Need { return &spend.Need{Prompt: n} }
				if kind == "budget" {
					b := shared(1000, config.PerDay)
					b.WhenDown = c.mode
					limit = spend.Limit{Scope: keyScope, Budgets: []config.Budget{b}}
					need = func(n int64) *spend.Need { return &spend.Need{Fixed: cost.Nano(n)} }
				}
				g := start(t, store, clock, "a", nil, limit)
				var h spend.Hold
				if e := h.Reserve(scopes(g.accounts), need(200), now); e != nil {
					t.Fatal(e)
				}
				h.Settle(spend.Used{}, now) // 200 are granted and not held
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
						t.Fatalf("got error %+v", e)
					}
				}
				if served != c.served {
					t.Errorf("%d requests were admitted, want %d", served, c.served)
				}
				if after, _ := store.Syncs(); after != before {
					t.Errorf("requests made %d round trips while the store was down", after-before)
				}
				// When the store is back, the usage during the failure counts.
				store.Inject(nil)
				if err := g.Sync(); err != nil {
					t.Fatal(err)
				}
				if s, _ := g.State(); s.Down {
					t.Errorf("state %+v", s)
				}
				var later time.Time
				for range 2 { // after the lease, unused grants are returned, but for a small part of a budget
					later = clock.move(6 * time.Second)
					if err := g.Sync(); err != nil {
						t.Fatal(err)
					}
				}
				other := start(t, store, clock, "b", nil, limit)
				var last spend.Hold
				left := int64(1000 - 100*c.served)
				if e := last.Reserve(scopes(other.accounts), need(left+1), later); e == nil {
					t.Errorf("more than %d is left", left)
				}
				kept := int64(0)
				if kind == "budget" {
					kept = left / 200
				}
				if e := last.Reserve(scopes(other.accounts), need(left-kept), later); e != nil {
					t.Errorf("less than %d is left: %v", left-kept, e)
				}
				if err := g.Close(); err != nil {
					t.Fatal(err)
				}
				if e := new(spend.Hold).Reserve(scopes(other.accounts), need(kept), later); e != nil {
					t.Errorf("what the idle gateway kept was not returned: %v", e)
				}
				if want := []spend.EventKind{spend.EventStoreDown, spend.EventStoreUp}; !slices.Equal(g.events, want) {
					t.Errorf("events %v, want %v", g.events, want)
				}
			})
		}
	}
}

// TestBackgroundReports checks that without calls of Sync, a gateway reports its usage, sends events about the store,
// and returns grants.
func TestBackgroundReports(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for background reports, one per second")
	}
	store := spendtest.NewStore(time.Now)
	changes := make(chan spend.EventKind, 100)
	book := spend.NewBook(spend.Options{Store: store, Timeout: time.Minute, Events: func(e spend.Event) { changes <- e.Kind }})
	at := time.Now()
	accounts, err := book.Open([]spend.Limit{{Scope: keyScope, Budgets: []config.Budget{shared(1000, config.PerTotal)}}}, at)
	if err != nil {
		t.Fatal(err)
	}
	var h spend.Hold
	if e := h.Reserve(scopes(accounts), &spend.Need{Fixed: 100}, at); e != nil {
		t.Fatal(e)
	}
	h.Settle(spend.Used{Cost: 70}, at)
	total := func() spendtest.Total {
		return store.Total(keyScope, spend.Money, spend.Window{Per: config.PerTotal}, 1000)
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
	if err := book.Close(); err != nil { // closing again is harmless
		t.Fatal(err)
	}
	if at := total(); at.Taken != 70 || at.Used != 70 {
		t.Errorf("the store has %+v", at)
	}
}

// TestStoreClockDeterminesWindows runs a gateway whose clock is wrong by hours or days.
//
// covers: F74
func TestStoreClockDeterminesWindows(t *testing.T) {
	for _, wrong := range []time.Duration{-20 * time.Hour, 20 * time.Hour, 40 * 24 * time.Hour} {
		c := &clock{at: now}
		store := spendtest.NewStore(c.now)
		own := &clock{at: now.Add(wrong)}
		limits := []spend.Limit{{Scope: keyScope, Budgets: []config.Budget{shared(1000, config.PerMinute), shared(2000, config.PerDay)}}}
		g, other := start(t, store, own, "a", nil, limits...), start(t, store, c, "b", nil, limits...)
		var h spend.Hold
		if e := h.Reserve(scopes(g.accounts), &spend.Need{Fixed: 900}, own.now()); e != nil {
			t.Fatalf("clock off by %s: got error %v", wrong, e)
		}
		if e := new(spend.Hold).Reserve(scopes(other.accounts), &spend.Need{Fixed: 101}, c.now()); e == nil {
			t.Errorf("clock off by %s: the budget was exceeded", wrong)
		}
		h.Settle(spend.Used{Cost: 900}, own.now())
		start, end := config.PerDay.Window(now, time.UTC)
		if s := g.accounts.Status(own.now()); !s[1].Start.Equal(start) || !s[1].End.Equal(end) || s[1].Spent != 900 {
			t.Errorf("clock off by %s: got status %+v", wrong, s)
		}
		// The next window starts by the store's clock.
		c.move(time.Minute)
		if e := h.Reserve(scopes(g.accounts), &spend.Need{Fixed: 1000}, own.now()); e == nil {
			t.Errorf("clock off by %s: the next window was used before the store reported it", wrong)
		}
		if err := g.Sync(); err != nil {
			t.Fatal(err)
		}
		if e := h.Reserve(scopes(g.accounts), &spend.Need{Fixed: 900}, own.now()); e != nil {
			t.Errorf("clock off by %s: in the next window: got error %v", wrong, e)
		}
	}
}

// TestCopiedIdentity runs two processes with the same identity, as after copying a state folder. The one that detects
// the conflict continues with a new identity, and from then on the budget holds.
func TestCopiedIdentity(t *testing.T) {
	c := &clock{at: now}
	store := spendtest.NewStore(c.now)
	limit := spend.Limit{Scope: keyScope, Budgets: []config.Budget{shared(1000, config.PerDay)}}
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
	if e == nil || e.Code != "request_exceeds_budget" {
		t.Errorf("got error %v", e)
	}
	// A process that restarts with its clock set back is not mistaken for a copy.
	c.move(-time.Hour)
	again := start(t, store, c, "same", nil, limit)
	if e := h.Reserve(scopes(again.accounts), &spend.Need{Fixed: 100}, c.now()); e != nil {
		t.Errorf("after the clock was set back: %v", e)
	}
	if len(again.events) > 0 {
		t.Errorf("events %v", again.events)
	}
}

// TestBudgetIsRaisedForAllGateways raises a budget on one gateway. The raise counts once even if it is sent twice, and
// it is sent again after the store has lost its data.
func TestBudgetIsRaisedForAllGateways(t *testing.T) {
	c := &clock{at: now}
	store := spendtest.NewStore(c.now)
	journal := newMemoryJournal()
	limit := spend.Limit{Scope: keyScope, Budgets: []config.Budget{shared(1000, config.PerDay)}}
	a, b := start(t, store, c, "a", journal, limit), start(t, store, c, "b", nil, limit)
	sync := func() {
		t.Helper()
		for range 3 {
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
	check := func(when string) {
		t.Helper()
		for _, g := range []*gateway{a, b} {
			if s := onlyBudget(t, g.accounts, c.now()); s.Limit != 1500 || s.Raised != 500 {
				t.Errorf("%s: got status %+v", when, s)
			}
		}
	}
	store.Inject(func() spendtest.Fault { return spendtest.LoseBack })
	if err := a.Adjust(spend.Adjustment{Scope: keyScope, Per: config.PerDay, At: c.now(), Credit: 500, Reason: "a demo", ID: "1"}); err != nil {
		t.Fatal(err)
	}
	store.Inject(nil)
	sync()
	check("after a lost reply")
	a = start(t, store, c, "a", journal, limit)
	sync()
	check("after a restart")
	store.Wipe()
	sync()
	check("after the loss of the store's data")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if e := new(spend.Hold).Reserve(scopes(b.accounts), &spend.Need{Fixed: 1500}, c.now()); e != nil {
		t.Error(e)
	}
}

// TestLostDataIsReported checks the state, events and errors of gateways after the store has lost its data, and that an
// idle gateway detects the loss.
func TestLostDataIsReported(t *testing.T) {
	c := &clock{at: now}
	store := spendtest.NewStore(c.now)
	limit := spend.Limit{Scope: keyScope, Budgets: []config.Budget{shared(1000, config.PerTotal)}}
	a, b := start(t, store, c, "a", nil, limit), start(t, store, c, "b", nil, limit)
	var h spend.Hold
	if e := h.Reserve(scopes(a.accounts), &spend.Need{Fixed: 900}, now); e != nil {
		t.Fatal(e)
	}
	h.Settle(spend.Used{Cost: 900}, now)
	for range 3 { // until the gateway is idle
		c.move(5 * time.Second)
		if err := a.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	store.Wipe()
	// The first gateway to report has never used anything. It is granted nothing until the other one has reported.
	e := h.Reserve(scopes(b.accounts), &spend.Need{Fixed: 500}, c.now())
	if e == nil || e.Status != 503 {
		t.Fatalf("got error %v", e)
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
	if e := h.Reserve(scopes(b.accounts), &spend.Need{Fixed: 101}, c.now()); e == nil || e.Code != "request_exceeds_budget" {
		t.Errorf("got error %v", e)
	}
	if e := h.Reserve(scopes(b.accounts), &spend.Need{Fixed: 100}, c.now()); e != nil {
		t.Error(e)
	}
}

// slowStore is a store whose round trips can be held.
type slowStore struct {
	*spendtest.Store
	held chan struct{} // closed unless round trips are held
}

func (s *slowStore) Sync(ctx context.Context, reports []spend.Report, replies []spend.Reply) error {
	select {
	case <-s.held:
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.Store.Sync(ctx, reports, replies)
}

// startSlow starts a gateway with a budget of 1000, of which a request holds 10, and then holds the round trips of its
// store.
func startSlow(t *testing.T, when config.WhenDown) (*gateway, *slowStore, *spend.Hold) {
	c := &clock{at: now}
	store := &slowStore{spendtest.NewStore(c.now), make(chan struct{})}
	close(store.held)
	b := shared(1000, config.PerDay)
	b.WhenDown = when
	g := start(t, store, c, "a", nil, spend.Limit{Scope: keyScope, Budgets: []config.Budget{b}}, spend.Limit{Scope: teamScope, Budgets: []config.Budget{budget(1000, config.PerDay)}})
	h := new(spend.Hold)
	if e := h.Reserve(scopes(g.accounts), &spend.Need{Fixed: 10}, now); e != nil {
		t.Fatal(e)
	}
	store.held = make(chan struct{})
	return g, store, h
}

// TestWaitingRequestsShareRoundTrip checks that requests that arrive during a round trip are all served by the next
// one, and that nothing else waits.
func TestWaitingRequestsShareRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, store, before := startSlow(t, config.DownShare)
		calls, _ := store.Syncs()
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if e := new(spend.Hold).Reserve(scopes(g.accounts), &spend.Need{Fixed: 30}, now); e != nil {
					t.Error(e)
				}
			})
			synctest.Wait()
		}
		// No lock is held during a round trip, and a scope without shared limits is not affected.
		before.Settle(spend.Used{Cost: 5}, now)
		if s := g.accounts.Status(now); s[0].Spent != 5 {
			t.Errorf("got status %+v", s)
		}
		if e := new(spend.Hold).Reserve(spend.Scopes{spend.Team: g.accounts.Account(spend.Team, "research")}, &spend.Need{Fixed: 30}, now); e != nil {
			t.Error(e)
		}
		close(store.held)
		all.Wait()
		// A third one is needed if a request takes what another was granted before that one looks again.
		if after, _ := store.Syncs(); after-calls > 3 {
			t.Errorf("%d round trips for 20 concurrent requests, want at most 3", after-calls)
		}

		// Nothing is asked for on behalf of requests that no longer wait: another gateway can use the rest.
		if err := g.Sync(); err != nil {
			t.Error(err)
		}
		b := start(t, store, &clock{at: now}, "b", nil, spend.Limit{Scope: keyScope, Budgets: []config.Budget{shared(1000, config.PerDay)}})
		if e := new(spend.Hold).Reserve(spend.Scopes{spend.Key: b.accounts.Account(spend.Key, "k")}, &spend.Need{Fixed: 300}, now); e != nil {
			t.Error(e)
		}
	})
}

// TestStoreTimeout uses a store that does not respond. The first requests wait until a second reply in a row is late,
// and later ones do not wait at all.
//
// covers: F71
func TestStoreTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, store, _ := startSlow(t, config.DownShare)
		began := time.Now()
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				e := new(spend.Hold).Reserve(scopes(g.accounts), &spend.Need{Fixed: 30}, now)
				if e == nil || e.Status != 503 {
					t.Errorf("got error %v", e)
				}
			})
			synctest.Wait()
			time.Sleep(time.Second)
		}
		all.Wait()
		if took := time.Since(began); took != 2*time.Minute {
			t.Errorf("the requests waited for %s, want two minutes", took)
		}
		if e := new(spend.Hold).Reserve(scopes(g.accounts), &spend.Need{Fixed: 30}, now); e == nil || time.Since(began) != 2*time.Minute {
			t.Errorf("got error %v after %s", e, time.Since(began))
		}
		close(store.held)
		if err := g.Sync(); err != nil {
			t.Fatal(err)
		}
		if e := new(spend.Hold).Reserve(scopes(g.accounts), &spend.Need{Fixed: 30}, now); e != nil {
			t.Error(e)
		}
	})
}

// TestRateGrantExpiresWithLease checks that a gateway that cannot reach the store stops using its grant of a rate when
// its lease expires, because the store may then grant it to other gateways.
func TestRateGrantExpiresWithLease(t *testing.T) {
	c := &clock{at: now}
	store := spendtest.NewStore(c.now)
	limit := spend.Limit{Scope: keyScope, Limits: config.Limits{TokensPerMinute: 1000, WhenDown: config.DownShare}}
	g := start(t, store, c, "a", nil, limit)
	request := func(tokens int64) int {
		var h spend.Hold
		if e := h.Reserve(scopes(g.accounts), &spend.Need{Prompt: tokens}, c.now()); e != nil {
			return e.Status
		}
		h.Settle(spend.Used{}, c.now())
		return 200
	}
	if status := request(500); status != 200 {
		t.Fatal(status)
	}
	store.Inject(func() spendtest.Fault { return spendtest.Lose })
	g.Sync()
	c.move(10*time.Second - 1)
	if status := request(500); status != 200 {
		t.Errorf("status %d before the lease has expired, want 200", status)
	}
	c.move(1)
	if status := request(1); status != 503 {
		t.Errorf("status %d after the lease has expired, want 503", status)
	}
}
