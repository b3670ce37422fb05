package upstream

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// maxHead is the longest head of an answer, interim ones apart. Some providers send more than 4 KiB of headers.
const maxHead = 32 << 10

// taker has memory to read into.
type taker interface {
	take() []byte
	giveBack()
}

// conn is one connection. It belongs to the pool while it is idle, and otherwise to the call of Do, and then to the
// Response, that has it.
type conn struct {
	line
	rw net.Conn // what requests are written to and answers read from: the conn itself, or TLS on its line

	memory *sync.Pool // of small buffers, *[]byte; the client's
	small  *[]byte    // buf, where that is a small one
	buf    []byte     // nil: nothing has been read that has not been used
	r, w   int        // buf[r:w] has been read and not been used

	header header    // of the answer on it
	idle   time.Time // since when it is idle
	retire time.Time // from then on it carries no other request
	reused bool      // it has carried a request before
	spoilt bool      // it cannot carry another request
	closed bool
}

// large are the buffers for heads that do not fit into a small one. Memory alone is pooled here, so that it does
// not matter what becomes of it.
var large = sync.Pool{New: func() any { return new([maxHead]byte) }}

func newConn(raw net.Conn, ticks Ticks, memory *sync.Pool) *conn {
	c := &conn{line: line{Conn: raw, ticks: ticks}, memory: memory}
	c.rw = c
	c.poll.init(raw, c)
	return c
}

// newMemory makes what buffers of a size come from.
func newMemory(size int) *sync.Pool {
	return &sync.Pool{New: func() any {
		p := make([]byte, size)
		return &p
	}}
}

// fill reads more into buf, behind what is there. As long as nothing comes the connection has no buffer: there may be many
// that wait, and for long.
func (c *conn) fill() error {
	if c.r == c.w {
		c.giveBack()
	}
	if c.buf == nil && (c.tls || !c.poll.reads()) {
		c.take()
	}
	n, err := c.read(c.rw, c.buf[c.w:])
	c.w += n
	return err
}

// Read reads where there is no TLS in between. Without p it reads into buf, which it takes when there is something to be
// read.
func (c *conn) Read(p []byte) (int, error) {
	if len(p) > 0 {
		return c.line.Read(p)
	}
	return c.poll.read()
}

// take takes a buffer.
func (c *conn) take() []byte {
	c.small = c.memory.Get().(*[]byte)
	c.buf = *c.small
	return c.buf
}

// giveBack gives the buffer back. Nothing may be left in it.
func (c *conn) giveBack() {
	switch {
	case c.small != nil:
		c.memory.Put(c.small)
	case c.buf != nil:
		large.Put((*[maxHead]byte)(c.buf))
	}
	c.small, c.buf, c.r, c.w = nil, nil, 0, 0
}

// room makes buf[w:] not empty, and reports whether it could: it cannot where maxHead bytes wait to be used.
func (c *conn) room() bool {
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
	c.giveBack()
	c.buf, c.w = to, n
	return true
}

// stale reports that an idle connection cannot be used: the peer has closed it, or it has sent something that nobody
// asked for.
func (c *conn) stale() bool {
	if c.poll.readable() {
		return true
	}
	if !c.tls {
		return false
	}
	// Bytes behind the last answer may have been decrypted with it. A read whose deadline has passed returns those, and
	// touches the network no more.
	if c.rw.SetReadDeadline(time.Unix(1, 0)) != nil {
		return true
	}
	c.armed = time.Time{}
	var b [1]byte
	_, err := c.rw.Read(b[:])
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// close closes the connection, without TLS's farewell: that would be one more write that can wait, and no answer's
// completeness depends on what we say last. What was read stays readable. It may be called again.
func (c *conn) close() {
	if !c.closed {
		c.closed = true
		c.Conn.Close()
		c.end()
	}
}
