package proxy

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/config/fleet"
	"github.com/sluice-gateway/sluice/proxy/internal/accounting"
	"github.com/sluice-gateway/sluice/proxy/internal/admin"
	"github.com/sluice-gateway/sluice/proxy/internal/admin/describe"
	"github.com/sluice-gateway/sluice/proxy/internal/budgets"
	"github.com/sluice-gateway/sluice/proxy/internal/journal"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/catalog"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/catalog/listing"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/shadow"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/configured"
)

// Status describes the gateway's current state, with one page of each list that can be long. It contains names, numbers
// and errors of the configuration, and nothing that a client or a provider has sent.
func (s *Server) Status(page admin.Page) admin.Status {
	now, limits := s.Now(), s.Admission.Limits()
	status := admin.Status{
		Version: s.version, Now: now, Started: s.startedAt, Uptime: now.Sub(s.startedAt).Seconds(), Ready: true, Page: page,
		Clients: admin.Clients{Open: s.clients.Count(), Max: limits.MaxConns},
		Process: describe.Process(), Plugins: describe.Plugins(s.plugins.Stats().Plugins), Store: s.books.Store(),
	}
	if err := s.Ready(); err != nil {
		status.Ready, status.Reason = false, err.Error()
	}
	if s.logDropped != nil {
		status.Process.LogDropped = s.logDropped()
	}
	totals := s.metrics.Totals()
	status.Requests = describe.Requests(&totals)
	status.Requests.Completions, status.Requests.CompletionsMax = s.Admission.Requests(), int64(limits.MaxRequests)
	status.Requests.Bodies, status.Requests.BodiesMax = s.Admission.BodyMemory(), limits.MaxBodyMemory
	r := s.health.lastReload()
	status.Config = admin.Config{Open: s.open.count(), Reloads: r.succeeded, Failed: r.failed, LastReload: r.at}
	if r.err != nil {
		status.Config.ReloadError = r.err.Error()
	}
	if s.node != nil {
		status.Bundle = describe.Bundle(s.node())
	}
	g := s.acquire()
	if g == nil {
		return status
	}
	defer g.Release()
	cfg, listing := g.config, page.Size > 0
	status.Config.File, status.Config.Generation, status.Config.Loaded = cfg.Path, g.number, g.builtAt
	var stats routing.Snapshots
	if listing {
		stats = s.registry.Snapshots(now)
	}
	describe.AddProviders(&status, cfg.Providers, s.open.upstreams(), g.policies.Targets(), stats)
	if !listing {
		return status
	}
	models := describe.Models{
		Configured: cfg.Models, Listed: g.catalog.Listed(), HasProvider: g.hasProvider, Targets: stats, Counts: s.metrics.Models(), Canaries: s.canaries.Status(),
		Shadow: func(name routing.ShadowName) shadow.Counts { return s.registry.Shadow(name).Counts() },
	}
	models.AddTo(&status)
	describe.AddKeys(&status, cfg.Keys, s.metrics.Key)
	describe.AddTeams(&status, cfg, s.metrics.Team)
	describe.AddBudgets(&status, g.accounts.Status(now))
	return status
}

// Degraded lists what does not work although the gateway is ready.
func (s *Server) Degraded() []string {
	all := append(s.books.Degraded(), s.exporter.Degraded()...)
	if s.node != nil {
		for _, alarm := range s.node().Alarms {
			all = append(all, "bundle: "+alarm)
		}
	}
	return all
}

// Figures returns counters since the start, by which bundles are compared.
func (s *Server) Figures() fleet.Figures {
	t := s.metrics.Totals()
	f := fleet.Figures{Requests: t.Requests, Errors: t.ServerErrors, FirstEvents: t.FirstEvents, FirstSeconds: t.FirstEventSum.Seconds()}
	if t.Cost != nil {
		f.Cost = t.Cost.Dollars()
	}
	stats := s.plugins.Stats()
	for i := range stats.Plugins {
		for kind, n := range stats.Plugins[i].Failed {
			if kind <= plugin.KindOutput {
				f.Traps += n
			}
		}
	}
	return f
}

// Usage returns totals of the ledger, or nil if there is no ledger.
func (s *Server) Usage(q UsageQuery) (*Usage, error) { return s.books.Usage(q) }

// Budgets returns the state of all budgets in their current windows.
func (s *Server) Budgets(f BudgetFilter) *BudgetList { return s.books.Budgets(f) }

// Explain decides how a request would be routed, and describes the decision. The request is not counted, and no
// provider is contacted, so a model that only a provider lists must have been listed before. Neither the result nor the
// error, which is about the request, contains any of the request's body.
func (s *Server) Explain(ctx context.Context, r *ExplainRequest) (Explained, error) {
	g := s.acquire()
	if g == nil {
		return Explained{}, errClosed
	}
	defer g.Release()
	return explain(ctx, s, g, r)
}

// ProviderCheck is what a request to a provider has shown. Its texts contain no credential.
type ProviderCheck struct {
	Provider string
	URL      string   // base_url; "" if the plugin responds without an upstream
	Reached  bool     // the address has sent an HTTP response
	Refused  bool     // the response has status 401 or 403
	Lists    bool     // the provider has sent its list of models, so it accepts the credential
	Targets  int      // targets of configured models at this provider
	Unlisted []string // models of these targets that are not in the list
	Took     time.Duration
	Err      error // may be nil
}

// maxProviderChecks is how many providers CheckProviders asks at a time.
const maxProviderChecks = 8

// CheckProviders requests the list of models from each provider that is on, or its base URL if the plugin has no list of
// models. ctx ends the wait for all of them.
func (s *Server) CheckProviders(ctx context.Context) []ProviderCheck {
	g := s.acquire()
	if g == nil {
		return nil
	}
	defer g.Release()
	var checks []ProviderCheck
	for i := range g.config.Providers {
		if p := &g.config.Providers[i]; p.Off == "" {
			checks = append(checks, ProviderCheck{Provider: p.Name, URL: p.BaseURL})
		}
	}
	var wg sync.WaitGroup
	free := make(chan struct{}, maxProviderChecks)
	for i := range checks {
		wg.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			g.checkProvider(ctx, &checks[i])
		})
	}
	wg.Wait()
	return checks
}

func (g *generation) checkProvider(ctx context.Context, c *ProviderCheck) {
	p := g.providers[c.Provider]
	if p.Client == nil {
		return
	}
	started := time.Now()
	defer func() { c.Took = time.Since(started) }()
	listed, err := listing.Read(ctx, listingOf(p, g.config))
	status := http.StatusOK
	if errors.Is(err, listing.ErrNoList) {
		status, err = listing.Probe(ctx, listingOf(p, g.config))
	} else {
		c.Lists = err == nil
	}
	if answer, ok := errors.AsType[*listing.StatusError](err); ok {
		status = answer.Status
	}
	lost, ok := errors.AsType[*upstream.Error](err)
	c.Reached, c.Refused, c.Err = !ok || lost.Answered, status == http.StatusUnauthorized || status == http.StatusForbidden, err
	for i := range g.config.Models {
		for _, t := range g.config.Models[i].Targets {
			if t.Provider != c.Provider {
				continue
			}
			c.Targets++
			if c.Lists && !slices.ContainsFunc(listed, func(l catalog.Listed) bool { return l.ID == t.Model }) {
				c.Unlisted = append(c.Unlisted, t.Model)
			}
		}
	}
}

// CheckStore connects to the configured store of shared limits, and returns the duration of a round trip.
func CheckStore(ctx context.Context, cfg *config.Config) (time.Duration, error) {
	return accounting.CheckStore(ctx, &cfg.Store, configured.Redactor(cfg))
}

// Usage is the usage of requests, by key, team, model, provider, tags and day.
type Usage = journal.Usage

// UsageQuery is a query of the ledger.
type UsageQuery = journal.Query

// ParseUsageColumns parses a comma-separated list of columns to group usage by.
func ParseUsageColumns(names string) ([]journal.Column, error) { return journal.ParseColumns(names) }

// UsagePeriods returns the values of UsageQuery.Period.
func UsagePeriods() []string { return journal.Periods }

// UsagePart is the usage of one of several gateways.
type UsagePart = journal.Part

// ParseUsage reads the usage of a gateway in the JSON format, for a query by these columns.
func ParseUsage(text []byte, by []journal.Column) (*Usage, error) {
	return journal.ParseUsage(text, by)
}

// MergeUsage adds up the usage of several gateways. The columns of each are those that OwnUsageColumns returns.
func MergeUsage(by []journal.Column, parts []UsagePart) *Usage { return journal.Merge(by, parts) }

// OwnUsageColumns returns the columns that a single gateway has: all but gateway.
func OwnUsageColumns(by []journal.Column) []journal.Column { return journal.WithoutGateway(by) }

// UsageFormats returns the formats of Usage.Write.
func UsageFormats() []string { return journal.Formats }

// IsUsageQueryError reports whether an error is caused by the query rather than by the ledger.
func IsUsageQueryError(err error) bool {
	_, ok := errors.AsType[*journal.QueryError](err)
	return ok
}

// ReadUsage reads a gateway's ledger from its state folder, whether the gateway is running or not.
func ReadUsage(cfg *config.Config, stateDir string, q UsageQuery) (*Usage, error) {
	return accounting.ReadUsage(cfg, stateDir, q)
}

// BudgetList is a list of budgets, or of their changes, for people and for programs.
type BudgetList = budgets.List

// BudgetPart is the list of budgets of one of several gateways.
type BudgetPart = budgets.Part

// MergeBudgets adds up the budgets of several gateways, or lists those of each.
func MergeBudgets(parts []BudgetPart, byGateway bool) (*BudgetList, error) {
	return budgets.Merge(parts, byGateway)
}

// BudgetFilter selects the scopes of a BudgetList.
type BudgetFilter = budgets.Filter

// BudgetFormats returns the formats of BudgetList.Write.
func BudgetFormats() []string { return budgets.Formats }

// CheckBudgetFormat returns an error if there is no such format.
func CheckBudgetFormat(format string) error { return budgets.CheckFormat(format) }

// BudgetState is the state of budgets according to a state folder.
type BudgetState = budgets.State

// ReadBudgets reads the state of a gateway's budgets from its state folder, whether the gateway is running or not.
func ReadBudgets(cfg *config.Config, stateDir string, f BudgetFilter, now time.Time) (*BudgetState, error) {
	return accounting.ReadBudgets(cfg, stateDir, f, now)
}

// BudgetChange changes a budget in its current window. NewBudgetChange returns one.
type BudgetChange = budgets.Change

// NewBudgetChange returns a change of a configured budget and the end of its window. kind is key, team, model or
// provider, per is the budget's period, and usd is the amount in US dollars by which it is raised, or "" to reset what
// has been spent or, with BudgetChange.Release, to give back what was booked for unknown outcomes.
func NewBudgetChange(cfg *config.Config, kind, name, per, usd, reason string, now time.Time) (c *BudgetChange, end time.Time, err error) {
	return budgets.NewConfigured(cfg, kind, name, per, usd, reason, now)
}

// RequestBudgetChange asks the gateway that uses a state folder to make a change, and waits for the result until ctx
// ends. If no gateway is running, the change stays in the folder for one that starts before end, or at any time if end
// is zero.
func RequestBudgetChange(ctx context.Context, stateDir string, c *BudgetChange, end time.Time) (string, error) {
	return budgets.Request(ctx, stateDir, c, end)
}
