package upstream

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// maxHead bounds the header of a response. Some providers send more than 4 KiB.
const maxHead = 32 << 10

// bufferOwner acquires and releases the buffer to read into.
type bufferOwner interface {
	acquireBuffer() []byte
	releaseBuffer()
}

// conn is one connection. It belongs to the pool while idle, otherwise to a call of Do, and then to its Response.
type conn struct {
	line
	rw net.Conn // for requests and responses: the conn itself, or TLS on its line

	memory *sync.Pool // of small buffers, *[]byte; the client's
	small  *[]byte    // buf, if it is a small one
	buf    []byte     // nil: no unread data
	r, w   int        // buf[r:w] is unread data

	header   header    // of the current response
	idle     time.Time // start of being idle
	retire   time.Time // not reused after
	reused   bool      // it has carried an earlier request
	unusable bool      // it cannot be reused
	closed   bool
}

// large are the buffers for headers that do not fit a small one.
var large = sync.Pool{New: func() any { return new([maxHead]byte) }}

func newConn(raw net.Conn, ticks Ticks, memory *sync.Pool) *conn {
	c := &conn{line: line{Conn: raw, ticks: ticks}, memory: memory}
	c.rw = c
	c.poll.init(raw, c)
	return c
}

// newMemory returns a pool of buffers.
func newMemory(size int) *sync.Pool {
	return &sync.Pool{New: func() any {
		p := make([]byte, size)
		return &p
	}}
}

// fill reads more data into buf. While it waits the connection has no buffer: many connections may wait, and for long.
func (c *conn) fill() error {
	if c.r == c.w {
		c.releaseBuffer()
	}
	if c.buf == nil && (c.tls || !c.poll.reads()) {
		c.acquireBuffer()
	}
	n, err := c.read(c.rw, c.buf[c.w:])
	c.w += n
	return err
}

// Read reads without TLS. With an empty p it reads into buf, which it acquires once there is data.
func (c *conn) Read(p []byte) (int, error) {
	if len(p) > 0 {
		return c.line.Read(p)
	}
	return c.poll.read()
}

// acquireBuffer acquires a buffer.
func (c *conn) acquireBuffer() []byte {
	c.small = c.memory.Get().(*[]byte)
	c.buf = *c.small
	return c.buf
}

// releaseBuffer releases the buffer, which must be empty.
func (c *conn) releaseBuffer() {
	switch {
	case c.small != nil:
		c.memory.Put(c.small)
	case c.buf != nil:
		large.Put((*[maxHead]byte)(c.buf))
	}
	c.small, c.buf, c.r, c.w = nil, nil, 0, 0
}

// makeRoom makes buf[w:] non-empty, and returns false if maxHead bytes are unread.
func (c *conn) makeRoom() bool {
	switch {
	case c.w < len(c.buf) || c.buf == nil:
		return true
	case c.r > 0:
		c.w = copy(c.buf, c.buf[c.r:c.w])
		c.r = 0
		return true
	case len(c.buf) >= maxHead:
		return false
	}
	to := large.Get().(*[maxHead]byte)[:]
	n := copy(to, c.buf)
	c.releaseBuffer()
	c.buf, c.w = to, n
	return true
}

// stale reports that an idle connection cannot be used: the peer has closed it, or has sent unsolicited data.
func (c *conn) stale() bool {
	if c.poll.readable() {
		return true
	}
	if !c.tls {
		return false
	}
	// Data after the last response may have been decrypted with it. A read with an expired deadline returns that data without
	// touching the network.
	if c.rw.SetReadDeadline(time.Unix(1, 0)) != nil {
		return true
	}
	c.readDeadline = time.Time{}
	var b [1]byte
	_, err := c.rw.Read(b[:])
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// close closes the connection without sending close_notify, a write that could block and that no response depends on. Unread data
// stays readable. It may be called again.
func (c *conn) close() {
	if !c.closed {
		c.closed = true
		c.Conn.Close()
		c.end()
	}
}
