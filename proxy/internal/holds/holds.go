// Package holds keeps what one request holds from its admission until it is settled: its share of the gateway's
// capacity, and what it may use at most of the limits and budgets of its key, user, team and model. A hedge and failed
// attempts have further holds on the same accounts, and each attempt has one on its provider's (Attempt).
//
// Package estimate computes what a request may need, package booking what it is booked at if its outcome is unknown, and
// package spend counts. The holds of a request whose attempts run on several goroutines are settled on one.
//
// Concurrency: a Holds belongs to the goroutine that serves its request or, once detached, to the one that settles it.
package holds

import (
	"cmp"
	"slices"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/admission"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/booking"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/estimate"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/catalog"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
)

// Holds is what one request holds. The zero value holds nothing.
type Holds struct {
	Reservation admission.Reservation
	ID          uint64          // the request's ID in the journal; 0 without one
	AdmittedAt  time.Time       // when the limits and budgets were reserved
	SettledAt   time.Time       // when the request was accounted; zero before
	Limit       *apierror.Error // why a target was skipped: for its provider's limits or budgets, or without a price; nil if none was

	accounts   *spend.Accounts
	scopes     spend.Scopes // of the key, its user, the team and the model
	model      *catalog.Model
	need       spend.Need      // estimate of what the request uses
	request    spend.Hold      // on scopes
	hedge      *spend.Hold     // on scopes, for a hedge; nil if there is none
	failed     *booking.Failed // usage of attempts whose response is not used; nil if there is none
	prompt     spend.Prompt    // what need was computed from; zero without a budget
	maxTokens  int64           // token limit per choice, if a budget bounds the cost; else 0
	strict     bool            // a strict budget may bound the cost
	pricedOnly bool            // a budget in scopes admits only targets with a price
}

// Attempt is what an attempt at a target holds.
type Attempt struct {
	booking.Held             // what it may use at most
	hold         *spend.Hold // on the provider's account; nil if that has neither limits nor budgets
}

// Settle replaces the hold on the provider's account by what the attempt has used. Further calls do nothing.
func (a *Attempt) Settle(used spend.Used, now time.Time) { a.hold.Settle(used, now) }

// Open sets the accounts of a request. id is its ID in the journal, 0 without one, and user may be nobody.
func (h *Holds) Open(id uint64, accounts *spend.Accounts, key *access.Key, user access.User, m *catalog.Model, now time.Time) {
	h.ID, h.accounts, h.model = id, accounts, m
	h.scopes = ClientScopes(accounts, key, user, now)
	h.scopes[spend.Model] = accounts.Account(spend.Model, m.ID)
	h.pricedOnly = h.scopes.PricedOnly()
}

// User returns the account of the request's user; nil without one.
func (h *Holds) User() *spend.Account { return h.scopes[spend.User] }

// ClientScopes returns the accounts of a client: of its key, its team and its user, who may be nobody.
func ClientScopes(accounts *spend.Accounts, key *access.Key, user access.User, now time.Time) spend.Scopes {
	scopes := spend.Scopes{spend.Key: KeyAccount(accounts, key, now), spend.Team: accounts.Account(spend.Team, key.Team())}
	if user != (access.User{}) {
		u := key.Users()
		scopes[spend.User] = accounts.User(key.Name(), user.Account, key.Name()+"/"+user.Name, &u.Bounds, u.Max, now)
	}
	return scopes
}

// KeyAccount returns the account of a key or a principal; nil if it has neither limits nor budgets.
func KeyAccount(accounts *spend.Accounts, key *access.Key, now time.Time) *spend.Account {
	if rights := key.Principal(); rights != nil {
		return accounts.Principal(key.Account(), key.Name(), rights, now)
	}
	return accounts.Account(spend.Key, key.Name())
}

// OpenCopy sets the accounts of a copy of a request, which only counts for its provider.
func (h *Holds) OpenCopy(id uint64, of *Holds) {
	h.ID, h.accounts, h.model, h.maxTokens = id, of.accounts, of.model, of.maxTokens
}

// BudgetLeft returns the share of the tightest budget that is not spent.
func (h *Holds) BudgetLeft(now time.Time) (left routing.BudgetShare) {
	left.Left, left.Of = h.scopes.Left(now)
	return left
}

// CheckTargets returns an error if none of the targets has a price and a budget requires one.
func (h *Holds) CheckTargets(targets []routing.Target) *apierror.Error {
	if !h.pricedOnly || slices.ContainsFunc(targets, func(t routing.Target) bool { return t.Prices != nil }) {
		return nil
	}
	return h.scopes.CheckPriced(h.model.ID)
}

// CheckPriced returns an error if a target has no price and a budget of the request, or of the target's provider,
// requires one.
func (h *Holds) CheckPriced(t *routing.Target) *apierror.Error {
	if t.Prices != nil {
		return nil
	}
	var scopes spend.Scopes
	if h.pricedOnly {
		scopes = h.scopes
	}
	scopes[spend.Provider] = h.accounts.Account(spend.Provider, t.Provider)
	return scopes.CheckPriced(h.model.ID)
}

// Reserve reserves what the request may need on the accounts of its key, team and model, until Settle: one request and,
// after a call of Estimate, its tokens and its cost.
func (h *Holds) Reserve(now time.Time) *apierror.Error {
	h.AdmittedAt, h.need.Request = now, h.ID
	e := h.request.Reserve(h.scopes, &h.need, now)
	h.maxTokens = cmp.Or(h.request.Lowered(), h.maxTokens)
	return e
}

// Reserved returns the cost that Reserve has reserved in budgets.
func (h *Holds) Reserved() spend.Used { return spend.Used{Cost: h.request.Amount()} }

// Estimate computes what a request may need at any of the targets. at is where the request's API has its token limit.
func (h *Holds) Estimate(r clientapi.Request, at clientapi.LimitMembers, targets []routing.Target) {
	m, n := h.model, &h.need
	*n = estimate.Rates(r.Describe(), m.DefaultMaxTokens)
	h.strict = h.scopes.Strict() || h.accounts.Strict(spend.Provider)
	if !h.strict && !h.scopes.Budgeted() {
		return
	}
	n.MaxTokens = estimate.MaxTokens(r, at, m.MaxTokens, m.DefaultMaxTokens)
	h.prompt = estimate.Prompt(r)
	h.prompt.PerByte = m.TokensPerByte
	for i := range targets {
		estimate.AddTarget(n, r, &h.prompt, &targets[i], m.MaxImageTokens)
	}
	h.maxTokens = n.MaxTokens
}

// MaxTokens returns the token limit that each choice of the response must have so that a strict budget can bound its
// cost, 0 if there is none. A budget may have lowered it: see Lowered.
func (h *Holds) MaxTokens() int64 {
	if !h.strict {
		return 0
	}
	return h.need.MaxTokens
}

// Lowered returns the token limit to which the budgets have lowered the response's, 0 if they have not.
func (h *Holds) Lowered() int64 { return h.request.Lowered() }

// TokensPerByte returns how many tokens each byte of the prompt's text has if a provider has counted this many; 0 if it
// is unknown or there is no budget.
func (h *Holds) TokensPerByte(counted int64) float64 { return h.prompt.TokensPerByte(counted) }

// StartAttempt reserves what another attempt, at a target, may need. Otherwise it returns the reason, as a routing
// decision shows it.
func (h *Holds) StartAttempt(r clientapi.Request, t *routing.Target, stream bool, now time.Time) (a Attempt, reason string) {
	if e := h.CheckPriced(t); e != nil {
		h.Limit = cmp.Or(h.Limit, e) // a limit that is reached now may have room later
		return a, routing.Unpriced
	}
	if !h.HoldFailed(now) {
		return a, routing.BudgetSpent
	}
	a, e := h.HoldTarget(r, t, stream, now)
	if e != nil {
		h.Limit = e
		return a, routing.Spent
	}
	return a, ""
}

// HoldTarget reserves what an attempt at a target may need on the account of its provider. It does not lower the
// response's token limit to what the provider has left, because another target may serve the request unchanged.
func (h *Holds) HoldTarget(r clientapi.Request, t *routing.Target, stream bool, now time.Time) (a Attempt, e *apierror.Error) {
	held, scopes, own := h.targetNeed(r, t, stream)
	a.Held = held
	if scopes[spend.Provider] != nil {
		a.hold = new(spend.Hold)
		e = a.hold.Reserve(scopes, &own, now)
	}
	return a, e
}

// CheckTarget returns the error that HoldTarget would return, but reserves nothing.
func (h *Holds) CheckTarget(r clientapi.Request, t *routing.Target, stream bool, now time.Time) *apierror.Error {
	_, scopes, own := h.targetNeed(r, t, stream)
	return scopes.Check(&own, now)
}

// targetNeed returns what an attempt at a target may need, the account of its provider, and what is to be reserved on
// that.
func (h *Holds) targetNeed(r clientapi.Request, t *routing.Target, stream bool) (held booking.Held, scopes spend.Scopes, own spend.Need) {
	facts, m := r.Describe(), h.model
	held = booking.Held{Need: estimate.Rates(facts, m.DefaultMaxTokens), Prices: t.Prices, Choices: int64(facts.Generated()), Stream: stream}
	n := &held.Need
	n.MaxTokens = cmp.Or(h.maxTokens, facts.MaxTokens, m.MaxTokens)
	scopes[spend.Provider] = h.accounts.Account(spend.Provider, t.Provider)
	budgeted := scopes.Budgeted()
	if budgeted || h.need.Fixed > 0 {
		prompt := estimate.Prompt(r)
		prompt.PerByte = m.TokensPerByte
		estimate.AddTarget(n, r, &prompt, t, m.MaxImageTokens)
	}
	own = *n
	if !scopes.Strict() && !h.strict {
		n.Fixed, n.PerMillion = 0, 0
	}
	own.MaxTokens, own.Request = h.maxTokens, h.ID
	if budgeted {
		own.Fixed, own.MaxTokens = own.Ceiling(), 0
	}
	return held, scopes, own
}

// StartHedge reserves for a hedge as much as the first attempt has reserved, and reports whether that much is left.
func (h *Holds) StartHedge(now time.Time) bool {
	need := h.need
	need.Again = true
	if need.MaxTokens > 0 {
		need.MaxTokens = h.maxTokens // as in the document
	}
	h.hedge = new(spend.Hold)
	if h.hedge.Reserve(h.scopes, &need, now) != nil {
		return false
	}
	if h.hedge.Lowered() > 0 { // both attempts are sent the same document
		h.hedge.Settle(spend.Used{}, now)
		return false
	}
	return true
}

// SettleHedge settles the hold of a hedge that has failed.
func (h *Holds) SettleHedge(used spend.Used, now time.Time) { h.hedge.Settle(used, now) }

// AddFailed adds the usage of an attempt that has shared the request's hold, and whose response is not used.
func (h *Holds) AddFailed(used spend.Used) { h.failed = h.failed.Plus(used) }

// HoldFailed moves the usage of failed attempts to a hold of its own, so that the request's hold covers another attempt.
// It reports whether the budgets permit that.
func (h *Holds) HoldFailed(now time.Time) bool {
	return h.failed == nil || h.failed.Hold(h.scopes, h.ID, now)
}

// Detach moves what the request holds of limits and budgets to the result, for a response that the provider generates
// after the request has ended. The request keeps its share of the gateway's capacity.
func (h *Holds) Detach() *Holds {
	moved := *h
	moved.Reservation = admission.Reservation{}
	*h = Holds{Reservation: h.Reservation, ID: h.ID, AdmittedAt: h.AdmittedAt, SettledAt: h.SettledAt}
	return &moved
}

// Settle settles what the request holds of limits and budgets, at what its last attempt has used. cancelled is the usage
// of cancelled attempts, which belongs to the hedge's hold. Further calls do nothing.
func (h *Holds) Settle(used, cancelled spend.Used, now time.Time) {
	defer h.request.Settle(used, now) // if the rest panics
	failed := h.failed.Settle(now)
	if h.hedge.Held() {
		// An attempt was cancelled or has failed, and another one used the request's hold.
		h.hedge.Settle(failed.Plus(cancelled), now)
		failed = spend.Used{}
	}
	h.request.Settle(used.Plus(failed), now)
}
