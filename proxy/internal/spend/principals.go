package spend

import (
	"slices"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// Principals are clients that the configuration does not name, such as the holders of tokens. There may be any number of
// them, so their usages are created on first use, and forgotten again once they can be restored from the journal.

const (
	// maxPrincipals is the default of Options.Principals.
	maxPrincipals = 1 << 14
	// idleTime is how long a principal must have been idle to be forgotten: longer than any rate limit looks back.
	idleTime = 2 * time.Minute
	// evictEvery is the least time between two searches for idle principals.
	evictEvery = 10 * time.Second
)

// Principal returns the account of a principal with the limits of an entry of [[identities]], or nil if that has neither
// limits nor budgets. name identifies the account, and title names the principal in messages. The account is valid for
// about idleTime, or as long as a request holds something of it.
func (a *Accounts) Principal(name, title string, rights *config.Identity, now time.Time) *Account {
	if rights.Limits == (config.Limits{}) && len(rights.Budgets) == 0 {
		return nil
	}
	b, s := a.book, Scope{Key, name}
	b.mu.Lock()
	u := b.usages[s]
	isNew := u == nil
	if isNew {
		u = &usage{principal: true}
		u.mu.Lock() // requests that find it before it is restored wait
		b.usages[s] = u
		b.principals++
	}
	u.gone, u.touched = false, now
	account := u.account
	if isOther := account == nil || account.rights != rights; isOther {
		account = newAccount(b, s, rights.Limits, rights.Budgets, u)
		account.title, account.rights = title, rights
		u.account = account
		if !isNew {
			u.mu.Lock()
		}
	} else {
		b.mu.Unlock()
		return account
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
	if isNew {
		b.evict(now)
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

// evict forgets the principals that have been idle for longest, if there are many. What they have spent is in the
// journal; without one, they are kept until their windows end. Grants of the store are given back first.
func (b *Book) evict(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.principals <= b.most || now.Sub(b.evictedAt) < evictEvery {
		return
	}
	b.evictedAt = now
	type candidate struct {
		scope Scope
		usage *usage
	}
	var idle []candidate
	for s, u := range b.usages {
		if u.principal && !u.gone && now.Sub(u.touched) >= idleTime {
			idle = append(idle, candidate{s, u})
		}
	}
	slices.SortFunc(idle, func(x, y candidate) int { return x.usage.touched.Compare(y.usage.touched) })
	excess := b.principals - b.most/4*3
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
func (u *usage) isIdle(at, now time.Time, zone *time.Location) bool {
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
	}
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
		return "identity " + a.title
	}
	return a.scope.String()
}

// self returns what messages to clients call the scope if that is the client itself.
func (a *Account) self() string {
	if a.title != "" {
		return "identity"
	}
	return a.scope.Kind.String()
}
