package proxy

import (
	"bytes"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/admin"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
)

// Status describes the gateway at this moment, with one page of each list that can be long. It holds names, numbers and errors of
// the configuration, and nothing that a client or a provider sent.
func (s *Server) Status(page admin.Page) admin.Status {
	now, limits := s.now(), s.admission.limits.Load()
	status := admin.Status{
		Version: s.version, Now: now, Started: s.startedAt, Uptime: now.Sub(s.startedAt).Seconds(), Ready: true, Page: page,
		Clients: admin.Clients{Open: s.clients.Count(), Max: limits.MaxConns},
		Process: processStatus(),
	}
	if err := s.Ready(); err != nil {
		status.Ready, status.Reason = false, err.Error()
	}
	if s.logDropped != nil {
		status.Process.LogDropped = s.logDropped()
	}
	t := s.metrics.Totals()
	status.Requests = admin.Requests{
		Total: t.Requests, ClientErrors: t.ClientErrors, ServerErrors: t.ServerErrors, Disconnects: t.Disconnects,
		InFlight: t.InFlight, Streams: t.Streams, PromptTokens: t.PromptTokens, CompletionTokens: t.CompletionTokens,
		FirstEvents: t.FirstEvents, FirstEventSeconds: t.FirstEventSum.Seconds(),
		Completions: s.admission.requests.Load(), CompletionsMax: int64(limits.MaxRequests),
		Bodies: s.admission.bodies.Load(), BodiesMax: limits.MaxBodyMemory,
		Refused: t.Refused, Shed: t.Shed, Heartbeats: t.Heartbeats, Panics: t.Panics,
		Statuses: t.Statuses, FirstEvent: admin.Percentiles(t.FirstEvent), Duration: admin.Percentiles(t.Duration),
	}
	r := s.health.lastReload()
	status.Config = admin.Config{Open: s.open.count(), Reloads: r.succeeded, Failed: r.failed, LastReload: r.at}
	if r.err != nil {
		status.Config.ReloadError = r.err.Error()
	}
	status.Plugins = pluginStatus(s.plugins)
	if g := s.acquire(); g != nil {
		defer g.release()
		status.Config.File, status.Config.Generation, status.Config.Loaded = g.config.Path, g.number, g.made
		var stats targetStats
		if page.Size > 0 {
			stats = s.targetStats()
		}
		describeGeneration(&status, g, &s.open, stats)
		if page.Size > 0 {
			s.describeModels(&status, g, stats)
			s.describeKeys(&status, g)
		}
	}
	return status
}

// targetStats are the statistics of targets by name.
type targetStats map[targetName]routing.Snapshot

func (s *Server) targetStats() targetStats {
	all := make(targetStats)
	for _, t := range s.registry.Snapshot(s.now()) {
		all[targetName{t.Provider, t.Model}] = t.Snapshot
	}
	return all
}

// get returns a target's statistics; one that has not been used is healthy.
func (all targetStats) get(name targetName) routing.Snapshot {
	if f, ok := all[name]; ok {
		return f
	}
	return routing.Snapshot{Ready: true}
}

// describe returns a target's state for the status.
func (all targetStats) describe(e targetName) admin.Target {
	f := all.get(e)
	t := admin.Target{
		Provider: e.provider, Model: e.model, State: f.Health.String(), InFlight: f.Inflight,
		Latency: f.Latency.Seconds(), ErrorRate: f.ErrorRate, Failures: f.Failures,
		Answered: int64(f.Outcomes[routing.Succeeded]), Failed: int64(f.Outcomes[routing.Failed] + f.Outcomes[routing.RateLimited]),
	}
	if f.Health == routing.Open {
		t.Until, t.RateLimited = &f.Until, f.RateLimited
	}
	if last := f.LastError; !last.At.IsZero() {
		t.LastError = &admin.TargetError{At: last.At, Code: last.Code, Text: last.Text}
	}
	return t
}

// describeModels adds the models of a generation, the configured ones and then those that providers have listed, as far as they
// are on the page of the status.
func (s *Server) describeModels(status *admin.Status, g *generation, stats targetStats) {
	configured, listed, counts := g.config.Models, g.catalog.Listed(), s.metrics.Models()
	status.ModelsTotal, status.ModelsListed = len(configured)+len(listed), len(listed)
	from, to := status.Page.Cut(status.ModelsTotal)
	for i := from; i < to; i++ {
		var model admin.Model
		var targets []config.Target
		if i < len(configured) {
			m := &configured[i]
			model, targets = admin.Model{ID: m.ID, Off: m.Off}, m.Targets
			c := counts[m.ID]
			model.Requests, model.Failed = c.Requests, c.Failed
			model.FirstEvent, model.Duration = admin.Percentiles(c.FirstEvent), admin.Percentiles(c.Duration)
		} else {
			m := listed[i-len(configured)]
			model, targets = admin.Model{ID: m.ID, Listed: true}, m.Targets
		}
		for _, c := range targets {
			t := admin.Target{Provider: c.Provider, Model: c.Model, Off: !g.hasProvider(c.Provider)}
			if !t.Off {
				t = stats.describe(targetName{c.Provider, c.Model})
			}
			t.Fallback = c.Fallback
			model.Targets = append(model.Targets, t)
		}
		status.Models = append(status.Models, model)
	}
}

// describeKeys adds the client keys of a generation, as far as they are on the page of the status.
func (s *Server) describeKeys(status *admin.Status, g *generation) {
	status.KeysTotal = len(g.config.Keys)
	from, to := status.Page.Cut(status.KeysTotal)
	for i := from; i < to; i++ {
		k := &g.config.Keys[i]
		c := s.metrics.Key(k.Name)
		key := admin.Key{Name: k.Name, Requests: c.Requests, PromptTokens: c.PromptTokens, CompletionTokens: c.CompletionTokens, Rejected: c.Rejected}
		switch {
		case k.Disabled:
			key.State = "disabled"
		case !k.Expires.IsZero() && !status.Now.Before(k.Expires):
			key.State = "expired"
		case status.Now.Before(k.NotBefore):
			key.State = "not valid yet"
		}
		status.Keys = append(status.Keys, key)
	}
}

// describeGeneration adds the providers of a generation, as far as they are on the page of the status.
func describeGeneration(status *admin.Status, g *generation, open *openGenerations, stats targetStats) {
	upstreams := make(map[string]upstreamStats)
	for _, u := range open.upstreams() {
		upstreams[u.provider] = u
	}
	targets := make(map[string][]targetName)
	for _, e := range g.targetNames() {
		targets[e.provider] = append(targets[e.provider], e)
	}
	for i := range g.config.Providers {
		c := &g.config.Providers[i]
		p := admin.Provider{Name: c.Name, Plugin: c.Plugin, Off: c.Off}
		if u, ok := upstreams[c.Name]; ok && c.BaseURL != "" && c.Off == "" {
			p.Max, p.Used, p.Idle, p.Waiting = c.MaxConns, u.InUse, u.Idle, u.Waiting
			p.Dialled, p.Reused, p.Stale, p.Retried = u.Dialled, u.Reused, u.Stale, u.Retried
		}
		p.TargetsTotal = len(targets[c.Name])
		from, to := status.Page.Cut(p.TargetsTotal)
		for _, e := range targets[c.Name][from:to] {
			p.Targets = append(p.Targets, stats.describe(e))
		}
		status.Providers = append(status.Providers, p)
	}
}

func pluginStatus(host *plugin.Host) []admin.Plugin {
	var all []admin.Plugin
	for _, p := range host.Stats().Plugins {
		kinds := make(map[string]int64, len(p.Failed))
		for kind, n := range p.Failed {
			kinds[kind.Label()] = n
		}
		all = append(all, admin.Plugin{
			Name: p.Plugin, Calls: p.Calls, Failures: p.Failures, Kinds: kinds, Retries: p.Retries, Fuel: p.Fuel, Unknown: p.Unknown,
			Breaker: p.Breaker.String(), Open: p.Breaker != plugin.BreakerClosed, Opened: p.Opened,
			Used: p.Instances - p.Idle, Idle: p.Idle, Waiting: p.Waiting, Memory: p.Memory, Generations: p.Generations,
		})
	}
	return all
}

// processStatus reads how much memory the process takes. Where the resident size is unknown, it is what Go has, without the
// memories of plugins.
func processStatus() admin.Process {
	m := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/sched/goroutines:goroutines"},
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(m)
	p := admin.Process{Heap: int64(m[0].Value.Uint64()), Goroutines: int64(m[1].Value.Uint64())}
	p.Memory = int64(m[2].Value.Uint64() - m[3].Value.Uint64())
	if statm, err := os.ReadFile("/proc/self/statm"); err == nil {
		if fields := bytes.Fields(statm); len(fields) > 1 {
			if pages, err := strconv.ParseInt(string(fields[1]), 10, 64); err == nil {
				p.Memory = pages * int64(os.Getpagesize())
			}
		}
	}
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		p.Limit = limit
	}
	return p
}
