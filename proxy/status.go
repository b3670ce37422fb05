package proxy

import (
	"bytes"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"

	"github.com/sluice-gateway/sluice/proxy/internal/admin"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
)

// Status describes the gateway at this moment. It holds names, numbers and the words of the configuration's errors, and
// nothing that a client or a provider said.
func (s *Server) Status() admin.Status {
	now, limits := s.now(), s.settings.Load()
	status := admin.Status{
		Version: s.version, Now: now, Started: s.begun, Uptime: now.Sub(s.begun).Seconds(), Ready: true,
		Clients: admin.Clients{Open: s.clients.Count(), Max: limits.MaxConns},
		Process: process(),
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
	}
	r := s.health.lastReload()
	status.Config = admin.Config{Open: s.estate.generations(), Reloads: r.succeeded, Failed: r.failed, LastReload: r.at}
	if r.err != nil {
		status.Config.ReloadError = r.err.Error()
	}
	status.Plugins = s.pluginStatus()
	if g := s.acquire(); g != nil {
		defer g.release()
		status.Config.File, status.Config.Generation, status.Config.Loaded = g.config.Path, g.number, g.made
		s.describe(g, &status)
	}
	return status
}

// describe adds the models and providers of a generation.
func (s *Server) describe(g *generation, status *admin.Status) {
	seen := s.seen(s.now())
	look := func(e endpoint) admin.Target {
		f := seen.of(e)
		return admin.Target{
			Provider: e.provider, Model: e.model, Healthy: f.Healthy, Breaker: f.Breaker.String(), InFlight: f.Inflight,
			Latency: f.Latency.Seconds(), ErrorRate: f.ErrorRate,
			Answered: int64(f.Outcomes[routing.Succeeded]), Failed: int64(f.Outcomes[routing.Failed] + f.Outcomes[routing.RateLimited]),
		}
	}
	for i := range g.config.Models {
		m := &g.config.Models[i]
		model := admin.Model{ID: m.ID, Off: m.Off}
		for _, c := range m.Targets {
			t := admin.Target{Provider: c.Provider, Model: c.Model, Off: !g.sendsTo(c.Provider)}
			if !t.Off {
				t = look(endpoint{c.Provider, c.Model})
			}
			t.Fallback = c.Fallback
			model.Targets = append(model.Targets, t)
		}
		status.Models = append(status.Models, model)
	}
	upstreams := make(map[string]upstreamStats)
	for _, u := range s.estate.upstreams() {
		upstreams[u.provider] = u
	}
	for i := range g.config.Providers {
		c := &g.config.Providers[i]
		p := admin.Provider{Name: c.Name, Plugin: c.Plugin, Off: c.Off}
		if u, ok := upstreams[c.Name]; ok && c.BaseURL != "" && c.Off == "" {
			p.Max, p.Used, p.Idle, p.Waiting = c.MaxConns, u.InUse, u.Idle, u.Waiting
			p.Dialled, p.Reused, p.Stale, p.Retried = u.Dialled, u.Reused, u.Stale, u.Retried
		}
		for _, e := range g.configured() {
			if e.provider == c.Name {
				p.Targets = append(p.Targets, look(e))
			}
		}
		status.Providers = append(status.Providers, p)
	}
}

func (s *Server) pluginStatus() []admin.Plugin {
	var all []admin.Plugin
	for _, p := range s.plugins.Stats().Plugins {
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

// process reads what the process takes of memory. Where the system does not say what is resident, it is what Go has of it,
// without the memories of plugins.
func process() admin.Process {
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
