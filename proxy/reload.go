package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/capacity"
)

// Reload puts another configuration in place of the one that is served. What it describes is built whole first, while
// the old one goes on serving; where anything is wrong with it, the error says what, and the old one stays. Requests in
// flight end on the configuration that they began with, which is closed behind the last of them.
//
// Limits and times of [server] count from the next request, write or connection on. What takes a restart is named in a
// warning and stays as it is: see config.Config.NeedsRestart.
func (s *Server) Reload(ctx context.Context, cfg *config.Config) (err error) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	began := time.Now()
	defer func() { s.health.reloaded(s.now(), err) }()
	old := s.acquire()
	if old == nil {
		return errClosed
	}
	defer old.release()
	if err := s.stillGuarded(old.config, cfg); err != nil {
		return &BuildError{err}
	}
	pair, err := s.newCertificate(cfg.Server.TLS)
	if err != nil {
		return &BuildError{err}
	}
	g, err := s.build(ctx, cfg, old)
	if err != nil {
		return err
	}
	if !s.current.CompareAndSwap(old, g) {
		// Close came first.
		g.release()
		return errClosed
	}
	limits := sized(cfg.Server, capacity.Detect())
	s.settings.Store(limits)
	s.clients.SetLimits(connLimits(limits))
	if pair != nil {
		s.clients.SetCertificate(pair)
	}
	s.name(g)
	old.plugins.Retire()
	old.release()
	s.usage.Prune(g.keys)
	s.board.Prune(func(provider, model string) bool { return g.sendsTo(provider) })
	s.tell(cfg.Since(old.config), g.number, time.Since(began))
	for _, member := range cfg.NeedsRestart(s.started) {
		s.log.Warn("a change takes a restart, until then the old value counts", "member", member)
	}
	return nil
}

// RenewCertificate reads the files of the certificate that is served again, as a Reload does. It is for when there can be
// none: a certificate must not expire because something else is wrong with the configuration.
func (s *Server) RenewCertificate() error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	g := s.acquire()
	if g == nil {
		return errClosed
	}
	defer g.release()
	pair, err := s.newCertificate(g.config.Server.TLS)
	if pair != nil {
		s.clients.SetCertificate(pair)
	}
	return err
}

// newCertificate loads a certificate; nil for no change. Whether clients speak TLS at all is decided at the start.
func (s *Server) newCertificate(files *config.TLS) (*tls.Certificate, error) {
	if files == nil || s.started.Server.TLS == nil {
		return nil, nil
	}
	return files.Load()
}

var errClosed = errors.New("the gateway is closed")

// stillGuarded refuses a configuration that would open the gateway to everybody because it believes in another address
// to listen on: without keys it is valid on this machine only, and the listener is where it was.
func (s *Server) stillGuarded(old, cfg *config.Config) error {
	opens := old.Server.Auth == config.AuthKeys && cfg.Server.Auth == config.AuthNone
	if opens && !cfg.Server.Reachable() && s.started.Server.Reachable() {
		return fmt.Errorf("server.listen: a change takes a restart, and on %s the gateway would be open to everybody: no [[keys]] are configured", s.started.Server.Listen)
	}
	return nil
}

// tell writes the line of a Reload into the log.
func (s *Server) tell(c config.Changes, generation int64, took time.Duration) {
	attrs := []slog.Attr{slog.Int64("generation", generation), slog.Duration("took", took)}
	names := func(what string, names []string) {
		if len(names) > 0 {
			attrs = append(attrs, slog.String(what, several(names)))
		}
	}
	for _, of := range []struct {
		what string
		config.Change
	}{{"keys", c.Keys}, {"plugins", c.Plugins}, {"providers", c.Providers}, {"models", c.Models}} {
		names(of.what+"_added", of.Added)
		names(of.what+"_removed", of.Removed)
		names(of.what+"_changed", of.Changed)
	}
	if c.Router {
		c.Members = append(c.Members, "router")
	}
	names("changed", c.Members)
	if c.None() {
		names("changed", []string{"nothing"})
	}
	s.log.LogAttrs(context.Background(), slog.LevelInfo, "configuration reloaded", attrs...)
}

// maxNamed is how many names stand in one attribute of a log line.
const maxNamed = 16

// several is a list of names that fits onto a line.
func several(names []string) string {
	if rest := len(names) - maxNamed; rest > 0 {
		return strings.Join(names[:maxNamed], ", ") + fmt.Sprintf(" and %d more", rest)
	}
	return strings.Join(names, ", ")
}
