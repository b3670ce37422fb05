package spend_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/spend/spendtest"
)

// TestLateReply holds one reply of the store until after the timeout. Nothing is refused: requests wait for the next
// reply, and an event says that the store is slow. Replies that are late at the same time count as one; a second one in
// a row means that the store is down.
func TestLateReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, store, _ := startSlow(t, config.DownDeny)
		ask := func(want int) {
			t.Helper()
			e, status := new(spend.Hold).Reserve(scopes(g.accounts), &spend.Need{Fixed: 30}, now), 200
			if e != nil {
				status = e.Status
			}
			if status != want {
				t.Errorf("status %d, want %d: %v", status, want, e)
			}
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			ask(200)
		}()
		go g.Sync() // whose reply about the team is late at the same time
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if s, _ := g.State(); s.Down {
			t.Fatalf("down after one late reply: %+v", s)
		}
		close(store.held)
		<-done
		if want := []spend.EventKind{spend.EventStoreSlow}; !slices.Equal(g.events, want) {
			t.Errorf("events %v, want %v", g.events, want)
		}
		// The next late reply is again the first one in a row.
		store.held = make(chan struct{})
		if g.Sync() == nil {
			t.Error("the reply was not late")
		}
		if s, _ := g.State(); s.Down {
			t.Error("down after a late reply that follows one in time")
		}
		if g.Sync() == nil {
			t.Error("the reply was not late")
		}
		if s, _ := g.State(); !s.Down || !errors.Is(s.Err, context.DeadlineExceeded) {
			t.Errorf("after two late replies in a row: %+v", s)
		}
		ask(503)
		close(store.held)
		if err := g.Sync(); err != nil {
			t.Fatal(err)
		}
		ask(200)
	})
}

// TestIdleScopeKeepsSmallShare leaves a team and a key idle that has never been used, until their leases have ended and
// into the next day, on several gateways. When the store is down, each gateway still serves them from what it keeps.
// Together, the gateways keep little, and no more than the limit is spent.
func TestIdleScopeKeepsSmallShare(t *testing.T) {
	const gateways, limit = 5, 300_000_000
	c := &clock{at: now}
	store := spendtest.NewStore(c.now)
	limits := []spend.Limit{
		{Scope: keyScope, Budgets: []config.Budget{shared(limit, config.PerDay)}},
		{Scope: teamScope, Budgets: []config.Budget{shared(limit, config.PerTotal)}},
	}
	var all []*gateway
	for i := range gateways {
		all = append(all, start(t, store, c, fmt.Sprint(i), nil, limits...))
	}
	var h spend.Hold
	if e := h.Reserve(scopes(all[0].accounts), &spend.Need{Fixed: 1000}, c.now()); e != nil {
		t.Fatal(e)
	}
	h.Settle(spend.Used{Cost: 1000}, c.now())
	taken := func() int64 {
		start, end := config.PerDay.Window(c.now(), time.UTC)
		return store.Total(keyScope, spend.Money, spend.Window{Per: config.PerDay, Start: start, End: end}, limit).Taken
	}
	idle := func() {
		t.Helper()
		for range 24 {
			c.move(time.Second)
			for _, g := range all {
				if err := g.Sync(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if n := taken(); n < gateways*limit/250 || n > gateways*limit/190 {
			t.Errorf("%d idle gateways keep %d of %d, want about 0.5 %% each", gateways, n, limit)
		}
	}
	idle()
	before, _ := store.Syncs()
	_, reports := store.Syncs()
	for range 10 {
		c.move(time.Second)
		all[0].Sync()
	}
	calls, after := store.Syncs()
	if calls-before != 10 || after-reports > 4 {
		t.Errorf("an idle gateway sent %d reports in 10 s, want a renewal of two scopes at times", after-reports)
	}
	c.move(24 * time.Hour)
	idle()
	store.Inject(func() spendtest.Fault { return spendtest.Lose })
	spent := int64(0)
	for _, g := range all {
		g.Sync()
		served := 0
		for {
			var h spend.Hold
			if e := h.Reserve(scopes(g.accounts), &spend.Need{Fixed: 100_000}, c.now()); e != nil {
				break
			}
			h.Settle(spend.Used{Cost: 100_000}, c.now())
			served++
		}
		if served == 0 {
			t.Error("an idle gateway refused the first request while the store was down")
		}
		spent += int64(served) * 100_000
	}
	if spent > limit/20 {
		t.Errorf("the gateways spent %d while the store was down, of a budget of %d", spent, limit)
	}
	store.Inject(nil)
	for _, g := range all {
		if err := g.Sync(); err != nil {
			t.Fatal(err)
		}
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := taken(); n != spent {
		t.Errorf("the store has %d taken, want %d, all of it spent", n, spent)
	}
}

// TestIdleShareOfSmallBudget checks that idle gateways do not keep others from using a budget of which little is left.
func TestIdleShareOfSmallBudget(t *testing.T) {
	c := &clock{at: now}
	store := spendtest.NewStore(c.now)
	limit := spend.Limit{Scope: keyScope, Budgets: []config.Budget{shared(1000, config.PerTotal)}}
	var idle []*gateway
	for i := range 20 {
		g := start(t, store, c, fmt.Sprint(i), nil, limit)
		for range 2 {
			c.move(6 * time.Second)
			g.Sync()
		}
		idle = append(idle, g)
	}
	busy := start(t, store, c, "busy", nil, limit)
	var h spend.Hold
	if e := h.Reserve(scopes(busy.accounts), &spend.Need{Fixed: 900}, c.now()); e != nil {
		t.Fatal(e)
	}
	h.Settle(spend.Used{Cost: 900}, c.now())
	for _, g := range idle { // what is left has become less than they have
		if err := g.Refresh(); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		c.move(6 * time.Second)
		for _, g := range idle {
			g.Sync()
		}
	}
	if e := h.Reserve(scopes(busy.accounts), &spend.Need{Fixed: 95}, c.now()); e != nil {
		t.Errorf("idle gateways keep the last tenth of a budget: %v", e)
	}
}

// damagedStore is a store that cannot count one of its scopes.
type damagedStore struct {
	*spendtest.Store
	scope spend.Scope
}

func (s *damagedStore) Sync(ctx context.Context, reports []spend.Report, replies []spend.Reply) error {
	err := s.Store.Sync(ctx, reports, replies)
	for i := range reports {
		if err == nil && reports[i].Scope == s.scope && len(reports[i].Counters) > 0 {
			replies[i] = spend.Reply{Err: fmt.Errorf("%w: KEY", spend.ErrDamaged)}
		}
	}
	return err
}

// TestDamagedScope damages the store's data of a team. Only requests of the team are refused, and the store stays up.
func TestDamagedScope(t *testing.T) {
	c := &clock{at: now}
	store := &damagedStore{Store: spendtest.NewStore(c.now)}
	g := start(t, store, c, "a", nil,
		spend.Limit{Scope: keyScope, Budgets: []config.Budget{shared(1000, config.PerDay)}},
		spend.Limit{Scope: teamScope, Budgets: []config.Budget{shared(1000, config.PerTotal)}})
	both, key := scopes(g.accounts), spend.Scopes{spend.Key: g.accounts.Account(spend.Key, keyScope.Name)}
	both[spend.Team] = g.accounts.Account(spend.Team, teamScope.Name)
	store.scope = teamScope
	for range 2 { // as part of a batch, and again after the error is known
		e := new(spend.Hold).Reserve(both, &spend.Need{Fixed: 30}, c.now())
		if e == nil || e.Status != 503 || e.Code != "store_unavailable" || !errors.Is(e.Cause, spend.ErrDamaged) {
			t.Fatalf("damaged scope: got error %+v", e)
		}
		if want := "The total budget of the team research cannot be checked."; e.Message != want {
			t.Errorf("got message %q, want %q", e.Message, want)
		}
		if !strings.HasSuffix(e.Cause.Error(), "KEY") {
			t.Errorf("the cause %q does not name the key", e.Cause)
		}
		if e := new(spend.Hold).Reserve(key, &spend.Need{Fixed: 100}, c.now()); e != nil {
			t.Errorf("another scope: got error %v", e)
		}
		if err := g.Sync(); err != nil {
			t.Errorf("Sync: %v", err)
		}
	}
	if s, _ := g.State(); s.Down || s.Lost {
		t.Errorf("state %+v", s)
	}
	if n := g.Stats().Damaged; n < 2 {
		t.Errorf("%d errors were counted, want one for each report", n)
	}
	store.scope = spend.Scope{}
	if err := g.Sync(); err != nil {
		t.Fatal(err)
	}
	if e := new(spend.Hold).Reserve(both, &spend.Need{Fixed: 30}, c.now()); e != nil {
		t.Errorf("after the repair: %v", e)
	}
	if want := []spend.EventKind{spend.EventScopeDamaged, spend.EventScopeRepaired}; !slices.Equal(g.events, want) {
		t.Errorf("events %v, want %v", g.events, want)
	}
}
