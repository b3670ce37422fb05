package plugindev

import (
	"context"
	"fmt"
)

// Difference is a vector for which two modules give different results.
type Difference struct{ Name, Text string }

// Replay runs the vectors through two modules of a plugin, and returns the number of vectors and the differences.
func (s *Suite) Replay(ctx context.Context, h *Host, a, b Module) (n int, differences []Difference, err error) {
	if len(s.cases) == 0 {
		return 0, nil, fmt.Errorf("no vectors in %s", s.Dir)
	}
	var sides [2]*bindings
	for i, m := range []Module{a, b} {
		if sides[i], err = s.bind(ctx, h, m); err != nil {
			return 0, nil, err
		}
		defer sides[i].close()
	}
	for _, c := range s.cases {
		var texts [2]string
		for i, side := range sides {
			bound, err := side.bindFor(ctx, c)
			if err != nil {
				texts[i] = "-- settings --\n" + err.Error()
				continue
			}
			texts[i] = c.outcome(bound).text
		}
		if text := diff(texts[0], texts[1], "A", "B"); text != "" {
			differences = append(differences, Difference{c.name(), text})
		}
	}
	return len(s.cases), differences, nil
}
