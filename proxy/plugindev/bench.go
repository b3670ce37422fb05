package plugindev

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Measure is the cost of calls of an export. Time and Fuel are medians.
type Measure struct {
	Plugin string
	Call   string // the export
	Calls  int
	Time   time.Duration
	Fuel   int64
	Share  float64 // largest share of its budget that a call used
}

// Bench measures the calls of a plugin on its vectors, repeatedly for at least some time.
func (s *Suite) Bench(ctx context.Context, h *Host, m Module, atLeast time.Duration) ([]Measure, error) {
	if len(s.cases) == 0 {
		return nil, fmt.Errorf("no vectors in %s", s.Dir)
	}
	used, err := s.bind(ctx, h, m)
	if err != nil {
		return nil, err
	}
	defer used.close()
	all := make(map[string][]Call)
	shares := make(map[string]float64)
	for begin, rounds := time.Now(), 0; rounds < 2 || time.Since(begin) < atLeast; rounds++ {
		for _, c := range s.cases {
			b, err := used.bindFor(ctx, c)
			if err != nil {
				continue
			}
			calls := timedCalls(c, b)
			if rounds == 0 {
				continue // the first call of an instance allocates its memory
			}
			for _, call := range calls {
				all[call.Name] = append(all[call.Name], call)
				shares[call.Name] = max(shares[call.Name], call.Share)
			}
		}
	}
	var measures []Measure
	for _, name := range slices.Sorted(maps.Keys(all)) {
		calls := all[name]
		measures = append(measures, Measure{
			Plugin: m.Name, Call: name, Calls: len(calls), Share: shares[name],
			Time: median(calls, func(c Call) time.Duration { return c.Time }), Fuel: median(calls, func(c Call) int64 { return c.Fuel }),
		})
	}
	return measures, nil
}

// timedCalls runs a vector and returns its calls. For a text it returns one call, with the averages of all.
func timedCalls(c testCase, b *Binding) []Call {
	if v, ok := c.(*Vector); ok {
		return v.Run(b, true).Calls
	}
	begin := time.Now()
	cost := c.outcome(b).cost
	took := time.Since(begin)
	if cost.Reads > 0 {
		n := int64(cost.Reads)
		return []Call{{Name: abi.ExportFilterText, Fuel: cost.Reading / n, Time: took / time.Duration(n), Share: cost.Share}}
	}
	return []Call{{Name: abi.ExportChoose, Fuel: cost.Request, Time: took, Share: cost.Share}}
}

func median[T int64 | time.Duration](calls []Call, of func(Call) T) T {
	values := make([]T, len(calls))
	for i, c := range calls {
		values[i] = of(c)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// BenchHello measures a provider on a request of a few words. It returns nothing for a plugin that is not a provider.
func BenchHello(ctx context.Context, h *Host, m Module, u Use, atLeast time.Duration) ([]Measure, error) {
	p, err := h.Load(ctx, m)
	if err != nil {
		return nil, err
	}
	provider := p.Provider()
	p.Close()
	if !provider {
		return nil, nil
	}
	v := &Vector{Name: "hello", Target: "m", Request: []byte(`{"model":"m","messages":[{"role":"user","content":"Hello"}]}`)}
	return (&Suite{Use: u, cases: []testCase{v}}).Bench(ctx, h, m, atLeast)
}
