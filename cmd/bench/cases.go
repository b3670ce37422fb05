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
	for _, r := range []rate{
		{name: "non-streaming, prompt of 200 B", unit: "µs CPU/request", connections: 16, goals: goals{1.4, 2}},
		{name: "non-streaming, conversation of 100 KB", unit: "µs CPU/request", connections: 16, prompt: 100_000, goals: goals{2.5, 6}},
		{name: "Messages, conversation of 110 KB", unit: "µs CPU/request", connections: 16, api: "messages", prompt: 110_000, goals: goals{7, 2.5}},
		{name: "Responses, conversation of 110 KB", unit: "µs CPU/request", connections: 16, api: "responses", prompt: 110_000, goals: goals{7, 7}},
		{name: "paced stream, 200 × 100 events/s", unit: "µs CPU/event", connections: 200, scenario: provider.Scenario{Stream: true, Every: 10 * time.Millisecond}, goals: goals{1.1, 1.2}},
		{name: "unpaced stream, one write per event", unit: "µs CPU/event", connections: 16, scenario: provider.Scenario{Stream: true, Events: 500}, goals: goals{2, 3}},
		{name: "unpaced stream, writes of 16 KiB", unit: "µs CPU/event", connections: 16, scenario: provider.Scenario{Stream: true, Events: 500, Block: 16 << 10}, goals: goals{2, 3}},
	} {
		add(r.name, r.measure)
	}
	add("first event", firstEvent)
	add("held streams, prompt of 200 B", func(s *stage) ([]report.Row, error) { return s.heldMemory("held streams, prompt of 200 B", 0) })
	add("held streams, conversation of 100 KB", func(s *stage) ([]report.Row, error) {
		return s.heldMemory("held streams, conversation of 100 KB", 100_000)
	})
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
	name, unit  string
	connections int
	api         string // the client's API, "" for chat completions
	prompt      int    // approximate size in bytes
	scenario    provider.Scenario
	goals       goals
}

// measure runs the subjects alternately, so that other load on the machine affects all of them.
func (r rate) measure(s *stage) (rows []report.Row, err error) {
	for _, dialect := range s.dialects() {
		perUnit := map[string][]float64{} // CPU time in µs, per round
		total := map[string]process.Usage{}
		units := map[string]int64{}
		names := s.names()
		for round := range s.rounds {
			for i := range names {
				name := names[(i+round)%len(names)]
				sub, err := s.subject(name, dialect)
				if err != nil {
					return rows, err
				}
				used, n, err := r.slice(s, sub)
				if err != nil {
					return rows, err
				}
				perUnit[name] = append(perUnit[name], float64(used.CPU.Nanoseconds())/1e3/float64(n))
				t := total[name]
				total[name] = process.Usage{CPU: t.CPU + used.CPU, Reads: t.Reads + used.Reads, Writes: t.Writes + used.Writes}
				units[name] += n
			}
		}
		row := report.Row{Case: r.name, Plugin: dialect, Unit: r.unit, Goal: r.goals.forDialect(dialect)}
		row.Compare(nil, perUnit[bareProxy], perUnit[nginx], perUnit[sluice])
		rows = append(rows, row)
		for _, name := range names {
			u, n := total[name], float64(units[name])
			s.report.Details = append(s.report.Details, report.Usage{
				Case: r.name, Subject: name + " " + dialect, Units: units[name],
				CPU: float64(u.CPU.Nanoseconds()) / 1e3 / n, Reads: float64(u.Reads) / n, Writes: float64(u.Writes) / n,
			})
		}
		s.logf("    %-10s bare %.1f, sluice %.1f %s: %.2f ×", dialect, *row.Bare, *row.Sluice, r.unit, *row.Ratio)
	}
	return rows, nil
}

// maxSlice is how long a slice is extended to get a first response.
const maxSlice = 30 * time.Second

// slice measures one subject for a slice, and returns its usage and the number of requests or events.
func (r rate) slice(s *stage, sub *subject) (used process.Usage, units int64, err error) {
	if err := s.startJob(sub, r.scenario, load.Job{Connections: r.connections, API: r.api, Prompt: r.prompt}); err != nil {
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
		p50, p99 := map[string][]float64{}, map[string][]float64{}
		for round := range s.rounds {
			for i := range names {
				name := names[(i+round)%len(names)]
				sub, err := s.subjectOrProvider(name, dialect)
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
				p50[name] = append(p50[name], report.Quantile(c.First, 0.50)/1e3)
				p99[name] = append(p99[name], report.Quantile(c.First, 0.99)/1e3)
			}
		}
		for _, q := range []struct {
			name   string
			times  map[string][]float64
			target float64
		}{{"p50", p50, 80}, {"p99", p99, 400}} {
			row := report.Row{Case: "first event, 1 connection, " + q.name, Plugin: dialect, Unit: "µs", Goal: q.target}
			row.CompareDifference(q.times[bareProxy], q.times[nginx], q.times[sluice])
			row.Direct = new(report.Median(q.times[direct]))
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
