package routing

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/canary"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/shadow"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Policy determines how the requests of one model are routed. It is immutable; each configuration has its own policies.
type Policy struct {
	Model    string
	Targets  []Target // the configured targets and, last, that of the canary if it is not one of them
	Rules    []Rule   // the first rule whose condition holds applies
	Canary   *Canary  // may be nil
	Router   *Router  // nil means the configured order
	Affinity config.Affinity
	Zone     *time.Location // time zone of conditions; nil means that of the time passed to Decide
	Retry    config.Retry   // retries at the same target
	Hedge    *config.Hedge  // nil disables hedging: a second target is tried only after the first has failed
	Hedges   *Hedges        // nil without Hedge
	Shadows  []Shadow

	// SeveralSecrets reports that affinity also chooses among the credentials of a provider, so that it matters even if
	// only one target is left.
	SeveralSecrets bool

	// ReadsBudget reports that a condition depends on Request.Budget.
	ReadsBudget bool
}

// Rule restricts the targets of matching requests, and may have its own router.
type Rule struct {
	Name   string
	When   *config.When // nil matches every request
	Allows []bool       // indexed like Policy.Targets
	Router *Router      // nil means the configured order
}

// Canary is a target that a share of the requests tries first, and that is left out for all others.
type Canary struct {
	Target int // index into Policy.Targets
	State  *canary.Canary
}

// Shadow is a target that gets copies of a share of the requests. It is not in Policy.Targets and has neither
// statistics nor a circuit breaker, because the outcome of a copy must not affect requests.
type Shadow struct {
	Target  Target
	Share   float64 // share of the requests, 0 to 1
	Figures *shadow.Figures
}

// Router is a router plugin with its settings.
type Router struct {
	Plugin  string // name of the plugin
	Chooser Chooser
	Always  bool     // the router is asked even if there is only one target
	Refuse  bool     // if the router fails, requests are rejected instead of being routed in the configured order
	Reads   []string // optional parts of requests in its input: "metadata", or "header:" and a name in lower case

	Compact bool            // its input is the compact one, not the document
	Parts   abi.RouterParts // what its input contains; the document always has hashes

	Settings []byte // a JSON object
}

// Recorder receives what the routers of a plugin read, as the document that describes a request.
type Recorder struct {
	Plugin string
	Input  func(r *Router, document []byte) // document is only valid during the call
}

// Chooser is implemented by router plugins. Choose gets the name of the client's key, the router's input and the number
// n of targets in it. It returns the indexes of the targets to try, best first, and an explanation. If the error is an
// *apierror.Error, the router rejects the request; any other error means that the router failed.
type Chooser interface {
	Choose(ctx context.Context, client string, input []byte, n int) (order []int, explain string, err error)
}

// Request holds the properties of a request that a decision is based on.
type Request struct {
	Key, Team string              // name of the client's key and of its team; "" for none
	KeyTags   map[string]string   // tags of the key
	Claims    map[string][]string // of the client's token, those that conditions name
	Budget    BudgetShare         // for a Policy with ReadsBudget
	API       string              // the client's API

	Stream, Thinking        bool
	Tools, Images, Messages int
	IncludeUsage            bool
	Flags                   clientapi.Flags
	Size                    int    // of the request body in bytes
	Explained               bool   // the explanation of the decision is read
	PromptTokens            int64  // estimate
	MaxTokens               int64  // limit requested by the client; 0 if unset
	Previous                string // provider that stores what the request continues, whose targets must come first; "" for none

	Identity Identity
	Random   uint64 // source of random choices

	Summary  Summary
	Recorder *Recorder // nil if routers are not recorded
}

// Summary describes a request for routers. Its methods are called only if a router is asked.
type Summary interface {
	// AppendSummary appends a JSON object with at least one member.
	AppendSummary(dst []byte) []byte

	// ExpectedCost returns what the request probably costs at a target with prices, of whose prompt tokens this share is
	// read from the provider's cache.
	ExpectedCost(t *Target, cachedShare float64) cost.Nano
}

// ErrNoTarget is returned if conditions and rules leave no target for a request.
var ErrNoTarget = errors.New("no target serves the request")

// errNamedNone is the failure of a router that names no target.
var errNamedNone = errors.New("the router named no target")

// Decide decides in which order the targets are tried, and records the decision and its reasons in d. These are the
// steps:
//
//  1. Leave out targets whose condition does not hold.
//  2. Apply the first rule whose condition holds: leave out the targets that it does not allow.
//  3. If the request belongs to the canary, set the canary's target aside. Otherwise leave it out.
//  4. Let the router plugin order the remaining targets and leave out those that it does not name. Without a router, or
//     if it fails, use the configured order, in which affinity decides among targets that differ only in weight.
//  5. Put the canary's target first if it was set aside.
//  6. Move targets with an open circuit or in cooldown to the end.
//  7. Put the targets first whose provider stores what the request continues.
//
// Independently of that, Decide draws at random which shadows get a copy.
//
// The error is ErrNoTarget, the plugin's rejection as the plugin returned it or, with Router.Refuse, a *RouterError. d
// is set in any case.
func (p *Policy) Decide(ctx context.Context, r *Request, now time.Time, d *Decision) error {
	d.reset(p)
	p.leaveOut(r, now, d)
	router := p.Router
	if d.rule != nil {
		router = d.rule.Router
	}
	if p.Canary != nil {
		d.drawCanary(r, now)
	}
	for i := range d.candidates {
		if c := &d.candidates[i]; c.left == NotLeft {
			c.ready = p.Targets[i].Stats.ready(now)
			if !d.isCanary(i) {
				d.order = append(d.order, i)
			}
		}
	}
	if len(d.order) == 0 && !d.inCanary {
		return ErrNoTarget
	}
	several := len(d.order) > 1
	asked := router != nil && (several || router.Always && len(d.order) > 0)
	if p.Affinity.By != config.AffinityNone && (several || asked || p.SeveralSecrets) {
		d.Affinity = r.Identity.AffinityHash(p.Affinity)
	}
	if asked {
		if err := d.askRouter(ctx, router, r, now); err != nil {
			return err
		}
	}
	if several && d.Router != RouterOrdered {
		d.configuredOrder()
	}
	if d.inCanary {
		d.order = slices.Insert(d.order, 0, p.Canary.Target)
	}
	slices.SortStableFunc(d.order, func(a, b int) int { return readyFirst(&d.candidates[a], &d.candidates[b]) })
	if r.Previous != "" {
		d.prefer(r.Previous)
	}
	for i := range p.Shadows {
		s := &p.Shadows[i]
		if draw := splitMix(r.Random ^ s.Target.nameHash() ^ uint64(i)); float64(draw.next()>>11)/(1<<53) < s.Share {
			d.shadows = append(d.shadows, i)
		}
	}
	return nil
}

// leaveOut leaves out the targets that conditions and the first rule that applies do not allow.
func (p *Policy) leaveOut(r *Request, now time.Time, d *Decision) {
	if p.ReadsBudget {
		d.budget = r.Budget
	}
	for i := range p.Targets {
		if w := p.Targets[i].When; w != nil && !matches(w, r, now, p.Zone) {
			d.candidates[i].left = LeftByWhen
		}
	}
	for i := range p.Rules {
		rule := &p.Rules[i]
		if !matches(rule.When, r, now, p.Zone) {
			continue
		}
		d.rule = rule
		for t, allowed := range rule.Allows {
			if !allowed && d.candidates[t].left == NotLeft {
				d.candidates[t].left = LeftByRule
			}
		}
		return
	}
}

// drawCanary decides whether the request belongs to the canary, unless its target is left out.
func (d *Decision) drawCanary(r *Request, now time.Time) {
	c := d.policy.Canary
	left := &d.candidates[c.Target].left
	if *left != NotLeft {
		d.canaryShare = c.State.Share()
		return
	}
	draw := r.Random
	if d.canaryBy = r.Identity.Conversation(); d.canaryBy.Known {
		draw = d.canaryBy.Sum
	}
	d.inCanary = c.State.Admits(draw, now)
	d.canaryShare = c.State.Share() // recorded now because the attempts of this request may roll the canary back
	if !d.inCanary {
		*left = LeftByCanary
	}
}

// isCanary reports whether the request belongs to the canary and target is the canary's target.
func (d *Decision) isCanary(target int) bool { return d.inCanary && target == d.policy.Canary.Target }

// askRouter asks the router to order the candidates. d.order is unchanged unless that succeeds.
func (d *Decision) askRouter(ctx context.Context, router *Router, r *Request, now time.Time) error {
	d.router = router
	if rec := r.Recorder; rec != nil && rec.Plugin == router.Plugin {
		rec.Input(router, d.appendInput(nil, r, now))
	}
	if router.Compact {
		d.input = d.appendCompact(d.input[:0], r, now)
	} else {
		d.input = d.appendInput(d.input[:0], r, now)
	}
	order, words, err := router.Chooser.Choose(ctx, r.Key, d.input, len(d.order))
	d.Words = words
	if _, rejected := errors.AsType[*apierror.Error](err); rejected {
		d.Router = RouterRejected
		return err
	}
	switch {
	case err != nil:
		d.Router, d.Err = RouterFailed, err
	case len(order) == 0:
		d.Router, d.Err = RouterNamedNone, errNamedNone
	default:
		d.Router = RouterOrdered
		for _, i := range d.order {
			d.candidates[i].left = LeftByRouter
		}
		d.scratch = d.scratch[:0]
		for _, n := range order {
			i := d.order[n]
			d.candidates[i].left = NotLeft
			d.scratch = append(d.scratch, i)
		}
		d.order, d.scratch = d.scratch, d.order
		return nil
	}
	if router.Refuse {
		return &RouterError{Plugin: router.Plugin, Err: d.Err}
	}
	return nil
}

// RouterError is returned for a request that is rejected because its router failed.
type RouterError struct {
	Plugin string
	Err    error
}

func (e *RouterError) Error() string { return "router " + e.Plugin + ": " + e.Err.Error() }

// Unwrap returns the failure of the router.
func (e *RouterError) Unwrap() error { return e.Err }

// configuredOrder sorts the candidates: ready before others, fallbacks last, then by priority (smaller first), then by
// affinity or, without one, by weight (larger first), and otherwise in the order of the configuration.
func (d *Decision) configuredOrder() {
	targets := d.policy.Targets
	if d.Affinity.Known {
		for n, i := range d.order {
			d.candidates[i].lot = drawLot(d.Affinity.Sum, targets[i].nameHash(), nth(targets, d.order[:n], i), targets[i].Weight)
		}
	}
	slices.SortStableFunc(d.order, func(a, b int) int {
		x, y := &targets[a], &targets[b]
		if c := readyFirst(&d.candidates[a], &d.candidates[b]); c != 0 {
			return c
		}
		if x.Fallback != y.Fallback {
			return after(x.Fallback)
		}
		if x.Priority != y.Priority {
			return x.Priority - y.Priority
		}
		if d.Affinity.Known {
			return compareLots(&d.candidates[a].lot, &d.candidates[b].lot)
		}
		return y.Weight - x.Weight
	})
}

// prefer moves the targets of a provider to the front.
func (d *Decision) prefer(provider string) {
	other := func(i int) bool { return d.policy.Targets[i].Provider != provider }
	slices.SortStableFunc(d.order, func(a, b int) int {
		if other(a) == other(b) {
			return 0
		}
		return after(other(a))
	})
	d.Previous = len(d.order) > 0 && !other(d.order[0])
}

// readyFirst compares candidates so that those with a closed circuit and not in cooldown come first.
func readyFirst(a, b *candidate) int {
	if a.ready == b.ready {
		return 0
	}
	return after(b.ready)
}

func after(b bool) int {
	if b {
		return 1
	}
	return -1
}
