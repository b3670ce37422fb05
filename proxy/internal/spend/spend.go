// Package spend bounds what keys, teams, models and providers use and spend: requests and tokens a minute, requests in flight, and
// budgets of money in calendar windows.
//
// A request reserves what it may need of all its scopes at once, or of none, before it is sent, and settles what it has used once it is
// known. Between the two the reservation is a hold. What is settled and held of a strict budget together never exceeds it, whatever
// requests race; only a provider that reports more than the most that was possible can.
//
// Several gateways share limits and budgets by a Store. It grants each of them parts of what is left, which never exceed the limit together,
// and a gateway reserves and settles within what it was granted, by itself. Only a request for which that does not suffice makes a round
// trip, and asks for more; near a limit, that is as much as the request needs. What was used is reported in the background, in totals, and
// what nobody uses is given back. Windows are those of the store's clock. While the store is down, each limit is in the mode that is
// configured for it: its requests are refused, served from what is granted, or counted as if there were no store.
//
// It owns the counts, their windows, and the words of a refusal. It does not count tokens, know prices, or write files: a Journal
// persists what must survive a restart.
//
// Concurrency: a Book and an Account are safe for concurrent use. A Hold belongs to its request. Locks of several usages are taken in
// the order of Kind, of which a request has one each, and none is held during a round trip.
package spend

import (
	"errors"
	"math"
	"math/bits"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
)

// Kind is what a scope is of.
type Kind uint8

// The kinds, in the order in which usages are locked.
const (
	Key Kind = iota
	Team
	Model
	Provider

	kinds = int(Provider) + 1
)

var kindNames = [kinds]string{"key", "team", "model", "provider"}

// String returns the kind's name, as in the configuration.
func (k Kind) String() string { return kindNames[k] }

// Scope is a key, team, model or provider.
type Scope struct {
	Kind Kind
	Name string
}

// String returns "key NAME".
func (s Scope) String() string { return s.Kind.String() + " " + s.Name }

// Need is what a request may need, at the dearest target that it may be sent to.
type Need struct {
	// Prompt and Completion are estimates of tokens, for rates.
	Prompt, Completion int64

	// Fixed is the most that all but the response can cost, and PerMillion what a million tokens of the response cost, all choices
	// together. MaxTokens is the limit of one choice that the provider is sent.
	Fixed, PerMillion cost.Nano
	MaxTokens         int64

	// Estimate is what the request probably costs, for budgets that are not strict.
	Estimate cost.Nano

	// Request identifies the request among those of all processes; 0 where nothing is persisted.
	Request uint64

	// Again is for a further attempt while the first one of a request is under way: it is no further request.
	Again bool
}

// Used is what a request has used.
type Used struct {
	Tokens int64
	Cost   cost.Nano
}

// MinTokens is the least that the tokens of a response are lowered to for it to fit a budget: what is shorter helps nobody.
const MinTokens = 1024

// ID is the identity of a hold in the journal. No two are the same, of whatever process.
type ID struct{ Process, Number uint64 }

// Record is a hold, as it is persisted. At is when it was made: what it settles counts in the windows of that time.
type Record struct {
	ID      ID
	Request uint64 // of which it is a hold
	At      time.Time
	Scopes  []Scope   // those with budgets or limits
	Amount  cost.Nano // held, or settled
	Tokens  int64     // settled
}

// Adjustment changes what is left of a budget in the window that At is in: Credit is added to it.
type Adjustment struct {
	Scope  Scope
	Per    config.Period
	At     time.Time
	Credit cost.Nano
	Reason string
	ID     string // of the change, which is made once; "": it has none
}

// ErrRepeated is the error of an Adjustment whose ID is that of one before: nothing is changed.
var ErrRepeated = errors.New("a change with this ID was made before")

// Entry is what one scope has used, for a Book that starts.
type Entry struct {
	Scope    Scope
	At       time.Time // when its hold was made; of several requests together, when a window of all of them began
	Requests int64
	Tokens   int64
	Cost     cost.Nano // settled, or held by a hold that was never settled
}

// Journal persists what must survive a restart.
type Journal interface {
	// Hold persists a hold: after it has returned nil, the end of the process does not lose it. The record is not retained.
	Hold(*Record) error

	// Settle persists what a hold has become. It does not wait.
	Settle(*Record)

	// Adjust persists a change of what is left of a budget.
	Adjust(*Adjustment) error

	// Replay calls used and adjusted with what is known of the scopes that are wanted, in any order. Each hold counts once: with what was
	// settled, or else with all of it.
	Replay(want func(Scope) bool, used func(Entry), adjusted func(Adjustment)) error
}

// costOf returns what tokens cost, rounded up. It is math.MaxInt64 at most.
func costOf(perMillion cost.Nano, tokens int64) cost.Nano {
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

// tokensFor returns how many tokens money pays for.
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
