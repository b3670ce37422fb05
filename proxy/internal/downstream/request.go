package downstream

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/tcpconn"
)

// Request is notified when its response has been delivered, and writes a streamed response.
type Request interface {
	// Delivered is called when the whole response has been written, or with failed set if a write has failed and no
	// more is written.
	Delivered(failed bool)
	// WriteStream writes a streamed response after TakeOver. If it returns keepAlive false or an error, the connection
	// is closed.
	WriteStream() (keepAlive bool, err error)
}

// StartRequest begins a request and resets the state of the previous one. r is notified of its response until
// FinishRequest.
func (c *Conn) StartRequest(r Request) {
	c.halfClosed, c.probing, c.linger, c.limited = false, false, 0, false // inputEnded stays set
	c.request = r
}

// FinishRequest ends the request that StartRequest began. It is notified of nothing more.
func (c *Conn) FinishRequest() { c.request = nil }

// LingerOnClose marks the request as not read to its end. If the connection is closed after this request, Close reads
// and discards the rest, for at most the read timeout. It reads more of it if the client is known: if its key is valid,
// or none is needed.
func (c *Conn) LingerOnClose(known bool) {
	c.linger, c.lingerMax = c.conns.limits.Load().ReadTimeout, maxRest
	if known {
		c.lingerMax = maxKnownRest
	}
}

// InputEnded reports whether a read has returned EOF.
func (c *Conn) InputEnded() bool { return c.inputEnded }

// delivered notifies the request, if it is not finished, that its response has been written or that a write has failed.
func (c *Conn) delivered() {
	if c.request != nil {
		c.request.Delivered(c.socket.failed.Load())
	}
}

// ProbeWait is how long a client's kernel has to respond to a probe.
const ProbeWait = 50 * time.Millisecond

// Probing reports whether the connection is to be checked again after ProbeWait.
func (c *Conn) Probing() bool { return c.probing }

// Disconnected reports whether the client is gone, as far as can be known without a probe.
func (c *Conn) Disconnected() bool {
	if c.upgrade.turn != nil {
		return c.upgrade.turn.Gone()
	}
	return peerState(c.raw, &c.unacked, c.conns.limits.Load().WriteTimeout) == clientGone || c.inputEnded && c.tls != nil
}

// CheckClient reports whether the client is gone. It may call probe, which writes something harmless to the client if
// that is possible at the moment, and reports whether it did. While Probing reports true, CheckClient must be called
// again after ProbeWait.
//
// A full close and a half-close look alike until data is written. Then the kernel of a client that is gone responds
// with a reset, whereas that of a half-closed client acknowledges the data. With TLS, clients do not close only one
// direction of the socket.
func (c *Conn) CheckClient(probe func() bool) (gone bool) {
	if c.upgrade.turn != nil {
		return c.upgrade.turn.Gone()
	}
	switch peerState(c.raw, &c.unacked, c.conns.limits.Load().WriteTimeout) {
	case clientGone:
		tcpconn.SetLingerZero(c.socket.Conn) // the client will not accept any pending data
		return true
	case clientSentFIN:
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

// A streamed response is not written by the HTTP server. For the whole duration of a stream, fasthttp would hold its
// read buffer of 32 KiB, a write buffer, and the headers of request and response: twice as much memory as a silent
// stream otherwise needs. So the handler makes fasthttp release the connection (a hijack), and fasthttp's buffers go
// back to its pools. Another goroutine writes the stream, and then serves the connection from the start again.

// takeover is the state of a connection that the HTTP server releases.
type takeover struct {
	started  bool           // the request writes its response next
	active   bool           // the HTTP server is releasing the connection: its buffer is taken, and reads and Close do not reach the client
	done     sync.WaitGroup // done when active becomes false
	buffered []byte         // the part of the client's next request that the HTTP server had already read
}

// TakeOver makes the request write its response itself, once the HTTP server's handler has returned without a response
// and has hijacked the connection with TakeBuffered.
func (c *Conn) TakeOver() {
	c.takeover.started, c.takeover.active = true, true
	c.takeover.done.Add(1)
}

var takeBuffers = sync.Pool{New: func() any { return new([4 << 10]byte) }}

// TakeBuffered is a hijack handler of fasthttp, which runs on a goroutine of its own. It reads the rest of fasthttp's
// buffer from hijacked. When it returns, fasthttp releases its buffer and calls Close, which ends the takeover instead
// of closing the connection.
func TakeBuffered(hijacked net.Conn) {
	wrapper, ok := hijacked.(interface{ UnsafeConn() net.Conn })
	if !ok {
		return
	}
	c, ok := wrapper.UnsafeConn().(*Conn)
	if !ok {
		return
	}
	defer rescue.Recover(c.conns.options.Panicked)
	p := takeBuffers.Get().(*[4 << 10]byte)
	defer takeBuffers.Put(p)
	for {
		n, err := hijacked.Read(p[:])
		c.takeover.buffered = append(c.takeover.buffered, p[:n]...)
		if err != nil {
			return
		}
	}
}

// finish lets the connection's goroutine use the connection again.
func (t *takeover) finish() {
	t.active = false
	t.done.Done()
}

// read returns the bytes that the HTTP server had read before the takeover. During the takeover it returns io.EOF.
func (t *takeover) read(p []byte) (int, error) {
	if t.active {
		return 0, io.EOF
	}
	n := copy(p, t.buffered)
	if t.buffered = t.buffered[n:]; len(t.buffered) == 0 {
		t.buffered = nil
	}
	return n, nil
}

// Serve serves the connection until it is closed, or until a request has taken it over: then takenOver is true, and
// ServeStream must be called, on a new goroutine. The stack of this one has grown while the request was handled, and it
// would stay large for as long as the stream is open.
func (c *Conn) Serve(serveHTTP func(net.Conn) error, logError func(error)) (takenOver bool) {
	logError(serveHTTP(c))
	takenOver, c.takeover.started = c.takeover.started, false
	return takenOver
}

// ServeStream has the request that has taken the connection over write its response. It may start writing before
// fasthttp has released the connection, because fasthttp no longer writes to it. Reading and closing wait for the
// release. keepAlive means that Serve must be called again; otherwise the connection is closed.
func (c *Conn) ServeStream(logError func(error)) (keepAlive bool) {
	keepAlive, err := c.request.WriteStream()
	c.takeover.done.Wait()
	logError(err)
	if err != nil || !keepAlive {
		_ = c.Close()
		return false
	}
	c.SetIdle()
	return true
}

// A connection that has been upgraded to another protocol carries messages. The Request that has taken it over reads
// them with ReadUpgraded, and writes to the connection. A message that is a request of its own is served on a Conn that
// NewTurn returns, so that whatever serves requests needs no other kind of connection.

// upgrade is the state of a connection that is upgraded, or that stands for one.
type upgrade struct {
	turn         Turn // nil unless NewTurn has made the connection
	shutdownRead bool // ReadUpgraded has reported that Finish was called
}

// ErrShutdown is returned by ReadUpgraded once when Finish has been called, and from then on after End.
var ErrShutdown = errors.New("the gateway is shutting down")

// AwaitRelease waits until the HTTP server has released the connection, so that it can be read.
func (c *Conn) AwaitRelease() { c.takeover.done.Wait() }

// ReadTimeout returns the time for a request to arrive.
func (c *Conn) ReadTimeout() time.Duration { return c.conns.limits.Load().ReadTimeout }

// SetUpgradedDeadline sets the deadline of ReadUpgraded, also of a call in progress. Any goroutine may call it. An error
// can be ignored: it means that the connection is closed, so the next read fails.
func (c *Conn) SetUpgradedDeadline(t time.Time) { _ = c.Conn.SetReadDeadline(t) }

// ReadUpgraded reads from an upgraded connection. At the deadline it returns os.ErrDeadlineExceeded, and can be called
// again. AwaitRelease has returned.
func (c *Conn) ReadUpgraded(p []byte) (int, error) {
	if len(c.takeover.buffered) > 0 {
		return c.takeover.read(p)
	}
	// Check after the deadline has been set, because that may have overwritten the deadline set by interruptReads.
	if c.shutdownSeen() {
		return 0, ErrShutdown
	}
	n, err := c.Conn.Read(p)
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && c.shutdownSeen() {
		err = ErrShutdown
	}
	return n, err
}

// shutdownSeen reports a shutdown that ReadUpgraded has not reported yet.
func (c *Conn) shutdownSeen() bool {
	c.interrupted.Store(false)
	first := c.conns.finishing.Load() && !c.upgrade.shutdownRead
	c.upgrade.shutdownRead = c.upgrade.shutdownRead || first
	return first || c.conns.ending.Load()
}

// Turn is a request that arrived as a message over an upgraded connection.
type Turn interface {
	// WriteEvents writes a part of the response: whole server-sent events.
	WriteEvents(events []byte) error
	// Ping writes something that the client ignores.
	Ping() error
	// Gone reports whether the client is gone.
	Gone() bool
}

// NewTurn returns a connection for one request that arrived over c. It cannot be read. What is written to it that is not
// part of a response, such as a heartbeat, becomes a ping.
func (c *Conn) NewTurn(t Turn) *Conn {
	return &Conn{Conn: turnConn{c.Conn, t}, conns: c.conns, host: c.RemoteHost(), upgrade: upgrade{turn: t}}
}

// Turn returns what NewTurn was called with, or nil.
func (c *Conn) Turn() Turn { return c.upgrade.turn }

// Respond writes the streamed response of a turn, if its request has taken the connection over; otherwise it reports
// false.
func (c *Conn) Respond() (streamed bool, err error) {
	if !c.takeover.started {
		return false, nil
	}
	_, err = c.request.WriteStream()
	return true, err
}

// turnConn is the connection below that of a turn.
type turnConn struct {
	net.Conn // for its addresses
	turn     Turn
}

func (c turnConn) Write(p []byte) (int, error) { return len(p), c.turn.Ping() }

func (c turnConn) Read([]byte) (int, error) { return 0, net.ErrClosed }

func (c turnConn) Close() error { return nil }
