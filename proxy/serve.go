package proxy

import (
	"context"
	"net"
	"time"

	"github.com/sluice-gateway/sluice/proxy/chat"
)

// cutGrace is how long streams that were cut at the end of a shutdown get to write their error frames.
const cutGrace = 2 * time.Second

// Serve accepts connections from ln until Shutdown or Close, and closes it. It returns nil after either, also where
// that came first.
func (s *Server) Serve(ln net.Listener) error {
	l := &listener{
		Listener: ln, writeTimeout: s.writeTimeout, open: &s.clients, max: s.http.Concurrency - spareWorkers, full: s.full,
		log: s.log, closed: make(chan struct{}),
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

// stop closes the listeners.
func (s *Server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
	for _, l := range s.listeners {
		if err := l.Close(); err != nil {
			s.log.Warn("close listener", "error", err)
		}
	}
}

// Shutdown stops accepting connections and waits for what is in flight. Where ctx ends first, streams that are still
// open get an error frame, answers that have not begun a 503, and ctx's error is returned. The Server cannot be used
// after it.
func (s *Server) Shutdown(ctx context.Context) (err error) {
	s.shut.Do(func() {
		s.Drain()
		s.stop()
		if err = s.http.ShutdownWithContext(ctx); err != nil {
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
		s.stop()
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
