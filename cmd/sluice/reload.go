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
	"github.com/sluice-gateway/sluice/proxy/config/watch"
)

// reloader applies configuration changes while the gateway serves. Compiling plugins may take seconds, so a change does
// not wait for a previous one that is still being loaded: it supersedes it.
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
	current   atomic.Pointer[config.Config]

	changes int64 // number of configurations passed to the gateway; used only by the goroutine of run

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
		}
	}
}

// reload reads the configuration and starts to apply it. If it is invalid, the previous one stays in use, and the log
// has the errors that `sluice check` prints.
func (r *reloader) reload(ctx context.Context) {
	// Credentials first: that is quick, and works even if the configuration has errors.
	if err := r.gateway.RenewSecrets(); err != nil {
		r.log.Warn("cannot renew credentials; keeping the previous ones", "error", err)
	}
	cfg, err := r.load(r.listen)
	if err == nil && cfg.Empty() {
		err = errEmpty
	}
	if err != nil {
		r.gateway.ReloadFailed(err)
		r.logFailure(err)
		return
	}
	// Watch files before they are read, so that no change is missed.
	r.files.Add(cfg.Files()...)
	r.changes++
	change := r.changes
	go r.apply(ctx, cfg, change)
}

// apply builds and serves a configuration, unless a later change supersedes it.
func (r *reloader) apply(ctx context.Context, cfg *config.Config, change int64) {
	err := r.gateway.Reload(ctx, cfg)
	switch {
	case ctx.Err() != nil:
		return // shutting down
	case errors.Is(err, proxy.ErrSuperseded):
		r.log.Info("reload superseded: the configuration changed again while its plugins were loaded")
		return
	case err != nil:
		r.logFailure(err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if change < r.served {
		return
	}
	r.served = change
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
