package spend_test

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/spend/spendtest"
)

// TestUnknownOutcomesAreBookedOrReleased books an unknown outcome in a budget that holds them and one that releases
// them, gives part of it back, and restarts.
func TestUnknownOutcomesAreBookedOrReleased(t *testing.T) {
	journal := newMemoryJournal()
	hold, release := budget(1000, config.PerDay), budget(1000, config.PerMonth)
	release.ReleaseUnknown = true
	limit := spend.Limit{Scope: keyScope, Budgets: []config.Budget{hold, release}}
	book := spend.NewBook(spend.Options{Journal: journal})
	a := open(t, book, limit)
	check := func(when string, a *spend.Accounts, spentDay, uncertainDay, leftDay, spentMonth, leftMonth cost.Nano) {
		t.Helper()
		all := a.Status(now)
		day, month := all[0], all[1]
		if day.Spent != spentDay || day.Uncertain != uncertainDay || day.Left() != leftDay || month.Spent != spentMonth || month.Uncertain != 0 || month.Left() != leftMonth {
			t.Errorf("%s: budget that holds %+v, budget that releases %+v", when, day, month)
		}
	}
	var failed, again, crashed spend.Hold
	for _, c := range []struct {
		hold *spend.Hold
		need spend.Need
		used spend.Used
	}{
		{&failed, spend.Need{Fixed: 300}, spend.Used{Cost: 300, Uncertain: 250}},
		// The failed attempt of another request, which is booked while the next attempt is made.
		{&again, spend.Need{Fixed: 200, Uncertain: 150, Again: true}, spend.Used{Cost: 200, Uncertain: 150}},
	} {
		if e := c.hold.Reserve(scopes(a), &c.need, now); e != nil {
			t.Fatal(e)
		}
		if c.hold == &again {
			check("while another attempt is made", a, 300, 250, 500, 50, 900)
		}
		c.hold.Settle(c.used, now)
	}
	check("after both", a, 500, 400, 500, 100, 900)
	if err := book.Adjust(spend.Adjustment{Scope: keyScope, Per: config.PerDay, At: now, Credit: 400, Released: 400}); err != nil {
		t.Fatal(err)
	}
	check("given back", a, 500, 0, 900, 100, 900)
	if e := crashed.Reserve(scopes(a), &spend.Need{Fixed: 10}, now); e != nil {
		t.Fatal(e)
	}
	check("after a crash with a hold", open(t, spend.NewBook(spend.Options{Journal: journal}), limit), 510, 10, 890, 100, 900)
}

// TestUnknownOutcomesOfSharedBudgets checks that another gateway counts an unknown outcome of a shared budget, unless
// the budget releases those, and that it learns what was given back.
func TestUnknownOutcomesOfSharedBudgets(t *testing.T) {
	c := &clock{at: now}
	store := spendtest.NewStore(c.now)
	hold, release := shared(1000, config.PerDay), shared(1000, config.PerMonth)
	release.ReleaseUnknown = true
	limit := spend.Limit{Scope: keyScope, Budgets: []config.Budget{hold, release}}
	a, b := start(t, store, c, "a", newMemoryJournal(), limit), start(t, store, c, "b", newMemoryJournal(), limit)
	var h spend.Hold
	if e := h.Reserve(scopes(a.accounts), &spend.Need{Fixed: 300}, now); e != nil {
		t.Fatal(e)
	}
	h.Settle(spend.Used{Cost: 300, Uncertain: 250}, now)
	check := func(left cost.Nano) {
		t.Helper()
		for _, g := range []*gateway{a, b} {
			if err := g.Refresh(); err != nil {
				t.Fatal(err)
			}
		}
		for name, g := range map[string]*gateway{"a": a, "b": b} {
			all := g.accounts.Status(now)
			if day, month := all[0], all[1]; day.Spent != 300 || day.Limit-day.Spent != left || month.Spent != 50 {
				t.Errorf("gateway %s: budget that holds %+v, budget that releases %+v", name, day, month)
			}
		}
	}
	check(700)
	if err := a.Adjust(spend.Adjustment{Scope: keyScope, Per: config.PerDay, At: now, Credit: 250, Released: 250, ID: "1"}); err != nil {
		t.Fatal(err)
	}
	check(950)
}
