package routing

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/canary"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/shadow"
)

// Policy is how the requests of one model are routed. It is immutable: each configuration has its own.
type Policy struct {
	Model    string
	Targets  []Target // as configured, and that of the canary
	Rules    []Rule   // the first one whose condition holds counts
	Canary   *Canary  // nil: none
	Router   *Router  // nil: the configured order
	Affinity config.Affinity
	Zone     *time.Location // of times in conditions; nil: that of the time
	Retry    config.Retry   // at the same target
	Hedge    *config.Hedge  // nil: a second target is tried only after the first has failed
	Hedges   *Hedges        // nil without Hedge
	Shadows  []Shadow       // that get copies of requests

	// SeveralSecrets says that affinity also chooses one of a provider's credentials, and so matters where one target is left.
	SeveralSecrets bool
}

// Rule restricts the targets of the requests that match it, and may order them in another way.
type Rule struct {
	Name   string
	When   *config.When // nil: every request
	Allows []bool       // by index of Policy.Targets
	Router *Router      // nil: the configured order
}

// Canary is a target that a share of the requests tries first.
type Canary struct {
	Target int  // index of Policy.Targets
	Only   bool // no other request gets the target
	State  *canary.Canary
}

// Shadow is a target that gets copies of a share of the requests. It is none of Policy.Targets, and has neither statistics nor a circuit
// breaker: what becomes of a copy means nothing to requests.
type Shadow struct {
	Target  Target
	Share   float64 // of the requests, 0 to 1
	Figures *shadow.Figures
}

// Router is a router plugin with its settings.
type Router struct {
	Plugin  string // its name
	Chooser Chooser
	Always  bool     // it is asked about a single target as well
	Refuse  bool     // a request for which it fails is rejected, rather than routed in the configured order
	Reads   []string // what else of a request it sees: "metadata", and "header:" with a name in lower case
}

// Chooser orders targets: the plugin. client is the name of the client's key, input the document written by AppendRouterInput, n the
// number of targets in it. It returns the indexes of the targets to try, best first, and an explanation. An *apierror.Error is its
// decision to reject the request; any other error is its failure.
type Chooser interface {
	Choose(ctx context.Context, client string, input []byte, n int) (order []int, explain string, err error)
}

// Request is what a decision is based on, besides the targets. It belongs to its request.
type Request struct {
	Key, Team string            // of the client; "" for none
	KeyTags   map[string]string // of the key
	API       string            // that the client uses

	Stream, Thinking        bool
	Tools, Images, Messages int
	PromptTokens            int64  // estimated
	MaxTokens               int64  // that the client asks for; 0 if it does not say
	Previous                string // "provider/model" that has what the request goes on from, and so comes first; "" for none

	Identity Identity
	Random   uint64 // for what is drawn by lot

	Summary Summary
}

// Summary appends the summary of a request as a JSON object with at least one member. It is called only if a router is asked.
type Summary interface{ AppendSummary(dst []byte) []byte }

// ErrNoTarget is for a request for which conditions and rules leave no target.
var ErrNoTarget = errors.New("no target serves the request")

// errNamedNone is for a router that names no target.
var errNamedNone = errors.New("the router named no target")

// Decide decides in which order the targets are tried, and records in d why. These are the steps:
//
//  1. a target whose condition does not hold is left out;
//  2. the first rule whose condition holds leaves out the targets that it does not allow;
//  3. the canary's target is set aside for a request that belongs to the canary, and is left out for any other;
//  4. the router plugin orders what is left, and leaves out what it does not name. Without one, or where it fails, the order is the
//     configured one, in which affinity decides among targets that differ in weight only;
//  5. the canary's target comes first, if it was set aside;
//  6. targets with an open circuit, or in cooldown, come last;
//  7. the target that has what the request goes on from comes first.
//
// Which shadows get a copy is drawn beside that, and changes nothing of it.
//
// An error is ErrNoTarget, the rejection by the plugin as it returned it, or with Router.Refuse a *RouterError. d is set in any case.
func (p *Policy) Decide(ctx context.Context, r *Request, now time.Time, d *Decision) error {
	d.reset(p)
	for i := range p.Targets {
		if w := p.Targets[i].When; w != nil && !matches(w, r, now, p.Zone) {
			d.candidates[i].left = LeftByWhen
		}
	}
	router := p.Router
	for i := range p.Rules {
		rule := &p.Rules[i]
		if !matches(rule.When, r, now, p.Zone) {
			continue
		}
		d.rule, router = rule, rule.Router
		for t, allowed := range rule.Allows {
			if !allowed && d.candidates[t].left == NotLeft {
				d.candidates[t].left = LeftByRule
			}
		}
		break
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
		d.Affinity = r.Identity.Of(p.Affinity)
	}
	if asked {
		if err := d.ask(ctx, router, r, now); err != nil {
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
		if draw := splitMix(r.Random ^ s.Target.name() ^ uint64(i)); float64(draw.next()>>11)/(1<<53) < s.Share {
			d.shadows = append(d.shadows, i)
		}
	}
	return nil
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
	d.canaryShare = c.State.Share() // the attempts of this request may roll it back
	if !d.inCanary && c.Only {
		*left = LeftByCanary
	}
}

// isCanary reports whether a target is that of the canary that the request belongs to.
func (d *Decision) isCanary(target int) bool { return d.inCanary && target == d.policy.Canary.Target }

// ask has the router order the candidates. Unless that succeeds, d.order stays as it is.
func (d *Decision) ask(ctx context.Context, router *Router, r *Request, now time.Time) error {
	d.router = router
	d.input = d.appendInput(d.input[:0], r, now)
	order, words, err := router.Chooser.Choose(ctx, r.Key, d.input, len(d.order))
	d.Words = words
	if _, refused := errors.AsType[*apierror.Error](err); refused {
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

// RouterError is for a request that is rejected because its router failed.
type RouterError struct {
	Plugin string
	Err    error
}

func (e *RouterError) Error() string { return "router " + e.Plugin + ": " + e.Err.Error() }

// Unwrap returns how it failed.
func (e *RouterError) Unwrap() error { return e.Err }

// configuredOrder sorts the candidates: healthy before unhealthy, fallbacks last, then by priority (smaller first), then by affinity,
// and without one by weight (larger first), then as configured.
func (d *Decision) configuredOrder() {
	targets := d.policy.Targets
	if d.Affinity.Known {
		for n, i := range d.order {
			d.candidates[i].lot = drawLot(d.Affinity.Sum, targets[i].name(), nth(targets, d.order[:n], i), targets[i].Weight)
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

// prefer puts a target first.
func (d *Decision) prefer(name string) {
	for at, i := range d.order {
		if t := &d.policy.Targets[i]; len(name) == len(t.Provider)+1+len(t.Model) && name[:len(t.Provider)] == t.Provider && name[len(t.Provider)] == '/' && name[len(t.Provider)+1:] == t.Model {
			copy(d.order[1:at+1], d.order[:at])
			d.order[0], d.Previous = i, true
			return
		}
	}
}

// readyFirst sorts targets with a closed circuit, and not in cooldown, before others.
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
