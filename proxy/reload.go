package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/admission"
	"github.com/sluice-gateway/sluice/proxy/internal/capacity"
	"github.com/sluice-gateway/sluice/proxy/internal/downstream"
	"github.com/sluice-gateway/sluice/proxy/internal/identity"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/configured"
)

// ErrSuperseded is the error of a Reload that a later one has replaced.
var ErrSuperseded = errors.New("superseded by a later reload")

// Reload replaces the configuration. It builds the new one while the old one serves. If anything is wrong with the new
// one, Reload returns an error, and the old one stays in use. Requests in flight keep the configuration that they
// started with, which is closed after the last of them has ended.
//
// A Reload does not wait for an earlier one in progress, which fails with ErrSuperseded even if the later one fails as
// well. Compilations that the earlier one has started continue in the background, and their results serve the later one
// too.
//
// Limits and timeouts of [server] apply from the next request, write or connection on. Members whose change requires a
// restart keep their old value, and are named in a warning: see config.Config.NeedsRestart.
func (s *Server) Reload(ctx context.Context, cfg *config.Config) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.reloading.Lock()
	if s.cancelReload != nil {
		s.cancelReload(ErrSuperseded)
	}
	s.cancelReload = cancel
	old := s.acquire()
	s.reloading.Unlock()
	err := errClosed
	if old != nil {
		err = s.reload(ctx, cfg, old)
		old.Release()
	}
	if err != nil && context.Cause(ctx) == ErrSuperseded {
		return ErrSuperseded
	}
	s.health.recordReload(s.Now(), err)
	return err
}

// reload builds the generation of a configuration and replaces old with it, unless ctx ends first.
func (s *Server) reload(ctx context.Context, cfg *config.Config, old *generation) error {
	began := time.Now()
	if err := checkStaysProtected(s.started, old.config, cfg); err != nil {
		return &BuildError{err}
	}
	pair, err := newTLS(s.started, cfg)
	if err != nil {
		return &BuildError{err}
	}
	if err := s.books.Prepare(cfg); err != nil {
		return &BuildError{err}
	}
	g, err := s.builder.build(ctx, cfg, old)
	if err != nil {
		return err
	}
	s.reloading.Lock()
	defer s.reloading.Unlock()
	if err := ctx.Err(); err != nil {
		g.Release()
		return err
	}
	g.inherit(old)
	s.loadOwners(g)
	if !s.current.CompareAndSwap(old, g) {
		// The Server was closed meanwhile.
		g.Release()
		return errClosed
	}
	s.canaries.Use(g.policies.Canaries())
	limits := admission.WithCapacity(cfg.Server, capacity.Detect())
	s.Admission.SetLimits(limits)
	s.clients.SetLimits(connLimits(limits))
	if pair != nil {
		s.clients.SetTLS(pair)
	}
	setMetricNames(s.metrics, cfg)
	s.exporter.SetProviders(cfg)
	old.plugins.Retire()
	old.Release()
	s.books.Use(cfg, g.accounts)
	s.registry.PruneModels(g.policies.Configured)
	s.registry.Prune(func(provider, model string) bool { return g.hasProvider(provider) })
	logReload(s.Log, cfg.Since(old.config), g.number, time.Since(began))
	for _, member := range cfg.NeedsRestart(s.started) {
		s.Log.Warn("change requires a restart; keeping the old value", "member", member)
	}
	return nil
}

// RenewCertificate reads the files of the TLS certificate again, as Reload does. It is for when Reload fails, because a
// certificate must not expire just because something else is wrong with the configuration.
func (s *Server) RenewCertificate() error {
	return s.renew(func(g *generation) error {
		pair, err := newTLS(s.started, g.config)
		if pair != nil {
			s.clients.SetTLS(pair)
		}
		return err
	})
}

// renew calls f with the current generation, and keeps Reload from replacing it meanwhile.
func (s *Server) renew(f func(*generation) error) error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	g := s.acquire()
	if g == nil {
		return errClosed
	}
	defer g.Release()
	return f(g)
}

// RenewSecrets reads the files of providers' credentials again. Reload does so too, but takes longer and needs a valid
// configuration. A credential that cannot be read stays unchanged.
func (s *Server) RenewSecrets() error { return s.renew(s.renewAllSecrets) }

func (s *Server) renewAllSecrets(g *generation) error {
	var errs []error
	for i := range g.config.Providers {
		p := &g.config.Providers[i]
		if !p.Auth.FromFile() || g.providers[p.Name] == nil || g.providers[p.Name].Client == nil {
			continue
		}
		changed, err := configured.Renew(g.providers[p.Name].Client, &p.Auth)
		if err != nil {
			errs = append(errs, fmt.Errorf("providers.%s.auth: %w", p.Name, err))
		}
		if changed {
			s.Log.Info("credential renewed", "provider", p.Name)
		}
	}
	return errors.Join(errs...)
}

// newTLS loads the files of a new configuration's TLS. It returns nil if the listeners were started without TLS, because
// that cannot change without a restart.
func newTLS(started, cfg *config.Config) (*downstream.TLS, error) {
	if started.Server.TLS == nil {
		return nil, nil
	}
	return loadTLS(cfg.Server.TLS)
}

// loadTLS loads the files of a TLS. It returns nil for plain HTTP.
func loadTLS(t *config.TLS) (*downstream.TLS, error) {
	certificate, err := t.Load()
	if certificate == nil || err != nil {
		return nil, err
	}
	clients, err := identity.LoadCertificates(t)
	if err != nil {
		return nil, err
	}
	loaded := &downstream.TLS{Certificate: certificate}
	if clients != nil {
		loaded.Clients = &downstream.ClientAuth{Required: t.Required, Roots: clients.Roots(), Verify: clients.VerifyConnection}
	}
	return loaded, nil
}

// checkStaysProtected rejects a configuration without keys while the listener is reachable from other machines. Such a
// configuration may be valid if it also changes the listener's address, but that change requires a restart.
func checkStaysProtected(started, old, cfg *config.Config) error {
	opens := old.Server.Auth == config.AuthKeys && cfg.Server.Auth == config.AuthNone
	if opens && !cfg.Server.Reachable() && started.Server.Reachable() {
		return fmt.Errorf("server.listen: change requires a restart, and on %s the gateway would be open to everyone: no [[keys]] are configured", started.Server.Listen)
	}
	return nil
}

// logReload logs what a Reload has changed.
func logReload(log *slog.Logger, c config.Changes, generation int64, took time.Duration) {
	attrs := []slog.Attr{slog.Int64("generation", generation), slog.Int64("duration_ms", took.Milliseconds())}
	add := func(name string, names []string) {
		if len(names) > 0 {
			attrs = append(attrs, slog.String(name, joinNames(names)))
		}
	}
	for _, section := range []struct {
		name string
		config.Change
	}{{"teams", c.Teams}, {"keys", c.Keys}, {"issuers", c.Issuers}, {"plugins", c.Plugins}, {"providers", c.Providers}, {"models", c.Models}} {
		add(section.name+"_added", section.Added)
		add(section.name+"_removed", section.Removed)
		add(section.name+"_changed", section.Changed)
	}
	if c.Router {
		c.Members = append(c.Members, "router")
	}
	if c.Filters {
		c.Members = append(c.Members, "filters")
	}
	if c.Identities {
		c.Members = append(c.Members, "identities")
	}
	add("changed", c.Members)
	if c.None() {
		add("changed", []string{"nothing"})
	}
	log.LogAttrs(context.Background(), slog.LevelInfo, "configuration reloaded", attrs...)
}

// maxNamed is the maximum number of names in one attribute of a log line.
const maxNamed = 16

// joinNames joins names with commas, and abbreviates a long list.
func joinNames(names []string) string {
	if rest := len(names) - maxNamed; rest > 0 {
		return strings.Join(names[:maxNamed], ", ") + fmt.Sprintf(" and %d more", rest)
	}
	return strings.Join(names, ", ")
}
