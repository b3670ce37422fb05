// Package bare is the reverse proxy that everything is compared with: fasthttp in and out, and nothing else. It knows no
// keys, reads no body and changes no header; the provider's answer goes out through SetBodyStream as it comes.
//
// It is the least that a gateway on the same library can cost.
package bare

import (
	"net"

	"github.com/valyala/fasthttp"
)

// maxBody is the largest request.
const maxBody = 8 << 20

// maxConns is the most connections, of clients and to the provider.
const maxConns = 20_000

// Serve passes what comes in at ln on to the provider at addr, until ln is closed.
func Serve(ln net.Listener, addr string) error {
	client := &fasthttp.HostClient{Addr: addr, StreamResponseBody: true, MaxConns: maxConns}
	s := &fasthttp.Server{MaxRequestBodySize: maxBody, Concurrency: maxConns, Handler: func(ctx *fasthttp.RequestCtx) {
		answer := fasthttp.AcquireResponse()
		if err := client.Do(&ctx.Request, answer); err != nil {
			fasthttp.ReleaseResponse(answer)
			ctx.Error(err.Error(), fasthttp.StatusBadGateway)
			return
		}
		answer.Header.CopyTo(&ctx.Response.Header)
		ctx.SetStatusCode(answer.StatusCode())
		ctx.SetBodyStream(stream{answer}, answer.Header.ContentLength())
	}}
	return s.Serve(ln)
}

// stream is the body of the provider's answer. It gives the answer back at its end.
type stream struct{ answer *fasthttp.Response }

func (s stream) Read(p []byte) (int, error) { return s.answer.BodyStream().Read(p) }

func (s stream) Close() error {
	err := s.answer.CloseBodyStream()
	fasthttp.ReleaseResponse(s.answer)
	return err
}
