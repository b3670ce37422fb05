package downstream

import (
	"io"
	"net"
	"sync"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/tcpconn"
)

// Request learns about the delivery of its response, and writes a streamed one.
type Request interface {
	// Delivered is called once all of a response has been written, or, with failed, once nothing more will be.
	Delivered(failed bool)
	// WriteStream writes a streamed response, after TakeOver. Without keepAlive the connection is closed after it.
	WriteStream() (keepAlive bool, err error)
}

// StartRequest begins a request: what was found out for the one before is forgotten. r learns about its response until
// FinishRequest.
func (c *Conn) StartRequest(r Request) {
	c.halfClosed, c.probing, c.linger, c.limited = false, false, 0, false // inputEnded stays
	c.request = r
}

// FinishRequest ends what StartRequest began: the Request has been accounted.
func (c *Conn) FinishRequest() { c.request = nil }

// LingerOnClose says that the request has not been read to its end. If the connection is closed after it, the client gets as long to
// send the rest, which is discarded, as it would have had if it were read.
func (c *Conn) LingerOnClose() { c.linger = c.conns.limits.Load().ReadTimeout }

// InputEnded reports whether a read has found the end of what the client sends.
func (c *Conn) InputEnded() bool { return c.inputEnded }

// delivered tells the request, if it is not finished, that its response has been written or will not be.
func (c *Conn) delivered() {
	if c.request != nil {
		c.request.Delivered(c.socket.failed.Load())
	}
}

// ProbeWait is how long a client's kernel gets to respond to a probe.
const ProbeWait = 50 * time.Millisecond

// Probing reports whether the connection is to be checked again after ProbeWait.
func (c *Conn) Probing() bool { return c.probing }

// Disconnected reports whether the client is gone, as far as that is known without a probe.
func (c *Conn) Disconnected() bool {
	return peerState(c.raw, &c.unacked, c.conns.limits.Load().WriteTimeout) == clientGone || c.inputEnded && c.tls != nil
}

// CheckClient reports whether the client is gone. probe writes something harmless to it, where that is possible at the
// moment; while Probing, CheckClient wants to be called again after ProbeWait.
//
// A full close and a half-close look alike until something is written: then the kernel of a client that is gone
// responds with a reset, and that of a half-closed one acknowledges. With TLS, no client closes only one side of the
// socket.
func (c *Conn) CheckClient(probe func() bool) (gone bool) {
	switch peerState(c.raw, &c.unacked, c.conns.limits.Load().WriteTimeout) {
	case clientGone:
		tcpconn.SetLingerZero(c.socket.Conn) // it takes none of what is pending
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

// A streamed response is written past the HTTP server. For as long as one lasts, fasthttp would keep what it has read
// the request with: a buffer of 32 KiB, one to write, and the headers of both sides, twice of what else a silent stream
// takes. So its handler makes it let go of the connection (a hijack); what fasthttp held goes back to its pools, the
// goroutine of the connection writes the stream, and then serves the connection anew.

// takeover is how a connection leaves the HTTP server.
type takeover struct {
	started  bool // the request writes its response next
	active   bool // the HTTP server is letting go: what it has buffered is taken, and nothing else read, written or closed
	done     sync.WaitGroup
	buffered []byte // what the HTTP server had read of the client's next request
}

// TakeOver makes the request write its response itself, as soon as the HTTP server's handler has returned without one and
// hijacked the connection with TakeBuffered.
func (c *Conn) TakeOver() {
	c.takeover.started, c.takeover.active = true, true
	c.takeover.done.Add(1)
}

var takeBuffers = sync.Pool{New: func() any { return new([4 << 10]byte) }}

// TakeBuffered is a hijack handler of fasthttp, which runs on a goroutine of its own. hijacked reads what is left in
// fasthttp's buffer. When it returns, fasthttp gives its buffer back and calls Close, which ends the takeover in place of
// closing.
func TakeBuffered(hijacked net.Conn) {
	over, ok := hijacked.(interface{ UnsafeConn() net.Conn })
	if !ok {
		return
	}
	c, ok := over.UnsafeConn().(*Conn)
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

// read hands out what the HTTP server had read before; while it lets go, there is nothing to be read.
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

// Serve serves the connection to its end: serveHTTP reads requests and responds to them, except that requests which have
// taken the connection over write their response themselves. It need not wait for that until fasthttp has let go, which
// writes nothing any more; what reads and closes waits.
func (c *Conn) Serve(serveHTTP func(net.Conn) error, logError func(error)) {
	for {
		logError(serveHTTP(c))
		if !c.takeover.started {
			return
		}
		c.takeover.started = false
		keepAlive, err := c.request.WriteStream()
		c.takeover.done.Wait()
		logError(err)
		if err != nil || !keepAlive {
			_ = c.Close()
			return
		}
		c.SetIdle()
	}
}
