// Package bare is the reverse proxy that the gateway is compared with: only fasthttp on both sides. It checks no keys,
// parses no bodies and changes no headers. The provider's response is forwarded as it arrives, with SetBodyStream.
//
// Its cost is the lower bound for a gateway on the same library.
package bare

import (
	"net"

	"github.com/valyala/fasthttp"
)

// maxBody is the maximum size of a request, in bytes.
const maxBody = 8 << 20

// maxConns is the maximum number of connections, each for clients and for the provider.
const maxConns = 20_000

// Serve forwards requests from ln to the provider at addr until ln is closed.
func Serve(ln net.Listener, addr string) error {
	client := &fasthttp.HostClient{Addr: addr, StreamResponseBody: true, MaxConns: maxConns}
	s := &fasthttp.Server{MaxRequestBodySize: maxBody, Concurrency: maxConns, Handler: func(ctx *fasthttp.RequestCtx) {
		resp := fasthttp.AcquireResponse()
		if err := client.Do(&ctx.Request, resp); err != nil {
			fasthttp.ReleaseResponse(resp)
			ctx.Error(err.Error(), fasthttp.StatusBadGateway)
			return
		}
		resp.Header.CopyTo(&ctx.Response.Header)
		ctx.SetStatusCode(resp.StatusCode())
		ctx.SetBodyStream(stream{resp}, resp.Header.ContentLength())
	}}
	return s.Serve(ln)
}

// stream is the body of the provider's response, which it releases when it is closed.
type stream struct{ resp *fasthttp.Response }

func (s stream) Read(p []byte) (int, error) { return s.resp.BodyStream().Read(p) }

func (s stream) Close() error {
	err := s.resp.CloseBodyStream()
	fasthttp.ReleaseResponse(s.resp)
	return err
}
