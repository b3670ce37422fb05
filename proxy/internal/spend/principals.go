package spend

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// Principals are clients that the configuration does not name: the holders of tokens, and the users of keys. There may be
// any number of them, so their usages are created on first use, and forgotten again once they can be restored from the
// journal.

const (
	// maxPrincipals is the default of Options.Principals.
	maxPrincipals = 1 << 14
	// idleTime is how long a principal must have been idle to be forgotten: longer than any rate limit looks back.
	idleTime = 2 * time.Minute
	// evictEvery is the least time between two searches for idle principals.
	evictEvery = 10 * time.Second
)

// OtherUsers is the name of the account that the users of a key share beyond the number that are counted separately.
const OtherUsers = "other"

// Principal returns the account of a principal with limits or budgets, or nil if it has neither. name identifies the
// account, and title names the principal in messages. The account is valid for about idleTime, or as long as a request
// holds something of it.
func (a *Accounts) Principal(name, title string, bounds *config.Bounds, now time.Time) *Account {
	if bounds.Unset() {
		return nil
	}
	return a.principal(Scope{Key, name}, title, bounds, nil, 0, now)
}

// User returns the account of a user of a key. name identifies the user among those of the key, and title names it in
// messages. Beyond most users at a time, it returns the account of all
// others, which is OtherUsers.
func (a *Accounts) User(key, name, title string, bounds *config.Bounds, most int, now time.Time) *Account {
	b := a.book
	b.mu.Lock()
	g := b.groups[key]
	if g == nil {
		g = new(group)
		b.groups[key] = g
	}
	b.mu.Unlock()
	if account := a.principal(Scope{User, key + "/" + name}, title, bounds, g, most, now); account != nil {
		return account
	}
	return a.principal(Scope{User, key + "/" + OtherUsers}, key+"/"+OtherUsers, bounds, nil, 0, now)
}

// IsOther reports whether the account is that of users beyond the number that are counted separately.
func (a *Account) IsOther() bool {
	return a != nil && a.scope.Kind == User && strings.HasSuffix(a.scope.Name, "/"+OtherUsers)
}

// group counts the usages of the users of a key.
type group struct {
	members   int // guarded by the mutex of the Book, like the rest
	evictedAt time.Time
}

// principal returns the account of a principal, or nil if it would be one of more than most in its group. g is nil for a principal without a group.
func (a *Accounts) principal(s Scope, title string, bounds *config.Bounds, g *group, most int, now time.Time) *Account {
	b := a.book
	b.mu.Lock()
	u := b.usages[s]
	isNew := u == nil
	if isNew {
		if g != nil && g.members >= most {
			b.evict(now, g)
			if g.members >= most {
				b.mu.Unlock()
				return nil
			}
		}
		u = newUsage()
		u.principal, u.group = true, g
		u.mu.Lock() // requests that find it before it is restored wait
		b.usages[s] = u
		b.principals++
		if g != nil {
			g.members++
		}
	}
	u.gone, u.touched = false, now
	account := u.account
	if isOther := account == nil || account.bounds != bounds; isOther {
		account = newAccount(b, s, bounds.Limits, bounds.Budgets, u)
		account.title, account.bounds = title, bounds
		u.account = account
		if !isNew {
			u.mu.Lock()
		}
	} else {
		b.mu.Unlock()
		return account
	}
	if isNew && b.principals > b.most {
		b.evict(now, nil)
	}
	b.mu.Unlock()
	if isNew {
		account.restoreAll(now)
	}
	shares := b.sync != nil && account.share(now)
	u.mu.Unlock()
	if shares {
		account.announce()
	}
	return account
}

// restoreAll restores what a principal has used from the journal. The caller holds the mutex of the usage.
func (a *Account) restoreAll(now time.Time) {
	b := a.book
	if b.journal == nil {
		return
	}
	at := b.windowTime(now)
	a.usage.persisted = b.journal.Used(a.scope, func(e Entry) { a.restoreEntry(&e, at, now) }, func(c Adjustment) { a.usage.adjustWindow(&c, b.zone, at) })
}

// evict forgets the principals that have been idle for longest: those of a group, or without one, of all, down to three
// quarters of the most. What they have spent is in the journal; without one, they are kept until their windows end.
// Grants of the store are given back first. The caller holds b.mu.
func (b *Book) evict(now time.Time, of *group) {
	at, excess := &b.evictedAt, b.principals-b.most/4*3
	if of != nil {
		at, excess = &of.evictedAt, of.members/4+1
	}
	if now.Sub(*at) < evictEvery {
		return
	}
	*at = now
	type candidate struct {
		scope Scope
		usage *usage
	}
	var idle []candidate
	for s, u := range b.usages {
		if u.principal && !u.gone && (of == nil || u.group == of) && now.Sub(u.touched) >= idleTime {
			idle = append(idle, candidate{s, u})
		}
	}
	slices.SortFunc(idle, func(x, y candidate) int { return x.usage.touched.Compare(y.usage.touched) })
	for _, c := range idle[:min(len(idle), excess)] {
		c.usage.mu.Lock()
		can := c.usage.isIdle(b.windowTime(now), now, b.zone)
		c.usage.mu.Unlock()
		switch {
		case !can:
		case b.sharing[c.scope] != nil:
			c.usage.gone = true
		default:
			b.remove(c.scope, c.usage)
		}
	}
}

// isIdle reports whether nothing is lost if the usage is forgotten. at is now by the clock of windows.
func (u *usage) isIdle(at, now time.Time, zone *calendar) bool {
	if at.Sub(u.latest) < idleTime { // a request may just have been settled, and not be in the journal yet
		return false
	}
	u.roll(at, zone)
	u.drain(&u.account.limits, now)
	if u.holds() || !u.requests.Empty() || !u.tokens.Empty() {
		return false
	}
	return u.persisted || !slices.ContainsFunc(u.account.budgets, func(l config.Budget) bool { return u.windows[l.Per].spent > 0 })
}

// remove forgets a usage. The caller holds b.mu.
func (b *Book) remove(s Scope, u *usage) {
	delete(b.usages, s)
	delete(b.sharing, s)
	if u.principal {
		b.principals--
		if u.group != nil {
			u.group.members--
		}
	}
}

// Principals returns the status of the budgets of principals in memory that are selected by their names in messages: of
// at most most budgets, those of which the largest share is spent come first.
func (a *Accounts) Principals(now time.Time, most int, selects func(Scope) bool) []Status {
	if a == nil {
		return nil
	}
	b := a.book
	var accounts []*Account
	b.mu.Lock()
	for _, u := range b.usages {
		if u.principal && u.account != nil && len(u.account.budgets) > 0 && selects(u.account.shown()) {
			accounts = append(accounts, u.account)
		}
	}
	b.mu.Unlock()
	var all []Status
	for _, account := range accounts {
		from := len(all)
		all = account.appendStatus(all, now)
		for i := range all[from:] {
			all[from+i].Scope = account.shown()
		}
	}
	slices.SortFunc(all, func(x, y Status) int {
		return cmp.Or(cmp.Compare(y.Used(), x.Used()), cmp.Compare(x.Scope.Name, y.Scope.Name), cmp.Compare(x.Per, y.Per))
	})
	return all[:min(len(all), most)]
}

// shown returns the scope as messages and logs name it.
func (a *Account) shown() Scope {
	if a.title != "" {
		return Scope{a.scope.Kind, a.title}
	}
	return a.scope
}

// who returns how messages to clients name the scope.
func (a *Account) who() string {
	if a.title != "" {
		return a.self() + " " + a.title
	}
	return a.scope.String()
}

// self returns what messages to clients call the scope if that is the client itself.
func (a *Account) self() string {
	if a.title != "" && a.scope.Kind == Key {
		return "identity"
	}
	return a.scope.Kind.String()
}
