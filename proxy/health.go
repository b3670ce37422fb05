package proxy

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/admin"
)

// health is what is known of the Server as a whole: where it is between its start and its end, and how its last change of
// configuration went. The zero value is that of a Server that does not serve yet.
type health struct {
	draining atomic.Bool

	mu      sync.Mutex
	serving bool
	reload  reload
}

// reload is how the changes of configuration went.
type reload struct {
	succeeded, failed int64
	at                time.Time // of the last one, or of the start
	err               error     // of the last one
}

func (h *health) serve() {
	h.mu.Lock()
	h.serving = true
	h.mu.Unlock()
}

// reloaded remembers the outcome of a change of configuration.
func (h *health) reloaded(now time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reload.at, h.reload.err = now, err
	if err != nil {
		h.reload.failed++
		return
	}
	h.reload.succeeded++
}

func (h *health) lastReload() reload {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.reload
}

// The reasons for not being ready.
var (
	errNotServing  = errors.New("the gateway does not serve yet")
	errDraining    = errors.New("the gateway is shutting down")
	errNoProviders = errors.New("no provider is on")
)

// Ready is nil where requests should be sent to the gateway, else why not.
func (s *Server) Ready() error {
	s.health.mu.Lock()
	serving := s.health.serving
	s.health.mu.Unlock()
	switch {
	case s.Draining():
		return errDraining
	case !serving:
		return errNotServing
	}
	g := s.acquire()
	if g == nil {
		return errDraining
	}
	defer g.release()
	if len(g.providers) == 0 {
		return errNoProviders
	}
	return nil
}

// Drain says that the gateway is about to shut down: it is not ready any more, and serves on. Whoever sends requests to
// it gets time to notice before Shutdown.
func (s *Server) Drain() { s.health.draining.Store(true) }

// Draining tells whether Drain or Shutdown has been called.
func (s *Server) Draining() bool { return s.health.draining.Load() }

// ReloadFailed remembers, for metrics and status, that a configuration could not even be handed to Reload. err must not
// hold a credential.
func (s *Server) ReloadFailed(err error) { s.health.reloaded(s.now(), err) }

// ServeAdmin serves health, metrics and status on ln until Close, which is the end of Shutdown too, and closes ln. Clients
// of the gateway have no business there.
func (s *Server) ServeAdmin(ln net.Listener) error { return s.admin.Serve(ln) }

var _ admin.Gateway = (*Server)(nil)
