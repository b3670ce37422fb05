package proxy

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// clientConn is a client's connection: what fasthttp reads and writes. Its reads belong to fasthttp. Writes come from
// fasthttp and, for heartbeats and probes, from the exchange, always on the goroutine that serves the connection.
type clientConn struct {
	net.Conn           // the socket, or TLS on it
	socket   socket    // below TLS
	tls      *tls.Conn // nil: plain HTTP
	secure   *secure   // of tls
	shaking  atomic.Bool
	greeted  bool // the handshake is over; or without TLS, the first bytes have come

	raw      syscall.RawConn // of the descriptor; nil: there is none
	owing    owing
	settings *settings
	open     *connections
	accepted time.Time
	remote   string // the client's address; "" until a request needs it
	phase    atomic.Int32
	woken    atomic.Bool   // a read was ended so that it looks at the phase; its time is not over
	limit    time.Duration // what the next read gets, and those behind it; 0: the deadline that is set counts
	readBy   time.Time     // the read deadline that is set; zero: it is not known

	handover

	// Of the request in flight:
	unread   bool        // something of it is left to be read, and the connection is about to be closed
	ended    bool        // a read has found the end of what the client sends
	exchange *completion // that is not finished

	// And what was found out about a client that has closed its sending side:
	halfClosed bool // a probe showed that it still reads
	probing    bool // a probe is on its way
	interim    bool // the one probe that can be sent before the head has been sent
}

// The phases of a connection.
const (
	phaseNew    = iota // nothing has come
	phaseActive        // a request is being read, or answered
	phaseIdle          // between two requests
)

// socket is a connection whose every write has a deadline of its own: a client that stops reading is cut off after the
// write timeout, however long its stream has been open. TLS, which writes more than it is told to, writes through it too.
type socket struct {
	net.Conn
	settings *settings
	timeout  time.Duration // that armed was made with
	armed    time.Time     // the deadline that is set; zero: none
	failed   atomic.Bool   // a write has: something is missing
	closing  atomic.Bool   // deadlines are the closer's
}

// slice is how much is written under one deadline. A large answer takes as many deadlines as it needs, so that it is
// silence that ends it and not its size.
const slice = 64 << 10

// Write writes p.
func (s *socket) Write(p []byte) (n int, err error) {
	for {
		part := p[n:min(len(p), n+slice)]
		if err := s.arm(); err != nil {
			s.failed.Store(true)
			return n, err
		}
		m, err := s.Conn.Write(part)
		n += m
		if err != nil {
			s.failed.Store(true)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				abandon(s.Conn)
			}
			return n, err
		}
		if n == len(p) {
			return n, nil
		}
	}
}

// arm sees to it that a write that begins now has the write timeout, or up to a quarter more: setting a deadline costs as
// much as all else that the gateway does for a write.
func (s *socket) arm() error {
	timeout := s.settings.Load().WriteTimeout
	switch {
	case s.closing.Load():
		return nil
	case timeout <= 0 && s.armed.IsZero():
		return nil
	case timeout <= 0:
		s.armed = time.Time{}
		return s.Conn.SetWriteDeadline(s.armed)
	}
	now := time.Now()
	if timeout == s.timeout && !s.armed.Before(now.Add(timeout)) {
		return nil
	}
	s.timeout, s.armed = timeout, now.Add(timeout+timeout/4)
	return s.Conn.SetWriteDeadline(s.armed)
}

// SetDeadline leaves them as they are: fasthttp would take them away where it lets go of a connection.
func (c *clientConn) SetDeadline(time.Time) error { return nil }

// SetWriteDeadline leaves the deadlines of writes to the socket: fasthttp would take away its own.
func (c *clientConn) SetWriteDeadline(time.Time) error { return nil }

const (
	// lingering is how long a client that is still sending gets to read why nobody listens.
	lingering = time.Second

	// lingered is how much of what it sends is thrown away meanwhile.
	lingered = 1 << 20
)

// Close closes the connection. What the client was sent would be lost to a reset where it is still sending; so what it
// sends is thrown away, for a moment.
func (c *clientConn) Close() error {
	if c.taking {
		c.let()
		return nil
	}
	defer c.open.remove(c)
	c.socket.closing.Store(true)
	if c.socket.failed.Load() {
		return c.socket.Close()
	}
	if c.unread {
		c.linger()
	}
	return c.Conn.Close()
}

// linger says that nothing more will be sent, and reads until the client has closed its side too, or its time is over.
func (c *clientConn) linger() {
	half, ok := c.socket.Conn.(interface{ CloseWrite() error })
	if !ok || c.socket.SetDeadline(time.Now().Add(lingering)) != nil {
		return
	}
	if c.tls != nil && c.tls.CloseWrite() != nil || half.CloseWrite() != nil {
		return
	}
	// Whatever ends it, there is nobody to tell.
	_, _ = io.CopyN(io.Discard, c.socket.Conn, lingered)
}

// sever ends the connection as it is, from any goroutine.
func (c *clientConn) sever() { _ = c.socket.Close() }

// begin forgets what was learnt for the request before.
func (c *clientConn) begin() {
	c.halfClosed, c.probing, c.interim, c.unread = false, false, false, false // ended stays
}

// delivered accounts a whole answer, now that all of it has been written or that nothing more will be. A stream is
// finished already.
func (c *clientConn) delivered() {
	if x := c.exchange; x != nil {
		x.departed = c.socket.failed.Load()
		x.conclude()
	}
}

// presence is what one look at a client's socket says.
type presence uint8

const (
	present presence = iota
	suspect          // it has closed its sending side: gone or half-closed, which only a probe can tell apart
	gone
)

// probeWait is how long a client's kernel gets to answer a probe.
const probeWait = 50 * time.Millisecond

// left reports whether the client has gone. probe writes something harmless to it, where that is possible at the
// moment; while probing is set, left wants to be asked again after probeWait.
//
// A full close and a half-close look alike until something is written: then the kernel of a client that is gone
// answers with a reset, and that of a half-closed one takes it. With TLS, nobody closes one side of the socket only.
func (c *clientConn) left(probe func() bool) bool {
	switch c.look() {
	case gone:
		return true
	case suspect:
		switch {
		case c.tls != nil:
			return true
		case c.halfClosed:
		case c.probing:
			c.halfClosed, c.probing = true, false
		default:
			c.probing = probe()
		}
	}
	return false
}
