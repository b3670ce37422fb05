package plugindev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/google/pprof/profile"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
)

// callMeter counts the calls of requests, responses, targets and texts, and can end one of them after some fuel. It is
// safe for concurrent use.
type callMeter struct {
	mu     sync.Mutex
	number int   // of the next call, from 0
	last   int   // number of the call with another budget, if budget > 0
	units  int64 // its budget
}

func (m *callMeter) budget(call string, budget int64) int64 {
	if strings.HasPrefix(call, "sluice_") || strings.HasSuffix(call, "_reads") {
		return budget
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	number := m.number
	m.number++
	if m.units > 0 && number == m.last {
		return min(budget, m.units)
	}
	return budget
}

// limit makes the next call but n end after some fuel. With 0 units no call does.
func (m *callMeter) limit(n int, units int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.number, m.last, m.units = 0, n, units
}

// Profile is where a plugin's calls use fuel.
type Profile struct {
	Units   int64 // fuel of all calls
	samples []sample
}

// sample is a stack, the innermost function first, with the export as its end.
type sample struct {
	stack []engine.Frame
	units int64
}

// Profile runs the vectors of a provider until their calls have used some fuel, again and again, and looks at which
// functions are running: a call does the same each time, so stopping it after n units for many n shows where it uses
// them. samples is the number of times. Before each, the vector runs to its end, so that the instance has its memory.
func (s *Suite) Profile(ctx context.Context, h *Host, m Module, samples int) (*Profile, error) {
	vectors := s.Vectors()
	if len(vectors) == 0 {
		return nil, fmt.Errorf("no vectors of a provider in %s", s.Dir)
	}
	used, err := s.bind(ctx, h, m)
	if err != nil {
		return nil, err
	}
	defer used.close()
	defer h.meter.limit(0, 0)
	p := &Profile{}
	calls := make([][]Call, len(vectors))
	for i, v := range vectors {
		b, err := used.bindFor(ctx, v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.Name, err)
		}
		h.meter.limit(0, 0)
		v.Run(b, true)
		calls[i] = v.Run(b, true).Calls
		for _, c := range calls[i] {
			p.Units += c.Fuel
		}
	}
	step := max(p.Units/int64(max(samples, 1)), 1)
	at := step / 2 // of the fuel since the beginning of the current call
	for i, v := range vectors {
		b, err := used.bindFor(ctx, v)
		if err != nil {
			return nil, err
		}
		for n, c := range calls[i] {
			for ; at < c.Fuel; at += step {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				h.meter.limit(0, 0)
				v.Run(b, true)
				h.meter.limit(n, at+1)
				p.add(c.Name, v.Run(b, true).Err, step)
			}
			at -= c.Fuel
		}
	}
	h.TakeLog() // the stacks of the calls that were ended
	return p, nil
}

// hostFrame stands for fuel that the host has charged for imports at the end of a call, when no code was left to run
// out of it.
var hostFrame = engine.Frame{Name: "(imports)"}

// add adds the stack of a call that has run out of fuel.
func (p *Profile) add(call string, err error, units int64) {
	failed, ok := errors.AsType[*plugin.CallError](err)
	if !ok {
		p.samples = append(p.samples, sample{[]engine.Frame{hostFrame, {Name: call}}, units})
		return
	}
	stack := failed.Functions()
	for i := range stack {
		stack[i].Name = cmp.Or(stack[i].Name, "(unknown)")
	}
	p.samples = append(p.samples, sample{append(slices.Clone(stack), engine.Frame{Name: call}), units})
}

// Write writes the profile in the format of pprof.
func (p *Profile) Write(w io.Writer) error {
	units := &profile.ValueType{Type: "fuel", Unit: "count"}
	out := &profile.Profile{SampleType: []*profile.ValueType{units}, DefaultSampleType: "fuel", PeriodType: units, Period: 1}
	functions := make(map[string]*profile.Function)
	locations := make(map[engine.Frame]*profile.Location)
	for _, s := range p.samples {
		next := &profile.Sample{Value: []int64{s.units}}
		for _, f := range s.stack {
			fn := functions[f.Name+f.File]
			if fn == nil {
				fn = &profile.Function{ID: uint64(len(functions) + 1), Name: f.Name, SystemName: f.Name, Filename: f.File, StartLine: int64(f.From)}
				functions[f.Name+f.File] = fn
				out.Function = append(out.Function, fn)
			}
			at := locations[f]
			if at == nil {
				at = &profile.Location{ID: uint64(len(locations) + 1), Line: []profile.Line{{Function: fn, Line: int64(f.Line)}}}
				locations[f] = at
				out.Location = append(out.Location, at)
			}
			next.Location = append(next.Location, at)
		}
		out.Sample = append(out.Sample, next)
	}
	return out.Write(w)
}

// FunctionFuel is the share of a profile's fuel that a function uses.
type FunctionFuel struct {
	Name        string
	Own, Called float64 // by its own code, and with the functions that it calls
}

// Functions returns the functions by the fuel of their own code, most first.
func (p *Profile) Functions() (list []FunctionFuel) {
	index := make(map[string]int)
	total := 0.0
	for _, s := range p.samples {
		total += float64(s.units)
		seen := make(map[string]bool)
		for depth, f := range s.stack {
			i, ok := index[f.Name]
			if !ok {
				i = len(list)
				index[f.Name] = i
				list = append(list, FunctionFuel{Name: f.Name})
			}
			if depth == 0 {
				list[i].Own += float64(s.units)
			}
			if !seen[f.Name] {
				seen[f.Name] = true
				list[i].Called += float64(s.units)
			}
		}
	}
	for i := range list {
		list[i].Own /= total
		list[i].Called /= total
	}
	slices.SortStableFunc(list, func(a, b FunctionFuel) int { return cmp.Or(cmp.Compare(b.Own, a.Own), cmp.Compare(b.Called, a.Called)) })
	return list
}
