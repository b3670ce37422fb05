package routing

import (
	"slices"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/canary"
)

// Decision is what Policy.Decide decided for a request, why, and what came of it. The text that explains it is made only when
// someone asks for it: AppendLine, AppendJSON.
//
// The zero value is ready for Decide. Its memory is used again for the next request; between two of them, Reset drops what it refers
// to. It is not safe for concurrent use.
type Decision struct {
	Affinity Hash          // by which targets were chosen; not known if none was
	Router   RouterOutcome // what came of asking the router plugin
	Words    string        // of the router plugin
	Err      error         // of a router plugin that failed
	Previous bool          // the first target is the one that has what the request goes on from

	policy      *Policy
	rule        *Rule   // that applied; nil: none
	router      *Router // that was asked; nil: none
	inCanary    bool    // the request belongs to the canary
	canaryBy    Hash    // by which that was decided; not known where it was drawn by lot, or the canary's target is left out
	canaryShare float64 // of the requests; 0: it was rolled back
	candidates  []candidate
	order       []int // indexes of policy.Targets, the first one first
	attempts    []Attempt
	shadows     []int // indexes of policy.Shadows: those that get a copy

	scratch []int
	input   []byte
}

// candidate is a target of the policy, by its index there.
type candidate struct {
	left  Left
	ready bool // its circuit was closed, and it was not in cooldown
	lot   lot
}

// Left is why a target is not among those that are tried.
type Left uint8

// The reasons.
const (
	NotLeft      Left = iota
	LeftByWhen        // its condition does not hold
	LeftByRule        // the rule does not allow it
	LeftByCanary      // it is that of a canary to which the request does not belong
	LeftByRouter      // the router plugin did not name it
)

var leftNames = [...]string{LeftByWhen: "when", LeftByRule: "rule", LeftByCanary: "canary", LeftByRouter: "router"}

// RouterOutcome is what came of asking a router plugin.
type RouterOutcome uint8

// The outcomes.
const (
	RouterNotAsked  RouterOutcome = iota
	RouterOrdered                 // it named targets
	RouterNamedNone               // it named none: the configured order was used, or the request rejected
	RouterFailed                  // the same, since it failed
	RouterRejected                // it rejected the request
	RouterOutcomes  = iota
)

var routerOutcomeNames = [...]string{RouterNotAsked: "not asked", RouterOrdered: "ordered", RouterNamedNone: "named none", RouterFailed: "failed", RouterRejected: "rejected"}

// String returns the outcome as it is explained.
func (o RouterOutcome) String() string { return routerOutcomeNames[o] }

// Attempt is an attempt at a target, or one that its circuit breaker or the retry budget did not permit.
type Attempt struct {
	Target *Target
	Why    string        // "" for one in its turn; "retry", "hedge", …
	Ended  bool          // with Code and after Took; else it is under way
	Code   string        // of its error, "" for a success
	Status int           // of its error, 200 for a success; 0 for an attempt that was not permitted
	Took   time.Duration // until its first event, or until it failed
}

// The codes of attempts that were not made.
const (
	NotPermitted = "not_permitted"  // the target's circuit is open, or the provider's retry budget exhausted
	Spent        = "provider_spent" // a limit or a budget of the provider is reached
	BudgetSpent  = "budget_spent"   // what earlier attempts have cost leaves too little of a budget of the key, the team or the model
)

func (d *Decision) reset(p *Policy) {
	d.Reset()
	d.policy = p
	d.candidates = slices.Grow(d.candidates, len(p.Targets))[:len(p.Targets)]
	clear(d.candidates)
}

// Reset drops what d refers to.
func (d *Decision) Reset() {
	const keep = 64 << 10
	clear(d.attempts)
	*d = Decision{candidates: d.candidates[:0], order: d.order[:0], attempts: d.attempts[:0], shadows: d.shadows[:0], scratch: d.scratch[:0], input: d.input[:0]}
	if cap(d.input) > keep {
		d.input = nil
	}
}

// Order returns the indexes of the policy's targets that are tried, the first one first. The slice is the Decision's.
func (d *Decision) Order() []int { return d.order }

// Shadows returns the indexes of the policy's shadows that get a copy of the request. The slice is the Decision's.
func (d *Decision) Shadows() []int { return d.shadows }

// Rule returns the name of the rule that applied, "" for none.
func (d *Decision) Rule() string {
	if d.rule == nil {
		return ""
	}
	return d.rule.Name
}

// Plugin returns the name of the router plugin that was asked, "" for none.
func (d *Decision) Plugin() string {
	if d.router == nil {
		return ""
	}
	return d.router.Plugin
}

// Left returns why a target of the policy is left out.
func (d *Decision) Left(target int) Left { return d.candidates[target].left }

// Canary returns the canary whose outcome an attempt at a target is, by its index in the policy; nil for none.
func (d *Decision) Canary(target int) *canary.Canary {
	if !d.isCanary(target) {
		return nil
	}
	return d.policy.Canary.State
}

// StartAttempt adds an attempt at a target of the policy, by its index there, and returns the attempt's number for EndAttempt.
func (d *Decision) StartAttempt(target int, why string) int {
	d.attempts = append(d.attempts, Attempt{Target: &d.policy.Targets[target], Why: why})
	return len(d.attempts) - 1
}

// EndAttempt records how an attempt ended: with an error's code and status, or "" and 200.
func (d *Decision) EndAttempt(n int, code string, status int, took time.Duration) {
	a := &d.attempts[n]
	a.Ended, a.Code, a.Status, a.Took = true, code, status, took
}

// Skip records that an attempt at a target was not made, with the code that says why.
func (d *Decision) Skip(target int, code string) {
	d.EndAttempt(d.StartAttempt(target, ""), code, 0, 0)
}

// Attempts returns the attempts so far. The slice is the Decision's.
func (d *Decision) Attempts() []Attempt { return d.attempts }

// affinityName is the affinity as the configuration writes it.
func (d *Decision) affinityName() string {
	if d.policy == nil || d.policy.Affinity.By == config.AffinityNone {
		return ""
	}
	return d.policy.Affinity.String()
}
