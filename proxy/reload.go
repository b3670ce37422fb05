package proxy

import (
	"context"
	"errors"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// Reload puts another configuration in place of the one that is served. What it describes is built whole first, while
// the old one goes on serving; where anything is wrong with it, the error says what, and the old one stays. Requests in
// flight end on the configuration that they began with, which is closed behind the last of them.
//
// The listener is not touched: its address, timeouts and limits are those of the start.
func (s *Server) Reload(ctx context.Context, cfg *config.Config) (err error) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	defer func() { s.health.reloaded(s.now(), err) }()
	old := s.acquire()
	if old == nil {
		return errClosed
	}
	defer old.release()
	g, err := s.build(ctx, cfg, old)
	if err != nil {
		return err
	}
	if !s.current.CompareAndSwap(old, g) {
		// Close came first.
		g.release()
		return errClosed
	}
	s.name(g)
	old.release()
	s.board.Keep(func(provider, model string) bool { return g.sendsTo(provider) })
	return nil
}

var errClosed = errors.New("the gateway is closed")
