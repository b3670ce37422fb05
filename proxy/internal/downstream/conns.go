// Package downstream owns the client's side of the gateway: listeners, connections with their deadlines, TLS, keep-alive
// and graceful shutdown, and what a socket tells about its client.
//
// It does not know what a request is. An HTTP server reads requests from a Conn and writes responses to it; a Request
// learns when its response has been delivered, and may write a streamed response itself.
//
// Concurrency: Conns and Listener are safe for concurrent use. A Conn belongs to the goroutine that serves it, but for
// what Conns does to it on shutdown; a Watcher may have a goroutine of its own, see there.
package downstream

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
)

// Limits are what clients get. A change counts from the next connection, read or write on.
type Limits struct {
	Conns        int           // how many may be open
	ReadTimeout  time.Duration // for a request to arrive, and for a TLS handshake
	IdleTimeout  time.Duration // between two requests
	WriteTimeout time.Duration // for the client to take what is written to it; 0: none
}

// Options are what Conns is made of.
type Options struct {
	Limits      Limits
	Certificate *tls.Certificate // nil: clients speak plain HTTP
	Log         *slog.Logger
	// HTTPSRequired returns the response to an HTTP request on a TLS port.
	HTTPSRequired func() []byte
	// Panicked is called with a panic in TakeBuffered, which runs on a goroutine of fasthttp.
	Panicked func(*rescue.Error)
}

// Conns are the clients' open connections, and what they have in common.
type Conns struct {
	options    Options
	limits     atomic.Pointer[Limits]
	tls        *tlsServer // nil: plain HTTP
	handshakes handshakes

	finishing atomic.Bool // connections that wait for a request are closed
	ending    atomic.Bool // no connection takes another request

	mu   sync.Mutex
	all  map[*Conn]struct{}
	none chan struct{} // closed when the last one is closed; nil until something waits for that
}

// New returns Conns without a connection.
func New(o Options) *Conns {
	g := &Conns{options: o, all: make(map[*Conn]struct{})}
	g.SetLimits(o.Limits)
	if o.Certificate != nil {
		g.tls = newTLSServer(o.Certificate)
	}
	return g
}

// SetLimits replaces the limits.
func (g *Conns) SetLimits(l Limits) { g.limits.Store(&l) }

// SetCertificate replaces the certificate for handshakes that begin from here on. Whether clients speak TLS at all is
// decided by New.
func (g *Conns) SetCertificate(c *tls.Certificate) {
	if g.tls != nil {
		g.tls.certificate.Store(c)
	}
}

// Count returns how many connections are open.
func (g *Conns) Count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.all)
}

// add reports false where there are max connections already.
func (g *Conns) add(c *Conn, max int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.all) >= max {
		return false
	}
	g.all[c] = struct{}{}
	return true
}

func (g *Conns) remove(c *Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, open := g.all[c]; !open {
		return
	}
	delete(g.all, c)
	g.closeNone()
}

// closeNone closes none, once, where no connection is left. g.mu is held.
func (g *Conns) closeNone() {
	if g.none != nil && len(g.all) == 0 {
		close(g.none)
		g.none = nil
	}
}

// Graceful shutdown takes these steps. Listeners are stopped; then Finish closes the connections that wait for a request,
// and each other one after its response. At the deadline, requests in flight are told by their owner to come to an end,
// and End gives them a moment to write that.
//
// fasthttp's own shutdown would close idle connections though a request may have arrived on them, check only ten times a
// second whether it is done, and cancel every request in flight.

const (
	// queueGrace is for clients whom the kernel has told that they are connected: closing a listener resets those in its
	// queue.
	queueGrace = 20 * time.Millisecond

	// acceptGrace is how long the accepting goroutine may take to find the queue empty.
	acceptGrace = time.Second

	// firstRequestGrace is how long a connection's first request may take to come once the gateway shuts down, besides the
	// round trips of a TLS handshake and of the request.
	firstRequestGrace      = 100 * time.Millisecond
	firstRequestRoundTrips = 3

	// restGrace is how long the rest of a request of which something has come may then take.
	restGrace = time.Second
)

// Finish closes the connections that wait for a request, and the others after the response that they are getting. It
// returns when none is left, or with ctx's error.
func (g *Conns) Finish(ctx context.Context) error {
	g.finishing.Store(true)
	none := g.wake()
	select {
	case <-none:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-none:
		return nil // ctx ended at the same time
	default:
		return ctx.Err()
	}
}

// End closes every connection after the response that is being written, and at the latest when ctx ends.
func (g *Conns) End(ctx context.Context) {
	g.ending.Store(true)
	select {
	case <-g.wake():
		return
	case <-ctx.Done():
	}
	g.ForceClose()
}

// ForceClose closes every connection at once, and those that are just being accepted before they serve a request. What is
// using them fails to read or write.
func (g *Conns) ForceClose() {
	g.ending.Store(true)
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.all {
		c.ForceClose()
	}
}

// wake interrupts every read, so that it checks whether to go on. The channel is closed when no connection is left.
func (g *Conns) wake() (none <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.none == nil {
		g.none = make(chan struct{})
	}
	none = g.none
	g.closeNone()
	for c := range g.all {
		if c.inHandshake.Load() {
			// A handshake cannot be resumed. It may go on for as long as a first request may take.
			_ = c.Conn.SetReadDeadline(time.Now().Add(c.firstRequestLeft()))
			continue
		}
		c.woken.Store(true)
		_ = c.Conn.SetReadDeadline(time.Unix(1, 0))
	}
	return none
}

var _ net.Conn = (*Conn)(nil)
