package proxy

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"

	"github.com/sluice-gateway/sluice/proxy/internal/response"

	"context"
	"errors"
	"runtime/debug"
	"strconv"

	"github.com/valyala/fasthttp"
)

// pump writes a streamed answer to a connection that fasthttp has let go of. Each write is one chunk and one system call;
// the head leaves with the first one. One goroutine reads from the provider, translates and writes.
type pump struct {
	x    *completion
	head []byte // until it is sent; from the server's buffers
	last bool   // the connection is closed behind the answer
	n    int64  // bytes of the body that were written
}

// endOfChunks ends a body of chunks.
var endOfChunks = []byte("0\r\n\r\n")

// maxFraming is more than what stands around the data of a chunk.
const maxFraming = 32

// errPanic says nothing of the panic's value, which may hold anything.
var errPanic = errors.New("panic in a stream")

// prepare makes the answer's head of what the handler has set.
func (p *pump) prepare(x *completion, ctx *fasthttp.RequestCtx) {
	h := &ctx.Response.Header
	h.SetContentLength(-1)
	p.last = h.ConnectionClose() || ctx.Request.Header.ConnectionClose()
	if p.last {
		h.SetConnectionClose()
	}
	p.head = append(x.server.bodies.get(0), h.Header()...)
	p.x = x
}

// run writes the stream to its end, and accounts it. With an error the body is not complete, and the connection of no use.
func (p *pump) run() error {
	err := p.stream()
	if err != nil {
		return err
	}
	_, err = p.x.conn.Write(endOfChunks)
	return err
}

func (p *pump) stream() (err error) {
	x := p.x
	defer func() {
		if r := recover(); r != nil {
			x.server.panicked(x.record.RequestID, r, debug.Stack())
			e := failedByItself(nil)
			x.writer.Fail(e)
			err = p.lastWords(e)
		}
		x.record.Bytes = p.n
		if err != nil && x.departed {
			// It has left: the access log says so, and there is nobody to tell.
			err = errDeparted
		}
		x.conclude()
	}()
	x.committed = true
	x.written = x.server.now()
	for {
		if out := x.writer.Output(); len(out) > 0 || p.head != nil {
			if err := p.write(out); err != nil {
				return err
			}
			x.writer.Take()
			x.written = x.server.now()
			x.progress = x.written
		}
		failed := x.writer.Failed()
		if failed != nil && p.n == 0 {
			// The writer takes it for a response that has not begun, and keeps the failure for a status.
			if err := p.write(response.AppendErrorFrame(nil, failed)); err != nil {
				return err
			}
		}
		if x.writer.Complete() || failed != nil {
			x.drain()
			return nil
		}
		err := x.await()
		if err == nil {
			err = x.read(context.Background())
		}
		if err != nil {
			if x.departed {
				return err
			}
			x.writer.Fail(clientError(err))
		}
	}
}

// await waits for more of the provider's answer. Streams spend their time here, where little lies on the stack: the collector
// takes back half of it.
func (x *completion) await() error {
	if x.response == nil {
		return nil
	}
	return x.response.Await()
}

// write sends data as one chunk, behind the head where that has not been sent.
func (p *pump) write(data []byte) error {
	x := p.x
	out := p.head
	p.head = nil
	if out == nil {
		out = x.server.bodies.get(len(data) + maxFraming)
	}
	if len(data) > 0 {
		out = append(strconv.AppendInt(out, int64(len(data)), 16), "\r\n"...)
		out = append(append(out, data...), "\r\n"...)
	}
	_, err := x.conn.Write(out)
	x.server.bodies.put(out)
	if err != nil {
		x.departed = true
		return err
	}
	p.n += int64(len(data))
	return nil
}

// lastWords tells the client of a panic. What the writer may have rendered before it is left out.
func (p *pump) lastWords(e *apierror.Error) (err error) {
	defer func() {
		if recover() != nil {
			err = errPanic
		}
	}()
	return p.write(response.AppendErrorFrame(nil, e))
}
