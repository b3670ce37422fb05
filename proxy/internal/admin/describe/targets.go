package describe

import (
	"strings"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/admin"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/canary"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/catalog"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/shadow"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
)

// target describes a target whose provider is on.
func target(name routing.TargetName, stats routing.Snapshots) admin.Target {
	s := stats.Get(name)
	t := admin.Target{
		Provider: name.Provider, Model: name.Model, State: s.Health.String(), InFlight: s.Inflight,
		Latency: s.Latency.Seconds(), ErrorRate: s.ErrorRate, Failures: s.Failures,
		Answered: int64(s.Outcomes[routing.Succeeded]), Failed: int64(s.Outcomes[routing.Failed] + s.Outcomes[routing.RateLimited]),
	}
	if s.Health == routing.Open {
		t.Until, t.RateLimited = &s.Until, s.RateLimited
	}
	if last := s.LastError; !last.At.IsZero() {
		t.LastError = &admin.TargetError{At: last.At, Code: last.Code, Text: last.Text}
	}
	return t
}

// AddProviders adds the configured providers with their targets. connections has an entry for each provider that is on.
func AddProviders(status *admin.Status, providers []config.Provider, connections map[string]upstream.Stats, targets []routing.TargetName, stats routing.Snapshots) {
	byProvider := make(map[string][]routing.TargetName)
	for _, t := range targets {
		byProvider[t.Provider] = append(byProvider[t.Provider], t)
	}
	for i := range providers {
		c := &providers[i]
		p := admin.Provider{Name: c.Name, Plugin: c.Plugin, Off: c.Off}
		if u, ok := connections[c.Name]; ok && c.BaseURL != "" && c.Off == "" {
			p.Max, p.Used, p.Idle, p.Waiting = c.MaxConns, u.InUse, u.Idle, u.Waiting
			p.Dialled, p.Reused, p.Stale, p.Retried = u.Dialled, u.Reused, u.Stale, u.Retried
		}
		all := byProvider[c.Name]
		p.TargetsTotal = len(all)
		from, to := status.Page.Cut(len(all))
		for _, t := range all[from:to] {
			p.Targets = append(p.Targets, target(t, stats))
		}
		status.Providers = append(status.Providers, p)
	}
}

// Models are the models that clients can request, and the sources of their counts.
type Models struct {
	Configured []config.Model
	Listed     []*catalog.Model // models that are listed by providers and not configured

	HasProvider func(name string) bool // reports whether a provider is on
	Targets     routing.Snapshots
	Counts      map[string]telemetry.ModelStats // by model
	Canaries    []canary.Status
	Shadow      func(name routing.ShadowName) shadow.Counts
}

// AddTo adds the configured models and then the listed ones.
func (m *Models) AddTo(status *admin.Status) {
	canaries := m.canaries()
	status.ModelsTotal, status.ModelsListed = len(m.Configured)+len(m.Listed), len(m.Listed)
	from, to := status.Page.Cut(status.ModelsTotal)
	for i := from; i < to; i++ {
		var model admin.Model
		var targets []config.Target
		if i < len(m.Configured) {
			c, counts := &m.Configured[i], m.Counts[m.Configured[i].ID]
			targets = c.Targets
			model = admin.Model{
				ID: c.ID, Off: c.Off, Canary: canaries[c.ID], Shadows: m.shadows(c), Counts: groupCounts(&counts.Counts), Failed: counts.Failed,
				FirstEvent: admin.Percentiles(counts.FirstEvent), Duration: admin.Percentiles(counts.Duration),
			}
		} else {
			listed := m.Listed[i-len(m.Configured)]
			model, targets = admin.Model{ID: listed.ID, Listed: true}, listed.Targets
		}
		for _, c := range targets {
			t := admin.Target{Provider: c.Provider, Model: c.Model, Off: !m.HasProvider(c.Provider)}
			if !t.Off {
				t = target(routing.TargetName{Provider: c.Provider, Model: c.Model}, m.Targets)
			}
			t.Fallback = c.Fallback
			model.Targets = append(model.Targets, t)
		}
		status.Models = append(status.Models, model)
	}
}

// canaries describes the canaries, by model.
func (m *Models) canaries() map[string]*admin.Canary {
	byModel := make(map[string]*admin.Canary)
	for i := range m.Canaries {
		c := &m.Canaries[i]
		provider, model, _ := strings.Cut(c.Target, "/")
		described := &admin.Canary{
			Provider: provider, Model: model, Step: c.Step, Steps: c.Steps, Share: c.Share, Began: c.Began,
			Attempts: c.Attempts, Errors: c.Errors, Traps: c.Traps, Reason: c.Reason,
		}
		if c.Reason != "" {
			described.RolledBack = &c.RolledBack
		}
		byModel[c.Model] = described
	}
	return byModel
}

// shadows describes the shadow targets of a model.
func (m *Models) shadows(model *config.Model) (all []admin.Shadow) {
	for i := range model.Shadows {
		c := &model.Shadows[i]
		s := admin.Shadow{Provider: c.Provider, Model: c.Model, Share: c.Share, Off: !m.HasProvider(c.Provider)}
		if !s.Off {
			n := m.Shadow(routing.ShadowName{Model: model.ID, Provider: c.Provider, Target: c.Model})
			s.Requests, s.Compared, s.Cost = n.Total(), n.Compared, n.Cost
			s.Outcomes, s.Differences = make(map[string]int64), make(map[string]int64)
			for o, count := range n.Outcomes {
				s.Outcomes[shadow.Outcome(o).String()] = count
			}
			for d, count := range n.Differences {
				s.Differences[shadow.Difference(d).String()] = count
			}
			s.FirstEvent, s.Duration = n.Ratios()
		}
		all = append(all, s)
	}
	return all
}
