package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/config/fleet"
)

// nodeDir returns the folder of the state of a node.
func nodeDir(cfg *config.Config) (string, error) {
	dir, err := proxy.FindStateDir(cfg.Store.Journal, os.LookupEnv)
	return filepath.Join(dir, "bundle"), err
}

// storedBundle returns the bundle with which a node would start. Without one, the rest of the configuration is checked.
func storedBundle(cfg *config.Config) (*config.BundleText, error) {
	dir, err := nodeDir(cfg)
	if err != nil {
		return nil, err
	}
	return fleet.Stored(context.Background(), fleet.Options{Dir: dir, Config: cfg})
}

// errNodeChange is the error of a reload that adds or removes [bundle].
var errNodeChange = errors.New("adding or removing [bundle] requires a restart")

// openNode opens the node when the configuration is read for the first time, and returns the bundle in use.
func (s *serveOptions) openNode(cfg *config.Config) (*config.BundleText, error) {
	if s.started && s.node == nil {
		return nil, errNodeChange
	}
	if s.node == nil {
		dir, err := nodeDir(cfg)
		if err != nil {
			return nil, err
		}
		if s.node, err = fleet.Open(context.Background(), fleet.Options{Dir: dir, Config: cfg, Log: slog.New(slog.DiscardHandler)}); err != nil {
			return nil, err
		}
	}
	return s.node.Bundle(), nil
}

// bundleRequest asks the reloader to serve a bundle.
type bundleRequest struct {
	text *config.BundleText
	done chan<- error // of capacity 1
}

// Use serves a bundle.
func (r *reloader) Use(ctx context.Context, b *config.BundleText) error {
	done := make(chan error, 1)
	select {
	case r.bundles <- bundleRequest{b, done}:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Serving returns the digest of the bundle that is served.
func (r *reloader) Serving() string {
	if b := r.current.Load().Bundle; b != nil {
		return b.Digest
	}
	return ""
}

// Figures returns the gateway's counters.
func (r *reloader) Figures() fleet.Figures { return r.gateway.Figures() }
