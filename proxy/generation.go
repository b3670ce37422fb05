package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/breaker"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/catalog"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/credential"
)

// generation is a configuration with everything that was built from it: keys, models, connections to providers, and
// loaded plugins. It does not change once it serves. A request pins the generation that it began with; the last one to
// leave closes it.
type generation struct {
	config    *config.Config
	keys      *access.Keys // nil: anyone may use everything
	catalog   *catalog.Catalog
	plugins   *plugin.Set
	providers map[string]*provider
	targets   map[string][]routing.Target // by configured model
	router    routing.Router

	number int64 // 1, and one more with each that takes the place of another
	made   time.Time
	estate *estate

	// refs counts the requests in flight, and one for being current.
	refs atomic.Int64
	done chan struct{}   // closed when everything is
	open *sync.WaitGroup // of all generations that are not

	onPanic func(*rescue.Error)
}

// acquire pins the generation; it fails where the last reference has gone.
func (g *generation) acquire() bool {
	for {
		n := g.refs.Load()
		if n == 0 {
			return false
		}
		if g.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (g *generation) release() {
	if g.refs.Add(-1) == 0 {
		// The last reference is mostly a request's: its goroutine has a client to serve.
		go g.close()
	}
}

// close gives back each part, whatever becomes of the others.
func (g *generation) close() {
	part := func(close func()) {
		defer rescue.Recover(g.onPanic)
		close()
	}
	if g.catalog != nil {
		part(g.catalog.Close)
	}
	for _, p := range g.providers {
		if p.client != nil {
			part(p.client.Close)
		}
	}
	part(func() { g.estate.remove(g) })
	if g.plugins != nil {
		part(g.plugins.Close)
	}
	close(g.done)
	g.open.Done()
}

// without says for the log why a client gets no model of this id: there is one that its key may not use, or none that
// could be used. An id that only the client knows is not repeated.
func (g *generation) without(id string, there bool) error {
	if there {
		return errors.New("the key may not use the model")
	}
	for i := range g.config.Models {
		if m := &g.config.Models[i]; m.ID == id {
			return fmt.Errorf("the model is off: %s", m.Off)
		}
	}
	return errors.New("no such model")
}

// sendsTo tells whether the generation has a provider of that name that is on.
func (g *generation) sendsTo(provider string) bool { return g.providers[provider] != nil }

// targetsOf returns the targets of a model that can be used. A model that a provider lists has that one.
func (g *generation) targetsOf(m *catalog.Model, board *routing.Registry) []routing.Target {
	if targets, ok := g.targets[m.ID]; ok {
		return targets
	}
	var targets []routing.Target
	for _, t := range m.Targets {
		if g.providers[t.Provider] == nil {
			continue
		}
		targets = append(targets, g.target(&t, m.Pricing, board))
	}
	return targets
}

// target is a configured target with what is known of it; price is the model's.
func (g *generation) target(t *config.Target, price config.Pricing, board *routing.Registry) routing.Target {
	if t.Pricing.Known {
		price = t.Pricing
	}
	p := g.providers[t.Provider]
	return routing.Target{
		Provider: t.Provider, Model: t.Model, Weight: t.Weight, Priority: t.Priority, Fallback: t.Fallback,
		InputPrice: price.Input, OutputPrice: price.Output, Options: t.Options,
		Stats: board.Stats(t.Provider, t.Model), Breaker: p.breaker, Budget: board.Budget(t.Provider), RetryShare: p.repeats,
	}
}

// configured are the endpoints of the configured models, those of providers that are on, in the order of the file.
func (g *generation) configured() []endpoint {
	var all []endpoint
	seen := make(map[endpoint]bool)
	for i := range g.config.Models {
		for _, t := range g.config.Models[i].Targets {
			e := endpoint{t.Provider, t.Model}
			if g.sendsTo(t.Provider) && !seen[e] {
				seen[e] = true
				all = append(all, e)
			}
		}
	}
	return all
}

// endpoint is a provider's model.
type endpoint struct{ provider, model string }

// chooser is a router plugin.
type chooser struct{ binding *plugin.Binding }

func (c chooser) Choose(ctx context.Context, tenant string, input []byte, n int) ([]int, string, error) {
	return c.binding.ChooseFor(ctx, tenant, input, n)
}

// provider is what sends to one configured provider.
type provider struct {
	name    string
	binding *plugin.Binding
	client  *upstream.Client // nil: the plugin answers by itself

	// redact replaces credentials in what a provider said, before anything else reads it.
	redact func([]byte) []byte

	heartbeat time.Duration // silence after which a stream is kept alive; 0: never
	event     time.Duration // the longest time between two whole events of a stream; 0: none
	breaker   breaker.Config
	repeats   float64
}

// build makes a generation of a configuration; old is the one before it, nil at the start. All of it succeeds, or
// nothing remains.
func (s *Server) build(ctx context.Context, cfg *config.Config, old *generation) (*generation, error) {
	g := &generation{config: cfg, providers: map[string]*provider{}, targets: map[string][]routing.Target{}, done: make(chan struct{}), open: &s.generations,
		number: 1, made: s.now(), estate: &s.estate, onPanic: func(p *rescue.Error) { s.logPanic("", p) }}
	if old != nil {
		g.number = old.number + 1
	}
	g.open.Add(1)
	g.refs.Store(1)
	if err := s.fill(ctx, g, old); err != nil {
		g.close()
		return nil, &BuildError{err}
	}
	s.estate.add(g)
	return g, nil
}

func (s *Server) fill(ctx context.Context, g, old *generation) error {
	cfg := g.config
	specs, err := readPlugins(cfg, s.bundled)
	if err != nil {
		return err
	}
	if g.plugins, err = s.plugins.Load(ctx, specs); err != nil {
		return err
	}
	redact := redactor(cfg)
	var errs []error
	for i := range cfg.Providers {
		p := &cfg.Providers[i]
		if p.Off != "" {
			continue
		}
		built, err := s.provider(ctx, g, p, redact)
		if err != nil {
			errs = append(errs, placed(cfg, p.Pos, "providers."+p.Name, err))
			continue
		}
		g.providers[p.Name] = built
	}
	if r := cfg.Router; r.Plugin != "" {
		b, err := g.bindRouter(ctx, r, redact)
		if err != nil {
			errs = append(errs, placed(cfg, r.Pos, "router", err))
		} else {
			g.router.Chooser = chooser{b}
		}
		g.router.Failed = func(err error) {
			// That it is left alone was said when that began.
			if e, ok := errors.AsType[*plugin.CallError](err); !ok || e.Kind != plugin.KindOpen {
				s.log.Warn("router failed, the configured order is used", "error", err)
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i := range cfg.Models {
		m := &cfg.Models[i]
		for _, t := range m.Targets {
			if g.providers[t.Provider] == nil {
				continue
			}
			g.targets[m.ID] = append(g.targets[m.ID], g.target(&t, m.Pricing, &s.board))
		}
	}
	if cfg.Server.Auth == config.AuthKeys {
		g.keys = access.New(cfg.Keys, &s.usage)
	}
	options := catalog.Options{Fetched: func(provider string, models int, err error) {
		if err != nil {
			s.logPanicOf("", err)
			s.log.Warn("list models", "provider", provider, "error", err)
			return
		}
		s.log.Debug("list models", "provider", provider, "models", models)
	}}
	if old != nil {
		options.Previous = old.catalog
	}
	g.catalog = catalog.New(cfg, &lister{gen: g}, options)
	return nil
}

func (g *generation) bindRouter(ctx context.Context, r config.Router, redact *credential.Redactor) (*plugin.Binding, error) {
	used := g.plugins.Plugin(r.Plugin)
	if !used.Router() {
		return nil, fmt.Errorf("plugin %s is a provider, and no router", r.Plugin)
	}
	return used.Bind(ctx, plugin.BindingConfig{Name: "router", Settings: r.Settings, Redact: redact.Redact})
}

func (s *Server) provider(ctx context.Context, g *generation, p *config.Provider, redact *credential.Redactor) (*provider, error) {
	used := g.plugins.Plugin(p.Plugin)
	if !used.Provider() {
		return nil, fmt.Errorf("plugin %s is a router, and no provider", p.Plugin)
	}
	b, err := used.Bind(ctx, plugin.BindingConfig{
		Name: p.Name, Settings: p.Options, Paths: p.Paths, Headers: p.Headers, Redact: redact.Redact,
		CredentialHeader: p.Auth.Header, CredentialQuery: p.Auth.Query,
	})
	if err != nil {
		return nil, err
	}
	built := &provider{
		name: p.Name, binding: b, redact: redact.Redact,
		heartbeat: p.Heartbeat, event: p.Timeout.Event, breaker: breakerConfig(&p.Breaker), repeats: p.RetryBudget,
	}
	if p.BaseURL == "" {
		return built, nil
	}
	built.client, err = upstream.New(upstream.Config{
		Name:         p.Name,
		BaseURL:      p.BaseURL,
		Credential:   upstreamCredential(&p.Auth),
		Redactor:     redact,
		MaxConns:     p.MaxConns,
		AllowPrivate: p.AllowPrivate,
		Timeouts: upstream.Timeouts{
			Connect: p.Timeout.Connect, TLS: p.Timeout.TLS, FirstByte: p.Timeout.FirstByte,
			Idle: p.Timeout.Idle, Total: p.Timeout.Total, Write: p.Timeout.Write,
		},
	})
	return built, err
}

// credential is what a provider's requests are authorised with.
func upstreamCredential(a *config.Auth) credential.Credential {
	c := credential.Credential{Header: a.Header, Prefix: a.Prefix, Query: a.Query, Secret: string(a.Secret)}
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

// redactor replaces every configured credential by value, and every one that is obtained while the generation serves.
func redactor(cfg *config.Config) *credential.Redactor {
	var secrets []string
	for i := range cfg.Providers {
		a := &cfg.Providers[i].Auth
		secrets = append(secrets, string(a.Secret))
		if a.AWS != nil {
			secrets = append(secrets, string(a.AWS.AccessKeyID), string(a.AWS.SecretAccessKey), string(a.AWS.SessionToken))
		}
	}
	for i := range cfg.Keys {
		secrets = append(secrets, string(cfg.Keys[i].Secret))
	}
	return credential.NewRedactor(secrets...)
}

// estate is what the generations that are not closed have, and what those that are have left behind: their counts, so
// that no sum ever goes down.
type estate struct {
	mu   sync.Mutex
	open map[*generation]struct{}
	past map[string]upstream.Stats // by provider
}

func (e *estate) add(g *generation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open == nil {
		e.open = make(map[*generation]struct{})
		e.past = make(map[string]upstream.Stats)
	}
	e.open[g] = struct{}{}
}

// remove takes over the counts of a generation that is closed.
func (e *estate) remove(g *generation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, open := e.open[g]; !open {
		return // it was never whole
	}
	delete(e.open, g)
	for _, p := range g.providers {
		if p.client != nil {
			e.past[p.name] = e.past[p.name].Plus(p.client.Stats().Counts())
		}
	}
}

func (e *estate) generations() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.open)
}

// upstreamStats are a provider's connections, of all generations.
type upstreamStats struct {
	provider string
	upstream.Stats
}

// upstreams returns the sums by provider, sorted by its name.
func (e *estate) upstreams() []upstreamStats {
	e.mu.Lock()
	sums := maps.Clone(e.past)
	for g := range e.open {
		for _, p := range g.providers {
			if p.client != nil {
				sums[p.name] = sums[p.name].Plus(p.client.Stats())
			}
		}
	}
	e.mu.Unlock()
	all := make([]upstreamStats, 0, len(sums))
	for name, stats := range sums {
		all = append(all, upstreamStats{name, stats})
	}
	slices.SortFunc(all, func(a, b upstreamStats) int { return cmp.Compare(a.provider, b.provider) })
	return all
}

func breakerConfig(c *config.Breaker) breaker.Config {
	return breaker.Config{Consecutive: c.Failures, Share: c.Share, Window: c.Window, Pause: c.Pause, MaxPause: c.MaxPause}
}
