package proxy

import (
	"io"
	"net"
	"sync"

	"github.com/valyala/fasthttp"
)

// A streamed answer is written behind fasthttp's back. As long as one lasts, fasthttp would keep what it has read the
// request with: a buffer of 32 KiB, one to write, and the headers of both sides, twice of what else a silent stream takes.
// So the handler has fasthttp let go of the connection. What fasthttp knew is given back, the goroutine of the
// connection writes the stream, and then serves the connection anew.

// handover is how a connection leaves fasthttp.
type handover struct {
	stream *completion // whose answer is to be written; nil while the connection is fasthttp's
	taking bool        // fasthttp is letting go: what is in its buffer is taken, and nothing else read, written or closed
	taken  sync.WaitGroup
	ahead  []byte // what fasthttp had read of the client's next request
}

// handOver has fasthttp let go of the connection as soon as its handler returns, without an answer.
func (x *completion) handOver(ctx *fasthttp.RequestCtx) {
	c := x.conn
	c.stream, c.taking = x, true
	c.taken.Add(1)
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(x.server.take)
}

// take is run by fasthttp, on a goroutine of its own. hijacked reads what is left in fasthttp's buffer. When it returns
// fasthttp gives its buffer back and closes the connection, which does not take place but tells that it has come so far.
func (s *Server) take(hijacked net.Conn) {
	defer s.survive("")
	over, ok := hijacked.(interface{ UnsafeConn() net.Conn })
	if !ok {
		return
	}
	c, ok := over.UnsafeConn().(*clientConn)
	if !ok {
		return
	}
	some := s.bodies.get(0)
	defer func() { s.bodies.put(some) }()
	for {
		n, err := hijacked.Read(some[:cap(some)])
		c.ahead = append(c.ahead, some[:n]...)
		if err != nil {
			return
		}
	}
}

// let tells the connection's goroutine that the connection is its own.
func (h *handover) let() {
	h.taking = false
	h.taken.Done()
}

// handedOver returns the exchange whose answer is to be written. It is nil where fasthttp has served the connection to its
// end. The stream need not wait until fasthttp has let go of the connection, as fasthttp writes nothing any more; whoever
// reads from it or closes it waits for taken.
func (c *clientConn) handedOver() *completion {
	x := c.stream
	c.stream = nil
	return x
}

// readAhead hands out what fasthttp had read before.
func (h *handover) readAhead(p []byte) (int, error) {
	if h.taking {
		return 0, io.EOF
	}
	n := copy(p, h.ahead)
	if h.ahead = h.ahead[n:]; len(h.ahead) == 0 {
		h.ahead = nil
	}
	return n, nil
}
