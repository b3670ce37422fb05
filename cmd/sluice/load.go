package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"

	"github.com/sluice-gateway/sluice/plugins"
	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/config"
)

// load reads the configuration. A non-empty listen overrides its listen address.
func (o *options) load(listen string) (*config.Config, error) { return o.loadWith(listen, nil) }

// loadWith is load with a bundle, unless it is nil, in place of the one that the node runs.
func (o *options) loadWith(listen string, bundle *config.BundleText) (*config.Config, error) {
	ctx := context.Background()
	options := config.Options{
		Env: os.LookupEnv, Bundled: plugins.Names(), Listen: listen, Opening: o.opening, Values: o.values, Dev: o.dev, Unpinned: o.unpinned, PluginsOnly: o.pluginsOnly,
		OptionsSchema: func(cfg *config.Config, p *config.Plugin) []byte {
			return proxy.OptionsSchema(ctx, plugins.FS(), cfg, p, o.cache, !o.pull)
		},
	}
	options.Bundle = o.bundle
	switch {
	case bundle != nil:
		options.Bundle = func(*config.Config) (*config.BundleText, error) { return bundle, nil }
	case o.bundle == nil:
		options.Bundle = storedBundle
	}
	if o.resolve {
		options.ResolveTag = func(cfg *config.Config, reference string) (string, error) {
			return proxy.ResolveTag(ctx, cfg, reference)
		}
	}
	cfg, err := config.Load(o.config, options)
	var invalid config.Errors
	switch {
	case err == nil, errors.As(err, &invalid):
		return cfg, err
	case errors.Is(err, fs.ErrNotExist):
		return nil, readError{fmt.Errorf("configuration %s does not exist; choose another file with --config or $SLUICE_CONFIG", o.config)}
	}
	return nil, readError{err}
}

// errEmpty reports a configuration without providers and models. A running gateway does not load one, because most
// likely the file is just being written.
var errEmpty = errors.New("no providers and no models are configured")

// warnings returns the configuration's warnings, including one if it is empty.
func warnings(cfg *config.Config) config.Errors {
	if !cfg.Empty() {
		return cfg.Warnings
	}
	return append(config.Errors{{File: cfg.Path, Text: errEmpty.Error()}}, cfg.Warnings...)
}

// proxyOptions returns the options of a gateway with this configuration. Progress is printed to out; log may be nil.
func (o *options) proxyOptions(cfg *config.Config, out io.Writer, log *slog.Logger) proxy.Options {
	return proxy.Options{Config: cfg, Bundled: plugins.FS(), Log: log, CacheDir: o.cache, Compiling: (&progress{out: out}).startCompiling}
}

// build creates a gateway without serving it. Progress and warnings are printed to out.
func (o *options) build(cfg *config.Config, out io.Writer) (*proxy.Server, error) {
	log := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelWarn}))
	options := o.proxyOptions(cfg, out, log)
	options.Offline = true
	options.StateDir, _ = proxy.FindStateDir(cfg.Store.Journal, os.LookupEnv) // as for serve
	return proxy.New(context.Background(), options)
}
