package downstream

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
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
	request    Request       // nil: none, or it has been told everything
	linger     time.Duration // part of it is left to be read: how long Close discards that; 0: nothing is left
	inputEnded bool          // a read has found the end of what the client sends
	limited    bool          // no more than inputLeft bytes are read
	inputLeft  int64

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
	// lingerSilence is how long a client that is sent the reason why its request was refused may pause in sending that request.
	lingerSilence = 5 * time.Second

	// lingerShort is how long it may send once the gateway shuts down, and how long a connection that was refused as a whole
	// is kept.
	lingerShort = time.Second
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
	if c.linger > 0 {
		c.lingeringClose(time.Now().Add(c.linger))
	}
	return c.Conn.Close()
}

// lingeringClose closes the sending side, and discards what the client sends until it has closed its own: most clients read the
// response only after they have sent all of the request. It gives up after end, when the client pauses, or shortly after the
// gateway's shutdown has begun.
func (c *Conn) lingeringClose(end time.Time) {
	raw := c.socket.Conn
	half, ok := raw.(interface{ CloseWrite() error })
	if !ok || raw.SetWriteDeadline(time.Now().Add(lingerShort)) != nil {
		return
	}
	if c.tls != nil && c.tls.CloseWrite() != nil || half.CloseWrite() != nil {
		return
	}
	p := discarded.Get().(*[32 << 10]byte)
	defer discarded.Put(p)
	for hurried := false; ; {
		now := time.Now()
		if !now.Before(end) || raw.SetReadDeadline(earliest(end, now.Add(lingerSilence))) != nil {
			return
		}
		// The check follows the deadline, which may have overwritten that of wake.
		if c.conns.finishing.Load() && !hurried {
			hurried, end = true, earliest(end, now.Add(lingerShort))
			continue
		}
		if _, err := raw.Read(p[:]); err != nil && !(errors.Is(err, os.ErrDeadlineExceeded) && c.woken.Swap(false)) {
			return
		}
	}
}

// discarded are buffers for what is read and discarded.
var discarded = sync.Pool{New: func() any { return new([32 << 10]byte) }}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
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
		c.linger = lingerShort
	}
	// It is closed whatever this says.
	_ = c.Close()
}
