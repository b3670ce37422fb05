package downstream

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Conn is a client's connection. Only the HTTP server reads from it. The HTTP server and the Request write to it,
// always on the goroutine that serves the connection.
type Conn struct {
	net.Conn                 // the socket, or TLS on top of it
	socket       socket      // below TLS
	tls          *tlsConn    // nil for plain HTTP
	inHandshake  atomic.Bool // a TLS handshake is in progress
	inputStarted bool        // the TLS handshake is complete, or without TLS, the first bytes have arrived

	raw      syscall.RawConn // nil if there is no descriptor
	unacked  unacked         // changed only by checks of the client
	conns    *Conns
	accepted time.Time
	ready    time.Time    // since when the client can send a request: accepted, or the end of the TLS handshake
	host     string       // the client's address; "" until RemoteHost is called
	phase    atomic.Int32 // phaseNew, phaseActive or phaseIdle

	interrupted  atomic.Bool   // shutdown interrupted a read before its deadline
	readTimeout  time.Duration // timeout that starts with the next read; 0 means that readDeadline stays
	readDeadline time.Time     // deadline set on the connection; zero if unknown

	takeover takeover
	upgrade  upgrade

	// State of the request in flight:
	request    Request       // nil if there is none, or if it is finished
	linger     time.Duration // how long Close reads and discards the rest of the request; 0 if there is no rest
	lingerMax  int64         // how many bytes of the rest Close reads
	inputEnded bool          // a read has returned EOF; stays set for later requests
	limited    bool          // at most inputLeft bytes are read
	inputLeft  int64

	// State of the probe of a client that has closed its sending side:
	halfClosed bool // a probe showed that the client still reads
	probing    bool // a probe was sent less than ProbeWait ago
}

// The phases of a connection.
const (
	phaseNew    = iota // no byte has arrived
	phaseActive        // a request is being read, or its response is being written
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

// SetDeadline does nothing, because the HTTP server would clear the deadlines when a connection is hijacked.
func (c *Conn) SetDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing, because the socket sets its own deadlines.
func (c *Conn) SetWriteDeadline(time.Time) error { return nil }

const (
	// lingerSilence is how long the client may pause while Close reads the rest of a rejected request.
	lingerSilence = 5 * time.Second

	// lingerShort is how long Close reads when the gateway shuts down, or when the connection itself was refused. It is
	// also how long the client has to read the response when no more of its request is read.
	lingerShort = time.Second

	// maxRest is how much of the rest of a request Close reads, and maxKnownRest how much from a client that has
	// authenticated, which could send as much in requests that are served.
	maxRest      = 256 << 10
	maxKnownRest = 32 << 20
)

// Close closes the connection. Closing it while the client still sends causes a reset, which may discard the response
// before the client reads it. So if part of a request is left, Close first reads and discards it for a while.
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

// lingeringClose closes the sending side, and discards input until the client has closed its own sending side, because
// most clients read the response only after they have sent the whole request. It gives up after end, when the client
// pauses, or shortly after the gateway's shutdown has begun. After lingerMax bytes it only waits: clients that read
// while they write can then still close the connection themselves. The reset that any other client gets ends its
// write, and most systems keep the response for it to read.
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
		// Check after setting the deadline, because that may have overwritten the deadline set by interruptReads.
		if c.conns.finishing.Load() && !hurried {
			hurried, end = true, earliest(end, now.Add(lingerShort))
			continue
		}
		n, err := raw.Read(p[:min(int64(len(p)), c.lingerMax)])
		if err != nil && !(errors.Is(err, os.ErrDeadlineExceeded) && c.interrupted.Swap(false)) {
			return
		}
		if c.lingerMax -= int64(n); c.lingerMax == 0 {
			time.Sleep(lingerShort)
			return
		}
	}
}

// discarded are buffers for input that is discarded.
var discarded = sync.Pool{New: func() any { return new([32 << 10]byte) }}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// ForceClose closes the socket at once. Any goroutine may call it.
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
		c.linger, c.lingerMax = lingerShort, maxRest
	}
	// The connection is closed even if this fails.
	_ = c.Close()
}
