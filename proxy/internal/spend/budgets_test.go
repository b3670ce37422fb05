package spend_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
)

var (
	keyScope   = spend.Scope{Kind: spend.Key, Name: "k"}
	teamScope  = spend.Scope{Kind: spend.Team, Name: "research"}
	modelScope = spend.Scope{Kind: spend.Model, Name: "m"}
)

func budget(limit cost.Nano, per config.Period) config.Budget {
	return config.Budget{Limit: limit, Per: per, Strict: true}
}

func scopes(a *spend.Accounts) spend.Scopes {
	return spend.Scopes{
		spend.Key: a.Account(spend.Key, "k"), spend.Team: a.Account(spend.Team, "research"), spend.Model: a.Account(spend.Model, "m"),
	}
}

// onlyBudget returns the status of the single budget.
func onlyBudget(t interface{ Fatalf(string, ...any) }, a *spend.Accounts, at time.Time) spend.Status {
	all := a.Status(at)
	if len(all) != 1 {
		t.Fatalf("%d budgets, want 1", len(all))
	}
	return all[0]
}

func TestBudgetHoldsMaximumCost(t *testing.T) {
	a := open(t, spend.NewBook(spend.Options{}), spend.Limit{Scope: keyScope, Budgets: []config.Budget{budget(1000, config.PerDay)}})
	var first, second spend.Hold
	if e := first.Reserve(scopes(a), &spend.Need{Fixed: 700}, now); e != nil {
		t.Fatal(e)
	}
	e := second.Reserve(scopes(a), &spend.Need{Fixed: 301}, now)
	// The budget is only held, so the client may retry after the other request has ended.
	if e == nil || e.Status != 429 || e.Code != "rate_limit_exceeded" || e.NoRetry || e.RetryAfter == 0 {
		t.Fatalf("budget held by another request: got error %+v", e)
	}
	first.Settle(spend.Used{Cost: 200}, now)
	first.Settle(spend.Used{Cost: 200}, now) // counts once
	if e := second.Reserve(scopes(a), &spend.Need{Fixed: 301}, now); e != nil {
		t.Fatal(e)
	}
	second.Settle(spend.Used{Cost: 301}, now)
	if s := onlyBudget(t, a, now); s.Spent != 501 || s.Held != 0 {
		t.Fatalf("got status %+v", s)
	}
	e = second.Reserve(scopes(a), &spend.Need{Fixed: 500}, now)
	if e == nil || e.Status != 429 || e.Code != "request_exceeds_budget" || e.Kind != apierror.KindInsufficientQuota || !e.NoRetry {
		t.Fatalf("too little left: got error %+v", e)
	}
	if s := onlyBudget(t, a, now); s.Refused != 2 || s.Left() != 499 || !s.Strict {
		t.Errorf("got status %+v", s)
	}
	if want := "The request may cost up to 0.0000005 USD, and 0.000000499 USD is left of the budget of the key k per day. The next day begins at 2026-11-05T00:00:00Z."; e.Message != want {
		t.Errorf("got message %q, want %q", e.Message, want)
	}
	if limit, ok := errors.AsType[*spend.LimitError](e.Cause); !ok || limit.Scope != keyScope || limit.Limit != spend.LimitBudget || limit.Held {
		t.Errorf("got cause %+v", e.Cause)
	}
	if e := second.Reserve(scopes(a), &spend.Need{Fixed: 500}, now.Add(24*time.Hour)); e != nil {
		t.Errorf("on the next day: got error %v", e)
	}
}

// panickingJournal panics when the first hold is settled.
type panickingJournal struct {
	*memoryJournal
	panicked bool
}

func (l *panickingJournal) Settle(r *spend.Record) {
	if !l.panicked {
		l.panicked = true
		panic("settle")
	}
	l.memoryJournal.Settle(r)
}

// TestSettleAfterPanic settles a hold again whose settlement has panicked, as the release of a request does.
func TestSettleAfterPanic(t *testing.T) {
	notified := false
	for name, o := range map[string]spend.Options{
		"journal": {Journal: &panickingJournal{memoryJournal: newMemoryJournal()}},
		"events": {Events: func(spend.Event) {
			if !notified {
				notified = true
				panic("notify")
			}
		}},
	} {
		a := open(t, spend.NewBook(o),
			spend.Limit{Scope: keyScope, Limits: config.Limits{Concurrent: 1, TokensPerMinute: 100}, Budgets: []config.Budget{budget(1000, config.PerDay)}})
		var h spend.Hold
		if e := h.Reserve(scopes(a), &spend.Need{Prompt: 10, Fixed: 100}, now); e != nil {
			t.Fatal(e)
		}
		panicked := func() (panicked bool) {
			defer func() { panicked = recover() != nil }()
			h.Settle(spend.Used{Tokens: 20, Cost: 200}, now)
			return false
		}
		if !panicked() || panicked() {
			t.Errorf("%s: want a panic the first time only", name)
		}
		if s := onlyBudget(t, a, now); s.Spent != 200 || s.Held != 0 || h.Held() {
			t.Errorf("%s: got status %+v", name, s)
		}
		if r := a.Account(spend.Key, "k").Remaining(now); r.Tokens != 80 {
			t.Errorf("%s: %d tokens remain, want 80", name, r.Tokens)
		}
		if e := h.Reserve(scopes(a), &spend.Need{Prompt: 10, Fixed: 100}, now); e != nil {
			t.Errorf("%s: after the settlement: got error %v", name, e)
		}
	}
}

// TestRejectedRequestChangesNoScope also checks that clients see only the amounts of their own key.
func TestRejectedRequestChangesNoScope(t *testing.T) {
	a := open(t, spend.NewBook(spend.Options{}),
		spend.Limit{Scope: keyScope, Limits: config.Limits{RequestsPerMinute: 100, TokensPerMinute: 10_000, Concurrent: 9}, Budgets: []config.Budget{budget(5000, config.PerHour)}},
		spend.Limit{Scope: teamScope, Budgets: []config.Budget{budget(987_654, config.PerMonth)}},
		spend.Limit{Scope: modelScope, Limits: config.Limits{Concurrent: 1}, Budgets: []config.Budget{budget(43_210, config.PerTotal)}})
	var h, other spend.Hold
	need := func(fixed cost.Nano) *spend.Need { return &spend.Need{Prompt: 1, Fixed: fixed} }
	if e := h.Reserve(scopes(a), need(5001), now); e == nil || h.Held() {
		t.Errorf("more than the key's budget: got error %v", e)
	}
	if e := h.Reserve(scopes(a), need(10), now); e != nil {
		t.Fatal(e)
	}
	before := fmt.Sprint(a.Status(now), a.Account(spend.Key, "k").Remaining(now))
	e := other.Reserve(scopes(a), need(10), now)
	if e == nil || !strings.Contains(e.Message, "model m") || strings.Contains(e.Message, "1 ") {
		t.Errorf("model at its limit: got error %v", e)
	}
	if after := fmt.Sprint(a.Status(now), a.Account(spend.Key, "k").Remaining(now)); after != before || other.Held() {
		t.Errorf("a rejected request changed\n%s\nto\n%s", before, after)
	}
	h.Settle(spend.Used{}, now)
	for _, s := range a.Status(now) {
		if s.Held != 0 || s.Spent != 0 {
			t.Errorf("got status %+v", s)
		}
	}
}

func TestMaxTokensAreLoweredToBudget(t *testing.T) {
	for _, c := range []struct {
		name         string
		left, held   cost.Nano
		max, lowered int64
		rejected     bool
	}{
		{name: "fits", left: 1_000_000, max: 8000, held: 100 + 8000*10},
		{name: "lowered", left: 100 + 2000*10 + 9, max: 8000, lowered: 2000, held: 100 + 2000*10},
		{name: "lowered to the minimum", left: 100 + 1024*10, max: 8000, lowered: 1024, held: 100 + 1024*10},
		{name: "not lowered below the minimum", left: 100 + 1024*10 - 1, max: 8000, rejected: true},
		{name: "short response is not lowered", left: 100 + 99*10, max: 100, rejected: true},
		{name: "short response fits", left: 100 + 100*10, max: 100, held: 100 + 100*10},
		{name: "prompt does not fit", left: 99, max: 8000, rejected: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := open(t, spend.NewBook(spend.Options{}),
				spend.Limit{Scope: keyScope, Budgets: []config.Budget{budget(1<<40, config.PerDay)}},
				spend.Limit{Scope: teamScope, Budgets: []config.Budget{budget(c.left, config.PerDay)}})
			var h spend.Hold
			e := h.Reserve(scopes(a), &spend.Need{Fixed: 100, PerMillion: 10_000_000, MaxTokens: c.max}, now)
			if (e != nil) != c.rejected || h.Lowered() != c.lowered {
				t.Fatalf("got error %v, lowered to %d, want %d", e, h.Lowered(), c.lowered)
			}
			for _, s := range a.Status(now) {
				if s.Held != c.held {
					t.Errorf("%s: got %d held, want %d", s.Scope, s.Held, c.held)
				}
			}
		})
	}
}

func TestNonStrictBudgetHoldsEstimate(t *testing.T) {
	b := config.Budget{Limit: 100, Per: config.PerDay}
	a := open(t, spend.NewBook(spend.Options{}), spend.Limit{Scope: keyScope, Budgets: []config.Budget{b}})
	need := &spend.Need{Fixed: 5000, MaxTokens: 1 << 40, PerMillion: 1 << 40, Estimate: 40}
	var holds [3]spend.Hold
	for i := range holds {
		if e := holds[i].Reserve(scopes(a), need, now); (e == nil) != (i < 2) || holds[i].Lowered() != 0 {
			t.Errorf("request %d: got error %v", i, e)
		}
	}
	holds[0].Settle(spend.Used{Cost: 90}, now)
	holds[1].Settle(spend.Used{Cost: 90}, now)
	if s := onlyBudget(t, a, now); s.Spent != 180 || s.Held != 0 {
		t.Errorf("got status %+v", s)
	}
}

// TestHoldOutlastsWindow checks that a settlement counts only in the windows in which its hold was made.
func TestHoldOutlastsWindow(t *testing.T) {
	a := open(t, spend.NewBook(spend.Options{}), spend.Limit{Scope: keyScope, Budgets: []config.Budget{budget(100, config.PerHour), budget(1000, config.PerDay)}})
	var h spend.Hold
	if e := h.Reserve(scopes(a), &spend.Need{Fixed: 100}, now); e != nil {
		t.Fatal(e)
	}
	later := now.Add(time.Hour)
	if s := a.Status(later); s[0].Held != 0 || s[1].Held != 100 {
		t.Errorf("after an hour: %+v", s)
	}
	h.Settle(spend.Used{Cost: 80}, later)
	if s := a.Status(later); s[0].Spent != 0 || s[0].Held != 0 || s[1].Spent != 80 || s[1].Held != 0 {
		t.Errorf("after the settlement: %+v", s)
	}
}

// TestPastWindowIsNotReused checks that a past window does not become current again if the clock is set back, or if a
// request has read the clock earlier than another.
func TestPastWindowIsNotReused(t *testing.T) {
	a := open(t, spend.NewBook(spend.Options{}), spend.Limit{Scope: keyScope, Budgets: []config.Budget{budget(100, config.PerMinute)}})
	var first, second spend.Hold
	if e := first.Reserve(scopes(a), &spend.Need{Fixed: 60}, now.Add(time.Minute)); e != nil {
		t.Fatal(e)
	}
	if e := second.Reserve(scopes(a), &spend.Need{Fixed: 60}, now); e == nil {
		t.Error("a past window was used")
	}
	if e := second.Reserve(scopes(a), &spend.Need{Fixed: 40}, now); e != nil {
		t.Fatal(e)
	}
	first.Settle(spend.Used{Cost: 1}, now)
	second.Settle(spend.Used{Cost: 2}, now)
	if s := onlyBudget(t, a, now); s.Spent != 3 || s.Held != 0 {
		t.Errorf("got status %+v", s)
	}
}

// TestBudgetUnderConcurrency sends requests from 32 clients. They never exceed the budget, and the sums match.
func TestBudgetUnderConcurrency(t *testing.T) {
	const limit, clients = 1_000_000, 32
	a := open(t, spend.NewBook(spend.Options{}),
		spend.Limit{Scope: keyScope, Budgets: []config.Budget{budget(limit, config.PerDay)}},
		spend.Limit{Scope: teamScope, Budgets: []config.Budget{budget(2*limit, config.PerDay)}},
		spend.Limit{Scope: modelScope, Limits: config.Limits{Concurrent: 1 << 30}, Budgets: []config.Budget{budget(3*limit, config.PerTotal)}})
	var spent, rejected atomic.Int64
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			s := scopes(a)
			if client%2 == 0 {
				s[spend.Team] = nil
			}
			for i := range 300 {
				var h spend.Hold
				fixed := cost.Nano(1 + (client*7919+i*104729)%997)
				if e := h.Reserve(s, &spend.Need{Fixed: fixed}, now); e != nil {
					rejected.Add(1)
					continue
				}
				if now := a.Status(now)[0]; now.Spent+now.Held > limit {
					t.Errorf("%d spent and %d held with a budget of %d", now.Spent, now.Held, limit)
				}
				amount := fixed * cost.Nano(i%3) / 2 // none, half or all
				spent.Add(int64(amount))
				h.Settle(spend.Used{Cost: amount}, now)
			}
		})
	}
	all.Wait()
	s := a.Status(now)
	if s[0].Spent != cost.Nano(spent.Load()) || s[2].Spent != s[0].Spent || s[0].Held != 0 || s[1].Held != 0 || s[2].Held != 0 {
		t.Errorf("got status %+v, want %d spent", s, spent.Load())
	}
	if spent.Load() < limit*99/100 || rejected.Load() == 0 {
		t.Errorf("%d spent, %d requests rejected: the budget was not reached", spent.Load(), rejected.Load())
	}
}

// memoryJournal is an in-memory journal that fails while broken is set.
type memoryJournal struct {
	mu      sync.Mutex
	holds   map[spend.ID]spend.Record
	settled map[spend.ID]spend.Record
	changes []spend.Adjustment
	broken  error
}

func newMemoryJournal() *memoryJournal {
	return &memoryJournal{holds: make(map[spend.ID]spend.Record), settled: make(map[spend.ID]spend.Record)}
}

func (l *memoryJournal) Hold(r *spend.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken == nil {
		l.holds[r.ID] = *r
	}
	return l.broken
}

func (l *memoryJournal) Settle(r *spend.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, held := l.holds[r.ID]; !held {
		panic("settled without a hold")
	}
	if _, twice := l.settled[r.ID]; twice {
		panic("settled twice")
	}
	l.settled[r.ID] = *r
}

func (l *memoryJournal) Adjust(c *spend.Adjustment) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes = append(l.changes, *c)
	return l.broken
}

func (l *memoryJournal) Replay(want func(spend.Scope) bool, used func(spend.Entry), adjusted func(spend.Adjustment)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, r := range l.holds {
		amount, uncertain := r.Amount, r.Amount
		if s, ok := l.settled[id]; ok {
			amount, uncertain = s.Amount, s.Uncertain
		}
		for _, s := range r.Scopes {
			if want(s) {
				used(spend.Entry{Scope: s, At: r.At, Requests: 1, Cost: amount, Uncertain: uncertain})
			}
		}
	}
	for _, c := range l.changes {
		adjusted(c)
	}
	return l.broken
}

func (l *memoryJournal) Used(scope spend.Scope, used func(spend.Entry), adjusted func(spend.Adjustment)) bool {
	_ = l.Replay(func(s spend.Scope) bool { return s == scope }, used, func(c spend.Adjustment) {
		if c.Scope == scope {
			adjusted(c)
		}
	})
	return true
}

func TestRestartCountsOpenHoldsAsSpent(t *testing.T) {
	journal := newMemoryJournal()
	limits := []spend.Limit{{Scope: keyScope, Limits: config.Limits{RequestsPerMinute: 4}, Budgets: []config.Budget{budget(1000, config.PerDay)}}}
	before := open(t, spend.NewBook(spend.Options{Journal: journal}), limits...)
	var settled, crashed spend.Hold
	for h, fixed := range map[*spend.Hold]cost.Nano{&settled: 500, &crashed: 300} {
		if e := h.Reserve(scopes(before), &spend.Need{Fixed: fixed}, now); e != nil {
			t.Fatal(e)
		}
	}
	settled.Settle(spend.Used{Cost: 123}, now)
	book := spend.NewBook(spend.Options{Journal: journal})
	after := open(t, book, limits...)
	if s := onlyBudget(t, after, now); s.Spent != 423 || s.Held != 0 {
		t.Errorf("after the restart: got status %+v", s)
	}
	if r := after.Account(spend.Key, "k").Remaining(now); r.Requests != 2 {
		t.Errorf("%d requests remain, want 2", r.Requests)
	}
	// A reload must not replay the same scopes again.
	if s := onlyBudget(t, open(t, book, limits...), now); s.Spent != 423 {
		t.Errorf("after a reload: got status %+v", s)
	}
	// A raised limit survives a restart.
	if err := book.Adjust(spend.Adjustment{Scope: keyScope, Per: config.PerDay, At: now, Credit: 50, Reason: "a demo"}); err != nil {
		t.Fatal(err)
	}
	for name, a := range map[string]*spend.Accounts{"running": after, "restarted": open(t, spend.NewBook(spend.Options{Journal: journal}), limits...)} {
		if s := onlyBudget(t, a, now); s.Limit != 1050 {
			t.Errorf("%s: got status %+v", name, s)
		}
		if s := onlyBudget(t, a, now.Add(24*time.Hour)); s.Limit != 1000 || s.Spent != 0 {
			t.Errorf("%s, on the next day: got status %+v", name, s)
		}
	}
}

func TestJournalFailureRejectsRequests(t *testing.T) {
	journal := newMemoryJournal()
	a := open(t, spend.NewBook(spend.Options{Journal: journal}), spend.Limit{Scope: keyScope, Budgets: []config.Budget{budget(1000, config.PerDay)}})
	journal.broken = errors.New("no space left on device")
	var h spend.Hold
	if e := h.Reserve(scopes(a), &spend.Need{Fixed: 10}, now); e == nil || e.Status != 503 || !errors.Is(e.Cause, journal.broken) {
		t.Errorf("got error %v", e)
	}
	if s := onlyBudget(t, a, now); s.Held != 0 || h.Held() {
		t.Errorf("got status %+v", s)
	}
}

func TestBudgetEvents(t *testing.T) {
	var events []spend.Event
	b := budget(1000, config.PerDay)
	b.Warn = 0.8
	a := open(t, spend.NewBook(spend.Options{Events: func(e spend.Event) { events = append(events, e) }}), spend.Limit{Scope: keyScope, Budgets: []config.Budget{b}})
	for _, amount := range []cost.Nano{799, 1, 50, 160} {
		var h spend.Hold
		if e := h.Reserve(scopes(a), &spend.Need{Fixed: min(amount, 150)}, now); e != nil {
			t.Fatal(e)
		}
		h.Settle(spend.Used{Cost: amount}, now)
	}
	want := []spend.Event{
		{Kind: spend.EventExceededHold, Scope: keyScope, Amount: 649},
		{Kind: spend.EventWarned, Scope: keyScope, Per: config.PerDay, Amount: 1000},
		{Kind: spend.EventExceededHold, Scope: keyScope, Amount: 10},
	}
	if fmt.Sprint(events) != fmt.Sprint(want) {
		t.Errorf("got events %v, want %v", events, want)
	}
	// The excess counts, so no further request fits.
	if s := onlyBudget(t, a, now); s.Spent != 1010 {
		t.Errorf("got status %+v", s)
	}
	var h spend.Hold
	if e := h.Reserve(scopes(a), &spend.Need{Fixed: 1}, now); e == nil {
		t.Error("a request was admitted after the budget was exceeded")
	}
}

// TestNoHoldLeaks runs random histories of requests that are admitted or rejected and settled, of reloads that change
// limits, and of restarts. The amounts that a budget reports as held and spent always equal the sums over the requests,
// and a request is rejected only if it does not fit.
func TestNoHoldLeaks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		journal := newMemoryJournal()
		at := now
		book := spend.NewBook(spend.Options{Journal: journal})
		periods := rapid.SliceOfNDistinct(rapid.IntRange(0, config.Periods-1), 1, 3, rapid.ID[int]).Draw(t, "periods")
		draw := func() (limits []spend.Limit) {
			for _, s := range []spend.Scope{keyScope, teamScope, modelScope} {
				l := spend.Limit{Scope: s, Limits: config.Limits{Concurrent: 1 << 20}}
				for _, p := range periods {
					l.Budgets = append(l.Budgets, budget(cost.Nano(rapid.Int64Range(1, 20_000).Draw(t, "limit")), config.Period(p)))
				}
				limits = append(limits, l)
			}
			return limits
		}
		limits := draw()
		accounts := open(t, book, limits...)
		type request struct {
			hold   *spend.Hold
			at     time.Time
			amount cost.Nano
		}
		var inflight, past []request // past requests have spent amount
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			at = at.Add(time.Duration(rapid.SampledFrom([]int64{0, 0, 1, 20, 3600, 86_400}).Draw(t, "seconds")) * time.Second)
			switch rapid.SampledFrom([]string{"begin", "begin", "end", "end", "reload", "restart"}).Draw(t, "step") {
			case "begin":
				fixed := cost.Nano(rapid.Int64Range(0, 8000).Draw(t, "fixed"))
				h := new(spend.Hold)
				before := accounts.Status(at)
				if e := h.Reserve(scopes(accounts), &spend.Need{Fixed: fixed}, at); e == nil {
					inflight = append(inflight, request{h, at, fixed})
				} else if after := accounts.Status(at); !sameSums(before, after) {
					t.Fatalf("a rejected request changed %v to %v", before, after)
				} else if !exceeds(before, fixed) {
					t.Fatalf("request of %d was rejected: %v, with %v", fixed, e, before)
				}
			case "end":
				if len(inflight) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(inflight)-1).Draw(t, "which")
				f := inflight[i]
				amount := cost.Nano(rapid.Int64Range(0, int64(f.amount)).Draw(t, "cost"))
				f.hold.Settle(spend.Used{Cost: amount}, at)
				past = append(past, request{nil, f.at, amount})
				inflight = append(inflight[:i], inflight[i+1:]...)
			case "reload":
				limits = draw()
				accounts = open(t, book, limits...)
				book.Prune(accounts)
			case "restart":
				// The holds of requests in flight are never settled and count as spent.
				past, inflight = append(past, inflight...), nil
				book = spend.NewBook(spend.Options{Journal: journal})
				var err error
				if accounts, err = book.Open(limits, at); err != nil {
					t.Fatal(err)
				}
			}
			for _, s := range accounts.Status(at) {
				var spent, held cost.Nano
				for _, r := range past {
					if !r.at.Before(s.Start) {
						spent += r.amount
					}
				}
				for _, r := range inflight {
					if !r.at.Before(s.Start) {
						held += r.amount
					}
				}
				if s.Spent != spent || s.Held != held {
					t.Fatalf("%s per %s at %s: got %d spent and %d held, want %d and %d", s.Scope, s.Per, at, s.Spent, s.Held, spent, held)
				}
			}
		}
	})
}

// sameSums reports whether two statuses are equal except for the number of rejected requests.
func sameSums(a, b []spend.Status) bool {
	return slices.EqualFunc(a, b, func(a, b spend.Status) bool {
		a.Refused, b.Refused = 0, 0
		return a == b
	})
}

// exceeds reports whether an amount exceeds one of the budgets.
func exceeds(all []spend.Status, amount cost.Nano) bool {
	for _, s := range all {
		if s.Spent+s.Held+amount > s.Limit {
			return true
		}
	}
	return false
}

// TestDayWithoutMidnight makes a request a minute from 23:10, on a night on which the clocks skip midnight. The budget
// per day is not available again before 1:00, when the next day begins.
func TestDayWithoutMidnight(t *testing.T) {
	zone, err := time.LoadLocation("America/Santiago")
	if err != nil {
		t.Fatal(err)
	}
	a := open(t, spend.NewBook(spend.Options{Zone: zone}), spend.Limit{Scope: keyScope, Budgets: []config.Budget{budget(36, config.PerDay)}})
	first := time.Date(2026, 9, 5, 23, 10, 0, 0, zone)
	admitted := 0
	for at, tomorrow := first, first.Add(50*time.Minute); at.Before(first.Add(time.Hour)); at = at.Add(time.Minute) {
		var h spend.Hold
		if e := h.Reserve(scopes(a), &spend.Need{Fixed: 1}, at); e == nil {
			h.Settle(spend.Used{Cost: 1}, at)
			admitted++
		} else if limit, ok := errors.AsType[*spend.LimitError](e.Cause); !ok || !limit.Until.Equal(tomorrow) {
			t.Errorf("%s: %+v, want a budget spent until %s", at, e.Cause, tomorrow)
		}
	}
	if admitted != 36+10 {
		t.Errorf("%d requests admitted, want 36 before midnight and 10 after", admitted)
	}
}
