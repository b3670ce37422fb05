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

// load reads the configuration. listen replaces its address to listen on, "" does not.
func (o *options) load(listen string) (*config.Config, error) {
	cfg, err := config.Load(o.config, config.Options{Env: os.LookupEnv, Bundled: plugins.Names(), Listen: listen})
	var invalid config.Errors
	switch {
	case err == nil, errors.As(err, &invalid):
		return cfg, err
	case errors.Is(err, fs.ErrNotExist):
		return nil, unreadableError{fmt.Errorf("the configuration %s does not exist\nName another one with --config or $SLUICE_CONFIG", o.config)}
	}
	return nil, unreadableError{err}
}

// errEmpty is a file that is being written, or was written by mistake. To serve it is to answer everybody that there is
// nothing.
var errEmpty = errors.New("there are neither providers nor models")

// warnings are of what is allowed and hardly meant.
func warnings(cfg *config.Config) config.Errors {
	if !cfg.Empty() {
		return cfg.Warnings
	}
	return append(config.Errors{{File: cfg.Path, Text: errEmpty.Error()}}, cfg.Warnings...)
}

// proxy is what a gateway of the configuration is made of. out gets the progress, for a person; log may be nil.
func (o *options) proxy(cfg *config.Config, out io.Writer, log *slog.Logger) proxy.Options {
	return proxy.Options{Config: cfg, Bundled: plugins.FS(), Log: log, CacheDir: o.cache, Loading: (&progress{out: out}).loading}
}

// build makes a gateway that does not serve.
func (o *options) build(cfg *config.Config, out io.Writer) (*proxy.Server, error) {
	log := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return proxy.New(context.Background(), o.proxy(cfg, out, log))
}
