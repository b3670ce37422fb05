package main

import (
	"fmt"
	"time"

	"github.com/sluice-gateway/sluice/cmd/bench/load"
	"github.com/sluice-gateway/sluice/cmd/bench/process"
	"github.com/sluice-gateway/sluice/cmd/bench/provider"
	"github.com/sluice-gateway/sluice/cmd/bench/report"
)

// benchCase is a measurement.
type benchCase struct {
	name    string
	measure func(*stage) ([]report.Row, error)
}

// cases returns all cases in the order in which they run.
func cases() []benchCase {
	var list []benchCase
	add := func(name string, measure func(*stage) ([]report.Row, error)) {
		list = append(list, benchCase{name, measure})
	}
	rates := []rate{
		{name: "non-streaming, prompt of 200 B", connections: 16, goals: goals{1.4, 2}},
		{name: "non-streaming, conversation of 100 KB", connections: 16, prompt: 100_000, goals: goals{2.5, 6}},
		{name: "paced stream, 200 × 100 events/s", connections: 200, scenario: provider.Scenario{Stream: true, Every: 10 * time.Millisecond}, goals: goals{1.1, 1.2}},
		{name: "unpaced stream, one write per event", connections: 16, scenario: provider.Scenario{Stream: true, Events: 500}, goals: goals{2, 3}},
		{name: "unpaced stream, writes of 16 KiB", connections: 16, scenario: provider.Scenario{Stream: true, Events: 500, Block: 16 << 10}, goals: goals{2, 3}},
	}
	for _, size := range []struct {
		name                            string
		bytes                           int
		native, translated, translated2 float64
	}{{"1 KB", 1000, 2, 2.8, 3.2}, {"10 KB", 10_000, 2, 3.5, 5}, {"100 KB", 100_000, 2, 3.7, 7}, {"1 MB", 1_000_000, 3, 6, 10}} {
		rates = append(rates,
			rate{name: "Messages, conversation of " + size.name, connections: 16, api: "messages", prompt: size.bytes, goals: goals{size.translated, size.native}},
			rate{name: "Responses, conversation of " + size.name, connections: 16, api: "responses", prompt: size.bytes, goals: goals{size.translated, size.translated2}})
	}
	for _, r := range rates {
		add(r.name, r.measure)
	}
	for _, c := range capabilities {
		r := rate{name: "200 B with " + c.name, connections: 16}
		add(r.name, func(s *stage) ([]report.Row, error) { return r.measureCapability(s, &c) })
	}
	add("first event", firstEvent)
	add("held streams, prompt of 200 B", func(s *stage) ([]report.Row, error) { return s.heldMemory("held streams, prompt of 200 B", 0) })
	add("held streams, conversation of 100 KB", func(s *stage) ([]report.Row, error) {
		return s.heldMemory("held streams, conversation of 100 KB", 100_000)
	})
	add("active streams, prompt of 200 B", activeMemory)
	add("silent streams", silentStreams)
	add("start, plugins cached", func(s *stage) ([]report.Row, error) { return s.measureStart("start, plugins cached", true) })
	add("start, plugins not cached", func(s *stage) ([]report.Row, error) { return s.measureStart("start, plugins not cached", false) })
	add("idle with three plugins", idleMemory)
	add("binary, stripped", binarySize)
	return list
}

// goals are the maximum ratios to the bare proxy with the two plugins.
type goals struct{ openai, anthropic float64 }

func (g goals) forDialect(dialect string) float64 {
	if dialect == "openai" {
		return g.openai
	}
	return g.anthropic
}

// rate is a case that measures the CPU time of a request or an event.
type rate struct {
	name        string
	connections int
	api         string // the client's API, "" for chat completions
	prompt      int    // approximate size in bytes
	scenario    provider.Scenario
	goals       goals
}

func (r rate) unit() string {
	if r.scenario.Stream {
		return "µs CPU/event"
	}
	return "µs CPU/request"
}

// contender is what a slice measures: a subject, and the model and client key of its requests.
type contender struct {
	subject, model, credential string
}

// measure compares the gateway with the bare proxy.
func (r rate) measure(s *stage) (rows []report.Row, err error) {
	for _, dialect := range s.dialects() {
		var contenders []contender
		for _, name := range s.names() {
			contenders = append(contenders, contender{name, models[dialect], provider.Credential})
		}
		f, err := r.alternate(s, dialect, contenders)
		if err != nil {
			return rows, err
		}
		row := report.Row{Case: r.name, Plugin: dialect, Unit: r.unit(), Goal: r.goals.forDialect(dialect)}
		row.Compare(figures(s.names(), f))
		rows = append(rows, row)
		s.logf("    %-10s bare %.1f, sluice %.1f %s: %s", dialect, *row.Bare, *row.Sluice, row.Unit, row.Ratio)
	}
	return rows, nil
}

// measureCapability compares requests that use a capability with those that do not.
func (r rate) measureCapability(s *stage, c *capability) (rows []report.Row, err error) {
	for _, dialect := range s.dialects() {
		contenders := []contender{{sluice, models[dialect], provider.Credential}, {c.subject(), c.modelID(dialect), c.credential()}}
		if s.base != "" && c.gateway == "" {
			contenders = append(contenders, contender{base, c.modelID(dialect), c.credential()})
		}
		f, err := r.alternate(s, dialect, contenders)
		if err != nil {
			return rows, err
		}
		row := report.Row{Case: r.name, Plugin: dialect, Unit: r.unit(), Goal: c.goal}
		row.Compare(figures([]string{plain, sluice, base}, f))
		rows = append(rows, row)
		s.logf("    %-10s plain %.1f, sluice %.1f %s: %s", dialect, *row.Plain, *row.Sluice, row.Unit, row.Ratio)
	}
	return rows, nil
}

// figures assigns measurements to the subjects in names.
func figures(names []string, values [][]float64) (f report.Figures) {
	for i, v := range values {
		switch names[i] {
		case direct:
			f.Direct = v
		case bareProxy:
			f.Bare = v
		case nginx:
			f.Nginx = v
		case plain:
			f.Plain = v
		case base:
			f.Base = v
		case sluice:
			f.Sluice = v
		}
	}
	return f
}

// alternate measures each contender once per round, in turn, so that other load on the machine affects all of them.
// It returns the CPU time in µs per request or event, of each contender in each round.
func (r rate) alternate(s *stage, dialect string, contenders []contender) ([][]float64, error) {
	perUnit := make([][]float64, len(contenders))
	total := make([]process.Usage, len(contenders))
	units := make([]int64, len(contenders))
	for round := range s.rounds {
		for n := range contenders {
			i := (n + round) % len(contenders)
			c := &contenders[i]
			sub, err := s.subject(c.subject, dialect)
			if err != nil {
				return nil, err
			}
			used, n, err := r.slice(s, sub, c)
			if err != nil {
				return nil, err
			}
			perUnit[i] = append(perUnit[i], float64(used.CPU.Nanoseconds())/1e3/float64(n))
			total[i] = process.Usage{CPU: total[i].CPU + used.CPU, Reads: total[i].Reads + used.Reads, Writes: total[i].Writes + used.Writes}
			units[i] += n
		}
	}
	for i, c := range contenders {
		u, n := total[i], float64(units[i])
		s.report.Details = append(s.report.Details, report.Usage{
			Case: r.name, Subject: c.subject + " " + c.model, Units: units[i],
			CPU: float64(u.CPU.Nanoseconds()) / 1e3 / n, Reads: float64(u.Reads) / n, Writes: float64(u.Writes) / n,
		})
	}
	return perUnit, nil
}

// maxSlice is how long a slice is extended to get a first response.
const maxSlice = 30 * time.Second

// slice measures one subject for a slice, and returns its usage and the number of requests or events.
func (r rate) slice(s *stage, sub *subject, c *contender) (used process.Usage, units int64, err error) {
	if err := s.startJob(sub, r.scenario, load.Job{Connections: r.connections, API: r.api, Prompt: r.prompt, Model: c.model, Credential: c.credential}); err != nil {
		return used, 0, err
	}
	if r.scenario.Every > 0 {
		if err := s.awaitOpen(r.connections); err != nil {
			return used, 0, err
		}
	}
	if err := s.pause(s.warm); err != nil {
		return used, 0, err
	}
	sample := func() (u process.Usage, n int64, err error) {
		c, err := s.loadOrder(orderCount)
		if err != nil {
			return u, 0, err
		}
		if n = c.Responses; r.scenario.Stream {
			n = c.Events
		}
		u, err = sub.process.Usage()
		return u, n, err
	}
	before, from, err := sample()
	if err != nil {
		return used, 0, err
	}
	var after process.Usage
	var to int64
	// On a very busy machine, a slice may end before the first response. Extend it.
	for waited := time.Duration(0); to <= from && waited < maxSlice; waited += s.options.slice {
		if err := s.pause(s.options.slice); err != nil {
			return used, 0, err
		}
		if after, to, err = sample(); err != nil {
			return used, 0, err
		}
	}
	if _, err := s.finishJob(sub); err != nil {
		return used, 0, err
	}
	if to <= from {
		return used, 0, fmt.Errorf("%s %s: no response within %s", sub.name, sub.dialect, maxSlice)
	}
	return after.Sub(before), to - from, nil
}

// firstEvent measures the time to a stream's first text event on one connection. The latency that the gateway adds is
// the difference to the bare proxy, which needs the same number of context switches.
func firstEvent(s *stage) (rows []report.Row, err error) {
	names := append([]string{direct}, s.names()...)
	for _, dialect := range s.dialects() {
		p50, p99 := make([][]float64, len(names)), make([][]float64, len(names))
		for round := range s.rounds {
			for n := range names {
				i := (n + round) % len(names)
				sub, err := s.subjectOrProvider(names[i], dialect)
				if err != nil {
					return rows, err
				}
				if err := s.startJob(sub, provider.Scenario{Stream: true, Events: 5}, load.Job{Connections: 1, Times: true}); err != nil {
					return rows, err
				}
				if err := s.pause(s.options.slice); err != nil {
					return rows, err
				}
				c, err := s.finishJob(sub)
				if err != nil {
					return rows, err
				}
				p50[i] = append(p50[i], report.Quantile(c.First, 0.50)/1e3)
				p99[i] = append(p99[i], report.Quantile(c.First, 0.99)/1e3)
			}
		}
		for _, q := range []struct {
			name   string
			times  [][]float64
			target float64
		}{{"p50", p50, 80}, {"p99", p99, 400}} {
			row := report.Row{Case: "first event, 1 connection, " + q.name, Plugin: dialect, Unit: "µs", Goal: q.target}
			row.CompareDifference(figures(names, q.times))
			rows = append(rows, row)
			s.logf("    %-10s %s: direct %.0f, bare %.0f, sluice %.0f µs", dialect, q.name, *row.Direct, *row.Bare, *row.Sluice)
		}
	}
	return rows, nil
}

// subjectOrProvider returns a subject, or the provider itself for direct.
func (s *stage) subjectOrProvider(name, dialect string) (*subject, error) {
	if name == direct {
		return s.start(direct, dialect)
	}
	return s.subject(name, dialect)
}
