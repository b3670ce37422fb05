package spend

import (
	"cmp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/tokenbucket"
)

// usage is what a scope has used. It counts money in the windows of all periods, so that a budget added or changed by a
// reload includes what was spent before.
type usage struct {
	mu       sync.Mutex
	requests tokenbucket.Bucket
	tokens   tokenbucket.Bucket
	reserved int64 // tokens reserved by requests in flight
	inflight int64
	latest   time.Time // latest time passed to roll; windows never go back
	windows  [config.Periods]window
	credits  []credit // adjustments in the current windows, for the store
	shared   *shared  // nil unless something of the scope is or was shared with other gateways
	gone     bool     // the scope no longer has an account; guarded by the mutex of the Book

	// Of a principal.
	principal bool
	group     *group    // nil without one
	persisted bool      // the journal has what was used
	account   *Account  // its latest account; guarded by the mutex of the Book, like touched
	touched   time.Time // when its account was last asked for
}

// credit is an amount by which a budget was raised in a window.
type credit struct {
	window Window
	amount cost.Nano
	id     string
	known  bool // the store has it
}

// window is what a scope has spent in the current window of a period.
//
// It contains the holds that were made in it. A hold that outlasts its window does not count in later ones, because
// what it settles was spent in its own.
type window struct {
	*span
	spent     cost.Nano
	uncertain cost.Nano // part of spent that is booked for unknown outcomes, minus what adjustments have given back of it
	held      cost.Nano // the most that requests in flight can cost
	estimated cost.Nano // what requests in flight probably cost
	credit    cost.Nano // by how much the limit was raised in this window
	refused   int64     // requests rejected because too little was left
	warned    bool      // EventWarned was sent
	*remote             // unshared unless something of the scope is or was shared
}

// span is when a window starts and ends. All usages share it, because there may be very many.
type span struct {
	start, end time.Time // end is zero for a window that never ends
}

// remote is the part of a window that the store counts, as of its last reply.
type remote struct {
	grant     grant
	others    cost.Nano // what other gateways have used
	elsewhere cost.Nano // what other gateways were granted and have not used
}

// noSpan is that of windows which were not needed yet. It never changes.
var noSpan = new(span)

// unshared is the remote part of windows that are not shared. It never changes.
var unshared remote

// newUsage returns the usage of a scope that has used nothing.
func newUsage() *usage {
	u := new(usage)
	for p := range u.windows {
		u.windows[p] = window{span: noSpan, remote: &unshared}
	}
	return u
}

// calendar finds the windows of a time zone. It is safe for concurrent use.
type calendar struct {
	zone    *time.Location
	current [config.Periods]atomic.Pointer[span] // the windows that were found last
}

func newCalendar(zone *time.Location) *calendar {
	if zone == nil {
		zone = time.UTC
	}
	return &calendar{zone: zone}
}

// window returns the window of a period that contains a time.
func (c *calendar) window(per config.Period, at time.Time) *span {
	if w := c.current[per].Load(); w != nil && !at.Before(w.start) && at.Before(w.end) {
		return w
	}
	w := new(span)
	w.start, w.end = per.Window(at, c.zone)
	c.current[per].Store(w)
	return w
}

// left returns how much of a budget another hold can take.
func (w *window) left(b *config.Budget) cost.Nano {
	if b.Strict {
		return b.Limit + w.credit - w.spent - w.held
	}
	return b.Limit + w.credit - w.spent - w.estimated
}

// roll starts new windows for those that have ended at now. It returns now, or the latest time it was called with if
// that is later: requests read the clock before they take the lock, and clocks can be set back.
func (u *usage) roll(now time.Time, zone *calendar) time.Time {
	if now.Before(u.latest) {
		return u.latest
	}
	u.latest = now
	for p := range u.windows {
		w, per := &u.windows[p], config.Period(p)
		if per != config.PerTotal && !now.Before(w.end) {
			if w.remote != &unshared {
				*w.remote = remote{}
			}
			*w = window{span: zone.window(per, now), remote: w.remote}
		}
	}
	return now
}

// drain drains the token buckets of the rates up to now.
func (u *usage) drain(l *config.Limits, now time.Time) {
	if l.RequestsPerMinute > 0 {
		u.requests.Drain(l.RequestsPerMinute, now)
	}
	if l.TokensPerMinute > 0 {
		u.tokens.Drain(l.TokensPerMinute, now)
	}
}

func (u *usage) remainingTokens(limit int64) int64 {
	return max(0, u.tokens.Remaining(limit)-u.reserved)
}

// restore adds usage from the journal. at is the current time by the clock of windows.
func (a *Account) restore(e *Entry, at, now time.Time) {
	a.usage.mu.Lock()
	defer a.usage.mu.Unlock()
	a.restoreEntry(e, at, now)
}

// restoreEntry is like restore for a caller that holds the mutex.
func (a *Account) restoreEntry(e *Entry, at, now time.Time) {
	u := a.usage
	u.roll(at, a.book.zone)
	for p := range u.windows {
		if !e.At.Before(u.windows[p].start) {
			a.spend(p, e.Cost, e.Uncertain)
		}
	}
	if at.Sub(e.At) < time.Minute {
		u.requests.Restore(e.Requests, now)
		u.tokens.Restore(e.Tokens, now)
		if u.shared != nil {
			u.shared.requests.recent.add(e.Requests, now)
			u.shared.tokens.recent.add(e.Tokens, now)
		}
	}
}

// spend adds what was spent to the current window of a period. Of an uncertain amount, a budget that releases unknown
// outcomes spends nothing.
func (a *Account) spend(per int, amount, uncertain cost.Nano) {
	w, released := &a.usage.windows[per], a.releasable(per, uncertain)
	w.spent = w.spent.Plus(amount - released)
	w.uncertain = w.uncertain.Plus(uncertain - released)
}

// adjust raises the limit of a budget in the current window, if c belongs to that.
func (u *usage) adjust(c *Adjustment, zone *calendar, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.adjustWindow(c, zone, now)
}

// adjustWindow is like adjust for a caller that holds the mutex.
func (u *usage) adjustWindow(c *Adjustment, zone *calendar, now time.Time) {
	u.roll(now, zone)
	w := &u.windows[c.Per]
	if c.At.Before(w.start) {
		return
	}
	w.credit += c.Credit
	w.uncertain -= c.Released
	w.warned = false
	u.credits = slices.DeleteFunc(u.credits, func(c credit) bool { return !c.window.Contains(now) })
	if u.shared != nil {
		u.shared.dirty = true
	}
	u.credits = append(u.credits, credit{window: Window{c.Per, w.start, w.end}, amount: c.Credit, id: cmp.Or(c.ID, strconv.FormatInt(c.At.UnixNano(), 10))})
}

// pending returns the sum of the credits of a window that the store does not have yet.
func (u *usage) pending(w *Window) (sum cost.Nano) {
	for i := range u.credits {
		if c := &u.credits[i]; !c.known && c.window.Per == w.Per && c.window.Start.Equal(w.Start) {
			sum += c.amount
		}
	}
	return sum
}
