package spend

import (
	"cmp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/tokenbucket"
)

// usage is what a scope has used. It counts money in the windows of all periods, so that a budget which a reload adds or changes counts
// with what was spent before.
type usage struct {
	mu       sync.Mutex
	requests tokenbucket.Bucket
	tokens   tokenbucket.Bucket
	reserved int64 // tokens of requests in flight
	inflight int64
	latest   time.Time // the latest that windows were rolled to: they never go back
	windows  [config.Periods]window
	credits  []credit // in current windows, for the store
	shared   *shared  // nil: nothing of the scope has been shared with other gateways
	gone     bool     // it has no account any more. The mutex of the Book guards it.
}

// credit is a change of a budget's limit.
type credit struct {
	window Window
	amount cost.Nano
	id     string
	known  bool // to the store
}

// window is what a scope has spent in the current window of a period.
//
// The holds of a window are those whose time is not before its start: a hold that outlasts its window counts in none after it, as what
// it settles was spent in the past one.
type window struct {
	start, end time.Time // end is zero for a window without one
	spent      cost.Nano
	held       cost.Nano // the most that requests in flight can cost
	estimated  cost.Nano // what requests in flight probably cost
	credit     cost.Nano // by which the limit was raised in this window
	refused    int64     // requests that a budget had too little left for
	warned     bool

	// Of a budget that is shared, by the last reply of the store.
	grant     grant
	others    cost.Nano // what other gateways have used
	elsewhere cost.Nano // what was granted to them besides
}

// left returns what is left of a budget for another hold.
func (w *window) left(b *config.Budget) cost.Nano {
	if b.Strict {
		return b.Limit + w.credit - w.spent - w.held
	}
	return b.Limit + w.credit - w.spent - w.estimated
}

// roll begins the windows that a time is in. It returns the time, or the latest one before, if that is later: requests read the clock
// before they take the lock, and clocks are set back.
func (u *usage) roll(now time.Time, zone *time.Location) time.Time {
	if now.Before(u.latest) {
		return u.latest
	}
	u.latest = now
	for p := range u.windows {
		w, per := &u.windows[p], config.Period(p)
		if per != config.PerTotal && !now.Before(w.end) {
			*w = window{}
			w.start, w.end = per.Window(now, zone)
		}
	}
	return now
}

// drain drains the buckets of rates up to now.
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

// restore counts what the journal knows. at is the time of windows.
func (u *usage) restore(e *Entry, zone *time.Location, at, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.roll(at, zone)
	for p := range u.windows {
		if w := &u.windows[p]; !e.At.Before(w.start) {
			w.spent = w.spent.Plus(e.Cost)
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

// adjust raises the limit of a budget in the window that is current, if c is of that.
func (u *usage) adjust(c *Adjustment, zone *time.Location, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.roll(now, zone)
	w := &u.windows[c.Per]
	if c.At.Before(w.start) {
		return
	}
	w.credit += c.Credit
	w.warned = false
	u.credits = slices.DeleteFunc(u.credits, func(c credit) bool { return !c.window.Contains(now) })
	if u.shared != nil {
		u.shared.dirty = true
	}
	u.credits = append(u.credits, credit{window: Window{c.Per, w.start, w.end}, amount: c.Credit, id: cmp.Or(c.ID, strconv.FormatInt(c.At.UnixNano(), 10))})
}

// pending returns by how much credits that the store does not know raise a budget in a window.
func (u *usage) pending(w *Window) (sum cost.Nano) {
	for i := range u.credits {
		if c := &u.credits[i]; !c.known && c.window.Per == w.Per && c.window.Start.Equal(w.Start) {
			sum += c.amount
		}
	}
	return sum
}
