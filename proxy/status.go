package proxy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/admin"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/budgets"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/endpoint"
	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
	"github.com/sluice-gateway/sluice/proxy/internal/journal"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/modellist"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/shadow"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
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
	status.Store = s.describeStore(s.limits)
	t := s.metrics.Totals()
	status.Requests = admin.Requests{
		Total: t.Requests, ClientErrors: t.ClientErrors, ServerErrors: t.ServerErrors, Disconnects: t.Disconnects,
		InFlight: t.InFlight, Streams: t.Streams, PromptTokens: t.PromptTokens, CompletionTokens: t.CompletionTokens, Cost: t.Cost,
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
			s.describeTeams(&status, g)
			describeBudgets(&status, g)
		}
	}
	return status
}

// Degraded returns what does not work although the gateway is ready.
func (s *Server) Degraded() (all []string) {
	if shown := s.describeStore(s.limits); shown != nil && shown.State != admin.StoreUp {
		all = append(all, shown.String())
	}
	if j := s.journal.Get(); j != nil {
		if since, err := j.Failure(); err != nil {
			all = append(all, fmt.Sprintf("journal: not written since %s: %v", since.UTC().Format(time.RFC3339), err))
		}
	}
	return all
}

// limits are the limits and budgets of the current configuration.
func (s *Server) limits() []spend.Limit {
	if g := s.acquire(); g != nil {
		defer g.release()
		return configuredLimits(g.config)
	}
	return configuredLimits(s.started)
}

// Usage returns the ledger's sums, nil if there is no ledger.
func (s *Server) Usage(q UsageQuery) (*Usage, error) {
	j := s.journal.Get()
	if j == nil {
		return nil, nil
	}
	// What cannot be written is not in the ledger, which is shown as it is.
	_ = j.Flush()
	return journal.ReadUsage(j.Dir(), j.Zone(), q)
}

// BudgetList is a list of budgets, or of their changes, for people and programs.
type BudgetList = budgets.List

// BudgetFilter selects the scopes of a BudgetList.
type BudgetFilter = budgets.Filter

// BudgetFormats are the formats of BudgetList.Write.
func BudgetFormats() []string { return budgets.Formats }

// CheckBudgetFormat says what is wrong with the name of a format.
func CheckBudgetFormat(format string) error { return budgets.CheckFormat(format) }

// Budgets returns the budgets in their current windows.
func (s *Server) Budgets(f BudgetFilter) *BudgetList {
	g := s.acquire()
	if g == nil {
		return budgets.Describe(nil, f)
	}
	defer g.release()
	return budgets.Describe(g.accounts.Status(s.now()), f)
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
	canaries := s.canaryStatus()
	status.ModelsTotal, status.ModelsListed = len(configured)+len(listed), len(listed)
	from, to := status.Page.Cut(status.ModelsTotal)
	for i := from; i < to; i++ {
		var model admin.Model
		var targets []config.Target
		if i < len(configured) {
			m := &configured[i]
			model, targets = admin.Model{ID: m.ID, Off: m.Off}, m.Targets
			model.Canary = canaries[m.ID]
			model.Shadows = s.shadowStatus(g, m)
			c := counts[m.ID]
			model.Counts, model.Failed = describeCounts(&c.Counts), c.Failed
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

// canaryStatus returns the states of the canaries in use, by model.
func (s *Server) canaryStatus() map[string]*admin.Canary {
	all := make(map[string]*admin.Canary)
	for _, c := range s.canaries.Status() {
		provider, model, _ := strings.Cut(c.Target, "/")
		shown := &admin.Canary{
			Provider: provider, Model: model, Step: c.Step, Steps: c.Steps, Share: c.Share, Began: c.Began,
			Attempts: c.Attempts, Errors: c.Errors, Traps: c.Traps, Reason: c.Reason,
		}
		if c.Reason != "" {
			shown.RolledBack = &c.RolledBack
		}
		all[c.Model] = shown
	}
	return all
}

// shadowStatus returns what came of the copies of a model's requests.
func (s *Server) shadowStatus(g *generation, m *config.Model) (all []admin.Shadow) {
	for i := range m.Shadows {
		c := &m.Shadows[i]
		shown := admin.Shadow{Provider: c.Provider, Model: c.Model, Share: c.Share, Off: !g.hasProvider(c.Provider)}
		if !shown.Off {
			n := s.registry.Shadow(routing.ShadowName{Model: m.ID, Provider: c.Provider, Target: c.Model}).Counts()
			shown.Requests, shown.Compared, shown.Cost = n.Total(), n.Compared, n.Cost
			shown.Outcomes, shown.Differences = make(map[string]int64), make(map[string]int64)
			for o, count := range n.Outcomes {
				shown.Outcomes[shadow.Outcome(o).String()] = count
			}
			for d, count := range n.Differences {
				shown.Differences[shadow.Difference(d).String()] = count
			}
			shown.FirstEvent, shown.Duration = n.Ratios()
		}
		all = append(all, shown)
	}
	return all
}

// describeKeys adds the client keys of a generation, as far as they are on the page of the status.
func (s *Server) describeKeys(status *admin.Status, g *generation) {
	status.KeysTotal = len(g.config.Keys)
	from, to := status.Page.Cut(status.KeysTotal)
	for i := from; i < to; i++ {
		k := &g.config.Keys[i]
		c := s.metrics.Key(k.Name)
		key := admin.Key{Name: k.Name, Team: k.Team, Counts: describeCounts(&c)}
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

// describeTeams adds the teams of a generation, as far as they are on the page of the status.
func (s *Server) describeTeams(status *admin.Status, g *generation) {
	keys := make(map[string]int)
	for i := range g.config.Keys {
		keys[g.config.Keys[i].Team]++
	}
	status.TeamsTotal = len(g.config.Teams)
	from, to := status.Page.Cut(status.TeamsTotal)
	for i := from; i < to; i++ {
		name := g.config.Teams[i].Name
		c := s.metrics.Team(name)
		status.Teams = append(status.Teams, admin.Team{Name: name, Keys: keys[name], Counts: describeCounts(&c)})
	}
}

func describeCounts(c *telemetry.Counts) admin.Counts {
	t := &c.Tokens
	return admin.Counts{
		Requests: c.Requests, Errors: c.Errors, PromptTokens: t.Prompt, CompletionTokens: t.Completion, CachedTokens: t.Cached,
		CacheWriteTokens: t.CacheWrite, ReasoningTokens: t.Reasoning, Cost: c.Cost, Rejected: c.Rejected,
	}
}

// describeBudgets adds the budgets of a generation, as far as they are on the page of the status.
func describeBudgets(status *admin.Status, g *generation) {
	all := g.accounts.Status(status.Now)
	slices.SortStableFunc(all, func(a, b spend.Status) int {
		refuses := func(s *spend.Status) bool { return s.State() == spend.StateRefusing }
		if refuses(&a) != refuses(&b) {
			return map[bool]int{true: -1, false: 1}[refuses(&a)]
		}
		return cmp.Compare(b.Used(), a.Used())
	})
	status.BudgetsTotal = len(all)
	from, to := status.Page.Cut(len(all))
	for i := range all[from:to] {
		status.Budgets = append(status.Budgets, admin.DescribeBudget(&all[from+i]))
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

// ExplainRequest asks how a request would be routed.
type ExplainRequest = admin.ExplainRequest

// Explained is how a request would be routed, as JSON and as text for people.
type Explained = admin.Explained

// Explain decides how a request would be routed, and says so. Nothing is counted for the request, and no provider is asked: a model that
// only a provider lists is known once it has been. Nothing of the request's body is in the result, nor in the error, which is about the
// request.
func (s *Server) Explain(ctx context.Context, r *ExplainRequest) (Explained, error) {
	g := s.acquire()
	if g == nil {
		return Explained{}, errClosed
	}
	defer g.release()
	id, name := clientapi.Chat, cmp.Or(r.API, s.apis[clientapi.Chat].Name)
	for id < clientapi.NumAPIs && s.apis[id].Name != name {
		id++
	}
	if id == clientapi.NumAPIs {
		return Explained{}, fmt.Errorf("unknown api %q: want %s", clientapi.Quotable(r.API), strings.Join(config.APINames(), ", "))
	}
	x := &completion{server: s, api: &s.apis[id], generation: g, http11: true}
	x.admission = &s.admission
	if e := s.admission.reserve(&x.room); e != nil {
		return Explained{}, errors.New(e.Message)
	}
	x.acquireWork(contextChecker{ctx})
	defer func() {
		x.documents.release(s, x.api)
		x.room.release()
		x.api.putWork(x.work)
		if x.routed != nil {
			s.routings.put(x.routed)
		}
	}()
	head, err := acceptExplained(x, r)
	if err != nil {
		return Explained{}, err
	}
	x.describeRouting(head)
	if len(r.Body) == 0 {
		x.routed.request.Identity.Doc = nil // the prompt made up for it begins no conversation
	}
	return decideExplained(ctx, x)
}

// contextChecker lets a Watcher wait for nothing but a context.
type contextChecker struct{ context.Context }

func (c contextChecker) CheckClient() error { return c.Err() }

// acceptExplained makes x the completion of a request that is only explained, as accept does for one that came.
func acceptExplained(x *completion, r *ExplainRequest) (*fasthttp.RequestHeader, error) {
	g, now := x.generation, x.server.now()
	x.record.Began, x.record.RequestID, x.admittedAt = now, endpoint.NewRequestID(), now
	switch {
	case g.keys == nil && r.Key != "":
		return nil, errors.New(`no keys are in use (auth = "none"): leave the key out`)
	case g.keys == nil:
		x.key = access.Anonymous()
	case r.Key == "":
		return nil, errors.New("which key? give the name of one in the configuration")
	default:
		key, err := g.keys.Named(r.Key, now)
		if errors.Is(err, access.ErrUnknown) {
			if g.keys.Has([]byte(r.Key)) {
				return nil, errors.New("that is a key's secret: give its name in the configuration")
			}
			return nil, fmt.Errorf("no key is named %q: `sluice check --values` lists the keys", clientapi.Quotable(r.Key))
		}
		if err != nil {
			return nil, fmt.Errorf("the key %s would be rejected: %w", r.Key, err)
		}
		x.key, x.record.Key = key, key.Name()
	}
	head := new(fasthttp.RequestHeader)
	for name, value := range r.Headers {
		if !httpfield.ValidName(name) || !httpfield.ValidValue(value) {
			return nil, errors.New("a header has an invalid name or value")
		}
		head.Set(name, value)
	}
	if x.api.id == clientapi.Messages {
		x.betas = endpoint.Betas(head, func(text []byte) bool { return g.holdsSecret(head, text) })
	}
	if r.Random != "" {
		n, err := strconv.ParseUint(r.Random, 16, 64)
		if err != nil || len(r.Random) != 16 {
			return nil, errors.New("random is not a number of 16 hexadecimal digits, as in the header x-gateway-route")
		}
		x.random = n
	}
	to := endpoint.Completions(x.api.id)
	if err := parseExplained(x, r, to); err != nil {
		return nil, err
	}
	facts := x.request.Describe()
	m, ok := g.catalog.Known(facts.Model)
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: `sluice models` lists the models", g.missingModelCause(head, facts.Model, false))
	case !x.key.Allows(facts.Model):
		return nil, fmt.Errorf("%w: see models in [[keys]]", g.missingModelCause(head, facts.Model, true))
	case m.Kinds&x.api.kind == 0:
		return nil, modellist.WrongKind(m, x.api.kind).Cause
	}
	x.model, x.record.Model, x.stream = m, m.ID, facts.Stream
	if e := x.filterRequest(to, facts); e != nil {
		return nil, explainedRefusal("a filter", e)
	}
	if e := x.fitModel(); e != nil {
		return nil, explainedRefusal("the model", e)
	}
	if len(x.policy.Targets) == 0 {
		return nil, fmt.Errorf("all providers of the model %s are off", m.ID)
	}
	return head, nil
}

// parseExplained reads the body, or makes one of the shortest prompt.
func parseExplained(x *completion, r *ExplainRequest, to endpoint.ID) error {
	x.body = append(x.server.buffers.Get(len(r.Body)), r.Body...)
	if len(r.Body) == 0 {
		x.body = fmt.Appendf(x.body, shortPrompts[x.api.id], jsondoc.AppendEscaped(nil, []byte(r.Model)))
	}
	if x.api.id == clientapi.Gemini {
		if r.Model == "" {
			return errors.New("which model? the Gemini API has it in the path, not in the body")
		}
		x.request = x.api.getRequest()
		x.request.(clientapi.AddressedRequest).Address(r.Model, to.Streams())
	}
	facts, e := x.parseRequest(to)
	switch {
	case e != nil:
		return explainedRefusal("the API", e)
	case r.Model != "" && facts.Model != r.Model:
		return errors.New("the body names another model: leave one of the two out")
	}
	return nil
}

// shortPrompts are requests of each API, with a place for the model's id.
var shortPrompts = [clientapi.NumAPIs]string{
	clientapi.Chat: `{"model":"%s","messages":[{"role":"user","content":"Hello"}]}`, clientapi.Messages: `{"model":"%s","max_tokens":1024,"messages":[{"role":"user","content":"Hello"}]}`,
	clientapi.Responses: `{"model":"%s","input":"Hello"}`, clientapi.Embeddings: `{"model":"%s","input":"Hello"}`, clientapi.Rerank: `{"model":"%s","query":"Hello","documents":["Hello"]}`,
	clientapi.LegacyCompletions: `{"model":"%s","prompt":"Hello"}`, clientapi.Moderations: `{"model":"%s","input":"Hello"}`, clientapi.Gemini: `{"contents":[{"role":"user","parts":[{"text":"Hello"}]}]}%.0s`,
}

// explainedRefusal is for a request that is refused before it is routed. The error's message may repeat what the request says.
func explainedRefusal(by string, e *apierror.Error) error {
	what := cmp.Or(e.Code, string(e.Kind))
	if e.Param != "" {
		what += " at " + clientapi.Quotable(e.Param)
	}
	return fmt.Errorf("the request is refused by %s before it is routed: %s", by, what)
}

// oddsDraws is how many random numbers the odds are estimated from.
const oddsDraws = 256

// decideExplained decides as tryTargets does, and describes the decision.
func decideExplained(ctx context.Context, x *completion) (Explained, error) {
	request, d := &x.routed.request, &x.routed.decision
	failed := x.policy.Decide(ctx, request, x.admittedAt, d)
	if err := ctx.Err(); err != nil {
		return Explained{}, err
	}
	var e *apierror.Error
	if failed != nil {
		e = clientError(routingError(failed))
	}
	var odds []routing.Odds
	if e == nil && d.Draws() {
		drawn := x.random
		odds = x.policy.Odds(func(n int, other *routing.Decision) bool {
			x.random = uint64(n) * 0x9e3779b97f4a7c15 // evenly spread
			request.Random = x.random
			return n < oddsDraws && x.policy.Decide(ctx, request, x.admittedAt, other) == nil
		})
		x.random = drawn
	}
	text := fmt.Appendf(nil, "model     %s, by %s\n", x.record.Model, x.api.Name)
	body := fmt.Appendf(nil, `{"api":%q,"random":"%016x"`, x.api.Name, x.random)
	if x.record.Key != "" {
		text = fmt.Appendf(text, "key       %s\n", x.record.Key)
		body = append(jsondoc.AppendEscaped(append(body, `,"key":"`...), []byte(x.record.Key)), '"')
	}
	text = d.AppendText(text)
	if e != nil {
		text = fmt.Appendf(text, "\nThe request is rejected: %d %s\n", e.Status, e.Code)
		body = fmt.Appendf(body, `,"error":{"status":%d,"code":%q}`, e.Status, e.Code)
	}
	if len(odds) > 1 {
		text, body = append(text, "\nThe order is drawn by lot. First are, of such requests:\n"...), append(body, `,"odds":[`...)
		for n, o := range odds {
			text = fmt.Appendf(text, "  %5.1f %%  %s\n", 100*o.Share, o.Target)
			if n > 0 {
				body = append(body, ',')
			}
			body = fmt.Appendf(body, `{"target":%q,"share":%.3f}`, o.Target, o.Share)
		}
		body = append(body, ']')
	}
	body = d.AppendJSON(append(body, `,"decision":`...))
	return Explained{JSON: append(body, '}', '\n'), Text: text}, nil
}
