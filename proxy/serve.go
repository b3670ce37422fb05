package proxy

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"

	"github.com/sluice-gateway/sluice/proxy/internal/response"

	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

// maxRefusals is how many connections beyond the limit are told so at a time. Those beyond that are closed.
const maxRefusals = 64

// Serve accepts connections from ln until Shutdown or Close, and closes it. It returns nil after either, also where
// that came first. With TLS configured, clients speak it on ln, which must not do so itself.
func (s *Server) Serve(ln net.Listener) error {
	l := &listener{
		Listener: ln, settings: &s.settings, open: &s.clients, secure: s.secure, log: s.log,
		closed: make(chan struct{}), emptied: make(chan struct{}),
	}
	s.mu.Lock()
	if s.stopping {
		s.mu.Unlock()
		return l.Close()
	}
	s.listeners = append(s.listeners, l)
	s.serving.Add(1)
	s.mu.Unlock()
	defer s.serving.Done()
	s.health.serve()
	for {
		c, full, err := l.accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return errors.Join(err, l.Close())
		case !full:
			s.serving.Go(func() { s.serve(c) })
		default:
			s.metrics.Shed(telemetry.ShedConnections)
			select {
			case s.refuses <- struct{}{}:
				s.serving.Go(func() { s.turnAway(c) })
			default:
				c.sever()
			}
		}
	}
}

// serve serves a connection to its end. A panic that got past everything else ends it, and nothing but it.
func (s *Server) serve(c *clientConn) {
	defer func() {
		if v := recover(); v != nil {
			s.panicked("", v, debug.Stack())
			c.socket.failed.Store(true)
			c.delivered()
			s.clients.remove(c)
			c.sever()
		}
	}()
	for {
		s.broke(s.http.ServeConn(c))
		x := c.handedOver()
		if x == nil {
			return
		}
		err := x.pump.run()
		c.taken.Wait()
		s.broke(err)
		if err != nil || x.pump.last {
			// What is wrong with closing it, there is nobody to tell.
			_ = c.Close()
			return
		}
		s.track(c, fasthttp.StateIdle)
	}
}

// broke says how a connection has ended, if it was not by itself.
func (s *Server) broke(err error) {
	if err != nil {
		s.log.Debug("connection", "error", unquoted(err))
	}
}

// turnAway tells a connection that there is no room for it.
func (s *Server) turnAway(c *clientConn) {
	defer func() {
		if v := recover(); v != nil {
			s.panicked("", v, debug.Stack())
			c.sever()
		}
		<-s.refuses
	}()
	if c.tls == nil || c.shake() {
		_, _ = c.Write(refusal(&apierror.Error{
			Status: 503, Type: apierror.TypeServiceUnavailable, Code: "gateway_overloaded", RetryAfter: time.Second,
			Message: "The gateway has all the connections that it takes.",
		}))
		c.unread = true
	}
	// It is closed whatever that says.
	_ = c.Close()
}

// refusal is an answer to a connection of which no request is read.
func refusal(e *apierror.Error) []byte {
	body := response.AppendErrorBody(nil, e)
	out := fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nX-Request-Id: %s\r\n",
		e.Status, fasthttp.StatusMessage(e.Status), len(body), newRequestID())
	if e.RetryAfter > 0 {
		out = fmt.Appendf(out, "Retry-After: %d\r\nRetry-After-Ms: %d\r\n", int(e.RetryAfter.Seconds()), e.RetryAfter.Milliseconds())
	}
	return append(append(out, "Connection: close\r\n\r\n"...), body...)
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
		s.clients.sever()
		s.serving.Wait()
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
func (s *Server) shutdownError() *apierror.Error {
	return &apierror.Error{
		Status: 503, Type: apierror.TypeServiceUnavailable, Code: "gateway_shutdown", Message: "The gateway is shutting down.",
		RetryAfter: time.Second,
	}
}
