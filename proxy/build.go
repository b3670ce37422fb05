package proxy

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/accounting"
	"github.com/sluice-gateway/sluice/proxy/internal/breaker"
	"github.com/sluice-gateway/sluice/proxy/internal/filter"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/modules"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/canary"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/catalog"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/credential"
)

// builder builds generations. What it refers to outlives them.
type builder struct {
	bundled  fs.FS
	plugins  *plugin.Host
	registry *routing.Registry
	books    *accounting.Books
	canaries *canary.Set
	open     *openGenerations
	log      *slog.Logger
	now      func() time.Time
	panicked func(*rescue.Error)
}

// build makes a generation of a configuration; old is the one before it, nil at the start. All of it succeeds, or
// nothing remains.
func (b *builder) build(ctx context.Context, cfg *config.Config, old *generation) (*generation, error) {
	g := &generation{
		config: cfg, providers: map[string]*provider{}, policies: map[string]*routing.Policy{},
		number: 1, made: b.now(), builder: b, closed: make(chan struct{}),
	}
	if old != nil {
		g.number = old.number + 1
	}
	b.open.unclosed.Add(1)
	g.refs.Store(1)
	if err := b.fill(ctx, g, old); err != nil {
		g.close()
		return nil, &BuildError{err}
	}
	b.open.add(g)
	return g, nil
}

func (b *builder) fill(ctx context.Context, g, old *generation) error {
	cfg := g.config
	var err error
	if g.plugins, err = modules.Load(ctx, b.plugins, cfg, b.bundled); err != nil {
		return err // of every plugin at once
	}
	g.redactor, g.salt = newRedactor(cfg), routing.NewSalt(cfg.Router.Salt)
	var errs []error
	for i := range cfg.Providers {
		p := &cfg.Providers[i]
		if p.Off != "" {
			continue
		}
		built, err := newProvider(ctx, g.plugins.Plugin(p.Plugin), p, g.redactor)
		if err != nil {
			errs = append(errs, cfg.NewError(p.Pos, "providers."+p.Name, err.Error()))
			continue
		}
		g.providers[p.Name] = built
	}
	routers := routerBinder{generation: g, bound: map[string]*routing.Router{}}
	if g.router, err = routers.bind(ctx, config.ModelRouter{Plugin: cfg.Router.Plugin, Settings: cfg.Router.Settings}); err != nil {
		errs = append(errs, cfg.NewError(cfg.Router.Pos, "router", err.Error()))
	}
	for i := range cfg.Filters {
		f := &cfg.Filters[i]
		binding, err := bindFilter(ctx, g.plugins.Plugin(f.Plugin), f, g.redactor)
		if err != nil {
			errs = append(errs, cfg.NewError(f.Pos, fmt.Sprintf("filters[%d]", i), err.Error()))
			continue
		}
		g.filters = append(g.filters, &filter.Filter{Config: f, Binding: binding})
	}
	for i := range cfg.Models {
		m := &cfg.Models[i]
		policy, err := routers.policy(ctx, m)
		if err != nil {
			errs = append(errs, cfg.NewError(m.Pos, fmt.Sprintf("models[%d]", i), err.Error()))
		} else if len(policy.Targets) > 0 {
			g.policies[m.ID] = policy
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if cfg.Server.Auth == config.AuthKeys {
		g.keys = access.New(cfg.Keys)
	}
	if g.accounts, err = b.books.Accounts(cfg); err != nil {
		return err
	}
	options := catalog.Options{Fetched: func(provider string, models int, err error) {
		if err != nil {
			if p, ok := errors.AsType[*rescue.Error](err); ok {
				b.panicked(p)
			}
			b.log.Warn("list models", "provider", provider, "error", err)
			return
		}
		b.log.Debug("list models", "provider", provider, "models", models)
	}}
	if old != nil {
		options.Previous = old.catalog
	}
	g.catalog = catalog.New(cfg, &lister{generation: g}, options)
	return nil
}

const (
	maxListBody  = 8 << 20
	maxListPages = 32
)

// lister lists the models of providers, through their plugins.
type lister struct {
	generation *generation
}

// ListModels reads every page of a provider's list.
func (l *lister) ListModels(ctx context.Context, name string) ([]catalog.Listed, error) {
	p := l.generation.providers[name]
	if p == nil || p.client == nil {
		return nil, fmt.Errorf("provider %s cannot list models", name)
	}
	var all []catalog.Listed
	var cursor []byte
	for range maxListPages {
		page, next, err := l.page(ctx, p, cursor)
		if err != nil {
			return nil, fmt.Errorf("list models of %s: %w", name, err)
		}
		all = append(all, page...)
		if next == "" {
			return all, nil
		}
		cursor = []byte(next)
	}
	return nil, fmt.Errorf("list models of %s: more than %d pages", name, maxListPages)
}

func (l *lister) page(ctx context.Context, p *provider, cursor []byte) ([]catalog.Listed, string, error) {
	out, err := p.binding.List(ctx, cursor)
	if err != nil {
		return nil, "", err
	}
	headers := make([]upstream.Header, len(out.Headers))
	for i, h := range out.Headers {
		headers[i] = upstream.Header(h)
	}
	response, err := p.client.Do(ctx, &upstream.Request{Method: "GET", Path: out.Path, Headers: headers, Accept: "application/json"}, contextWatcher{ctx})
	if err != nil {
		return nil, "", err
	}
	defer response.Close()
	body, err := response.ReadAll(nil, maxListBody)
	if err != nil {
		return nil, "", err
	}
	status := response.Status()
	if status >= 300 {
		body = p.redact(body)
	}
	page, err := p.binding.Models(ctx, status, func(name []byte) []byte { return response.Header(string(name)) }, body)
	switch {
	case status >= 300 && err != nil:
		return nil, "", fmt.Errorf("GET %s%s returned status %d: %w", l.generation.config.Provider(p.name).BaseURL, out.Path, status, err)
	case status >= 300:
		return nil, "", fmt.Errorf("GET %s%s returned status %d", l.generation.config.Provider(p.name).BaseURL, out.Path, status)
	case err != nil:
		return nil, "", err
	}
	listed := make([]catalog.Listed, 0, len(page.Models))
	for _, raw := range page.Models {
		var m catalog.Listed
		if err := json.Unmarshal(raw, &m); err != nil {
			return nil, "", fmt.Errorf("invalid model in the list: %w", err)
		}
		listed = append(listed, m)
	}
	return listed, page.Next, nil
}

// contextWatcher ends a wait for a provider with its context.
type contextWatcher struct{ ctx context.Context }

func (w contextWatcher) Tick(upstream.Phase, time.Duration) error { return w.ctx.Err() }

// pluginChooser is a router plugin.
type pluginChooser struct{ binding *plugin.Binding }

func (c pluginChooser) Choose(ctx context.Context, tenant string, input []byte, n int) ([]int, string, error) {
	return c.binding.ChooseFor(ctx, tenant, input, n)
}

// routerBinder binds router plugins: once for each plugin with the same settings, however many models and rules use it.
type routerBinder struct {
	generation *generation
	bound      map[string]*routing.Router // by plugin and settings
}

// policy returns how requests of a configured model are routed. All providers have been built.
func (b *routerBinder) policy(ctx context.Context, m *config.Model) (*routing.Policy, error) {
	router, err := b.bind(ctx, m.Router)
	if err != nil {
		return nil, err
	}
	g := b.generation
	p := g.newPolicy(m.ID, m.Targets, m.Pricing, m.Affinity, router)
	g.addCanary(p, m)
	for i := range p.Targets {
		t := &p.Targets[i]
		t.Tokens = g.builder.registry.PromptTokens(m.ID, t.Provider, t.Model)
	}
	p.Retry = m.Retry
	if m.Hedge != nil && len(p.Targets) > 1 {
		p.Hedge, p.Hedges = m.Hedge, g.builder.registry.Hedges(m.ID)
	}
	g.addShadows(p, m)
	for i := range m.Rules {
		r := &m.Rules[i]
		rule := routing.Rule{Name: r.Name, When: r.When, Router: p.Router}
		for j := range p.Targets {
			rule.Allows = append(rule.Allows, r.Covers(p.Targets[j].Provider, p.Targets[j].Model))
		}
		if r.Router != nil {
			if rule.Router, err = b.bind(ctx, *r.Router); err != nil {
				return nil, fmt.Errorf("rule %s: %w", r.Name, err)
			}
		}
		p.Rules = append(p.Rules, rule)
	}
	return p, nil
}

// bind returns a router, nil for the configured order.
func (b *routerBinder) bind(ctx context.Context, c config.ModelRouter) (*routing.Router, error) {
	if c.Plugin == "" {
		return nil, nil
	}
	key := c.Plugin + "\x00" + string(c.Settings)
	if r := b.bound[key]; r != nil {
		return r, nil
	}
	g := b.generation
	used := g.plugins.Plugin(c.Plugin)
	if !used.Router() {
		return nil, fmt.Errorf("plugin %s is %s, not a router", c.Plugin, used.Kind())
	}
	binding, err := used.Bind(ctx, plugin.BindingConfig{Name: "router", Settings: c.Settings, Redact: g.redactor.Redact, Searches: g.redactor.Searches})
	if err != nil {
		return nil, err
	}
	defaults := &g.config.Router
	r := &routing.Router{Plugin: c.Plugin, Chooser: pluginChooser{binding}, Always: defaults.Always, Refuse: defaults.Refuse, Reads: defaults.Reads}
	b.bound[key] = r
	return r, nil
}

func bindFilter(ctx context.Context, p *plugin.Plugin, f *config.Filter, redactor *credential.Redactor) (*plugin.Binding, error) {
	if !p.Filter() {
		return nil, fmt.Errorf("plugin %s is %s, not a filter", f.Plugin, p.Kind())
	}
	return p.Bind(ctx, plugin.BindingConfig{Name: f.Plugin, Settings: f.Options, Redact: redactor.Redact, Searches: redactor.Searches})
}

// newSealer makes what seals reasoning that clients keep.
func newSealer(cfg *config.Config) *thinking.Sealer {
	if cfg.Server.ReasoningKey == "" {
		return thinking.NewSealer(nil)
	}
	key := sha256.Sum256([]byte(cfg.Server.ReasoningKey.Reveal()))
	return thinking.NewSealer(key[:])
}

func newProvider(ctx context.Context, used *plugin.Plugin, p *config.Provider, redactor *credential.Redactor) (*provider, error) {
	if !used.Provider() {
		return nil, fmt.Errorf("plugin %s is %s, not a provider", p.Plugin, used.Kind())
	}
	b, err := used.Bind(ctx, plugin.BindingConfig{
		Name: p.Name, Settings: p.Options, Paths: p.Paths, Headers: p.Headers, Redact: redactor.Redact, Searches: redactor.Searches,
		CredentialHeader: p.Auth.Header, CredentialQuery: p.Auth.Query,
	})
	if err != nil {
		return nil, err
	}
	built := &provider{
		name: p.Name, binding: b, redact: redactor.Redact,
		heartbeat: p.Heartbeat, pace: p.Pace, eventTimeout: p.Timeout.Event, maxEvent: p.MaxEvent, breaker: breakerConfig(&p.Breaker), retryShare: p.RetryBudget,
		severalSecrets: len(p.Auth.Secrets) > 1, cachesPrompts: p.CachesPrompts,
	}
	if p.BaseURL == "" {
		return built, nil
	}
	built.client, err = upstream.New(upstream.Config{
		Name:         p.Name,
		BaseURL:      p.BaseURL,
		Credential:   upstreamCredential(&p.Auth),
		Redactor:     redactor,
		MaxConns:     p.MaxConns,
		AllowPrivate: p.AllowPrivate,
		Timeouts: upstream.Timeouts{
			Connect: p.Timeout.Connect, TLS: p.Timeout.TLS, FirstByte: p.Timeout.FirstByte,
			Idle: p.Timeout.Idle, Total: p.Timeout.Total, Write: p.Timeout.Write,
		},
	})
	return built, err
}

func breakerConfig(c *config.Breaker) breaker.Config {
	return breaker.Config{Consecutive: c.Failures, Share: c.Share, Window: c.Window, Pause: c.Pause, MaxPause: c.MaxPause}
}

// upstreamCredential is what a provider's requests are authorised with.
func upstreamCredential(a *config.Auth) credential.Credential {
	c := credential.Credential{Header: a.Header, Prefix: a.Prefix, Query: a.Query}
	for _, s := range a.Secrets {
		c.Secrets = append(c.Secrets, s.Reveal())
	}
	if a.AWS != nil {
		c.AWS = &credential.AWS{
			Region: a.AWS.Region, Service: a.AWS.Service, Profile: a.AWS.Profile, AccessKeyID: string(a.AWS.AccessKeyID),
			SecretAccessKey: string(a.AWS.SecretAccessKey), SessionToken: string(a.AWS.SessionToken),
		}
	}
	if a.Google != nil {
		c.Google = &credential.Google{File: a.Google.File, Metadata: a.Google.Metadata, Scopes: a.Google.Scopes}
	}
	return c
}
