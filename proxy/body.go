package proxy

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"

	"io"
	"slices"

	"github.com/valyala/fasthttp"
)

// readBody reads the client's body into x.body. Whether there is room for it is known before a byte of it is read, or
// where it comes in chunks, before room is made for the next ones.
func (x *completion) readBody(ctx *fasthttp.RequestCtx) *apierror.Error {
	limit := int(x.server.settings.Load().MaxBody)
	length := ctx.Request.Header.ContentLength()
	if length > limit {
		return x.server.tooLarge()
	}
	body := ctx.RequestBodyStream()
	if body == nil || length == 0 {
		x.bodyRead = true
		return nil
	}
	x.body = x.server.bodies.get(max(length, 0))
	if length > 0 {
		if e := x.hold(&x.heldRequest, length); e != nil {
			return e
		}
		x.body = slices.Grow(x.body, length)[:length]
		n, err := io.ReadFull(body, x.body)
		x.body = x.body[:n]
		return x.arrived(err)
	}
	for {
		if room := cap(x.body); len(x.body) == room {
			if e := x.hold(&x.heldRequest, 2*room); e != nil {
				return e
			}
			x.body = slices.Grow(x.body, room)
		}
		// A byte more than may be tells a body that is too long.
		n, err := body.Read(x.body[len(x.body):min(cap(x.body), limit+1)])
		x.body = x.body[:len(x.body)+n]
		switch {
		case len(x.body) > limit:
			return x.server.tooLarge()
		case err == io.EOF && x.conn.ended:
			// fasthttp takes the end of the connection for the end of the chunks.
			return x.arrived(io.ErrUnexpectedEOF)
		case err == io.EOF:
			return x.arrived(nil)
		case err != nil:
			return x.arrived(err)
		}
	}
}

// arrived says what the end of reading the body means.
func (x *completion) arrived(err error) *apierror.Error {
	if err == nil {
		x.bodyRead = true
		return nil
	}
	// Whoever has only closed the sending side reads what is said about that.
	x.departed = x.conn.look() == gone || x.conn.ended && x.conn.tls != nil
	return x.server.misread(err)
}

// gathers makes room for n bytes of an answer that is held until it is whole.
func (x *completion) gathers(n int) error {
	if e := x.hold(&x.heldAnswer, n); e != nil {
		return e
	}
	return nil
}

// abandoned tells whether so much of the client's body is unread that it is not worth reading for the sake of the
// connection.
func (x *completion) abandoned(ctx *fasthttp.RequestCtx) bool {
	length := ctx.Request.Header.ContentLength()
	return !x.bodyRead && (length < 0 || length > smallBody)
}
