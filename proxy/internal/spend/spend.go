// Package spend bounds what keys, their users, teams, models and providers use and spend: requests and tokens a minute, requests in
// flight, and budgets of money in calendar windows. Before a request is sent, it reserves what it may need of all its
// scopes, or of none. When its usage is known, it settles the reservation. In between, the reservation is a hold.
// Spending and holds together never exceed a strict budget, however requests race, unless a provider reports more usage
// than the most that seemed possible.
//
// Several gateways share limits and budgets through a Store. It grants each gateway parts of what is left; the grants
// together never exceed the limit. A gateway reserves and settles within its grants without asking the store. A request
// makes a round trip only if the grants do not suffice. It then asks for a larger part, which near the limit shrinks to
// what the request needs. Usage is reported in the background, as totals, and unused grants are given back. Windows
// follow the store's clock. While the store is down, each limit follows its configured mode: its requests are rejected,
// served from the remaining grants, or counted as if there were no store.
//
// The package owns the counts, their windows and the wording of rejections. It does not count tokens, know prices or
// write files: a Journal persists what must survive a restart.
//
// Concurrency: a Book and an Account are safe for concurrent use. A Hold belongs to its request. A request has at most
// one usage of each Kind, and locks them in the order of Kind. No lock is held during a round trip.
package spend

import (
	"errors"
	"math"
	"math/bits"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
)

// Kind is the kind of a scope.
type Kind uint8

// The kinds, in the order in which usages are locked.
const (
	Key Kind = iota
	Team
	Model
	Provider
	User // a person behind a key

	kinds = int(User) + 1
)

var kindNames = [kinds]string{"key", "team", "model", "provider", "user"}

// String returns the kind's name in the configuration.
func (k Kind) String() string { return kindNames[k] }

// Scope is a key, team, model, provider or user.
type Scope struct {
	Kind Kind
	Name string
}

// String returns "key NAME".
func (s Scope) String() string { return s.Kind.String() + " " + s.Name }

// Need is what a request may need at the most expensive target that it may be sent to.
type Need struct {
	// Prompt and Completion are estimated token counts, for rate limits.
	Prompt, Completion int64

	// Fixed is the most that everything except the response can cost. PerMillion is the price of a million response
	// tokens of each choice, for all choices together. MaxTokens is the limit for one choice that is sent to the
	// provider.
	Fixed, PerMillion cost.Nano
	MaxTokens         int64

	// Estimate is the probable cost of the request, for budgets that are not strict.
	Estimate cost.Nano

	// Uncertain is the part of Fixed and Estimate that is booked for unknown outcomes. Budgets that release those do not
	// hold it.
	Uncertain cost.Nano

	// Request is an ID of the request that is unique across processes; 0 if nothing is persisted.
	Request uint64

	// Again marks a further attempt while the first one of the same request is still in flight. It does not count as
	// another request.
	Again bool
}

// Used is what a request has used.
type Used struct {
	Tokens    int64
	Cost      cost.Nano
	Uncertain cost.Nano // part of Cost that is booked for unknown outcomes
}

// Plus returns the sum.
func (u Used) Plus(o Used) Used {
	return Used{u.Tokens + o.Tokens, u.Cost.Plus(o.Cost), u.Uncertain.Plus(o.Uncertain)}
}

// MinTokens is the lowest limit to which the tokens of a response are lowered to fit a budget. A shorter response would
// be useless.
const MinTokens = 1024

// ID identifies a hold in the journal. It is unique across processes.
type ID struct{ Process, Number uint64 }

// Record is a hold or its settlement, as it is persisted. At is the time of the hold; its settlement counts in the
// windows of that time.
type Record struct {
	ID      ID
	Request uint64 // ID of the request that made the hold
	At      time.Time
	Scopes  []Scope   // the request's scopes that have budgets or limits
	Amount  cost.Nano // amount held or, in a settlement, spent
	Tokens  int64     // tokens used, in a settlement

	Uncertain cost.Nano // part of Amount that is booked for unknown outcomes, in a settlement
}

// Adjustment adds Credit to what is left of a budget in the window that contains At.
type Adjustment struct {
	Scope  Scope
	Per    config.Period
	At     time.Time
	Credit cost.Nano
	Reason string
	ID     string // a second adjustment with the same ID is rejected; may be ""

	Released cost.Nano // how much of the uncertain amounts that the budget has spent is thereby given back
}

// ErrRepeated is returned for an Adjustment with the ID of an earlier one. It has no effect.
var ErrRepeated = errors.New("a change with this ID was made before")

// Entry is earlier usage of a scope, for a Book that starts.
type Entry struct {
	Scope    Scope
	At       time.Time // time of the hold; if several requests are summed up, the start of a window that contains them
	Requests int64
	Tokens   int64
	Cost     cost.Nano // settled, or held and never settled

	Uncertain cost.Nano // part of Cost that is booked for unknown outcomes
}

// Journal persists what must survive a restart.
type Journal interface {
	// Hold persists a hold. Once it has returned nil, the hold survives the end of the process. It does not retain the
	// record.
	Hold(*Record) error

	// Settle persists the settlement of a hold. It does not wait for the disk.
	Settle(*Record)

	// Adjust persists a budget adjustment.
	Adjust(*Adjustment) error

	// Replay calls used and adjusted with the earlier usage and adjustments of the wanted scopes, in any order. Each
	// hold counts once: as settled or, if it never was, at its full amount.
	Replay(want func(Scope) bool, used func(Entry), adjusted func(Adjustment)) error

	// Used is like Replay for one scope, in a time that does not depend on how many scopes there are. It reports whether
	// anything is persisted.
	Used(s Scope, used func(Entry), adjusted func(Adjustment)) bool
}

// tokenCost returns the cost of tokens at a price per million, rounded up. It saturates at math.MaxInt64.
func tokenCost(perMillion cost.Nano, tokens int64) cost.Nano {
	high, low := bits.Mul64(uint64(max(perMillion, 0)), uint64(max(tokens, 0)))
	if high >= 1e6 {
		return math.MaxInt64
	}
	amount, rest := bits.Div64(high, low, 1e6)
	if rest > 0 {
		amount++
	}
	return cost.Nano(min(amount, math.MaxInt64))
}

// tokensFor returns how many tokens an amount pays for at a price per million.
func tokensFor(perMillion, money cost.Nano) int64 {
	if perMillion <= 0 {
		return math.MaxInt64
	}
	high, low := bits.Mul64(uint64(max(money, 0)), 1e6)
	if high >= uint64(perMillion) {
		return math.MaxInt64
	}
	tokens, _ := bits.Div64(high, low, uint64(perMillion))
	return int64(min(tokens, math.MaxInt64))
}
