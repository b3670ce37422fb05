package proxy

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/accounting"
	"github.com/sluice-gateway/sluice/proxy/internal/exchange"
	"github.com/sluice-gateway/sluice/proxy/internal/filter"
	"github.com/sluice-gateway/sluice/proxy/internal/identity"
	"github.com/sluice-gateway/sluice/proxy/internal/oci"
	"github.com/sluice-gateway/sluice/proxy/internal/ownership"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/goopt"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/modules"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/catalog"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/catalog/listing"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/policies"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/probe"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/configured"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/credential"
)

// builder builds generations. Everything it refers to outlives them.
type builder struct {
	modules  modules.Sources
	plugins  *plugin.Host
	books    *accounting.Books
	policies policies.Lasting
	issuers  *identity.Directory
	open     *openGenerations
	log      *slog.Logger
	now      func() time.Time
	panicked func(*rescue.Error)
}

// build builds the generation of a configuration. old is the previous one, nil at the start. If anything fails, nothing
// remains of the new generation.
func (b *builder) build(ctx context.Context, cfg *config.Config, old *generation) (*generation, error) {
	g := &generation{
		config: cfg, providers: map[string]*exchange.Provider{},
		number: 1, builtAt: b.now(), open: b.open, panicked: b.panicked, closed: make(chan struct{}),
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
	if g.plugins, err = modules.Load(ctx, b.plugins, cfg, b.modules); err != nil {
		return err // includes the errors of all plugins
	}
	g.redactor, g.salt = configured.Redactor(cfg), routing.NewSalt(cfg.Router.Salt)
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
		if p.Probe != nil && built.Client != nil {
			built.Probe = b.newProber(p, built.Client)
		}
		g.providers[p.Name] = built
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
	if g.policies, err = policies.Bind(ctx, cfg, g.plugins, g.redactor, b.policies, g.measured()); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if cfg.Server.Auth == config.AuthKeys {
		if g.tokens, err = b.issuers.Open(cfg); err != nil {
			return err
		}
		var tokens access.Verifier
		if g.tokens != nil {
			tokens = g.tokens
		}
		g.keys = access.New(cfg.Keys, tokens)
		g.authorize = identity.NewAuthorizer(cfg, b.log, b.now)
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
	g.catalog = catalog.New(cfg, lister{g}, options)
	for _, p := range g.providers {
		if p.Probe != nil {
			p.Probe.Start()
		}
	}
	return nil
}

// measured returns the measurements of the providers that are measured.
func (g *generation) measured() map[string]*routing.Measurements {
	all := make(map[string]*routing.Measurements)
	for name, p := range g.providers {
		if p.Probe != nil {
			all[name] = p.Probe.Values()
		}
	}
	return all
}

// newProber returns a provider's prober, which logs when probes begin to fail and when they succeed again.
func (b *builder) newProber(p *config.Provider, client *upstream.Client) *probe.Prober {
	return probe.New(probe.Config{Path: p.Probe.Path, Every: p.Probe.Every, Read: p.Probe.Read, Client: client, Failed: func(err error) {
		if err == nil {
			b.log.Info("measure provider again", "provider", p.Name)
			return
		}
		if panicked, ok := errors.AsType[*rescue.Error](err); ok {
			b.panicked(panicked)
		}
		b.log.Warn("measure provider", "provider", p.Name, "error", err)
	}})
}

// lister lists the models of a generation's providers, through their plugins.
type lister struct{ generation *generation }

func (l lister) ListModels(ctx context.Context, name string) ([]catalog.Listed, error) {
	p := l.generation.providers[name]
	if p == nil || p.Client == nil {
		return nil, fmt.Errorf("provider %s cannot list models", name)
	}
	return listing.Read(ctx, listingOf(p, l.generation.config))
}

func listingOf(p *exchange.Provider, cfg *config.Config) *listing.Provider {
	return &listing.Provider{Name: p.Name, BaseURL: cfg.Provider(p.Name).BaseURL, Binding: p.Binding, Client: p.Client, Redact: p.Redact}
}

func bindFilter(ctx context.Context, p *plugin.Plugin, f *config.Filter, redactor *credential.Redactor) (*plugin.Binding, error) {
	if !p.Filter() {
		return nil, fmt.Errorf("plugin %s is %s, not a filter", f.Plugin, p.Kind())
	}
	return p.Bind(ctx, plugin.BindingConfig{Name: f.Plugin, Settings: f.Options, Redact: redactor.Redact, Searches: redactor.Searches})
}

// newSealer returns the sealer for reasoning that clients keep between requests.
func newSealer(cfg *config.Config) *thinking.Sealer {
	if cfg.Server.ReasoningKey == "" {
		return thinking.NewSealer(nil)
	}
	key := sha256.Sum256([]byte(cfg.Server.ReasoningKey.Reveal()))
	return thinking.NewSealer(key[:])
}

func newProvider(ctx context.Context, used *plugin.Plugin, p *config.Provider, redactor *credential.Redactor) (*exchange.Provider, error) {
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
	built := &exchange.Provider{
		Name: p.Name, ID: ownership.ProviderID(p.Name), Binding: b, Redact: redactor.Redact, SharedObjects: p.SharedObjects, Trace: p.Trace,
		Heartbeat: p.Heartbeat, Pace: p.Pace, EventTimeout: p.Timeout.Event, Total: p.Timeout.Total, MaxEvent: p.MaxEvent,
	}
	if p.BaseURL == "" {
		return built, nil
	}
	built.Client, err = configured.Client(p, redactor)
	return built, err
}

// Digester is a folder of bundled plugins that provides digests of its files without reading them.
type Digester = modules.Digester

// NoPluginError is the error for a bundled plugin that was not built into the binary.
type NoPluginError = modules.NotBundledError

// BuildError is the error for a configuration that is valid but cannot be served, because a plugin is missing, is not a
// plugin, or rejects its settings.
type BuildError struct{ Err error }

func (e *BuildError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *BuildError) Unwrap() error { return e.Err }

// PluginInfo describes a plugin that is part of the binary or named in the configuration.
type PluginInfo = modules.Info

// InspectPlugins loads and describes all configured plugins and the named bundled ones. The error is about those that
// could not be loaded; the others are described nevertheless.
func InspectPlugins(ctx context.Context, o Options, names []string) ([]PluginInfo, error) {
	host, err := plugin.New(o.plugins())
	if err != nil {
		return nil, err
	}
	infos, errs := modules.Inspect(ctx, host, o.Config, o.sources(), names)
	for i, err := range errs {
		errs[i] = &BuildError{err}
	}
	return infos, errors.Join(append(errs, host.Close())...)
}

// CheckModuleFile returns an error that says what a file is if it is not a WebAssembly module.
func CheckModuleFile(file string, wasm []byte) error { return modules.CheckFile(file, wasm) }

// SchemaSource is a folder of bundled plugins that provides the schemas of their options without reading the modules.
type SchemaSource = modules.SchemaSource

// OptionsSchema returns the JSON Schema of a plugin's options, or nil if it has none. A module in a registry is pulled,
// and stored in cacheDir unless the configuration names another folder; if offline, it must be stored already. Defects of
// the module are reported when it is loaded, not here.
func OptionsSchema(ctx context.Context, bundled SchemaSource, cfg *config.Config, p *config.Plugin, cacheDir string, offline bool) []byte {
	return modules.OptionsSchema(ctx, bundled, cfg, p, modules.Sources{CacheDir: cacheDir, Offline: offline})
}

// ResolveTag returns the digest that a reference by tag, such as "oci://registry/acme/mine:1.2", names now.
func ResolveTag(ctx context.Context, cfg *config.Config, reference string) (digest string, err error) {
	r, err := oci.ParseReference(reference)
	if err != nil {
		return "", fmt.Errorf("%s: %w", reference, err)
	}
	puller := new(modules.Sources).NewPuller(cfg)
	defer puller.Close()
	found, err := puller.Resolve(ctx, r)
	return string(found), err
}

// AddOptionsSchema adds the JSON Schema of a plugin's options to its module. plugin is empty for a module that contains
// only one plugin.
func AddOptionsSchema(module []byte, plugin string, schema []byte) ([]byte, error) {
	return modules.AddOptionsSchema(module, plugin, schema)
}

// OptimizeModule returns an equivalent of a plugin's WebAssembly module that needs less fuel and CPU time. It is for
// modules built by Go's compiler; others gain little. The gateway runs modules as they are, so optimise them when they
// are built.
func OptimizeModule(wasm []byte) ([]byte, error) {
	out, _, err := goopt.Optimize(wasm)
	return out, err
}
