package proxy

import (
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// listener hands fasthttp connections that know how to ask whether the client is still there.
type listener struct {
	net.Listener
	writeTimeout time.Duration
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	cc := &clientConn{Conn: c, timeout: l.writeTimeout}
	if sc, ok := c.(syscall.Conn); ok {
		// A connection without a descriptor is one in memory: its client is there until a write fails.
		cc.raw, _ = sc.SyscallConn()
	}
	return cc, nil
}

// clientConn is a client's connection. Its reads belong to fasthttp. Writes come from fasthttp and, for heartbeats and
// probes, from the exchange, always on the goroutine that serves the connection.
type clientConn struct {
	net.Conn
	raw     syscall.RawConn
	timeout time.Duration // of one write
	written atomic.Int64  // bytes that the kernel took

	// Of the request in flight: what was found out about a client that has closed its sending side.
	halfClosed bool // a probe showed that it still reads
	probing    bool // a probe is on its way
	interim    bool // the one probe that can be sent before the head has been sent
}

// Write writes p under a deadline of its own: a client that stops reading is cut off after the write timeout, however
// long its stream has been open.
func (c *clientConn) Write(p []byte) (int, error) {
	if c.timeout > 0 {
		if err := c.Conn.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
			return 0, err
		}
	}
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	return n, err
}

// begin forgets what was learnt for the request before.
func (c *clientConn) begin() { c.halfClosed, c.probing, c.interim = false, false, false }

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
// answers with a reset, and that of a half-closed one takes it.
func (c *clientConn) left(probe func() bool) bool {
	switch c.look() {
	case gone:
		return true
	case suspect:
		switch {
		case c.halfClosed:
		case c.probing:
			c.halfClosed, c.probing = true, false
		default:
			c.probing = probe()
		}
	}
	return false
}
