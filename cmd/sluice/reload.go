package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/config/fleet"
	"github.com/sluice-gateway/sluice/proxy/config/watch"
)

// reloader applies configuration changes while the gateway serves. Reading a configuration may pull plugins from a
// registry that does not respond, and compiling them may take seconds, so a change does not wait for a previous one that
// is still being read or loaded: it supersedes it as soon as it has been read without errors.
type reloader struct {
	*serveOptions
	gateway   *proxy.Server
	address   net.Addr        // address that clients connect to
	manager   *serviceManager // nil if there is none
	files     *watch.Watcher  // nil if files are not watched
	watchErr  <-chan error    // receives at most one error
	level     *slog.LevelVar
	log       *slog.Logger
	requested chan struct{} // of capacity 1
	bundles   chan bundleRequest
	current   atomic.Pointer[config.Config]

	// Used only by the goroutine of run.
	changes int64       // number of changes
	applied int64       // number of the last change that was passed to the gateway
	read    chan change // changes that have been read

	mu     sync.Mutex // held while a reload is completed
	served int64      // number of the change that is being served
}

// request schedules a reload, whether or not files have changed. It does not block, and a pending request absorbs
// further ones.
func (r *reloader) request() {
	select {
	case r.requested <- struct{}{}:
	default:
	}
}

// run reloads on request and when a file has changed, until ctx ends.
func (r *reloader) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case err := <-r.watchErr:
			r.log.Warn("cannot watch all files; send SIGHUP to reload", "error", err)
		case <-r.requested:
			r.files.Refresh()
			r.reload(ctx)
		case <-r.files.Changed():
			r.reload(ctx)
		case c := <-r.read:
			r.use(ctx, c)
		case b := <-r.bundles:
			r.reloadWith(ctx, b)
		}
	}
}

// change is a configuration that has been read, or why it could not be.
type change struct {
	number int64
	cfg    *config.Config
	err    error
	bundle bundleRequest // the zero value for the bundle in use
}

// end ends a change. err is nil if it is served.
func (c *change) end(err error) {
	if c.bundle.done != nil {
		c.bundle.done <- err
	}
}

// reload starts to read the configuration, with the bundle in use.
func (r *reloader) reload(ctx context.Context) { r.reloadWith(ctx, bundleRequest{}) }

func (r *reloader) reloadWith(ctx context.Context, b bundleRequest) {
	// Credentials first: that is quick, and works even if the configuration has errors.
	if err := r.gateway.RenewSecrets(); err != nil {
		r.log.Warn("cannot renew credentials; keeping the previous ones", "error", err)
	}
	r.changes++
	c := change{number: r.changes, bundle: b}
	go func() {
		c.cfg, c.err = r.loadWith(r.listen, b.text)
		switch {
		case c.err != nil:
		case c.cfg.Empty():
			c.err = errEmpty
		case r.node != nil && c.cfg.Bundle == nil:
			c.err = errNodeChange
		}
		select {
		case r.read <- c:
		case <-ctx.Done():
			c.end(ctx.Err())
		}
	}()
}

// use starts to apply a configuration that has been read, unless a later one has overtaken it. If it is invalid, the
// previous one stays in use, and the log has the errors that `sluice check` prints.
func (r *reloader) use(ctx context.Context, c change) {
	switch {
	case c.number < r.applied:
		r.logSuperseded()
		c.end(fleet.ErrNotNow)
	case c.err != nil:
		r.gateway.ReloadFailed(c.err)
		r.logFailure(c.err)
		c.end(c.err)
	default:
		r.applied = c.number
		// Watch files before they are read, so that no change is missed.
		r.files.Add(c.cfg.Files()...)
		go r.apply(ctx, c)
	}
}

func (r *reloader) logSuperseded() {
	r.log.Info("reload superseded: the configuration changed again while its plugins were loaded")
}

// apply builds and serves a configuration, unless a later change supersedes it.
func (r *reloader) apply(ctx context.Context, c change) {
	cfg := c.cfg
	err := r.gateway.Reload(ctx, cfg)
	switch {
	case ctx.Err() != nil: // shutting down
		c.end(ctx.Err())
		return
	case errors.Is(err, proxy.ErrSuperseded):
		r.logSuperseded()
		c.end(fleet.ErrNotNow)
		return
	case err != nil:
		r.logFailure(err)
		if c.bundle.done != nil {
			r.request() // the change that it has superseded may be valid
		}
		c.end(err)
		return
	}
	defer c.end(nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.number < r.served {
		return
	}
	r.served = c.number
	r.manager.notify("", "%s", servingStatus(cfg, r.address))
	logWarnings(r.log, cfg)
	setLevel(r.level, cfg.Server)
	r.files.Keep(cfg.Files()...)
	r.current.Store(cfg)
}

// logFailure logs the errors of a configuration that is not served, and renews the certificate all the same.
func (r *reloader) logFailure(err error) {
	// If the certificate cannot be renewed, the old one stays in use.
	_ = r.gateway.RenewCertificate()
	for _, text := range errorTexts(err) {
		r.log.Error("reload failed; keeping the previous configuration", "error", text)
	}
	r.manager.notify("", "reload failed; keeping the previous configuration: %s", errorTexts(err)[0])
}

// watchFiles returns a watcher without files. It is nil if watching is disabled or not possible. failed receives at
// most one error.
func (s *serveOptions) watchFiles() (files *watch.Watcher, failed <-chan error) {
	errs := make(chan error, 1)
	if !s.watch {
		return nil, errs
	}
	files, err := watch.New(func(err error) { errs <- err })
	if err != nil {
		errs <- err
	}
	return files, errs
}
