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

// bufferOwner acquires and releases the buffer that a poller reads into.
type bufferOwner interface {
	acquireBuffer() []byte
	releaseBuffer()
}

// conn is one connection. It belongs to the pool while idle, otherwise to a call of Do, and then to its Response.
type conn struct {
	tickConn
	rw net.Conn // carries requests and responses: the conn itself, or TLS on top of its tickConn

	memory *sync.Pool // the Client's pool of small buffers (*[]byte)
	small  *[]byte    // the pooled slice of buf; nil if buf is nil or a large buffer
	buf    []byte     // nil if there is no unread data
	r, w   int        // buf[r:w] is unread data

	header    header    // header of the current response
	idle      time.Time // when the connection became idle
	retire    time.Time // the connection is not reused after this time
	writtenAt time.Time // when the current request had been written whole; valid if written is set
	reused    bool      // the connection has carried an earlier request
	sending   bool      // a part of the current request may have been written
	written   bool      // the current request has been written whole
	unusable  bool      // the connection must not be reused
	closed    bool
}

// largeBuffers are for headers that do not fit a small buffer.
var largeBuffers = sync.Pool{New: func() any { return new([maxHead]byte) }}

func newConn(raw net.Conn, ticks Ticks, memory *sync.Pool) *conn {
	c := &conn{tickConn: tickConn{Conn: raw, ticks: ticks}, memory: memory}
	c.rw = c
	c.poll.init(raw, c)
	return c
}

// newMemory returns a pool of small buffers.
func newMemory(size int) *sync.Pool {
	return &sync.Pool{New: func() any {
		p := make([]byte, size)
		return &p
	}}
}

// fill reads more data into buf. The connection holds no buffer while it waits, because many connections may wait for a
// long time.
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

// Read reads from a connection without TLS. If p is empty, it reads into buf, which it acquires once data has arrived.
func (c *conn) Read(p []byte) (int, error) {
	if len(p) > 0 {
		return c.tickConn.Read(p)
	}
	return c.poll.read()
}

// acquireBuffer takes a small buffer from the pool.
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
		largeBuffers.Put((*[maxHead]byte)(c.buf))
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
	to := largeBuffers.Get().(*[maxHead]byte)[:]
	n := copy(to, c.buf)
	c.releaseBuffer()
	c.buf, c.w = to, n
	return true
}

// checkSilent fails with errEarly if something has arrived, without waiting, and with another error if the connection
// has ended. What has arrived is in buf, which must be empty. TLS records without data, such as session tickets, do not
// count.
func (c *conn) checkSilent() (err error) {
	if !c.tls && !c.poll.readable() {
		return nil
	}
	c.noWait = true
	c.w, err = c.rw.Read(c.acquireBuffer())
	c.noWait = false
	if c.w > 0 {
		return errEarly
	}
	c.releaseBuffer()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

// writeRequest writes p and q, which are parts of a request.
func (c *conn) writeRequest(p, q []byte) (err error) {
	c.sending = true
	if !c.tls {
		_, err = c.write(p, q)
		return err
	}
	if _, err = c.rw.Write(p); err == nil && len(q) > 0 {
		_, err = c.rw.Write(q)
	}
	return err
}

// close closes the connection without sending close_notify, because that write could block and no response depends on
// it. Data in buf stays readable. It may be called again.
func (c *conn) close() {
	if !c.closed {
		c.closed = true
		c.Conn.Close()
		c.endRequest()
	}
}
