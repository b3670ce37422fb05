package spend

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
)

// Book holds what scopes have used, by their names. It survives reloads of the configuration.
type Book struct {
	zone    *time.Location
	journal Journal       // nil: nothing is persisted
	events  func(Event)   // nil: nobody listens
	process uint64        // of the IDs of holds
	number  atomic.Uint64 // of the last hold
	sync    *syncer       // nil: there is no store

	mu      sync.Mutex // never held together with that of a usage
	usages  map[Scope]*usage
	sharing map[Scope]*usage // those of usages that have something shared
}

// Options are what a Book is made with. The zero value counts in memory, in UTC.
type Options struct {
	Zone    *time.Location // of calendar windows; nil: UTC
	Journal Journal        // nil: what is counted is lost at a restart
	Events  func(Event)    // called for what operators should know, by requests and others, without locks; nil: it is not

	// Store counts what limits and budgets share with other gateways: those that say what happens while it is down. nil: nothing is shared,
	// and the options below have no meaning.
	Store    Store
	Instance string           // the identity of this gateway, which no other has, and which survives restarts as the Journal does; "": a random one
	Share    float64          // of what is left of a limit, that is granted at once; 0: 0.02
	Lease    time.Duration    // for how long the store keeps what is granted for a gateway that it does not hear of; 0: 10 s
	Timeout  time.Duration    // of a round trip; 0: 50 ms
	Now      func() time.Time // the clock that requests read; nil: time.Now
	Manual   bool             // nothing is reported in the background, but by calls of Sync
}

// Event is something about a budget that operators should know.
type Event struct {
	Kind   EventKind
	Scope  Scope
	Per    config.Period
	Amount cost.Nano // of EventWarned the budget's limit, of EventExceededHold by how much a cost exceeded its hold
	Err    error     // of EventStoreDown
}

// EventKind is the kind of an Event.
type EventKind uint8

// The kinds of events.
const (
	EventWarned       EventKind = iota // a budget's share for a warning has been spent, once in a window
	EventExceededHold                  // a request cost more than the most that was thought possible
	EventStoreDown                     // the store cannot be reached: shared limits are in the mode that is configured for that
	EventStoreLost                     // the store has lost data: so they are, until all gateways have reported what they have
	EventStoreUp                       // the store counts again
	EventIdentity                      // another process has this gateway's identity; it goes on under a new one
)

// NewBook returns a book of nothing.
func NewBook(o Options) *Book {
	b := &Book{zone: o.Zone, journal: o.Journal, events: o.Events, process: rand.Uint64(), usages: make(map[Scope]*usage), sharing: make(map[Scope]*usage)}
	if b.zone == nil {
		b.zone = time.UTC
	}
	if o.Store != nil {
		b.sync = newSyncer(b, &o)
	}
	return b
}

// Close gives back what this gateway has of the store, but for what requests in flight hold, and reports nothing more. It is to be called
// when there are none.
func (b *Book) Close() error {
	if b.sync == nil {
		return nil
	}
	return b.sync.close()
}

// Sync does what is done in the background otherwise: it tells the store what is new, renews what is granted, asks for more ahead of need,
// and gives back what nobody uses.
func (b *Book) Sync() error {
	if b.sync == nil {
		return nil
	}
	return b.sync.round()
}

// Refresh asks the store for what other gateways have used of everything that is shared, which Status is a few seconds behind in otherwise.
func (b *Book) Refresh() error {
	if b.sync == nil {
		return nil
	}
	return b.sync.refresh()
}

// windowTime returns the time by which windows are: that of the store, if there is one.
func (b *Book) windowTime(now time.Time) time.Time {
	if b.sync == nil {
		return now
	}
	return b.sync.storeTime(now)
}

// Limit is what is configured of a scope.
type Limit struct {
	Scope   Scope
	Limits  config.Limits
	Budgets []config.Budget
}

// Configured returns the limits and budgets of a configuration: one Limit for each key, team, model and provider, maybe without any.
func Configured(cfg *config.Config) (all []Limit) {
	add := func(k Kind, name string, limits config.Limits, budgets []config.Budget) {
		all = append(all, Limit{Scope: Scope{Kind: k, Name: name}, Limits: limits, Budgets: budgets})
	}
	for i := range cfg.Keys {
		add(Key, cfg.Keys[i].Name, cfg.Keys[i].Limits, cfg.Keys[i].Budgets)
	}
	for i := range cfg.Teams {
		add(Team, cfg.Teams[i].Name, cfg.Teams[i].Limits, cfg.Teams[i].Budgets)
	}
	for i := range cfg.Models {
		add(Model, cfg.Models[i].ID, cfg.Models[i].Limits, cfg.Models[i].Budgets)
	}
	for i := range cfg.Providers {
		add(Provider, cfg.Providers[i].Name, cfg.Providers[i].Limits, cfg.Providers[i].Budgets)
	}
	return all
}

// Account is a scope with limits or budgets, and what it has used.
type Account struct {
	scope   Scope
	limits  config.Limits
	budgets []config.Budget
	usage   *usage
	book    *Book
}

// Accounts are the accounts of one configuration.
type Accounts struct {
	book *Book
	of   [kinds]map[string]*Account // a kind without any has no map

	strict [kinds]bool // an account of the kind has a strict budget
}

// Account returns the account of a scope, nil if it has neither limits nor budgets.
func (a *Accounts) Account(k Kind, name string) *Account {
	if a == nil {
		return nil
	}
	return a.of[k][name]
}

// Strict reports whether an account of a kind has a strict budget.
func (a *Accounts) Strict(k Kind) bool { return a.strict[k] }

// Open returns the accounts of what is configured. Scopes that the book did not know before count with what the journal knows of them
// at now.
func (b *Book) Open(limits []Limit, now time.Time) (*Accounts, error) {
	a := &Accounts{book: b}
	if b.sync != nil {
		b.sync.learnTime()
	}
	at := b.windowTime(now)
	added := make(map[Scope]*usage)
	for i := range limits {
		l := &limits[i]
		if l.Limits == (config.Limits{}) && len(l.Budgets) == 0 {
			continue
		}
		if a.of[l.Scope.Kind] == nil {
			a.of[l.Scope.Kind] = make(map[string]*Account)
		}
		u, isNew := b.usage(l.Scope)
		if isNew {
			added[l.Scope] = u
		}
		for i := range l.Budgets {
			a.strict[l.Scope.Kind] = a.strict[l.Scope.Kind] || l.Budgets[i].Strict
		}
		account := &Account{scope: l.Scope, limits: l.Limits, budgets: l.Budgets, usage: u, book: b}
		a.of[l.Scope.Kind][l.Scope.Name] = account
		if b.sync != nil {
			account.share(now)
		}
	}
	if b.journal == nil || len(added) == 0 {
		return a, nil
	}
	err := b.journal.Replay(func(s Scope) bool { return added[s] != nil }, func(e Entry) {
		if u := added[e.Scope]; u != nil {
			u.restore(&e, b.zone, at, now)
		}
	}, func(c Adjustment) {
		if u := added[c.Scope]; u != nil {
			u.adjust(&c, b.zone, at)
		}
	})
	if err != nil {
		b.forget(func(s Scope) bool { return added[s] == nil })
		return nil, err
	}
	return a, nil
}

// usage returns the usage of a scope, made on first use.
func (b *Book) usage(s Scope) (u *usage, isNew bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	u = b.usages[s]
	if u == nil {
		u, isNew = new(usage), true
		b.usages[s] = u
	}
	u.gone = false
	return u, isNew
}

// Prune forgets the usage of scopes that have no account among a. What is granted of them is given back first.
func (b *Book) Prune(a *Accounts) {
	b.forget(func(s Scope) bool { return a.Account(s.Kind, s.Name) != nil })
}

func (b *Book) forget(keep func(Scope) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s, u := range b.usages {
		switch {
		case keep(s):
		case b.sharing[s] != nil:
			u.gone = true
		default:
			delete(b.usages, s)
		}
	}
}

// Adjust changes what is left of a budget in the window that c.At is in. It fails with ErrRepeated for a change that was made before.
func (b *Book) Adjust(c Adjustment) error {
	if b.journal != nil {
		if err := b.journal.Adjust(&c); err != nil {
			return err
		}
	}
	b.mu.Lock()
	u := b.usages[c.Scope]
	b.mu.Unlock()
	if u != nil {
		u.adjust(&c, b.zone, b.windowTime(c.At))
		if b.sync != nil {
			b.sync.credit(u) // what the store cannot be told of is told later
		}
	}
	return nil
}

// Remaining is what remains of an account's rates.
type Remaining struct {
	Limits        config.Limits // 0 is unlimited
	Requests      int64
	RequestsReset time.Duration // until all requests of the limit remain
	Tokens        int64
	TokensReset   time.Duration
}

// Remaining returns what remains of the account's rates.
func (a *Account) Remaining(now time.Time) Remaining {
	u := a.usage
	u.mu.Lock()
	defer u.mu.Unlock()
	u.drain(&a.limits, now)
	r := Remaining{Limits: a.limits}
	if l := a.limits.RequestsPerMinute; l > 0 {
		r.Requests, r.RequestsReset = u.requests.Remaining(l), u.requests.Reset(l)
	}
	if l := a.limits.TokensPerMinute; l > 0 {
		r.Tokens, r.TokensReset = u.remainingTokens(l), u.tokens.Reset(l)
	}
	if a.sharesRates() && a.book.reachable(u.shared) {
		u.shared.remaining(u, &r, now)
	}
	return r
}

// Status is a budget of a scope in its current window.
type Status struct {
	Scope      Scope
	Per        config.Period
	Start, End time.Time // zero for a window without start and end
	Limit      cost.Nano // with what it was raised by
	Raised     cost.Nano
	Spent      cost.Nano // by all gateways, where the budget is shared
	Held       cost.Nano // by requests in flight, and granted to other gateways
	Refused    int64     // requests in the window that it had too little left for
	Warn       float64   // share of the limit at which a warning is logged; 0: none
	Strict     bool
}

// Left returns what is left for further holds.
func (s *Status) Left() cost.Nano { return max(s.Limit-s.Spent-s.Held, 0) }

// Used returns the share of the limit that is spent: 1 for all of it, more for a budget that was exceeded.
func (s *Status) Used() float64 { return float64(s.Spent) / float64(max(s.Limit, 1)) }

// The states of a budget.
const (
	StateOK       = "ok"
	StateWarned   = "warned"   // the share for a warning is spent
	StateRefusing = "refusing" // spent, or too little was left for a request of the window
)

// defaultWarn is the share of a budget without one of its own at which its state is a warning.
const defaultWarn = 0.8

// State returns the budget's state.
func (s *Status) State() string {
	switch {
	case s.Spent >= s.Limit || s.Refused > 0:
		return StateRefusing
	case s.Used() >= cmp.Or(s.Warn, defaultWarn):
		return StateWarned
	}
	return StateOK
}

// Status returns the budgets of all accounts, by kind and name, those of a scope in the order of the configuration.
func (a *Accounts) Status(now time.Time) []Status {
	if a == nil {
		return nil
	}
	var all []Status
	for _, accounts := range a.of {
		for _, name := range slices.Sorted(maps.Keys(accounts)) {
			all = accounts[name].appendStatus(all, now)
		}
	}
	return all
}

func (a *Account) appendStatus(all []Status, now time.Time) []Status {
	u := a.usage
	u.mu.Lock()
	defer u.mu.Unlock()
	u.roll(a.book.windowTime(now), a.book.zone)
	for i := range a.budgets {
		b := &a.budgets[i]
		w := &u.windows[b.Per]
		s := Status{a.scope, b.Per, w.start, w.end, b.Limit + w.credit, w.credit, w.spent + w.others, w.heldOf(b) + w.elsewhere, w.refused, b.Warn, b.Strict}
		all = append(all, s)
	}
	return all
}
