package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/admission"
	"github.com/sluice-gateway/sluice/proxy/internal/budgets"
	"github.com/sluice-gateway/sluice/proxy/internal/capacity"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
)

// ErrSuperseded is the error of a Reload that another one has overtaken.
var ErrSuperseded = errors.New("superseded by a later reload")

// Reload replaces the configuration that is served. The new one is built while the old one serves; if anything is wrong
// with it, the error says what, and the old one stays. Requests in flight end on the configuration that they began with,
// which is closed after the last of them.
//
// A Reload does not wait for the one before it: that one ends with ErrSuperseded, whether the later one succeeds or not.
// Compiling that it has begun goes on in the background, and serves the later one as well.
//
// Limits and timeouts of [server] count from the next request, write or connection on. What requires a restart is named in
// a warning and stays as it is: see config.Config.NeedsRestart.
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
		old.release()
	}
	if err != nil && context.Cause(ctx) == ErrSuperseded {
		return ErrSuperseded
	}
	s.health.recordReload(s.now(), err)
	return err
}

// reload builds the generation of a configuration and puts it in the place of old, unless ctx ends before.
func (s *Server) reload(ctx context.Context, cfg *config.Config, old *generation) error {
	began := time.Now()
	if err := checkStaysProtected(s.started, old.config, cfg); err != nil {
		return &BuildError{err}
	}
	pair, err := newCertificate(s.started, cfg)
	if err != nil {
		return &BuildError{err}
	}
	if err := s.openFor(cfg, old.config); err != nil {
		return &BuildError{err}
	}
	g, err := s.builder.build(ctx, cfg, old)
	if err != nil {
		return err
	}
	s.reloading.Lock()
	defer s.reloading.Unlock()
	if err := ctx.Err(); err != nil {
		g.release()
		return err
	}
	g.inherit(old)
	if !s.current.CompareAndSwap(old, g) {
		// Close came first.
		g.release()
		return errClosed
	}
	s.canaries.Use(g.canaries)
	s.openInbox(s.changeBudget, s.log)
	limits := admission.WithCapacity(cfg.Server, capacity.Detect())
	s.admission.SetLimits(limits)
	s.clients.SetLimits(connLimits(limits))
	if pair != nil {
		s.clients.SetCertificate(pair)
	}
	setMetricNames(s.metrics, cfg)
	old.plugins.Retire()
	old.release()
	s.book.Prune(g.accounts)
	s.registry.PruneModels(func(model string) *routing.Policy { return g.policies[model] })
	s.registry.Prune(func(provider, model string) bool { return g.hasProvider(provider) })
	logReload(s.log, cfg.Since(old.config), g.number, time.Since(began))
	for _, member := range cfg.NeedsRestart(s.started) {
		s.log.Warn("change requires a restart; keeping the old value", "member", member)
	}
	return nil
}

// RenewCertificate reads the files of the served certificate again, as Reload does. It is for when Reload fails: a
// certificate must not expire because something else is wrong with the configuration.
func (s *Server) RenewCertificate() error {
	return s.renew(func(g *generation) error {
		pair, err := newCertificate(s.started, g.config)
		if pair != nil {
			s.clients.SetCertificate(pair)
		}
		return err
	})
}

// renew calls f with the current generation, which no Reload replaces meanwhile.
func (s *Server) renew(f func(*generation) error) error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	g := s.acquire()
	if g == nil {
		return errClosed
	}
	defer g.release()
	return f(g)
}

// RenewSecrets reads the files of providers' credentials again. Reload does so too, but takes longer, and needs a configuration
// without errors. A credential that cannot be read stays as it is.
func (s *Server) RenewSecrets() error { return s.renew(s.renewAllSecrets) }

func (s *Server) renewAllSecrets(g *generation) error {
	var errs []error
	for i := range g.config.Providers {
		p := &g.config.Providers[i]
		if !p.Auth.FromFile() || g.providers[p.Name] == nil || g.providers[p.Name].client == nil {
			continue
		}
		changed, err := renewSecrets(g.providers[p.Name].client, &p.Auth)
		if err != nil {
			errs = append(errs, fmt.Errorf("providers.%s.auth: %w", p.Name, err))
		}
		if changed {
			s.log.Info("credential renewed", "provider", p.Name)
		}
	}
	return errors.Join(errs...)
}

func renewSecrets(client *upstream.Client, a *config.Auth) (changed bool, err error) {
	read, err := a.Reread()
	if err != nil {
		return false, err
	}
	secrets := make([]string, len(read))
	for i, secret := range read {
		secrets[i] = secret.Reveal()
	}
	return client.RenewSecrets(secrets)
}

// changeBudget makes a change of a budget that an operator wants, and says what it did.
func (s *Server) changeBudget(c *budgets.Change) (string, error) {
	g := s.acquire()
	if g == nil {
		return "", budgets.ErrLater
	}
	defer g.release()
	now, zone := s.now(), s.started.Store.Zone
	find := func() *spend.Status {
		for _, b := range g.accounts.Status(now) {
			if b.Scope == c.Scope && b.Per == c.Per {
				return &b
			}
		}
		return nil
	}
	b := find()
	switch {
	case b == nil:
		return "", fmt.Errorf("%s has no budget per %s", c.Scope, c.Per)
	case !b.Start.Equal(c.Start):
		return "", fmt.Errorf("the window that began at %s is not the current one of the budget per %s of %s", c.Start.In(zone).Format(time.RFC3339), c.Per, c.Scope)
	}
	credit, what := c.Raise, "raised by "+c.Raise.String()+" USD"
	if c.Raise == 0 {
		if credit, what = b.Spent-b.Raised, "reset"; credit <= 0 {
			return fmt.Sprintf("nothing to reset: of the budget per %s of %s, %s USD are left", c.Per, c.Scope, b.Left()), nil
		}
	}
	err := s.book.Adjust(spend.Adjustment{Scope: c.Scope, Per: c.Per, At: now, Credit: credit, Reason: c.Reason, ID: c.ID})
	switch {
	case errors.Is(err, spend.ErrRepeated): // the process ended before it could say so
	case err != nil:
		return "", fmt.Errorf("%w: %w", budgets.ErrLater, err)
	default:
		s.log.Info("budget changed", c.Scope.Kind.String(), c.Scope.Name, "per", c.Per.String(), "credit_usd", credit.String(), "reason", c.Reason, "id", c.ID)
	}
	until := ""
	if b = find(); !b.End.IsZero() {
		until = " until " + b.End.Format(time.RFC3339)
	}
	return fmt.Sprintf("budget per %s of %s %s: %s of %s USD are left%s", c.Per, c.Scope, what, b.Left(), b.Limit, until), nil
}

// BudgetState is what a state folder knows of budgets.
type BudgetState = budgets.State

// ReadBudgets reads the budgets of a gateway with a configuration in its state folder, whether the gateway is running or not.
func ReadBudgets(cfg *config.Config, stateDir string, f BudgetFilter, now time.Time) (*BudgetState, error) {
	return budgets.Read(filepath.Join(stateDir, journalDir), stateDir, configuredLimits(cfg), cfg.Store.Zone, f, now)
}

// BudgetChange is a change of a budget in its current window. NewBudgetChange returns one.
type BudgetChange = budgets.Change

// NewBudgetChange returns a change of a budget of a configuration: kind is key, team, model or provider, per the budget's period, and usd
// what it is raised by, in US dollars; with "" all of it is left again.
func NewBudgetChange(cfg *config.Config, kind, name, per, usd, reason string, now time.Time) (c *BudgetChange, end time.Time, err error) {
	if c, err = budgets.NewChange(kind, name, per, usd, reason); err != nil {
		return nil, end, err
	}
	for _, l := range configuredLimits(cfg) {
		if l.Scope == c.Scope && slices.ContainsFunc(l.Budgets, func(b config.Budget) bool { return b.Per == c.Per }) {
			c.Start, end = c.Per.Window(now, cfg.Store.Zone)
			return c, end, nil
		}
	}
	return nil, end, fmt.Errorf("%s has no budget per %s in %s", c.Scope, c.Per, cfg.Path)
}

// RequestBudgetChange has the gateway of a state folder make a change, and returns what it says. It waits for that until ctx ends. Without a
// running gateway the change waits for one that starts before end; zero: at any time.
func RequestBudgetChange(ctx context.Context, stateDir string, c *BudgetChange, end time.Time) (string, error) {
	return budgets.Request(ctx, stateDir, c, end)
}

// newCertificate loads the certificate of another configuration than the one at the start, which decided whether clients
// speak TLS at all. nil: there is no change.
func newCertificate(started, cfg *config.Config) (*tls.Certificate, error) {
	if started.Server.TLS == nil {
		return nil, nil
	}
	return loadCertificate(cfg.Server.TLS)
}

// loadCertificate loads a certificate; nil for plain HTTP.
func loadCertificate(files *config.TLS) (*tls.Certificate, error) {
	if files == nil {
		return nil, nil
	}
	return files.Load()
}

var errClosed = errors.New("the gateway is closed")

// checkStaysProtected refuses a configuration without keys while the listener is reachable from other machines. It may be
// valid by itself, if it also changes the listener's address, but that requires a restart.
func checkStaysProtected(started, old, cfg *config.Config) error {
	opens := old.Server.Auth == config.AuthKeys && cfg.Server.Auth == config.AuthNone
	if opens && !cfg.Server.Reachable() && started.Server.Reachable() {
		return fmt.Errorf("server.listen: change requires a restart, and on %s the gateway would be open to everyone: no [[keys]] are configured", started.Server.Listen)
	}
	return nil
}

// logReload logs what a Reload changed.
func logReload(log *slog.Logger, c config.Changes, generation int64, took time.Duration) {
	attrs := []slog.Attr{slog.Int64("generation", generation), slog.Int64("duration_ms", took.Milliseconds())}
	names := func(what string, names []string) {
		if len(names) > 0 {
			attrs = append(attrs, slog.String(what, joinNames(names)))
		}
	}
	for _, of := range []struct {
		what string
		config.Change
	}{{"teams", c.Teams}, {"keys", c.Keys}, {"plugins", c.Plugins}, {"providers", c.Providers}, {"models", c.Models}} {
		names(of.what+"_added", of.Added)
		names(of.what+"_removed", of.Removed)
		names(of.what+"_changed", of.Changed)
	}
	if c.Router {
		c.Members = append(c.Members, "router")
	}
	if c.Filters {
		c.Members = append(c.Members, "filters")
	}
	names("changed", c.Members)
	if c.None() {
		names("changed", []string{"nothing"})
	}
	log.LogAttrs(context.Background(), slog.LevelInfo, "configuration reloaded", attrs...)
}

// maxNamed is how many names one attribute of a log line has.
const maxNamed = 16

// joinNames returns a list of names that fits onto a line.
func joinNames(names []string) string {
	if rest := len(names) - maxNamed; rest > 0 {
		return strings.Join(names[:maxNamed], ", ") + fmt.Sprintf(" and %d more", rest)
	}
	return strings.Join(names, ", ")
}
