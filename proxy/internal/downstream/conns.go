// Package downstream owns the client's side of the gateway: listeners, connections with their deadlines, TLS,
// keep-alive, graceful shutdown, and the detection of client disconnects.
//
// It does not parse requests. An HTTP server reads requests from a Conn and writes responses to it. A Request is
// notified when its response has been delivered, and may write a streamed response itself.
//
// Concurrency: Conns and Listener are safe for concurrent use. A Conn belongs to the goroutine that serves it, except
// that Conns interrupts its reads and closes it on shutdown. A Watcher may check the client on a goroutine of its own.
package downstream

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
)

// Limits bound clients' connections. A change takes effect with the next connection, read or write.
type Limits struct {
	Conns        int           // maximum number of open connections
	ReadTimeout  time.Duration // time for a request to arrive, and for a TLS handshake
	IdleTimeout  time.Duration // time between two requests
	WriteTimeout time.Duration // time for the client to accept written data; 0 means unlimited
}

// Options configure Conns.
type Options struct {
	Limits Limits
	TLS    *TLS // nil means plain HTTP
	Log    *slog.Logger
	// HTTPSRequired returns the response to an HTTP request on a TLS port.
	HTTPSRequired func() []byte
	// Panicked receives panics in TakeBuffered, which runs on a goroutine of fasthttp.
	Panicked func(*rescue.Error)
}

// Conns is the set of the clients' open connections, with their limits and counters.
type Conns struct {
	options    Options
	limits     atomic.Pointer[Limits]
	tls        *tlsServer // nil means plain HTTP
	handshakes handshakes

	finishing atomic.Bool // Finish was called: connections that wait for a request are closed
	ending    atomic.Bool // End was called: no connection reads any more

	mu    sync.Mutex
	all   map[*Conn]struct{}
	empty chan struct{} // closed when the last connection is closed; nil until something waits for that
}

// New returns an empty Conns.
func New(o Options) *Conns {
	g := &Conns{options: o, all: make(map[*Conn]struct{})}
	g.SetLimits(o.Limits)
	if o.TLS != nil {
		g.tls = newTLSServer(o.TLS)
	}
	return g
}

// SetLimits replaces the limits.
func (g *Conns) SetLimits(l Limits) { g.limits.Store(&l) }

// CertificateExpiry returns when the certificate expires. It is zero without one.
func (g *Conns) CertificateExpiry() time.Time {
	if g.tls == nil {
		return time.Time{}
	}
	return g.tls.certificate.Load().Leaf.NotAfter
}

// SetTLS replaces the certificate, and what is asked of clients, for future handshakes. It has no effect if New was
// called without TLS.
func (g *Conns) SetTLS(t *TLS) {
	if g.tls != nil {
		g.tls.set(t)
	}
}

// Count returns how many connections are open.
func (g *Conns) Count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.all)
}

// add adds a connection. It reports false, and does not add it, if there are already max connections.
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
	g.notifyIfEmpty()
}

// notifyIfEmpty closes the channel empty, once, if no connection is left. g.mu is held.
func (g *Conns) notifyIfEmpty() {
	if g.empty != nil && len(g.all) == 0 {
		close(g.empty)
		g.empty = nil
	}
}

// A graceful shutdown has these steps. First, the listeners are stopped. Then Finish closes each connection that waits
// for a request, and every other connection after its response. At the deadline, the owner of the requests in flight
// cancels them, and End gives them a moment to write the end of their responses.
//
// fasthttp's own shutdown is not used because it would close idle connections on which a request may have arrived,
// check only ten times a second whether it is done, and cancel every request in flight.

const (
	// queueGrace is how long Stop keeps accepting connections that the kernel has already established. Closing the
	// listener would reset the connections in its queue.
	queueGrace = 20 * time.Millisecond

	// acceptGrace is how long Stop waits for the accepting goroutine to find the queue empty.
	acceptGrace = time.Second

	// firstRequestGrace is how long after it was accepted a connection may wait for its first request during a
	// shutdown, in addition to the round trips of a TLS handshake and of the request.
	firstRequestGrace      = 100 * time.Millisecond
	firstRequestRoundTrips = 3

	// restGrace is how long the rest of a request whose first bytes have arrived may take during a shutdown.
	restGrace = time.Second
)

// Finish closes each connection that waits for a request, and every other connection after its current response. It
// returns nil when no connection is left, and ctx's error if ctx ends first.
func (g *Conns) Finish(ctx context.Context) error {
	g.finishing.Store(true)
	empty := g.interruptReads()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-empty:
		return nil // ctx ended at the same time
	default:
		return ctx.Err()
	}
}

// End closes every connection after its current response, and at the latest when ctx ends.
func (g *Conns) End(ctx context.Context) {
	g.ending.Store(true)
	select {
	case <-g.interruptReads():
		return
	case <-ctx.Done():
	}
	g.ForceClose()
}

// ForceClose closes every connection at once; reads and writes in progress fail. A connection that is just being
// accepted is closed before it serves a request.
func (g *Conns) ForceClose() {
	g.ending.Store(true)
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.all {
		c.ForceClose()
	}
}

// interruptReads interrupts every read, so that it checks whether its connection is to be closed. The channel is closed
// when no connection is left.
func (g *Conns) interruptReads() (empty <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.empty == nil {
		g.empty = make(chan struct{})
	}
	empty = g.empty
	g.notifyIfEmpty()
	for c := range g.all {
		if c.inHandshake.Load() {
			// A handshake cannot be resumed. It may continue for as long as a first request may take.
			_ = c.Conn.SetReadDeadline(time.Now().Add(c.firstRequestLeft(c.accepted)))
			continue
		}
		c.interrupted.Store(true)
		_ = c.Conn.SetReadDeadline(time.Unix(1, 0))
	}
	return empty
}

var _ net.Conn = (*Conn)(nil)
