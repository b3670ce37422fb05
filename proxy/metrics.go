package proxy

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/admin"
	"github.com/sluice-gateway/sluice/proxy/internal/breaker"
	"github.com/sluice-gateway/sluice/proxy/internal/otlp"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/shadow"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
	"github.com/sluice-gateway/sluice/proxy/internal/webhook"
)

// scrape adds to a sample of the metrics the figures that parts of the gateway keep themselves, at no cost to requests.
type scrape struct {
	s *Server
	m *telemetry.Sample
}

func (c scrape) all() {
	s, m := c.s, c.m
	m.Add(telemetry.BuildInfo, 1, s.version, runtime.Version())
	m.Add(telemetry.Ready, boolValue(s.Ready() == nil))
	m.Add(telemetry.ClientConnections, float64(s.clients.Count()))
	limits, handshakes := s.Admission.Limits(), s.clients.Handshakes()
	m.Add(telemetry.ClientConnectionsMax, float64(limits.MaxConns))
	m.Add(telemetry.ClientHandshakes, float64(handshakes.Failed), "failed")
	m.Add(telemetry.ClientHandshakes, float64(handshakes.TLSOnPlain), "tls_on_plain")
	m.Add(telemetry.ClientHandshakes, float64(handshakes.PlainOnTLS), "plain_on_tls")
	m.Add(telemetry.Completions, float64(s.Admission.Requests()))
	m.Add(telemetry.CompletionsMax, float64(limits.MaxRequests))
	m.Add(telemetry.BodyMemory, float64(s.Admission.BodyMemory()))
	m.Add(telemetry.BodyMemoryMax, float64(limits.MaxBodyMemory))
	if s.logDropped != nil {
		m.Add(telemetry.LogDropped, float64(s.logDropped()))
	}
	if j := s.books.Journal(); j != nil {
		n, failing := j.Stats(), 0.0
		if _, err := j.Failure(); err != nil {
			failing = 1
		}
		m.Add(telemetry.JournalFailing, failing)
		m.Add(telemetry.JournalRecords, float64(n.Appended))
		m.Add(telemetry.JournalLost, float64(n.Lost))
		m.Add(telemetry.JournalDamaged, float64(n.Damaged))
		m.Add(telemetry.JournalOpen, float64(n.Open))
	}
	c.store()
	c.bundle()
	c.exports()
	c.config()
	c.targets()
	c.budgets()
	for _, canary := range s.canaries.Status() {
		m.Add(telemetry.CanaryShare, canary.Share, canary.Model)
		m.Add(telemetry.CanaryStep, float64(canary.Step), canary.Model)
	}
	c.plugins()
	for provider, u := range s.open.upstreams() {
		m.Add(telemetry.UpstreamConnections, float64(u.Idle), provider, "idle")
		m.Add(telemetry.UpstreamConnections, float64(u.InUse), provider, "used")
		m.Add(telemetry.UpstreamWaiting, float64(u.Waiting), provider)
		m.Add(telemetry.UpstreamDialled, float64(u.Dialled), provider)
		m.Add(telemetry.UpstreamReused, float64(u.Reused), provider)
		m.Add(telemetry.UpstreamStale, float64(u.Stale), provider)
		m.Add(telemetry.UpstreamRetried, float64(u.Retried), provider)
		m.Add(telemetry.UpstreamUnsolicited, float64(u.Unsolicited), provider)
		m.Add(telemetry.UpstreamReauthorized, float64(u.Reauthorized), provider)
	}
}

func (c scrape) store() {
	state := c.s.books.Store()
	if state == nil {
		return
	}
	m, counts := c.m, c.s.books.StoreStats()
	m.Add(telemetry.StoreUp, boolValue(state.State == admin.StoreUp))
	for kind, modes := range map[string]map[string]int64{"limits": state.Limits, "budgets": state.Budgets} {
		for mode, n := range modes {
			m.Add(telemetry.StoreMode, float64(n), kind, mode)
		}
	}
	for caller, t := range map[string]spend.Trips{"request": counts.Requests, "background": counts.Background} {
		m.Add(telemetry.StoreTrips, float64(t.Done), caller, "ok")
		m.Add(telemetry.StoreTrips, float64(t.Failed), caller, "error")
		m.Add(telemetry.StoreSeconds, t.Time.Seconds(), caller)
	}
	m.Add(telemetry.StoreDenied, float64(counts.Denied))
	m.Add(telemetry.StoreDamaged, float64(counts.Damaged))
	m.Add(telemetry.StoreLost, float64(counts.Lost))
}

func (c scrape) bundle() {
	if c.s.node == nil {
		return
	}
	m, b := c.m, c.s.node()
	m.Add(telemetry.BundleTrial, boolValue(b.Trial))
	m.Add(telemetry.BundleSequence, float64(b.Sequence))
	m.Add(telemetry.BundleExpiry, seconds(b.Expires))
	m.Add(telemetry.BundleRollbacks, float64(b.Rollback))
	m.Add(telemetry.BundleFailing, float64(len(b.Alarms)))
}

func (c scrape) exports() {
	if at := c.s.clients.CertificateExpiry(); !at.IsZero() {
		c.m.Add(telemetry.CertificateExpiry, seconds(at))
	}
	if w := c.s.alerts; w != nil {
		delivered, failed, dropped := w.Counts()
		c.m.Add(telemetry.Alerts, float64(delivered), "delivered")
		c.m.Add(telemetry.Alerts, float64(failed), "failed")
		c.m.Add(telemetry.Alerts, float64(dropped), "dropped")
	}
	c.s.exporter.EachStats(func(signal otlp.Signal, n otlp.Stats) {
		c.m.Add(telemetry.ExportUp, boolValue(n.Up), signal.String())
		c.m.Add(telemetry.ExportSent, float64(n.Exported), signal.String())
		for reason, dropped := range n.Dropped {
			c.m.Add(telemetry.ExportDropped, float64(dropped), signal.String(), otlp.DropNames[reason])
		}
	})
}

func (c scrape) config() {
	s, m := c.s, c.m
	r := s.health.lastReload()
	m.Add(telemetry.ConfigSuccess, boolValue(r.err == nil))
	m.Add(telemetry.ConfigReloaded, seconds(r.at))
	m.Add(telemetry.ConfigReloads, float64(r.succeeded), "success")
	m.Add(telemetry.ConfigReloads, float64(r.failed), "failure")
	m.Add(telemetry.ConfigOpen, float64(s.open.count()))
	if g := s.acquire(); g != nil {
		defer g.Release()
		m.Add(telemetry.ConfigGeneration, float64(g.number))
		m.Add(telemetry.ConfigLoaded, seconds(g.builtAt))
	}
}

func (c scrape) targets() {
	s, m := c.s, c.m
	for _, b := range s.registry.Budgets() {
		m.Add(telemetry.RetryLeft, b.Left, b.Provider)
		m.Add(telemetry.RetryDenied, float64(b.Denied), b.Provider)
	}
	s.registry.EachHedges(func(model string, h routing.HedgeCounts) {
		m.Add(telemetry.HedgesSent, float64(h.Sent), model)
		m.Add(telemetry.HedgesWon, float64(h.Won), model)
		m.Add(telemetry.HedgesSuppressed, float64(h.Suppressed), model)
	})
	s.registry.EachShadow(func(name routing.ShadowName, n shadow.Counts) { addShadow(m, name, &n) })
	g := s.acquire()
	if g == nil {
		return
	}
	defer g.Release()
	stats := s.registry.Snapshots(s.Now())
	for _, e := range g.policies.Targets() {
		f := stats.Get(e)
		delete(stats, e)
		m.Add(telemetry.TargetHealthy, boolValue(f.Health == routing.Healthy), e.Provider, e.Model)
		m.Add(telemetry.TargetBreaker, breakerLevel[f.Breaker], e.Provider, e.Model)
		until := 0.0
		if f.Health == routing.Open {
			until = seconds(f.Until)
		}
		m.Add(telemetry.TargetUntil, until, e.Provider, e.Model)
		m.Add(telemetry.TargetOpened, float64(f.Opened), e.Provider, e.Model)
		m.Add(telemetry.TargetRefused, float64(f.Rejected), e.Provider, e.Model)
		m.Add(telemetry.TargetRetries, float64(f.Retries), e.Provider, e.Model)
		m.Add(telemetry.TargetInFlight, float64(f.Inflight), e.Provider, e.Model)
		m.Add(telemetry.TargetLatency, f.Latency.Seconds(), e.Provider, e.Model)
		m.Add(telemetry.TargetErrors, f.ErrorRate, e.Provider, e.Model)
		m.Add(telemetry.TargetSpeed, f.TokensPerSecond, e.Provider, e.Model)
		m.Add(telemetry.TargetCached, f.CachedShare, e.Provider, e.Model)
		addAttempts(m, e, &f)
	}
	for i := range g.config.Models {
		if p := g.policies.Configured(g.config.Models[i].ID); p != nil {
			seen := make(map[*routing.PromptTokens]bool) // a target may be listed twice
			for j := range p.Targets {
				if t := &p.Targets[j]; t.Tokens != nil && !seen[t.Tokens] {
					seen[t.Tokens] = true
					m.Add(telemetry.TargetPrompt, float64(t.Tokens.All.Load()), p.Model, t.Provider, t.Model, "all")
					m.Add(telemetry.TargetPrompt, float64(t.Tokens.Cached.Load()), p.Model, t.Provider, t.Model, "cached")
				}
			}
		}
	}
	// Models that are only listed by providers share one series per provider.
	others := make(map[string]*routing.Snapshot)
	for e, f := range stats {
		if !g.hasProvider(e.Provider) {
			continue
		}
		sum := others[e.Provider]
		if sum == nil {
			sum = new(routing.Snapshot)
			others[e.Provider] = sum
		}
		for o, n := range f.Outcomes {
			sum.Outcomes[o] += n
		}
	}
	for name, sum := range others {
		addAttempts(m, routing.TargetName{Provider: name, Model: telemetry.Other}, sum)
	}
}

// maxBudgets is the maximum number of budgets with series of their own. Budgets of teams, models and providers take
// precedence over those of keys.
const maxBudgets = 1000

func (c scrape) budgets() {
	g := c.s.acquire()
	if g == nil {
		return
	}
	defer g.Release()
	all := g.accounts.Status(c.s.Now())
	type states struct {
		scope spend.Kind
		state string
	}
	counts := make(map[states]int)
	for i := range all {
		counts[states{all[i].Scope.Kind, all[i].State()}]++
	}
	for n, count := range counts {
		c.m.Add(telemetry.Budgets, float64(count), n.scope.String(), n.state)
	}
	// Keys are the first kind, so they are sorted to the end.
	slices.SortStableFunc(all, func(a, b spend.Status) int { return cmp.Compare(b.Scope.Kind, a.Scope.Kind) })
	for i := range all[:min(len(all), maxBudgets)] {
		b := &all[i]
		add := func(f *telemetry.Family, v float64) {
			c.m.Add(f, v, b.Scope.Kind.String(), b.Scope.Name, b.Per.String())
		}
		add(telemetry.BudgetLimit, b.Limit.Dollars())
		add(telemetry.BudgetSpent, b.Spent.Dollars())
		add(telemetry.BudgetHeld, b.Held.Dollars())
		add(telemetry.BudgetLeft, b.Left().Dollars())
		add(telemetry.BudgetRefused, float64(b.Refused))
		if !b.End.IsZero() {
			add(telemetry.BudgetEnd, seconds(b.End))
		}
	}
}

func addAttempts(m *telemetry.Sample, e routing.TargetName, f *routing.Snapshot) {
	for o, n := range f.Outcomes {
		m.Add(telemetry.Attempts, float64(n), e.Provider, e.Model, outcomeNames[o])
	}
}

// addShadow adds the counts of a model's shadow target.
func addShadow(m *telemetry.Sample, name routing.ShadowName, n *shadow.Counts) {
	add := func(f *telemetry.Family, v float64, labels ...string) {
		m.Add(f, v, append([]string{name.Model, name.Provider, name.Target}, labels...)...)
	}
	for o, count := range n.Outcomes {
		add(telemetry.ShadowRequests, float64(count), shadow.Outcome(o).String())
	}
	add(telemetry.ShadowCompared, float64(n.Compared))
	for d, count := range n.Differences {
		add(telemetry.ShadowDifferences, float64(count), shadow.Difference(d).String())
	}
	for _, sums := range []struct {
		response string
		*shadow.Sums
	}{{"client", &n.Client}, {"shadow", &n.Shadow}} {
		add(telemetry.ShadowFirstEvent, sums.FirstEvent.Seconds(), sums.response)
		add(telemetry.ShadowDuration, sums.Duration.Seconds(), sums.response)
		add(telemetry.ShadowTokens, float64(sums.Prompt), sums.response, "prompt")
		add(telemetry.ShadowTokens, float64(sums.Completion), sums.response, "completion")
	}
	add(telemetry.ShadowCost, n.Cost.Dollars())
}

var (
	outcomeNames = [...]string{routing.Succeeded: "answered", routing.Failed: "failed", routing.RateLimited: "limited", routing.Inconclusive: "neither"}
	breakerLevel = [...]float64{breaker.Closed: 0, breaker.HalfOpen: 1, breaker.Open: 2}
)

func (c scrape) plugins() {
	m, all := c.m, c.s.plugins.Stats()
	m.Add(telemetry.PluginWholeCalls, float64(all.WholeCalls))
	for i := range all.Plugins {
		p := &all.Plugins[i]
		m.Add(telemetry.PluginCalls, float64(p.Calls), p.Plugin)
		for kind, n := range p.Failed {
			m.Add(telemetry.PluginFailures, float64(n), p.Plugin, kind.Label())
		}
		m.Add(telemetry.PluginRetries, float64(p.Retries), p.Plugin)
		m.Add(telemetry.PluginFuel, float64(p.Fuel), p.Plugin)
		m.Add(telemetry.PluginUnknown, float64(p.Unknown), p.Plugin)
		m.Add(telemetry.PluginWaits, float64(p.Waits), p.Plugin)
		m.Add(telemetry.PluginWaiting, float64(p.Waiting), p.Plugin)
		m.Add(telemetry.PluginInstances, float64(p.Idle), p.Plugin, "idle")
		m.Add(telemetry.PluginInstances, float64(p.Instances-p.Idle), p.Plugin, "used")
		m.Add(telemetry.PluginMemory, float64(p.Memory), p.Plugin)
		m.Add(telemetry.PluginBreaker, float64(p.Breaker), p.Plugin)
		m.Add(telemetry.PluginOpened, float64(p.Opened), p.Plugin)
	}
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// setMetricNames sets which models, providers, teams and client keys have series of their own: the configured ones
// only, because providers may list thousands of models.
func setMetricNames(m *telemetry.Metrics, cfg *config.Config) {
	var n telemetry.Names
	for i := range cfg.Identities {
		n.Keys = append(n.Keys, access.Series(i))
	}
	for i := range cfg.Keys {
		n.Keys = append(n.Keys, cfg.Keys[i].Name)
	}
	for i := range cfg.Teams {
		n.Teams = append(n.Teams, cfg.Teams[i].Name)
	}
	for i := range cfg.Models {
		n.Models = append(n.Models, cfg.Models[i].ID)
	}
	for i := range cfg.Providers {
		n.Providers = append(n.Providers, cfg.Providers[i].Name)
	}
	m.SetNames(n)
}

// routerChoices maps outcomes of routers to the labels under which they are counted.
var routerChoices = [...]telemetry.RouterChoice{
	routing.RouterOrdered: telemetry.RouterOrdered, routing.RouterNamedNone: telemetry.RouterNamedNone,
	routing.RouterFailed: telemetry.RouterFailed, routing.RouterRejected: telemetry.RouterRejected,
}

// outlets are what sends to other systems, besides the log.
type outlets struct {
	exporter *otlp.Exporter   // nil if nothing is exported
	alerts   *webhook.Webhook // nil if there is none
}

// exportGrace is how long a shutdown waits for the collector.
const exportGrace = 1500 * time.Millisecond

// startMetrics sets up the metrics, and starts the export of telemetry and the webhook if they are configured, unless the
// Server is offline.
func startMetrics(s *Server, cfg *config.Config, offline bool) (err error) {
	setMetricNames(s.metrics, cfg)
	s.metrics.Pull(func(m *telemetry.Sample) { scrape{s, m}.all() })
	if offline {
		return nil
	}
	if s.alerts, err = newAlerts(s, &cfg.Alerts); err != nil || cfg.Telemetry.OTLP == "" {
		return err
	}
	var instance [16]byte
	_, _ = rand.Read(instance[:])
	s.exporter, err = otlp.New(otlp.Options{
		Config: &cfg.Telemetry, Source: otlp.Source{Version: s.version, Instance: hex.EncodeToString(instance[:])},
		Gather: s.metrics.Gather, Log: s.Log, Now: s.Now,
	})
	if err != nil {
		return err
	}
	s.exporter.SetProviders(cfg)
	s.account.Export = s.exporter.Record
	return nil
}

// newAlerts returns the webhook for budgets, nil if none is configured.
func newAlerts(s *Server, a *config.Alerts) (*webhook.Webhook, error) {
	if a.URL == "" {
		return nil, nil
	}
	roots, err := otlp.Roots(a.CA)
	if err != nil {
		return nil, fmt.Errorf("alerts.ca: %w", err)
	}
	w, err := webhook.New(webhook.Options{URL: a.URL.Reveal(), TLS: roots, Secret: []byte(a.Secret.Reveal()), Log: s.Log, Now: s.Now})
	if err != nil {
		return nil, fmt.Errorf("alerts: %w", err)
	}
	return w, nil
}

// alertBudget posts that a budget has reached its warn.
func alertBudget(w *webhook.Webhook, e spend.Event) {
	w.Post(webhook.Alert{Type: webhook.BudgetWarned, Scope: e.Scope.Kind.String(), Name: e.Scope.Name, Per: e.Per.String(), Limit: e.Amount})
}
