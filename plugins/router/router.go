// Package router is the bundled router plugin. It orders the targets of a request by one of six strategies:
//
//	weighted       random by weight, independently for each request (the default)
//	priority       lowest priority value first; targets of the same priority at random by weight
//	least-busy     fewest requests in flight first, in proportion to the weights, of two targets drawn by weight
//	least-latency  shortest time to the first event first, multiplied by the requests in flight and this one; targets
//	               without a measurement precede the others, so that they are measured
//	cheapest       lowest expected cost of the request first; on hosts that do not know it, lowest price: of the prompt
//	               and the requested maximum of output tokens, or if one of these is unknown, the sum of the input and
//	               output prices. An unknown cost or price counts as 0. With max_latency, targets with a longer average
//	               time to the first event come after the others
//	least-measured smallest value of the metric named by measurement first, such as the length of the provider's queue;
//	               targets whose value is unknown come after the others
//
// With all strategies, healthy targets come before unhealthy ones, and in either group fallbacks come last. Every
// target is a candidate, so a request that fails at one of them is retried on the next.
//
// For requests with an affinity, no strategy is random: among targets of the same rank, weighted rendezvous hashing
// chooses the same one for the same conversation, user or key.
//
// A target without a weight has weight 0 and comes after the others of its rank. Random choices depend only on the
// random number in the router's input, which makes them repeatable.
package router

import (
	"errors"
	"slices"

	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/router"
)

func init() { router.RegisterPolicy("router", configure) }

// strategy orders targets of the same rank.
type strategy uint8

const (
	weighted strategy = iota
	priority
	leastBusy
	leastLatency
	cheapest
	leastMeasured
)

var strategyNames = [...]string{weighted: "weighted", priority: "priority", leastBusy: "least-busy", leastLatency: "least-latency", cheapest: "cheapest", leastMeasured: "least-measured"}

var (
	errStrategy   = errors.New("settings: invalid strategy: want weighted, priority, least-busy, least-latency, cheapest or least-measured")
	errMaxLatency = errors.New(`settings: invalid max_latency: want a duration such as "2s", "1m30s" or "800ms"`)
	errMeasured   = errors.New("settings: least-measured needs measurement, the name of a metric in the probe of the providers; no other strategy has it")
	errUnknown    = errors.New("settings: unknown member: want strategy, max_latency or measurement")
)

// policy is the content of the settings.
type policy struct {
	strategy   strategy
	maxLatency int64  // for cheapest, in milliseconds; 0 means unlimited
	measured   string // for leastMeasured
}

// configure parses the settings. It rejects unknown members, because a misspelled one would be ignored silently.
func configure(settings json.Value) (router.Policy, error) {
	p := new(policy)
	var r json.Reader
	r.Reset(settings)
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "strategy":
			text := string(r.Text())
			s := slices.Index(strategyNames[:], text)
			if s < 0 {
				return nil, errStrategy
			}
			p.strategy = strategy(s)
		case "max_latency":
			if p.maxLatency = milliseconds(r.Text()); p.maxLatency == 0 {
				return nil, errMaxLatency
			}
		case "measurement":
			p.measured = string(r.Text())
		default:
			return nil, errUnknown
		}
	}
	if err := r.End(); err != nil {
		return nil, err
	}
	if (p.strategy == leastMeasured) != (p.measured != "") {
		return nil, errMeasured
	}
	return p, nil
}

// Reads implements router.Policy.
func (p *policy) Reads() abi.RouterParts {
	switch p.strategy {
	case cheapest:
		return router.Costs
	case leastMeasured:
		return router.Measured
	}
	return 0
}

// maxDuration is the maximum of max_latency in milliseconds: one hour.
const maxDuration = 3_600_000

// milliseconds parses a duration such as "2s", "1m30s", "1.5s" or "800ms". It returns 0 if it is invalid, shorter than
// 1ms or longer than maxDuration.
func milliseconds(text []byte) int64 {
	sum := 0.0
	for at := 0; at < len(text); {
		start := at
		for at < len(text) && (text[at] >= '0' && text[at] <= '9' || text[at] == '.') {
			at++
		}
		number, ok := json.ParseFloat(text[start:at])
		start = at
		for at < len(text) && text[at] >= 'a' && text[at] <= 'z' {
			at++
		}
		switch string(text[start:at]) {
		case "h":
			number *= 3_600_000
		case "m":
			number *= 60_000
		case "s":
			number *= 1000
		case "ms":
		default:
			return 0
		}
		if sum += number; !ok || sum > maxDuration {
			return 0
		}
	}
	return int64(sum)
}

// ordering is the state of ordering the targets of one request.
type ordering struct {
	*policy
	targets        []router.Target
	prompt, output float64 // token counts; both 0 if one of them is unknown
	lots           []lot   // by target; nil for a request without an affinity
}

// Choose implements router.Policy. It makes every target a candidate, best first.
func (p *policy) Choose(c *router.Choice) error {
	o := ordering{policy: p, targets: c.Targets}
	if c.PromptTokens > 0 && c.MaxTokensAsked > 0 {
		o.prompt, o.output = float64(c.PromptTokens), float64(c.MaxTokensAsked)
	}
	if c.HasAffinity && p.strategy != leastLatency {
		o.lots = drawLots(c.Affinity, c.Targets)
	}
	order := make([]int, 0, 16)
	for i := range c.Targets {
		order = append(order, i)
	}
	draw := splitMix(c.Random)
	for at := range order {
		next := o.firstRanked(order[at:])
		switch {
		case o.lots != nil:
			next = o.firstLot(order[at:], next)
		case p.strategy == weighted || p.strategy == priority || p.strategy == leastMeasured:
			next = o.drawByWeight(order[at:], next, none, &draw)
		case p.strategy == leastBusy:
			next = o.drawLessBusy(order[at:], next, &draw)
		}
		// Move the target to position at. The targets in between keep the order of the configuration.
		i := order[at+next]
		copy(order[at+1:at+next+1], order[at:at+next])
		order[at] = i
		c.Candidate(i)
	}
	if !c.Unexplained {
		c.Explain(o.explain(order))
	}
	return nil
}

// firstRanked returns the position of the first target of the best rank.
func (o *ordering) firstRanked(order []int) int {
	first := 0
	for i := 1; i < len(order); i++ {
		if o.ranksBefore(&o.targets[order[i]], &o.targets[order[first]]) {
			first = i
		}
	}
	return first
}

// ranksBefore reports whether a has a better rank than b and must be tried before it.
func (o *ordering) ranksBefore(a, b *router.Target) bool {
	if a.Healthy != b.Healthy {
		return a.Healthy
	}
	if a.Fallback != b.Fallback {
		return b.Fallback
	}
	switch o.strategy {
	case priority:
		return a.Priority < b.Priority
	case leastLatency:
		// Without the requests in flight, all requests would go to one of several equal targets.
		if x, y := a.Latency*(a.InFlight+1), b.Latency*(b.InFlight+1); x != y {
			return x < y
		}
		return a.InFlight < b.InFlight
	case cheapest:
		if x, y := o.slow(a), o.slow(b); x != y {
			return y
		}
		if a.ExpectedCost != b.ExpectedCost {
			return a.ExpectedCost < b.ExpectedCost
		}
		return o.price(a) < o.price(b) // costs are rounded to 10^-9 dollars
	case leastMeasured:
		x, known := a.Measurement(o.measured)
		y, other := b.Measurement(o.measured)
		if known != other {
			return known
		}
		return x < y
	}
	return false
}

// slow reports whether a target's average time to the first event exceeds max_latency.
func (o *ordering) slow(t *router.Target) bool {
	return o.strategy == cheapest && o.maxLatency > 0 && t.Latency > o.maxLatency
}

// price returns the price of the request at a target, in a unit that is the same for all targets.
func (o *ordering) price(t *router.Target) float64 {
	if o.prompt == 0 {
		return t.InputPrice + t.OutputPrice
	}
	return o.prompt*t.InputPrice + o.output*t.OutputPrice
}

// firstLot returns the position of the target with the best lot among those of the same rank as the target at first.
func (o *ordering) firstLot(order []int, first int) int {
	ranked, best := &o.targets[order[first]], first
	for at, i := range order {
		if at > best && !o.ranksBefore(ranked, &o.targets[i]) && o.lots[i].before(o.lots[order[best]]) {
			best = at
		}
	}
	return best
}

// drawLessBusy draws two targets by weight, and returns the position of the one with fewer requests in flight for its
// weight. The less busy of two is nearly as good as the least busy of all, and gateways that do not know of each other's
// requests do not all choose the same target.
func (o *ordering) drawLessBusy(order []int, first int, draw *splitMix) int {
	one := o.drawByWeight(order, first, none, draw)
	other := o.drawByWeight(order, one, one, draw)
	a, b := &o.targets[order[one]], &o.targets[order[other]]
	if load(b)*max(weight(a), 1) < load(a)*max(weight(b), 1) {
		return other
	}
	return one
}

// load is how many requests a target would have in flight with one more.
func load(t *router.Target) uint64 { return uint64(min(max(t.InFlight, 0), maxWeight>>2)) + 1 }

// none is a position that drawByWeight does not leave out.
const none = -1

// drawByWeight draws by weight among the targets of the same rank as the target at first, except that at a position, and
// returns the winner's position. If the sum of the weights is 0, it returns first.
func (o *ordering) drawByWeight(order []int, first, except int, draw *splitMix) int {
	ranked := &o.targets[order[first]]
	var sum uint64
	for at, i := range order {
		if t := &o.targets[i]; at != except && !o.ranksBefore(ranked, t) {
			sum += weight(t)
		}
	}
	if sum == 0 {
		return first
	}
	lot := draw.next() % sum
	for at, i := range order {
		t := &o.targets[i]
		if at == except || o.ranksBefore(ranked, t) {
			continue
		}
		w := weight(t)
		if lot < w {
			return at
		}
		lot -= w
	}
	return first
}

// maxWeight keeps the sum of all weights from overflowing.
const maxWeight = 1 << 32

func weight(t *router.Target) uint64 { return uint64(min(max(t.Weight, 0), maxWeight)) }

// splitMix is the SplitMix64 random number generator. Its value is the seed.
type splitMix uint64

func (l *splitMix) next() uint64 {
	*l += 0x9e3779b97f4a7c15
	z := uint64(*l)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// maxExplained is the maximum number of targets that an explanation names.
const maxExplained = 3

// explain describes the order in one line.
func (o *ordering) explain(order []int) string {
	line := append(make([]byte, 0, 256), strategyNames[o.strategy]...)
	if o.lots != nil {
		line = append(line, " with affinity"...)
	}
	for n, i := range order {
		if n == 0 {
			line = append(line, ": "...)
		} else {
			line = append(line, ", then "...)
		}
		if n == maxExplained {
			line = json.AppendInt(line, int64(len(order)-n))
			return string(append(line, " more"...))
		}
		t := &o.targets[i]
		line = append(append(append(line, t.Provider...), ' '), t.Model...)
		if t.Fallback {
			line = append(line, " (fallback)"...)
		}
		if o.slow(t) {
			line = append(line, " (slow)"...)
		}
		if !t.Healthy {
			line = append(line, " (unhealthy)"...)
		}
	}
	return string(line)
}
