// Package router is the router plugin: it orders the targets of a request by one of four strategies.
//
//	weighted       draws by weight, for each request anew (the default)
//	priority       smaller priority first; equal ones are drawn by weight
//	least-latency  shortest time to the first event first; a target of which nothing is known comes before, so that
//	               something gets known
//	cheapest       lowest price first, input and output added; a price that is not known counts as none
//
// Whatever the strategy, healthy targets come before unhealthy ones, and among either of them fallbacks come last. So
// every target is a candidate, and a request that one of them cannot answer goes on to the next.
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
	errStrategy = errors.New("settings: invalid strategy: want weighted, priority, least-latency or cheapest")
	errUnknown  = errors.New("settings: unknown member: want strategy")
)

func parse(settings json.Value) (strategy, error) {
	v := settings.Get("strategy")
	if !v.Exists() {
		return weighted, nil
	}
	for s, name := range names {
		if v.Is(name) {
			return strategy(s), nil
		}
	}
	return 0, errStrategy
}

// check rejects invalid settings, including unknown members: a misspelt one would silently leave the default.
func check(settings json.Value) error {
	var r json.Reader
	r.Reset(settings)
	for o := r.Object(); o.Next(); {
		if string(r.Name()) != "strategy" {
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

func choose(c *router.Choice) error {
	s, err := parse(c.Settings)
	if err != nil {
		return err
	}
	order := make([]int, 0, 16)
	for i := range c.Targets {
		order = append(order, i)
	}
	draw := splitMix(c.Random)
	for at := range order {
		next := firstRanked(c.Targets, order[at:], s)
		if s == weighted || s == priority {
			next = drawByWeight(c.Targets, order[at:], next, s, &draw)
		}
		// What stands between keeps its order: it is the configuration's.
		i := order[at+next]
		copy(order[at+1:at+next+1], order[at:at+next])
		order[at] = i
		c.Candidate(i)
	}
	c.Explain(explain(c.Targets, order, s))
	return nil
}

// firstRanked returns the position of the first target that no other precedes.
func firstRanked(targets []router.Target, order []int, s strategy) int {
	first := 0
	for i := 1; i < len(order); i++ {
		if ranksBefore(&targets[order[i]], &targets[order[first]], s) {
			first = i
		}
	}
	return first
}

// ranksBefore reports whether a must be tried before b.
func ranksBefore(a, b *router.Target, s strategy) bool {
	if a.Healthy != b.Healthy {
		return a.Healthy
	}
	if a.Fallback != b.Fallback {
		return b.Fallback
	}
	switch s {
	case priority:
		return a.Priority < b.Priority
	case leastLatency:
		return a.Latency < b.Latency
	case cheapest:
		return a.InputPrice+a.OutputPrice < b.InputPrice+b.OutputPrice
	}
	return false
}

// drawByWeight draws by weight among the targets that are as good as the one at position first, and returns the position of
// the one that won. Weights that add up to nothing leave first.
func drawByWeight(targets []router.Target, order []int, first int, s strategy, draw *splitMix) int {
	model := &targets[order[first]]
	var sum uint64
	for _, i := range order {
		if t := &targets[i]; !ranksBefore(model, t, s) {
			sum += weight(t)
		}
	}
	if sum == 0 {
		return first
	}
	lot := draw.next() % sum
	for at, i := range order {
		t := &targets[i]
		if ranksBefore(model, t, s) {
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
func explain(targets []router.Target, order []int, s strategy) string {
	line := append(make([]byte, 0, 256), names[s]...)
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
		t := &targets[i]
		line = append(append(append(line, t.Provider...), ' '), t.Model...)
		if t.Fallback {
			line = append(line, " (fallback)"...)
		}
		if !t.Healthy {
			line = append(line, " (unhealthy)"...)
		}
	}
	return string(line)
}
