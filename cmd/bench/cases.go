package main

import (
	"fmt"
	"time"

	"github.com/sluice-gateway/sluice/cmd/bench/load"
	"github.com/sluice-gateway/sluice/cmd/bench/process"
	"github.com/sluice-gateway/sluice/cmd/bench/provider"
	"github.com/sluice-gateway/sluice/cmd/bench/report"
)

// aCase is something that is measured.
type aCase struct {
	name    string
	measure func(*stage) ([]report.Row, error)
}

// cases are all of them, in the order in which they are measured.
func cases() []aCase {
	var list []aCase
	add := func(name string, measure func(*stage) ([]report.Row, error)) {
		list = append(list, aCase{name, measure})
	}
	for _, r := range []rate{
		{name: "whole answer, prompt of 200 B", unit: "µs CPU a request", connections: 16, goals: goals{1.4, 2}},
		{name: "whole answer, conversation of 100 KB", unit: "µs CPU a request", connections: 16, prompt: 100_000, goals: goals{2.5, 6}},
		{name: "paced stream, 200 × 100 events/s", unit: "µs CPU an event", connections: 200, scenario: provider.Scenario{Stream: true, Every: 10 * time.Millisecond}, goals: goals{1.1, 1.2}},
		{name: "unpaced stream, a write an event", unit: "µs CPU an event", connections: 16, scenario: provider.Scenario{Stream: true, Events: 500}, goals: goals{2, 3}},
		{name: "unpaced stream, writes of 16 KiB", unit: "µs CPU an event", connections: 16, scenario: provider.Scenario{Stream: true, Events: 500, Block: 16 << 10}, goals: goals{2, 3}},
	} {
		add(r.name, r.measure)
	}
	add("first event", firstEvent)
	add("held streams, prompt of 200 B", func(s *stage) ([]report.Row, error) { return s.heldMemory("held streams, prompt of 200 B", 0) })
	add("held streams, conversation of 100 KB", func(s *stage) ([]report.Row, error) {
		return s.heldMemory("held streams, conversation of 100 KB", 100_000)
	})
	add("silent streams", silentStreams)
	add("start, compiled plugins on disk", func(s *stage) ([]report.Row, error) { return s.started("start, compiled plugins on disk", true) })
	add("start, nothing compiled", func(s *stage) ([]report.Row, error) { return s.started("start, nothing compiled", false) })
	add("idle with three plugins", idleMemory)
	add("binary, stripped", binarySize)
	return list
}

// goals are those of the two plugins, as ratios to the bare proxy.
type goals struct{ openai, anthropic float64 }

func (g goals) of(dialect string) float64 {
	if dialect == "openai" {
		return g.openai
	}
	return g.anthropic
}

// rate is a case that asks what CPU time one request, or one event, costs.
type rate struct {
	name, unit  string
	connections int
	prompt      int
	scenario    provider.Scenario
	goals       goals
}

// measure runs all subjects in turn, so that what else happens on the machine meets each of them.
func (r rate) measure(s *stage) (rows []report.Row, err error) {
	for _, dialect := range s.dialects() {
		per := map[string][]float64{}
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
				per[name] = append(per[name], float64(used.CPU.Nanoseconds())/1e3/float64(n))
				t := total[name]
				total[name] = process.Usage{CPU: t.CPU + used.CPU, Reads: t.Reads + used.Reads, Writes: t.Writes + used.Writes}
				units[name] += n
			}
		}
		row := report.Row{Case: r.name, Plugin: dialect, Unit: r.unit, Goal: r.goals.of(dialect)}
		row.Compare(nil, per[bared], per[nginx], per[sluice])
		rows = append(rows, row)
		for _, name := range names {
			u, n := total[name], float64(units[name])
			s.report.Details = append(s.report.Details, report.Usage{
				Case: r.name, Subject: name + " " + dialect, Units: units[name],
				CPU: float64(u.CPU.Nanoseconds()) / 1e3 / n, Reads: float64(u.Reads) / n, Writes: float64(u.Writes) / n,
			})
		}
		s.say("    %-10s bare %.1f, sluice %.1f %s: %.2f ×", dialect, *row.Bare, *row.Sluice, r.unit, *row.Ratio)
	}
	return rows, nil
}

// maxSlice is how long a subject may take for its first answer.
const maxSlice = 30 * time.Second

// slice measures one subject for a while, and returns what it used for how many requests or events.
func (r rate) slice(s *stage, sub *subject) (used process.Usage, units int64, err error) {
	if err := s.begun(sub, r.scenario, load.Job{Connections: r.connections, Prompt: r.prompt}); err != nil {
		return used, 0, err
	}
	if r.scenario.Every > 0 {
		if err := s.open(r.connections); err != nil {
			return used, 0, err
		}
	}
	if err := s.pause(s.warm); err != nil {
		return used, 0, err
	}
	look := func() (u process.Usage, n int64, err error) {
		c, err := s.ask(orderCount)
		if err != nil {
			return u, 0, err
		}
		if n = c.Answers; r.scenario.Stream {
			n = c.Events
		}
		u, err = sub.process.Usage()
		return u, n, err
	}
	before, from, err := look()
	if err != nil {
		return used, 0, err
	}
	var after process.Usage
	var to int64
	// On a machine that is busy enough a slice may pass before anything is answered. It then lasts until something is.
	for waited := time.Duration(0); to <= from && waited < maxSlice; waited += s.options.slice {
		if err := s.pause(s.options.slice); err != nil {
			return used, 0, err
		}
		if after, to, err = look(); err != nil {
			return used, 0, err
		}
	}
	if _, err := s.ended(sub); err != nil {
		return used, 0, err
	}
	if to <= from {
		return used, 0, fmt.Errorf("%s %s answered nothing in %s", sub.name, sub.dialect, maxSlice)
	}
	return after.Sub(before), to - from, nil
}

// firstEvent measures when a stream's first event of text comes, on one connection. What the gateway adds is counted from
// the bare proxy's time, which has the same four hops of the scheduler in it.
func firstEvent(s *stage) (rows []report.Row, err error) {
	names := append([]string{direct}, s.names()...)
	for _, dialect := range s.dialects() {
		half, most := map[string][]float64{}, map[string][]float64{}
		for round := range s.rounds {
			for i := range names {
				name := names[(i+round)%len(names)]
				sub, err := s.timed(name, dialect)
				if err != nil {
					return rows, err
				}
				if err := s.begun(sub, provider.Scenario{Stream: true, Events: 5}, load.Job{Connections: 1, Times: true}); err != nil {
					return rows, err
				}
				if err := s.pause(s.options.slice); err != nil {
					return rows, err
				}
				c, err := s.ended(sub)
				if err != nil {
					return rows, err
				}
				half[name] = append(half[name], report.Quantile(c.First, 0.50)/1e3)
				most[name] = append(most[name], report.Quantile(c.First, 0.99)/1e3)
			}
		}
		for _, q := range []struct {
			name   string
			times  map[string][]float64
			target float64
		}{{"p50", half, 80}, {"p99", most, 400}} {
			row := report.Row{Case: "first event, 1 connection, " + q.name, Plugin: dialect, Unit: "µs", Goal: q.target}
			row.Added(q.times[bared], q.times[nginx], q.times[sluice])
			row.Direct = new(report.Median(q.times[direct]))
			rows = append(rows, row)
			s.say("    %-10s %s: direct %.0f, bare %.0f, sluice %.0f µs", dialect, q.name, *row.Direct, *row.Bare, *row.Sluice)
		}
	}
	return rows, nil
}

// timed is a subject, or the provider itself.
func (s *stage) timed(name, dialect string) (*subject, error) {
	if name == direct {
		return s.start(direct, dialect)
	}
	return s.subject(name, dialect)
}
