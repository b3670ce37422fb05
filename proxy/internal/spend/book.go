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

// Book holds what all scopes have used. It outlives configurations.
type Book struct {
	zone    *calendar
	journal Journal       // nil if nothing is persisted
	events  func(Event)   // may be nil
	process uint64        // random number of this process, in the IDs of holds
	number  atomic.Uint64 // number of the last hold
	sync    *syncer       // nil without a store

	mu         sync.Mutex // the mutex of a usage may be locked while it is held, but not the other way round
	usages     map[Scope]*usage
	sharing    map[Scope]*usage  // the usages with something shared
	principals int               // number of usages of principals
	groups     map[string]*group // of the users of keys, by key
	most       int               // number above which idle ones are forgotten
	evictedAt  time.Time         // when idle principals were last searched for
}

// Options configures a Book. The zero value counts in memory, in UTC.
type Options struct {
	Zone    *time.Location // time zone of calendar windows; nil means UTC
	Journal Journal        // may be nil; counts then do not survive a restart
	Events  func(Event)    // receives events that operators should know about; called from any goroutine, with no locks held; may be nil

	// Principals is the number of principals above which idle ones are forgotten; 0 means 16384.
	Principals int

	// Store counts the limits and budgets that are shared with other gateways: those with a configured mode for a store
	// that is down. If it is nil, nothing is shared and the options below have no effect.
	Store    Store
	Instance string           // unique identity of this gateway, which survives restarts like the Journal; "" means a random one
	Share    *float64         // fraction of what is left of a limit that is granted at once; nil means 0.02
	Lease    time.Duration    // how long the store reserves grants for a gateway that does not report; 0 means 10 s
	Timeout  time.Duration    // timeout of a round trip; 0 means 50 ms
	Now      func() time.Time // clock that requests read; nil means time.Now
	Manual   bool             // disables background reports; Sync must be called instead
}

// Event is something about budgets or the store that operators should know.
type Event struct {
	Kind   EventKind
	Scope  Scope
	Per    config.Period
	Amount cost.Nano // EventWarned: the budget's limit; EventExceededHold: by how much the cost exceeded the hold
	Err    error     // EventStoreDown: why the store cannot be reached; EventScopeDamaged: which of its data is damaged

	Took time.Duration // EventStoreSlow: duration of the round trip
}

// EventKind is the kind of an Event.
type EventKind uint8

// The kinds of events.
const (
	EventWarned        EventKind = iota // spending has reached the budget's warning threshold; sent once in a window
	EventExceededHold                   // a request cost more than the maximum held for it
	EventStoreDown                      // the store cannot be reached; shared limits follow their mode for that
	EventStoreLost                      // the store has lost data; shared limits follow the same mode until all gateways have reported
	EventStoreUp                        // the store grants again
	EventStoreSlow                      // a round trip took almost as long as the timeout, or longer; sent at most once a minute
	EventScopeDamaged                   // the store's data of a scope is damaged; the scope's shared limits follow their mode for a store that is down
	EventScopeRepaired                  // the store counts the scope again
	EventIdentity                       // another process uses this gateway's identity; this one continues under a new identity
)

// NewBook returns an empty book.
func NewBook(o Options) *Book {
	b := &Book{zone: newCalendar(o.Zone), journal: o.Journal, events: o.Events, process: rand.Uint64(), most: cmp.Or(o.Principals, maxPrincipals), usages: make(map[Scope]*usage), sharing: make(map[Scope]*usage), groups: make(map[string]*group)}
	if o.Store != nil {
		b.sync = newSyncer(b, &o)
	}
	return b
}

// Close gives the store back this gateway's grants, except for what requests in flight hold, and stops reporting. Call
// it when no requests are in flight.
func (b *Book) Close() error {
	if b.sync == nil {
		return nil
	}
	return b.sync.close()
}

// Sync runs one round of the background reports: it reports new usage to the store, renews grants, asks for more ahead
// of need, and gives back unused grants.
func (b *Book) Sync() error {
	if b.sync == nil {
		return nil
	}
	return b.sync.round()
}

// Refresh asks the store what other gateways have used of everything that is shared. Without it, Status lags a few
// seconds behind.
func (b *Book) Refresh() error {
	if b.sync == nil {
		return nil
	}
	return b.sync.refresh()
}

// windowTime returns the time that determines windows: the store's time if there is a store, otherwise now.
func (b *Book) windowTime(now time.Time) time.Time {
	if b.sync == nil {
		return now
	}
	return b.sync.storeTime(now)
}

// Limit is the configured limits and budgets of a scope.
type Limit struct {
	Scope   Scope
	Limits  config.Limits
	Budgets []config.Budget
}

// Configured returns the limits and budgets of a configuration: one Limit, which may be empty, for each key, team,
// model and provider.
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

// Account is a scope with its limits or budgets and what it has used.
type Account struct {
	scope   Scope
	limits  config.Limits
	budgets []config.Budget
	usage   *usage
	book    *Book

	releases uint8 // bit set of the periods whose budgets release unknown outcomes

	title  string         // name of a principal in messages; "" for a configured scope
	bounds *config.Bounds // of a principal
}

func newAccount(b *Book, s Scope, limits config.Limits, budgets []config.Budget, u *usage) *Account {
	a := &Account{scope: s, limits: limits, budgets: budgets, usage: u, book: b}
	for i := range budgets {
		if budgets[i].ReleaseUnknown {
			a.releases |= 1 << budgets[i].Per
		}
	}
	return a
}

// Accounts are the accounts of one configuration.
type Accounts struct {
	book   *Book
	byName [kinds]map[string]*Account // nil for a kind without accounts

	strict [kinds]bool // whether an account of the kind has a strict budget
}

// Account returns the account of a scope, or nil if the scope has neither limits nor budgets.
func (a *Accounts) Account(k Kind, name string) *Account {
	if a == nil {
		return nil
	}
	return a.byName[k][name]
}

// Strict reports whether any account of a kind has a strict budget.
func (a *Accounts) Strict(k Kind) bool { return a.strict[k] }

// Open returns the accounts for the configured limits. Scopes that are new to the book start with what the journal has
// of them.
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
		if a.byName[l.Scope.Kind] == nil {
			a.byName[l.Scope.Kind] = make(map[string]*Account)
		}
		u, isNew := b.usage(l.Scope)
		if isNew {
			added[l.Scope] = u
		}
		account := newAccount(b, l.Scope, l.Limits, l.Budgets, u)
		for i := range l.Budgets {
			a.strict[l.Scope.Kind] = a.strict[l.Scope.Kind] || l.Budgets[i].Strict
		}
		a.byName[l.Scope.Kind][l.Scope.Name] = account
		if b.sync != nil {
			account.startSharing(now)
		}
	}
	if b.journal == nil || len(added) == 0 {
		return a, nil
	}
	err := b.journal.Replay(func(s Scope) bool { return added[s] != nil }, func(e Entry) {
		if added[e.Scope] != nil {
			a.Account(e.Scope.Kind, e.Scope.Name).restore(&e, at, now)
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

// usage returns the usage of a scope, which it creates on first use.
func (b *Book) usage(s Scope) (u *usage, isNew bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	u = b.usages[s]
	if u == nil {
		u, isNew = newUsage(), true
		b.usages[s] = u
	}
	u.gone = false
	return u, isNew
}

// Prune forgets the usage of scopes that have no account in a. Their grants are given back first.
func (b *Book) Prune(a *Accounts) {
	b.forget(func(s Scope) bool { return a.Account(s.Kind, s.Name) != nil })
}

func (b *Book) forget(keep func(Scope) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s, u := range b.usages {
		switch {
		case u.principal, keep(s):
		case b.sharing[s] != nil:
			u.gone = true
		default:
			b.remove(s, u)
		}
	}
}

// Adjust changes what is left of a budget in the window that contains c.At. It fails with ErrRepeated if an adjustment
// with the same ID was made before.
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
			b.sync.credit(u) // if this fails, the credit is sent later
		}
	}
	return nil
}

// Remaining is what remains of an account's rate limits.
type Remaining struct {
	Limits        config.Limits // 0 is unlimited
	Requests      int64
	RequestsReset time.Duration // time until the full limit is available again
	Tokens        int64
	TokensReset   time.Duration
}

// Remaining returns what remains of the account's rate limits.
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

// Status is the status of a budget in its current window.
type Status struct {
	Scope      Scope
	Per        config.Period
	Start, End time.Time // zero for a window without start and end
	Limit      cost.Nano // including Raised
	Raised     cost.Nano // by how much adjustments have raised the limit in this window
	Spent      cost.Nano // by all gateways if the budget is shared
	Uncertain  cost.Nano // part of Spent that this gateway has booked for unknown outcomes and that was not given back
	Held       cost.Nano // by requests in flight, and by grants to other gateways
	Refused    int64     // requests rejected in the window because too little was left
	Warn       float64   // fraction of the limit at which a warning is logged; 0 means none
	Strict     bool
	Shared     bool // with other gateways, through a store
}

// Left returns what is left for further holds.
func (s *Status) Left() cost.Nano { return max(s.Limit-s.Spent-s.Held, 0) }

// Used returns the fraction of the limit that is spent. It is above 1 if the budget was exceeded.
func (s *Status) Used() float64 { return float64(s.Spent) / float64(max(s.Limit, 1)) }

// The states of a budget.
const (
	StateOK       = "ok"
	StateWarned   = "warned"   // spending has reached the warning threshold
	StateRefusing = "refusing" // the budget is spent, or had too little left for a request in this window
)

// defaultWarn is the threshold for StateWarned of budgets without a configured one.
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

// Status returns the status of the budgets of all accounts, sorted by kind and name, and within a scope in the order of
// the configuration.
func (a *Accounts) Status(now time.Time) []Status {
	if a == nil {
		return nil
	}
	var all []Status
	for _, accounts := range a.byName {
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
		s := Status{a.scope, b.Per, w.start, w.end, b.Limit + w.credit, w.credit, w.spent + w.others, max(w.uncertain, 0), w.heldFor(b) + w.elsewhere, w.refused, b.Warn, b.Strict, a.sharesBudget(b)}
		all = append(all, s)
	}
	return all
}
