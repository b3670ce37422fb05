package downstream

import (
	"crypto/tls"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// Conn is a client's connection. Its reads belong to the HTTP server. Writes come from the HTTP server and from the
// Request, always on the goroutine that serves the connection.
type Conn struct {
	net.Conn              // the socket, or TLS on it
	socket      socket    // below TLS
	tls         *tls.Conn // nil: plain HTTP
	inHandshake atomic.Bool
	greeted     bool // the handshake is over; or without TLS, the first bytes have come

	raw      syscall.RawConn // nil: there is no descriptor
	unacked  unacked
	conns    *Conns
	accepted time.Time
	host     string // the client's address; "" until it is asked for
	phase    atomic.Int32

	woken        atomic.Bool   // shutdown interrupted a read; its deadline has not passed
	readTimeout  time.Duration // of the next read and those after it; 0: readDeadline stays
	readDeadline time.Time     // that is set; zero: unknown

	takeover takeover

	// Of the request in flight:
	request    Request // nil: none, or it has been told everything
	unread     bool    // part of it is left to be read, and the connection is about to be closed
	inputEnded bool    // a read has found the end of what the client sends

	// And what was found out about a client that has closed its sending side:
	halfClosed bool // a probe showed that it still reads
	probing    bool // a probe was sent less than ProbeWait ago
}

// The phases of a connection.
const (
	phaseNew    = iota // nothing has come
	phaseActive        // a request is being read or answered
	phaseIdle          // between two requests
)

// RemoteHost returns the client's address without its port.
func (c *Conn) RemoteHost() string {
	if c.host == "" {
		c.host = c.RemoteAddr().String()
		if host, _, err := net.SplitHostPort(c.host); err == nil {
			c.host = host
		}
	}
	return c.host
}

// SetDeadline does nothing: the HTTP server would clear the deadlines when it lets go of a connection.
func (c *Conn) SetDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing: the socket sets its own deadlines.
func (c *Conn) SetWriteDeadline(time.Time) error { return nil }

const (
	// lingerTimeout is how long a client that is still sending gets to read why its request was refused.
	lingerTimeout = time.Second

	// lingerBytes is how much of what it sends meanwhile is discarded.
	lingerBytes = 1 << 20
)

// Close closes the connection. A reset would drop what the client was sent, and closing while it sends causes one; so
// what it sends is read for a moment, and discarded.
func (c *Conn) Close() error {
	if c.takeover.active {
		c.takeover.finish()
		return nil
	}
	defer c.conns.remove(c)
	c.socket.closing.Store(true)
	if c.socket.failed.Load() {
		return c.socket.Close()
	}
	if c.unread {
		c.lingeringClose()
	}
	return c.Conn.Close()
}

// lingeringClose closes the sending side, and reads until the client has closed its own or lingerTimeout has passed.
func (c *Conn) lingeringClose() {
	half, ok := c.socket.Conn.(interface{ CloseWrite() error })
	if !ok || c.socket.SetDeadline(time.Now().Add(lingerTimeout)) != nil {
		return
	}
	if c.tls != nil && c.tls.CloseWrite() != nil || half.CloseWrite() != nil {
		return
	}
	// The connection is closed however this ends.
	_, _ = io.CopyN(io.Discard, c.socket.Conn, lingerBytes)
}

// ForceClose closes the socket as it is. Any goroutine may call it.
func (c *Conn) ForceClose() { _ = c.socket.Close() }

// Abort ends a connection whose goroutine has panicked.
func (c *Conn) Abort() {
	c.socket.failed.Store(true)
	c.delivered()
	c.conns.remove(c)
	c.ForceClose()
}

// Refuse sends a response without reading a request, and closes the connection.
func (c *Conn) Refuse(response []byte) {
	if c.tls == nil || c.handshake() {
		_, _ = c.Write(response)
		c.unread = true
	}
	// It is closed whatever this says.
	_ = c.Close()
}
