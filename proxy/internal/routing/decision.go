package routing

import (
	"slices"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/canary"
)

// Decision is the result of Policy.Decide for a request, with its reasons, and the outcomes of the attempts. Its
// explanation is rendered only on demand, by AppendLine, AppendJSON and AppendText.
//
// The zero value is ready for Decide. A Decision can be reused for the next request, which reuses its memory; Reset
// drops its references in between. It is not safe for concurrent use.
type Decision struct {
	Affinity Hash          // hash that chose among the targets; unknown if affinity was not used
	Router   RouterOutcome // result of asking the router plugin
	Words    string        // explanation by the router plugin
	Err      error         // why the router plugin failed
	Previous bool          // the provider of the first target stores what the request continues

	policy      *Policy
	rule        *Rule       // rule that applied; nil if none did
	router      *Router     // router that was asked; nil if none was
	inCanary    bool        // the request belongs to the canary
	canaryBy    Hash        // hash that decided inCanary; unknown if it was random, or if the canary's target is left out
	budget      BudgetShare // set if the policy reads it
	canaryShare float64     // share of requests that belong to the canary; 0 if it was rolled back
	candidates  []candidate // by index into policy.Targets
	order       []int       // indexes into policy.Targets, in the order in which they are tried
	attempts    []Attempt
	shadows     []int // indexes into policy.Shadows of those that get a copy

	scratch []int  // memory for the router's order
	input   []byte // input of the router
}

// candidate is the state of a target in a decision.
type candidate struct {
	left   Left
	ready  bool      // the circuit was closed and the target was not in cooldown
	cost   cost.Nano // expected cost, if costed
	costed bool      // the router has received cost
	skip   string    // why the target would be skipped now, for explanations; "" if it would not
	lot    lot       // draw of the target for the affinity hash; unset without affinity

	measured []Measurement // what the router has received in the compact input
}

// Left is the reason that a target is left out.
type Left uint8

// The reasons.
const (
	NotLeft      Left = iota
	LeftByWhen        // the target's condition does not hold
	LeftByRule        // the rule does not allow it
	LeftByCanary      // the target is a canary, and the request does not belong to it
	LeftByRouter      // the router plugin did not name it
)

var leftNames = [...]string{LeftByWhen: "when", LeftByRule: "rule", LeftByCanary: "canary", LeftByRouter: "router"}

// RouterOutcome is the result of asking a router plugin.
type RouterOutcome uint8

// The outcomes.
const (
	RouterNotAsked  RouterOutcome = iota
	RouterOrdered                 // the router named targets
	RouterNamedNone               // the router named no target; the configured order was used, or the request rejected
	RouterFailed                  // the router failed; the configured order was used, or the request rejected
	RouterRejected                // the router rejected the request
	RouterOutcomes  = iota
)

var routerOutcomeNames = [...]string{RouterNotAsked: "not asked", RouterOrdered: "ordered", RouterNamedNone: "named none", RouterFailed: "failed", RouterRejected: "rejected"}

// String returns the outcome in words, for explanations.
func (o RouterOutcome) String() string { return routerOutcomeNames[o] }

// Attempt is an attempt at a target, including one that was not made because a circuit breaker, a budget or a limit did
// not permit it.
type Attempt struct {
	Target *Target
	Why    string        // why the target was tried out of order, such as "retry" or "hedge"; "" if it was not
	Ended  bool          // false while the attempt is in flight; the fields below are then unset
	Code   string        // error code; "" for a success
	Status int           // HTTP status of the error; 200 for a success, 0 for an attempt that was not made
	Took   time.Duration // time to the first event or to the failure
}

// The codes of attempts that were not made.
const (
	NotPermitted = "not_permitted"  // the target's circuit is open, or the provider's retry budget is exhausted
	Unpriced     = "unpriced"       // the target has no price, which a budget requires
	Spent        = "provider_spent" // a limit or a budget of the provider is reached
	BudgetSpent  = "budget_spent"   // after the cost of earlier attempts, too little is left of a budget of the key, team or model
)

func (d *Decision) reset(p *Policy) {
	d.Reset()
	d.policy = p
	d.candidates = slices.Grow(d.candidates, len(p.Targets))[:len(p.Targets)]
	clear(d.candidates)
}

// Reset clears d but keeps its memory for the next request.
func (d *Decision) Reset() {
	const keep = 64 << 10
	clear(d.attempts)
	*d = Decision{candidates: d.candidates[:0], order: d.order[:0], attempts: d.attempts[:0], shadows: d.shadows[:0], scratch: d.scratch[:0], input: d.input[:0]}
	if cap(d.input) > keep {
		d.input = nil
	}
}

// Order returns indexes into Policy.Targets, in the order in which the targets are tried. The slice belongs to d.
func (d *Decision) Order() []int { return d.order }

// Shadows returns the indexes into Policy.Shadows of those that get a copy of the request. The slice belongs to d.
func (d *Decision) Shadows() []int { return d.shadows }

// Rule returns the name of the rule that applied, or "" if none did.
func (d *Decision) Rule() string {
	if d.rule == nil {
		return ""
	}
	return d.rule.Name
}

// Plugin returns the name of the router plugin that was asked, or "" if none was.
func (d *Decision) Plugin() string {
	if d.router == nil {
		return ""
	}
	return d.router.Plugin
}

// Left returns why the target with an index in the policy is left out.
func (d *Decision) Left(target int) Left { return d.candidates[target].left }

// Canary returns the canary that an attempt at the target counts for, or nil. target is an index into Policy.Targets.
func (d *Decision) Canary(target int) *canary.Canary {
	if !d.isCanary(target) {
		return nil
	}
	return d.policy.Canary.State
}

// StartAttempt adds an attempt at a target, which is an index into Policy.Targets. It returns the attempt's number for
// EndAttempt.
func (d *Decision) StartAttempt(target int, why string) int {
	d.attempts = append(d.attempts, Attempt{Target: &d.policy.Targets[target], Why: why})
	return len(d.attempts) - 1
}

// EndAttempt records the end of an attempt: the code and status of its error, or "" and 200.
func (d *Decision) EndAttempt(n int, code string, status int, took time.Duration) {
	a := &d.attempts[n]
	a.Ended, a.Code, a.Status, a.Took = true, code, status, took
}

// Skip records that an attempt at a target was not made. code is the reason.
func (d *Decision) Skip(target int, code string) {
	d.EndAttempt(d.StartAttempt(target, ""), code, 0, 0)
}

// Foresee records that the target would be skipped. It is for explanations.
func (d *Decision) Foresee(target int, code string) { d.candidates[target].skip = code }

// Attempts returns the attempts so far. The slice belongs to d.
func (d *Decision) Attempts() []Attempt { return d.attempts }

// affinityName returns the affinity as written in the configuration, or "" if there is none.
func (d *Decision) affinityName() string {
	if d.policy == nil || d.policy.Affinity.By == config.AffinityNone {
		return ""
	}
	return d.policy.Affinity.String()
}
