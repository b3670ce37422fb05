package holds_test

import (
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/holds"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/catalog"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
)

var now = time.Date(2026, 11, 4, 12, 0, 0, 0, time.UTC)

const body = `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"Hello"}]}`

// open opens the holds of a request under a budget of its key, and one of the provider p.
func open(t *testing.T, key, provider cost.Nano) (*holds.Holds, *spend.Accounts, clientapi.Request) {
	t.Helper()
	limit := func(k spend.Kind, name string, limit cost.Nano) spend.Limit {
		return spend.Limit{Scope: spend.Scope{Kind: k, Name: name}, Budgets: []config.Budget{{Limit: limit, Per: config.PerDay, Strict: true}}}
	}
	accounts, err := spend.NewBook(spend.Options{}).Open([]spend.Limit{limit(spend.Key, "k", key), limit(spend.Provider, "p", provider)}, now)
	if err != nil {
		t.Fatal(err)
	}
	client, err := access.New([]config.Key{{Name: "k"}}, nil).Named("k", now)
	if err != nil {
		t.Fatal(err)
	}
	r := new(openai.Request)
	if e := r.Parse([]byte(body), clientapi.Limits{}); e != nil {
		t.Fatal(e)
	}
	h := new(holds.Holds)
	h.Open(7, accounts, client, access.User{}, &catalog.Model{ID: "m"}, now)
	return h, accounts, r
}

// target returns a target at a provider.
func target(provider string, priced bool) routing.Target {
	t := routing.Target{Provider: provider, Model: "up"}
	if priced {
		rates := cost.NoRates()
		rates[cost.Input], rates[cost.Output] = 1e12, 10e12
		t.Prices = cost.New(rates)
	}
	return t
}

// amounts returns what the budgets of the key and the provider have spent and hold.
func amounts(a *spend.Accounts) (spent, held [2]cost.Nano) {
	for i, s := range a.Status(now) {
		spent[i], held[i] = s.Spent, s.Held
	}
	return spent, held
}

// TestSettle settles a request with a failed attempt, a cancelled one and a hedge. A second call counts nothing.
func TestSettle(t *testing.T) {
	h, accounts, r := open(t, 1e9, 1e9)
	p := target("p", true)
	h.Estimate(r, openai.API().Limit, []routing.Target{p})
	if e := h.Reserve(now); e != nil {
		t.Fatal(e)
	}
	if !h.AdmittedAt.Equal(now) || h.MaxTokens() != 100 || h.Lowered() != 0 {
		t.Errorf("admitted at %s, %d tokens, lowered to %d", h.AdmittedAt, h.MaxTokens(), h.Lowered())
	}
	first, reason := h.StartAttempt(r, &p, false, now)
	if reason != "" {
		t.Fatal(reason)
	}
	_, whole := amounts(accounts)
	if whole[0] == 0 || whole[1] == 0 {
		t.Fatalf("%v held", whole)
	}
	first.Settle(spend.Used{Cost: 5}, now)
	h.AddFailed(spend.Used{Cost: 5})
	second, reason := h.StartAttempt(r, &p, false, now)
	if reason != "" || !h.StartHedge(now) {
		t.Fatal(reason)
	}
	if _, held := amounts(accounts); held != [2]cost.Nano{2*whole[0] + 5, whole[1]} {
		t.Errorf("%v held, want what two attempts need and what the first has cost", held)
	}
	for range 2 {
		second.Settle(spend.Used{Cost: 300}, now)
		h.Settle(spend.Used{Cost: 300}, spend.Used{Cost: 20}, now)
	}
	if spent, held := amounts(accounts); spent != [2]cost.Nano{325, 305} || held != [2]cost.Nano{} {
		t.Errorf("%v spent and %v held", spent, held)
	}
}

// TestStartAttempt checks why an attempt may not be started, and that nothing is held then.
func TestStartAttempt(t *testing.T) {
	for _, c := range []struct {
		name          string
		key, provider cost.Nano
		failed        cost.Nano
		target        routing.Target
		want          string
		limited       bool // Limit says why
	}{
		{"permitted", 1e9, 1e9, 0, target("p", true), "", false},
		{"no budget of the provider", 1e9, 1, 0, target("q", true), "", false},
		{"budget of the provider", 1e9, 1000, 0, target("p", true), routing.Spent, true},
		{"no price", 1e9, 1e9, 0, target("p", false), routing.Unpriced, true},
		{"no room after a failed attempt", 1.2e6, 1e9, 1e6, target("p", true), routing.BudgetSpent, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, accounts, r := open(t, c.key, c.provider)
			h.Estimate(r, openai.API().Limit, []routing.Target{target("p", true)})
			if e := h.Reserve(now); e != nil {
				t.Fatal(e)
			}
			if c.failed > 0 {
				h.AddFailed(spend.Used{Cost: c.failed})
			}
			a, reason := h.StartAttempt(r, &c.target, false, now)
			if reason != c.want || (h.Limit != nil) != c.limited {
				t.Errorf("got %q and limit %v, want %q", reason, h.Limit, c.want)
			}
			if _, held := amounts(accounts); c.want != "" && held[1] != 0 {
				t.Errorf("%d held of the provider's budget", held[1])
			}
			a.Settle(spend.Used{}, now)
			h.Settle(spend.Used{}, spend.Used{}, now)
			if _, held := amounts(accounts); held != [2]cost.Nano{} {
				t.Errorf("%v held after the settlement", held)
			}
		})
	}
}

// TestCheckTargets requires a price under a strict budget.
func TestCheckTargets(t *testing.T) {
	h, _, r := open(t, 1e9, 1e9)
	priced, unpriced := target("p", true), target("p", false)
	if e := h.CheckTargets([]routing.Target{unpriced}); e == nil {
		t.Error("accepted targets without a price")
	}
	if e := h.CheckTargets([]routing.Target{unpriced, priced}); e != nil {
		t.Error(e)
	}
	if e := h.CheckTarget(r, &priced, false, now); e != nil {
		t.Error(e)
	}
}

// TestDetach settles what a request has held after the request has been settled itself, which then counts nothing.
func TestDetach(t *testing.T) {
	h, accounts, r := open(t, 1e9, 1e9)
	h.Estimate(r, openai.API().Limit, []routing.Target{target("p", true)})
	if e := h.Reserve(now); e != nil {
		t.Fatal(e)
	}
	_, whole := amounts(accounts)
	h.SettledAt = now
	d := h.Detach()
	if h.ID != d.ID || !h.SettledAt.Equal(now) || !h.AdmittedAt.Equal(now) {
		t.Errorf("the request is %d, admitted at %s and settled at %s", h.ID, h.AdmittedAt, h.SettledAt)
	}
	h.Settle(spend.Used{Cost: 7}, spend.Used{}, now)
	if spent, held := amounts(accounts); spent != [2]cost.Nano{} || held != whole {
		t.Errorf("%v spent and %v held while the response is generated, want %v held", spent, held, whole)
	}
	for range 2 {
		d.Settle(spend.Used{Cost: 300}, spend.Used{}, now)
	}
	if spent, held := amounts(accounts); spent != [2]cost.Nano{300, 0} || held != [2]cost.Nano{} {
		t.Errorf("%v spent and %v held", spent, held)
	}
}
