// Package router is the router plugin: it orders the targets of a request by one of four strategies.
//
//	weighted       draws by weight, for each request anew (the default)
//	priority       smaller priority first; equal ones are drawn by weight
//	least-latency  shortest time to the first event first; a target of which nothing is known comes before, so that
//	               something gets known
//	cheapest       lowest price first: that of the prompt and of all tokens that the client asks for, or, where one of them is
//	               not known, input and output added; a price that is not known counts as none. With max_latency, targets
//	               that take longer on average to the first event come after the others
//
// Whatever the strategy, healthy targets come before unhealthy ones, and among either of them fallbacks come last. So
// every target is a candidate, and a request that one of them cannot answer goes on to the next.
//
// Requests with an affinity are not drawn for: among targets that are equal otherwise, also in price, weighted rendezvous hashing
// chooses the same one for the same conversation, user or key.
//
// A target without a weight has the weight 0: it is drawn after all others. Draws follow from the random number that
// comes with the request, so that a choice can be repeated.
package router

import (
	"errors"

	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/router"
)

func init() { router.RegisterAs("router", choose, check) }

// strategy orders targets of the same rank.
type strategy uint8

const (
	weighted strategy = iota
	priority
	leastLatency
	cheapest
)

var names = [...]string{weighted: "weighted", priority: "priority", leastLatency: "least-latency", cheapest: "cheapest"}

var (
	errStrategy   = errors.New("settings: invalid strategy: want weighted, priority, least-latency or cheapest")
	errMaxLatency = errors.New(`settings: invalid max_latency: want a duration such as "2s", "1m30s" or "800ms"`)
	errUnknown    = errors.New("settings: unknown member: want strategy or max_latency")
)

// policy is what the settings say.
type policy struct {
	strategy   strategy
	maxLatency int64 // in milliseconds, for cheapest; 0: none
}

func parse(settings json.Value) (p policy, err error) {
	if v := settings.Get("strategy"); v.Exists() {
		known := false
		for s, name := range names {
			if v.Is(name) {
				p.strategy, known = strategy(s), true
			}
		}
		if !known {
			return p, errStrategy
		}
	}
	if v := settings.Get("max_latency"); v.Exists() {
		if p.maxLatency = milliseconds(v.Text()); p.maxLatency == 0 {
			return p, errMaxLatency
		}
	}
	return p, nil
}

// check rejects invalid settings, including unknown members: a misspelt one would silently leave the default.
func check(settings json.Value) error {
	var r json.Reader
	r.Reset(settings)
	for o := r.Object(); o.Next(); {
		if name := string(r.Name()); name != "strategy" && name != "max_latency" {
			return errUnknown
		}
		r.Skip()
	}
	if err := r.End(); err != nil {
		return err
	}
	_, err := parse(settings)
	return err
}

// maxDuration is the longest duration that settings may have, in milliseconds: an hour.
const maxDuration = 3_600_000

// milliseconds reads a duration such as "2s", "1m30s", "1.5s" or "800ms"; 0 if it is not one, or not from 1ms to 1h.
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

// ordering is a request that is being decided on.
type ordering struct {
	policy
	targets        []router.Target
	prompt, output float64 // tokens; 0 where one of them is not known
	lots           []lot   // nil for a request without an affinity
}

func choose(c *router.Choice) error {
	p, err := parse(c.Settings)
	if err != nil {
		return err
	}
	by := ordering{policy: p, targets: c.Targets}
	if c.PromptTokens > 0 && c.MaxTokensAsked > 0 {
		by.prompt, by.output = float64(c.PromptTokens), float64(c.MaxTokensAsked)
	}
	if c.HasAffinity && p.strategy != leastLatency {
		by.lots = drawLots(c.Affinity, c.Targets)
	}
	order := make([]int, 0, 16)
	for i := range c.Targets {
		order = append(order, i)
	}
	draw := splitMix(c.Random)
	for at := range order {
		next := by.firstRanked(order[at:])
		switch {
		case by.lots != nil:
			next = by.firstLot(order[at:], next)
		case p.strategy == weighted || p.strategy == priority:
			next = by.drawByWeight(order[at:], next, &draw)
		}
		// What stands between keeps its order: it is the configuration's.
		i := order[at+next]
		copy(order[at+1:at+next+1], order[at:at+next])
		order[at] = i
		c.Candidate(i)
	}
	c.Explain(by.explain(order))
	return nil
}

// firstRanked returns the position of the first target that no other precedes.
func (o *ordering) firstRanked(order []int) int {
	first := 0
	for i := 1; i < len(order); i++ {
		if o.ranksBefore(&o.targets[order[i]], &o.targets[order[first]]) {
			first = i
		}
	}
	return first
}

// ranksBefore reports whether a must be tried before b.
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
		return a.Latency < b.Latency
	case cheapest:
		if x, y := o.slow(a), o.slow(b); x != y {
			return y
		}
		return o.price(a) < o.price(b)
	}
	return false
}

// slow reports whether a target takes longer to the first event than it may.
func (o *ordering) slow(t *router.Target) bool {
	return o.strategy == cheapest && o.maxLatency > 0 && t.Latency > o.maxLatency
}

// price returns what the request costs at a target, in any unit.
func (o *ordering) price(t *router.Target) float64 {
	if o.prompt == 0 {
		return t.InputPrice + t.OutputPrice
	}
	return o.prompt*t.InputPrice + o.output*t.OutputPrice
}

// firstLot returns the position of the target with the best lot among those that are as good as the one at position first.
func (o *ordering) firstLot(order []int, first int) int {
	model, best := &o.targets[order[first]], first
	for at, i := range order {
		if at > best && !o.ranksBefore(model, &o.targets[i]) && o.lots[i].before(o.lots[order[best]]) {
			best = at
		}
	}
	return best
}

// drawByWeight draws by weight among the targets that are as good as the one at position first, and returns the position of
// the one that won. Weights that add up to nothing leave first.
func (o *ordering) drawByWeight(order []int, first int, draw *splitMix) int {
	model := &o.targets[order[first]]
	var sum uint64
	for _, i := range order {
		if t := &o.targets[i]; !o.ranksBefore(model, t) {
			sum += weight(t)
		}
	}
	if sum == 0 {
		return first
	}
	lot := draw.next() % sum
	for at, i := range order {
		t := &o.targets[i]
		if o.ranksBefore(model, t) {
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

// maxWeight keeps the sum of all weights far from overflow.
const maxWeight = 1 << 32

func weight(t *router.Target) uint64 { return uint64(min(max(t.Weight, 0), maxWeight)) }

// splitMix is a sequence of random numbers that follows from its first one (SplitMix64).
type splitMix uint64

func (l *splitMix) next() uint64 {
	*l += 0x9e3779b97f4a7c15
	z := uint64(*l)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// maxExplained is how many targets an explanation names.
const maxExplained = 3

// explain describes the order in one line.
func (o *ordering) explain(order []int) string {
	line := append(make([]byte, 0, 256), names[o.strategy]...)
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
