package spend

import (
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
)

// Hold is what a request holds of its scopes. The zero value holds nothing. It must not be copied while it holds something.
type Hold struct {
	accounts [kinds]*Account // nil: not of this scope
	tokens   [kinds]int64    // reserved, of those with a rate of tokens
	held     cost.Nano
	estimate cost.Nano
	at       time.Time
	id       ID
	request  uint64
	counted  bool // among the requests in flight
	recorded bool // in the journal
	lowered  int64
}

// Scopes are the accounts of a request, one of each kind; nil for a scope without limits and budgets.
type Scopes [kinds]*Account

// Reserve reserves what a request may need of all its scopes, or nothing. If its response does not fit a budget, Lowered says to what
// its tokens must be lowered. h must hold nothing.
func (h *Hold) Reserve(scopes Scopes, n *Need, now time.Time) *apierror.Error {
	if scopes == (Scopes{}) {
		return nil
	}
	book, e := h.reserve(scopes, n, now)
	if e != nil {
		*h = Hold{}
		return e
	}
	if book.journal == nil || !scopes.Budgeted() {
		return nil
	}
	r := h.record()
	r.Amount = h.held
	if err := book.journal.Hold(&r); err != nil {
		h.Settle(Used{}, now)
		return unavailable(err)
	}
	h.recorded = true
	return nil
}

func (h *Hold) reserve(scopes Scopes, n *Need, now time.Time) (book *Book, e *apierror.Error) {
	*h = Hold{}
	for _, a := range scopes {
		if a != nil {
			book = a.book
			a.usage.mu.Lock()
			defer a.usage.mu.Unlock()
			now = a.usage.roll(now, book.zone)
		}
	}
	// All windows roll to the same time, which is then that of the hold.
	for i, a := range scopes {
		if a == nil {
			continue
		}
		a.usage.roll(now, book.zone)
		a.usage.drain(&a.limits, now)
		if h.tokens[i], e = a.checkRates(n); e != nil {
			return book, e
		}
	}
	if e := h.fit(scopes, n); e != nil {
		return book, e
	}
	for i, a := range scopes {
		if a == nil {
			continue
		}
		u := a.usage
		if !n.Again {
			u.inflight++
			if a.limits.RequestsPerMinute > 0 {
				u.requests.Add(1)
			}
		}
		u.reserved += h.tokens[i]
		for p := range u.windows {
			u.windows[p].held += h.held
			u.windows[p].estimated += h.estimate
		}
	}
	h.accounts, h.at, h.counted = scopes, now, !n.Again
	h.id, h.request = ID{book.process, book.number.Add(1)}, n.Request
	return book, nil
}

// checkRates checks the rates of an account, and returns how many tokens the request reserves of it.
func (a *Account) checkRates(n *Need) (reserved int64, e *apierror.Error) {
	u, l := a.usage, &a.limits
	if l.Concurrent > 0 && u.inflight >= l.Concurrent && !n.Again {
		return 0, a.rateLimited(LimitConcurrent, time.Second, 0, 0)
	}
	if l.RequestsPerMinute > 0 && !n.Again {
		if wait := u.requests.Wait(1, l.RequestsPerMinute); wait > 0 {
			return 0, a.rateLimited(LimitRequests, wait, 0, 0)
		}
	}
	limit := l.TokensPerMinute
	if limit == 0 {
		return 0, nil
	}
	if n.Prompt > limit {
		return 0, a.promptTooLong(n.Prompt)
	}
	// A request that may need more than the limit waits for all of it, and no longer.
	reserved = min(n.Prompt+n.Completion, limit)
	if wait := u.tokens.Wait(u.reserved+reserved, limit); wait > 0 {
		if u.reserved+reserved > limit {
			// Only requests in flight can release tokens, and it is unknown when.
			wait = max(u.tokens.Reset(limit), time.Second)
		}
		return 0, a.rateLimited(LimitTokens, wait, u.remainingTokens(limit), reserved)
	}
	return reserved, nil
}

// fit decides what the request holds of the budgets, or which of them it does not fit.
func (h *Hold) fit(scopes Scopes, n *Need) *apierror.Error {
	h.held, h.estimate = n.Ceiling(), n.Estimate
	for _, a := range scopes {
		if a == nil {
			continue
		}
		for i := range a.budgets {
			b := &a.budgets[i]
			w := &a.usage.windows[b.Per]
			left := w.left(b)
			switch {
			case !b.Strict:
				if n.Estimate > max(left, 0) {
					return a.spent(b, w, n.Estimate)
				}
			case h.held > max(left, 0):
				tokens := int64(0)
				if left > n.Fixed {
					tokens = tokensFor(n.PerMillion, left-n.Fixed)
				}
				if least := min(MinTokens, n.MaxTokens); tokens < least || tokens == 0 {
					return a.spent(b, w, n.Fixed.Plus(costOf(n.PerMillion, least)))
				}
				h.lowered, h.held = tokens, n.Fixed+costOf(n.PerMillion, tokens)
			}
		}
	}
	return nil
}

// Lowered returns to how many tokens each choice of the response must be limited for it to fit the budgets; 0 if it fits as it is.
func (h *Hold) Lowered() int64 { return h.lowered }

// Held reports whether anything is held. A nil Hold holds nothing.
func (h *Hold) Held() bool { return h != nil && !h.at.IsZero() }

// Settle counts what a request has used in the place of what it holds. Further calls do nothing. A request that was never sent has used
// nothing.
func (h *Hold) Settle(used Used, now time.Time) {
	if !h.Held() {
		return
	}
	var book *Book
	var warned [kinds]*config.Budget
	for i, a := range h.accounts {
		if a != nil {
			book = a.book
			warned[i] = a.settle(h, i, used, now)
		}
	}
	if h.recorded {
		r := h.record()
		r.Amount, r.Tokens = used.Cost, used.Tokens
		book.journal.Settle(&r)
	}
	if book.events != nil {
		h.notify(book, used, &warned)
	}
	*h = Hold{}
}

// settle settles a hold in one account, and returns the budget whose share for a warning has been spent by it, nil if none.
func (a *Account) settle(h *Hold, i int, used Used, now time.Time) (warned *config.Budget) {
	u := a.usage
	u.mu.Lock()
	defer u.mu.Unlock()
	now = u.roll(now, a.book.zone)
	if h.counted {
		u.inflight--
	}
	u.reserved -= h.tokens[i]
	if a.limits.TokensPerMinute > 0 {
		u.drain(&a.limits, now)
		u.tokens.Add(used.Tokens)
	}
	for p := range u.windows {
		if w := &u.windows[p]; !h.at.Before(w.start) {
			w.held -= h.held
			w.estimated -= h.estimate
			w.spent = w.spent.Plus(used.Cost)
		}
	}
	for j := range a.budgets {
		b := &a.budgets[j]
		if w := &u.windows[b.Per]; b.Warn > 0 && !w.warned && float64(w.spent) >= b.Warn*float64(b.Limit+w.credit) {
			w.warned, warned = true, b
		}
	}
	return warned
}

// notify tells of what operators should know.
func (h *Hold) notify(book *Book, used Used, warned *[kinds]*config.Budget) {
	for i, a := range h.accounts {
		if a == nil {
			continue
		}
		if b := warned[i]; b != nil {
			book.events(Event{Kind: EventWarned, Scope: a.scope, Per: b.Per, Amount: b.Limit})
		}
		if over := used.Cost - h.held; over > 0 && len(a.budgets) > 0 {
			book.events(Event{Kind: EventExceededHold, Scope: a.scope, Amount: over})
		}
	}
}

// record returns the hold as the journal has it, without amounts.
func (h *Hold) record() Record {
	r := Record{ID: h.id, Request: h.request, At: h.at, Scopes: make([]Scope, 0, kinds)}
	for _, a := range h.accounts {
		if a != nil {
			r.Scopes = append(r.Scopes, a.scope)
		}
	}
	return r
}
