package main

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/config/watch"
)

// reloader puts configurations in place while the gateway serves, one after the other.
type reloader struct {
	*serving
	gateway *proxy.Server
	files   *watch.Watcher // nil: nobody watches
	blind   <-chan error   // what cannot be watched
	level   *slog.LevelVar
	log     *slog.Logger
	now     chan struct{} // somebody has asked for it
	current atomic.Pointer[config.Config]
}

// reloadNow has the files read, whether they have changed or not. It does not wait. Where that is to happen already,
// nothing is added.
func (r *reloader) reloadNow() {
	select {
	case r.now <- struct{}{}:
	default:
	}
}

// run reloads when it is asked to, and when a file has changed, until ctx ends.
func (r *reloader) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case err := <-r.blind:
			r.log.Warn("changes of files are not all noticed; SIGHUP reloads", "error", err)
		case <-r.now:
			r.files.Refresh()
			r.reload(ctx)
		case <-r.files.Changed():
			r.reload(ctx)
		}
	}
}

// reload reads the configuration and serves it, or says in the words of `sluice check` why not.
func (r *reloader) reload(ctx context.Context) {
	cfg, err := r.load(r.listen)
	if err == nil && cfg.Empty() {
		err = errEmpty
	}
	if err != nil {
		r.gateway.ReloadFailed(err)
	} else {
		// Before what is in them is read.
		r.files.Add(cfg.Files()...)
		err = r.gateway.Reload(ctx, cfg)
	}
	switch {
	case ctx.Err() != nil:
		return // nobody wants to know any more
	case err != nil:
		// Where there is no new one, the one in use stays.
		_ = r.gateway.RenewCertificate()
		for _, problem := range problems(err) {
			r.log.Error("configuration not reloaded, the old one counts", "error", problem)
		}
		return
	}
	logWarnings(r.log, cfg)
	setLevel(r.level, cfg.Server)
	r.files.Keep(cfg.Files()...)
	r.current.Store(cfg)
}

// watchFiles makes what watches files, of which there are none yet; nil where there is to be no watch, or can be none.
// What cannot be watched is received from failed, once.
func (s *serving) watchFiles() (files *watch.Watcher, failed <-chan error) {
	why := make(chan error, 1)
	if !s.watch {
		return nil, why
	}
	files, err := watch.New(func(err error) { why <- err })
	if err != nil {
		why <- err
	}
	return files, why
}
