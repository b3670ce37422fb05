package proxy

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/sluice-gateway/sluice/proxy/chat"
)

// Serve accepts connections from ln until Shutdown or Close, and closes it. It returns nil after either, also where
// that came first.
func (s *Server) Serve(ln net.Listener) error {
	l := &listener{
		Listener: ln, settings: &s.settings, open: &s.clients, full: s.full, log: s.log,
		closed: make(chan struct{}), emptied: make(chan struct{}),
	}
	s.mu.Lock()
	if s.stopping {
		s.mu.Unlock()
		return l.Close()
	}
	s.listeners = append(s.listeners, l)
	s.mu.Unlock()
	s.health.serve()
	return s.http.Serve(l)
}

// stop closes the listeners with close.
func (s *Server) stop(close func(*listener) error) {
	s.mu.Lock()
	s.stopping = true
	listeners := s.listeners
	s.mu.Unlock()
	var all sync.WaitGroup
	for _, l := range listeners {
		all.Go(func() {
			if err := close(l); err != nil {
				s.log.Warn("close listener", "error", err)
			}
		})
	}
	all.Wait()
}

// Shutdown stops accepting connections and waits for what is in flight. Where ctx ends first, streams that are still
// open get an error frame, answers that have not begun a 503, and ctx's error is returned. The Server cannot be used
// after it.
func (s *Server) Shutdown(ctx context.Context) (err error) {
	s.shut.Do(func() {
		s.Drain()
		s.stop((*listener).stop)
		if err = s.clients.finish(ctx); err != nil {
			s.cut.Store(true)
			grace, cancel := context.WithTimeout(context.Background(), cutGrace)
			defer cancel()
			s.clients.end(grace)
		}
		s.Close()
	})
	return err
}

// Close gives back what the Server holds: plugins, connections to providers, goroutines. It is for a Server that has
// been shut down or never served.
func (s *Server) Close() {
	s.closeOnce.Do(func() {
		s.stop((*listener).Close)
		s.admin.Close()
		if g := s.current.Swap(nil); g != nil {
			g.release()
		}
		// Also of those that a Reload has replaced: what they run is part of the engine.
		s.generations.Wait()
		if err := s.plugins.Close(); err != nil {
			s.log.Warn("close plugin engine", "error", err)
		}
	})
}

// shutdownError is what a request gets that the end of a shutdown overtook.
func (s *Server) shutdownError() *chat.Error {
	return &chat.Error{
		Status: 503, Type: chat.TypeServiceUnavailable, Code: "gateway_shutdown", Message: "The gateway is shutting down.",
		RetryAfter: time.Second,
	}
}
