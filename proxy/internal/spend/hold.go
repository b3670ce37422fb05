package spend

import (
	"cmp"
	"fmt"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
)

// Hold is what a request holds of the limits and budgets of its scopes. The zero value holds nothing. A Hold must not
// be copied while it holds something.
type Hold struct {
	accounts [kinds]*Account // nil for a kind without an account
	tokens   [kinds]int64    // reserved tokens, for accounts with a token rate
	held     cost.Nano       // reserved in strict budgets
	estimate cost.Nano       // reserved in other budgets
	unknown  cost.Nano       // part of both that budgets which release unknown outcomes do not reserve
	at       time.Time
	id       ID
	request  uint64
	counted  bool  // counts as a request in flight
	recorded bool  // the journal has it
	settled  uint8 // bit set of the accounts that have been settled
	lowered  int64 // see Lowered
}

// Scopes are the accounts of a request, indexed by Kind; nil for a scope without limits and budgets.
type Scopes [kinds]*Account

// Reserve reserves what a request may need in all its scopes, or returns an error and reserves nothing. If the longest
// possible response does not fit a budget, Lowered returns the limit to set for its tokens. h must hold nothing.
func (h *Hold) Reserve(scopes Scopes, n *Need, now time.Time) *apierror.Error {
	if scopes == (Scopes{}) {
		return nil
	}
	var asked asking
	book, lacks, e := h.reserve(&scopes, n, now, &asked)
	var began time.Time
	for round := 1; lacks != 0; round++ {
		if round == 1 {
			began = time.Now()
		}
		if book.sync.requestGrants(&scopes, lacks, &asked) {
			asked.answered |= lacks
		} else {
			asked.late = time.Since(began) >= maxLate*book.sync.timeout
		}
		asked.last = round == maxRounds
		book, lacks, e = h.reserve(&scopes, n, now, &asked)
	}
	if e != nil {
		*h = Hold{}
		return e
	}
	if book.journal == nil || !scopes.Budgeted() || n.Request == 0 && h.held == 0 && h.estimate == 0 {
		return nil
	}
	r := h.record()
	r.Amount = h.held
	if err := book.journal.Hold(&r); err != nil {
		h.Settle(Used{}, now)
		return scopes.unrecorded(err)
	}
	h.recorded = true
	return nil
}

// Amount returns what is reserved in budgets: the most that the request can cost if one of them is strict, else its
// probable cost.
func (h *Hold) Amount() cost.Nano { return cmp.Or(h.held, h.estimate) }

// Check returns the error that Reserve would return, but reserves and counts nothing and does not ask the store: what
// other gateways have left counts as free.
func (s Scopes) Check(n *Need, now time.Time) (e *apierror.Error) {
	if s != (Scopes{}) {
		_, _, e = new(Hold).reserve(&s, n, now, &asking{only: true})
	}
	return e
}

// countRefused counts a request that does not fit a budget.
func (w *window) countRefused(asked *asking) {
	if !asked.only {
		w.refused++
	}
}

// maxRounds bounds how often a request asks the store while other requests of this gateway use up what it was granted.
const maxRounds = 8

// maxLate is how many times the timeout a request waits at most for a store that is late.
const maxLate = 2

// reserve reserves what a request may need. If the gateway has been granted too little in some scopes, it reserves
// nothing and returns them as a bit set, lacks; the caller then asks the store for more.
func (h *Hold) reserve(scopes *Scopes, n *Need, now time.Time, asked *asking) (book *Book, lacks uint8, e *apierror.Error) {
	*h = Hold{}
	at := now
	defer scopes.unlock()
	for _, a := range scopes {
		if a != nil {
			if book == nil {
				book = a.book
				at = book.windowTime(now)
			}
			a.usage.mu.Lock()
			at = a.usage.roll(at, book.zone)
		}
	}
	// Roll all windows to the same time, which becomes the time of the hold.
	for i, a := range scopes {
		if a == nil {
			continue
		}
		a.usage.roll(at, book.zone)
		a.usage.drain(&a.limits, now)
		if h.tokens[i], e = a.checkRates(n); e != nil {
			return book, 0, e
		}
		short, e := a.checkSharedRates(i, n, h.tokens[i], now, asked)
		if e != nil {
			return book, 0, e
		}
		if short {
			lacks |= 1 << i
		}
	}
	short, e := h.fit(scopes, n, asked)
	if e != nil {
		return book, 0, e
	}
	if asked.only {
		return book, 0, nil
	}
	if lacks |= short; lacks != 0 {
		h.addWants(scopes, n, now, lacks, asked)
		return book, lacks, nil
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
		if u.shared != nil {
			u.shared.use(n, now)
			if asked.rounds[i] == u.shared.round+1 {
				h.addWant(i, a, n, -1)
			}
		}
		u.reserved += h.tokens[i]
		for p := range u.windows {
			unheld := a.releasable(p, h.unknown)
			u.windows[p].held += h.held - unheld
			u.windows[p].estimated += h.estimate - unheld
		}
	}
	h.accounts, h.at, h.counted = *scopes, at, !n.Again
	h.id, h.request = ID{book.process, book.number.Add(1)}, n.Request
	return book, 0, nil
}

func (s *Scopes) unlock() {
	for _, a := range s {
		if a != nil {
			a.usage.mu.Unlock()
		}
	}
}

// checkRates checks an account's own counts against its limits, and returns how many tokens the request reserves.
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
	// A request that may need more than the limit needs the whole limit.
	reserved = min(n.Prompt+n.Completion, limit)
	if wait := u.tokens.Wait(u.reserved+reserved, limit); wait > 0 {
		if u.reserved+reserved > limit {
			// Only the end of requests in flight can release enough tokens, and when that is, is unknown.
			wait = max(u.tokens.Reset(limit), time.Second)
		}
		return 0, a.rateLimited(LimitTokens, wait, u.remainingTokens(limit), reserved)
	}
	return reserved, nil
}

// fit sets what the request holds of the budgets, or returns an error if it does not fit one. lacks is the bit set of
// the scopes with a budget of which too little is granted and the store may have more.
func (h *Hold) fit(scopes *Scopes, n *Need, asked *asking) (lacks uint8, e *apierror.Error) {
	h.held, h.estimate, h.unknown = n.Ceiling(), n.Estimate, n.Uncertain
	shared := false
	for i, a := range scopes {
		if a == nil {
			continue
		}
		for j := range a.budgets {
			b := &a.budgets[j]
			w := &a.usage.windows[b.Per]
			left, unreachable := w.left(b), false
			if a.sharesBudget(b) {
				shared = true
				need, free := h.need(b, n), w.free(b)
				switch a.grantState(i, &w.grant, int64(need), int64(free), b.WhenDown, asked) {
				case nothing:
					left = min(left, free)
				case down:
					if b.WhenDown == config.DownDeny {
						return 0, a.storeDown(budgetError(b))
					}
					left, unreachable = min(left, free), true
				}
			}
			switch {
			case !b.Strict:
				if h.need(b, n) <= max(left, 0) {
					continue
				}
				if unreachable {
					return 0, a.storeDown(budgetError(b))
				}
				w.countRefused(asked)
				return 0, a.exceeds(b, w, n.Estimate, "The request is estimated to cost")
			case h.need(b, n) > max(left, 0):
				tokens := int64(0)
				if left > n.Fixed {
					tokens = tokensFor(n.PerMillion, left-n.Fixed)
				}
				if least := min(MinTokens, n.MaxTokens); tokens < least || tokens == 0 {
					if unreachable {
						return 0, a.storeDown(budgetError(b))
					}
					lead := "The request may cost up to"
					if least < n.MaxTokens {
						lead = fmt.Sprintf("With a response of %d tokens, the request may cost up to", least)
					}
					w.countRefused(asked)
					return 0, a.exceeds(b, w, n.Fixed.Plus(tokenCost(n.PerMillion, least)), lead)
				}
				h.lowered, h.held = tokens, n.Fixed+tokenCost(n.PerMillion, tokens)
			}
		}
	}
	if !shared {
		return 0, nil
	}
	for i, a := range scopes {
		if a == nil {
			continue
		}
		for j := range a.budgets {
			b := &a.budgets[j]
			w := &a.usage.windows[b.Per]
			if a.sharesBudget(b) && a.grantState(i, &w.grant, int64(h.need(b, n)), int64(w.free(b)), b.WhenDown, asked) == ask {
				lacks |= 1 << i
			}
		}
	}
	return lacks, nil
}

// need returns how much of a budget a request needs.
func (h *Hold) need(b *config.Budget, n *Need) cost.Nano {
	unheld := cost.Nano(0)
	if b.ReleaseUnknown {
		unheld = n.Uncertain
	}
	if b.Strict {
		return h.held - unheld
	}
	return n.Estimate - unheld
}

// releasable returns how much of an uncertain amount the account's budget of a period releases.
func (a *Account) releasable(per int, uncertain cost.Nano) cost.Nano {
	if a.releases&(1<<per) != 0 {
		return uncertain
	}
	return 0
}

// Lowered returns the number of tokens to which each choice of the response must be limited to fit the budgets, or 0 if
// it fits without a lower limit.
func (h *Hold) Lowered() int64 { return h.lowered }

// Held reports whether anything is held. A nil Hold holds nothing.
func (h *Hold) Held() bool { return h != nil && !h.at.IsZero() }

// Settle replaces the hold by what the request has used, which is nothing for a request that was never sent. Further
// calls do nothing, except that a call after one that has panicked does what is left to do.
func (h *Hold) Settle(used Used, now time.Time) {
	if !h.Held() {
		return
	}
	var book *Book
	var warned [kinds]*config.Budget
	for i, a := range h.accounts {
		if a == nil {
			continue
		}
		book = a.book
		if h.settled&(1<<i) == 0 {
			h.settled |= 1 << i
			warned[i] = a.settle(h, i, used, now)
		}
	}
	if h.recorded {
		h.recorded = false
		r := h.record()
		r.Amount, r.Uncertain, r.Tokens = used.Cost, used.Uncertain, used.Tokens
		book.journal.Settle(&r)
	}
	accounts, held := h.accounts, h.held
	*h = Hold{}
	if book.events != nil {
		book.notify(&accounts, held, used, &warned)
	}
}

// settle settles a hold in one account. It returns a budget that has thereby reached its warning threshold, or nil.
func (a *Account) settle(h *Hold, i int, used Used, now time.Time) (warned *config.Budget) {
	u := a.usage
	u.mu.Lock()
	defer u.mu.Unlock()
	u.roll(a.book.windowTime(now), a.book.zone)
	if h.counted {
		u.inflight--
	}
	u.reserved -= h.tokens[i]
	if a.limits.TokensPerMinute > 0 {
		u.drain(&a.limits, now)
		u.tokens.Add(used.Tokens)
	}
	if u.shared != nil {
		u.shared.settle(used.Tokens, now)
	}
	for p := range u.windows {
		if w := &u.windows[p]; !h.at.Before(w.start) {
			unheld := a.releasable(p, h.unknown)
			w.held -= h.held - unheld
			w.estimated -= h.estimate - unheld
			a.spend(p, used.Cost, used.Uncertain)
		}
	}
	for j := range a.budgets {
		b := &a.budgets[j]
		if w := &u.windows[b.Per]; b.Warn > 0 && !w.warned && float64(w.spent+w.others) >= b.Warn*float64(b.Limit+w.credit) {
			w.warned, warned = true, b
		}
	}
	return warned
}

// notify sends the events of the settlement of a hold on the accounts.
func (b *Book) notify(accounts *[kinds]*Account, held cost.Nano, used Used, warned *[kinds]*config.Budget) {
	for i, a := range accounts {
		if a == nil {
			continue
		}
		if w := warned[i]; w != nil {
			b.events(Event{Kind: EventWarned, Scope: a.shown(), Per: w.Per, Amount: w.Limit})
		}
		if over := used.Cost - held; over > 0 && len(a.budgets) > 0 {
			b.events(Event{Kind: EventExceededHold, Scope: a.shown(), Amount: over})
		}
	}
}

// record returns the journal's record of the hold, without amounts.
func (h *Hold) record() Record {
	r := Record{ID: h.id, Request: h.request, At: h.at, Scopes: make([]Scope, 0, kinds)}
	for _, a := range h.accounts {
		if a != nil {
			r.Scopes = append(r.Scopes, a.scope)
		}
	}
	return r
}
