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

// conn is one connection. It belongs to the pool while it is idle, and otherwise to the call of Do, and then to the
// Response, that has it.
type conn struct {
	line
	rw net.Conn // what requests are written to and answers read from: &line, or TLS on it

	buf  []byte // own, or a large one while a long head is read
	own  []byte // the small buffer that stays with the connection
	r, w int    // buf[r:w] has been read and not been used

	header header    // of the answer on it
	idle   time.Time // since when it is idle
	retire time.Time // from then on it carries no other request
	reused bool      // it has carried a request before
	spoilt bool      // it cannot carry another request
	closed bool
}

// large are the buffers for heads that do not fit into a connection's own. Memory alone is pooled here, so that it does
// not matter what becomes of it.
var large = sync.Pool{New: func() any { return new([maxHead]byte) }}

func newConn(raw net.Conn, ticks Ticks, size int) *conn {
	c := &conn{line: line{Conn: raw, ticks: ticks}, own: make([]byte, size)}
	c.buf = c.own
	c.rw = &c.line
	c.poll.init(raw)
	return c
}

// fill reads more into buf, behind what is there.
func (c *conn) fill() error {
	if c.r == c.w {
		c.shrink()
	}
	n, err := c.read(c.rw, c.buf[c.w:])
	c.w += n
	return err
}

// shrink gives a large buffer back. Nothing may be left in it.
func (c *conn) shrink() {
	c.r, c.w = 0, 0
	if len(c.buf) == maxHead && len(c.own) != maxHead {
		large.Put((*[maxHead]byte)(c.buf))
		c.buf = c.own
	}
}

// room makes buf[w:] not empty, and reports whether it could: it cannot where maxHead bytes wait to be used.
func (c *conn) room() bool {
	if c.w < len(c.buf) {
		return true
	}
	to := c.buf
	if c.r == 0 {
		if len(c.buf) >= maxHead {
			return false
		}
		to = large.Get().(*[maxHead]byte)[:]
	}
	c.w = copy(to, c.buf[c.r:c.w])
	c.buf, c.r = to, 0
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
