package proxy

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/downstream"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
)

// maxRequestID is how long a client's own x-request-id may be.
const maxRequestID = 128

// handle serves one request. Its frame, and that of complete, lie below everything that a completion calls: what is large
// is kept out of them, so that a goroutine's stack need not be doubled once more.
func (s *Server) handle(ctx *fasthttp.RequestCtx) {
	defer rescue.Recover(func(p *rescue.Error) { s.refuseUnrecorded(ctx, p) })
	if s.Draining() {
		ctx.SetConnectionClose()
	}
	// fasthttp holds an answer back while the client's next request is there to be read, and that one may take minutes.
	// It does not where the handler has set a deadline; the deadlines that count are those of downstream.Conn.
	_ = ctx.SetWriteDeadline(time.Time{})
	to, path, e := dispatch(&ctx.Request.Header)
	if to == completions && e == nil {
		s.complete(ctx)
		return
	}
	s.direct(ctx, to, path, e)
}

// record begins to account a request.
func (s *Server) record(ctx *fasthttp.RequestCtx, r *telemetry.Record, to address) {
	h := &ctx.Request.Header
	r.Began, r.RequestID, r.Remote, r.Method, r.Path = s.now(), requestID(h), remote(ctx), method(h), addresses[to].path
	s.metrics.StartRequest(r)
	ctx.Response.Header.Set("x-request-id", r.RequestID)
}

// refuseUnrecorded responds to a request that panicked before it began to be accounted.
func (s *Server) refuseUnrecorded(ctx *fasthttp.RequestCtx, p *rescue.Error) {
	var r telemetry.Record
	s.record(ctx, &r, nowhere)
	s.refusePanic(ctx, &r, p)
	s.account.Request(&r)
}

// refusePanic responds to a request that panicked.
func (s *Server) refusePanic(ctx *fasthttp.RequestCtx, r *telemetry.Record, p *rescue.Error) {
	s.logPanic(r.RequestID, p)
	s.refuse(ctx, r, &apierror.Error{Status: 500, Kind: apierror.KindServer, Code: "internal_error", Message: "The gateway failed.", CloseClient: true})
}

// direct serves everything but completions: e is not nil where a request is refused for its head.
func (s *Server) direct(ctx *fasthttp.RequestCtx, to address, path []byte, e *apierror.Error) {
	var r telemetry.Record
	s.record(ctx, &r, to)
	defer rescue.Recover(func(p *rescue.Error) {
		s.refusePanic(ctx, &r, p)
		s.account.Request(&r)
	})
	switch {
	case e != nil:
		s.plain(ctx, &r, func() *apierror.Error { return e })
	case to == modelList:
		s.plain(ctx, &r, func() *apierror.Error { return s.read(ctx, &r, models) })
	default:
		id := path[len(pathModels)+1:]
		s.plain(ctx, &r, func() *apierror.Error {
			return s.read(ctx, &r, func(g *generation, key *access.Key) ([]byte, *apierror.Error) { return model(g, key, id) })
		})
	}
}

// plain runs a handler that answers at once, and accounts its request.
func (s *Server) plain(ctx *fasthttp.RequestCtx, r *telemetry.Record, answer func() *apierror.Error) {
	r.Status = fasthttp.StatusOK
	if e := answer(); e != nil {
		s.refuse(ctx, r, e)
	}
	r.Bytes = int64(len(ctx.Response.Body()))
	s.account.Request(r)
}

// read serves a GET or a HEAD: answer is called with the generation and the client's key.
func (s *Server) read(ctx *fasthttp.RequestCtx, r *telemetry.Record, answer func(*generation, *access.Key) ([]byte, *apierror.Error)) *apierror.Error {
	g := s.acquire()
	if g == nil {
		return s.shutdownError()
	}
	defer g.release()
	key, e := s.authorize(ctx, g, r)
	if e != nil {
		return e
	}
	body, e := answer(g, key)
	if e != nil {
		return e
	}
	ctx.SetContentType("application/json")
	ctx.Response.SetBodyRaw(body)
	return nil
}

// refuse writes an error as the response.
func (s *Server) refuse(ctx *fasthttp.RequestCtx, r *telemetry.Record, e *apierror.Error) {
	s.countShed(e)
	s.logPanicOf(r.RequestID, e.Cause)
	r.Status, r.Code = e.Status, e.Code
	if r.Code == "" {
		r.Code = string(e.Kind)
	}
	if e.Cause != nil {
		r.Cause = e.Cause
	}
	ctx.Response.ResetBody()
	ctx.SetStatusCode(e.Status)
	h := &ctx.Response.Header
	h.SetContentType("application/json")
	if e.RetryAfter > 0 {
		h.Set("retry-after", strconv.FormatInt(int64((e.RetryAfter+999_999_999).Seconds()), 10))
		h.Set("retry-after-ms", strconv.FormatInt(max(e.RetryAfter.Milliseconds(), 1), 10))
	}
	if e.NoRetry {
		h.Set("x-should-retry", "false")
	}
	if e.Authenticate {
		h.Set("www-authenticate", "Bearer")
	}
	if e.Allow != "" {
		h.Set("allow", e.Allow)
	}
	if e.CloseClient {
		ctx.SetConnectionClose()
		if c, ok := ctx.Conn().(*downstream.Conn); ok {
			c.LingerOnClose()
		}
	}
	ctx.Response.SetBodyRaw(openai.AppendErrorBody(nil, withoutKey(&ctx.Request.Header, e)))
}

// withoutKey is an error that does not repeat the request's key, wherever in the request it stands as well: programs log
// the errors that they get.
func withoutKey(h *fasthttp.RequestHeader, e *apierror.Error) *apierror.Error {
	key := presented(h)
	if key == "" || !strings.Contains(e.Message, key) && !strings.Contains(e.Param, key) {
		return e
	}
	hidden := *e
	hidden.Message = strings.ReplaceAll(e.Message, key, redacted)
	hidden.Param = strings.ReplaceAll(e.Param, key, redacted)
	return &hidden
}

const (
	redacted = "[redacted]"
	// minCredential is how long the shortest text is that may be a key: a shorter one is a word like any other.
	minCredential = 6
)

// presented is the last word of a request's Authorization, "" where that is too short to be a key.
func presented(h *fasthttp.RequestHeader) string {
	words := bytes.Fields(h.Peek(fasthttp.HeaderAuthorization))
	if len(words) == 0 || len(words[len(words)-1]) < minCredential {
		return ""
	}
	return string(words[len(words)-1])
}

// unreadable answers what is not an HTTP request. fasthttp closes the connection behind it.
func (s *Server) unreadable(ctx *fasthttp.RequestCtx, err error) {
	// What the method is, cannot be known of a head that was not read to its end.
	r := telemetry.Record{Began: s.now(), RequestID: newRequestID(), Remote: remote(ctx), Cause: err}
	defer rescue.Recover(func(p *rescue.Error) { s.logPanic(r.RequestID, p) })
	ctx.Response.Header.Set("x-request-id", r.RequestID)
	s.refuse(ctx, &r, s.misread(err))
	s.account.Request(&r)
}

// misread is what an error in reading a request means.
func (s *Server) misread(err error) *apierror.Error {
	var small *fasthttp.ErrSmallBuffer
	var network net.Error
	e := apierror.Invalid("bad_request", "", "The request is not well-formed HTTP.")
	switch {
	case s.cut.Load():
		e = s.shutdownError()
	case errors.As(err, &small):
		e.Status, e.Code, e.Message = 431, "request_header_too_large", "The request's header is larger than "+strconv.Itoa(readBuffer>>10)+" KiB."
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		e = s.tooLarge()
	case errors.As(err, &network) && network.Timeout():
		e.Status, e.Code, e.Message = 408, "request_timeout", "The request did not arrive in time."
	}
	e.Cause, e.CloseClient = unquoted(err), true
	return e
}

// unquoted is an error of fasthttp up to the first thing that it quotes: that is the client's, and may be its key.
func unquoted(err error) error {
	if text, _, quotes := strings.Cut(err.Error(), `"`); quotes {
		return errors.New(strings.TrimRight(text, " :"))
	}
	return err
}

func (s *Server) tooLarge() *apierror.Error {
	e := apierror.Invalid("request_too_large", "", "The request's body is larger than %d bytes.", s.settings.Load().MaxBody)
	e.Status, e.CloseClient = 413, true
	return e
}

// expect answers a client that waits for leave to send its body, or is made to: what can be told from the head of its
// request it is told before any of the body is read.
func (s *Server) expect(ctx *fasthttp.RequestCtx) int {
	h := &ctx.Request.Header
	r := telemetry.Record{Began: s.now(), RequestID: requestID(h), Remote: remote(ctx), Method: method(h)}
	to, e := s.judge(h, func(g *generation) *apierror.Error {
		_, e := s.authorize(ctx, g, &r)
		return e
	})
	if e == nil {
		return fasthttp.StatusContinue
	}
	e.CloseClient = true
	r.Path = addresses[to].path
	ctx.Response.Header.Set("x-request-id", r.RequestID)
	s.refuse(ctx, &r, e)
	s.account.Request(&r)
	return e.Status
}

// requestID is the client's own id where it is usable, else a new one.
func requestID(h *fasthttp.RequestHeader) string {
	ids := h.PeekAll("x-request-id")
	if len(ids) != 1 || len(ids[0]) == 0 || len(ids[0]) > maxRequestID || !printable(ids[0]) {
		return newRequestID()
	}
	id := string(ids[0])
	if key := presented(h); key != "" && strings.Contains(id, key) {
		// It would stand in the log.
		return newRequestID()
	}
	return id
}

func newRequestID() string { return randomName("req_") }

// randomName is 128 random bits behind a prefix. They need not be secret: they only must not repeat.
func randomName(prefix string) string {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], rand.Uint64())
	binary.LittleEndian.PutUint64(b[8:], rand.Uint64())
	var name [48]byte
	return string(hex.AppendEncode(append(name[:0], prefix...), b[:]))
}

// remote is the client's address without its port.
func remote(ctx *fasthttp.RequestCtx) string {
	return ctx.Conn().(*downstream.Conn).RemoteHost()
}

var methods = [...]string{"POST", "GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"}

// method keeps what a client invents out of the log.
func method(h *fasthttp.RequestHeader) string {
	for _, known := range methods {
		if string(h.Method()) == known {
			return known
		}
	}
	return "other"
}

func wrongMethod(h *fasthttp.RequestHeader, allowed string) *apierror.Error {
	e := apierror.Invalid("method_not_allowed", "", "This address takes %s, not %s.", allowed, method(h))
	e.Status, e.Allow = 405, allowed
	return e
}

func notFound(h *fasthttp.RequestHeader, path []byte) *apierror.Error {
	shown := legible(path)
	e := apierror.Invalid("unknown_url", "", "There is nothing at %s %s. The gateway has POST %s, GET %s and GET %s.",
		method(h), shown, pathCompletions, pathModels, addresses[oneModel].path)
	e.Status, e.Cause = 404, errors.New("no such path: "+shown)
	return e
}

// early is called with a request's head before its body is read. One that is going to be refused whatever its body holds
// is made one that waits for leave to send its body: fasthttp asks expect about it, which answers.
func (s *Server) early(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	const inChunks = -1
	if n := h.ContentLength(); n > smallBody || n == inChunks || len(h.Peek(fasthttp.HeaderExpect)) > 0 {
		_, e := s.judge(h, func(g *generation) *apierror.Error {
			if g.keys == nil {
				return nil
			}
			_, e := g.keys.Authenticate(h.PeekAll(fasthttp.HeaderAuthorization), s.now())
			return e
		})
		if e != nil {
			h.Set(fasthttp.HeaderExpect, "100-continue")
		}
	}
	return s.ofRequest()
}

func printable(s []byte) bool {
	for _, c := range s {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}

// ofRequest says how large the body of the request may be whose head has been read.
func (s *Server) ofRequest() fasthttp.RequestConfig {
	return fasthttp.RequestConfig{MaxRequestBodySize: int(s.settings.Load().MaxBody)}
}

// countRefusal counts a request whose key was refused.
func (s *Server) countRefusal(e *apierror.Error) {
	reason := telemetry.RefusedUnknown
	switch {
	case e.Code == "missing_api_key":
		reason = telemetry.RefusedMissing
	case e.Code == "duplicate_authorization":
		reason = telemetry.RefusedTwice
	case errors.Is(e.Cause, access.ErrMalformed):
		reason = telemetry.RefusedMalformed
	case errors.Is(e.Cause, access.ErrDisabled):
		reason = telemetry.RefusedDisabled
	case errors.Is(e.Cause, access.ErrExpired):
		reason = telemetry.RefusedExpired
	case errors.Is(e.Cause, access.ErrNotYetValid):
		reason = telemetry.RefusedNotYetValid
	}
	s.metrics.Refuse(reason)
}

// countShed counts a request that was turned away because something that it needed was used up.
func (s *Server) countShed(e *apierror.Error) {
	call, ofPlugin := errors.AsType[*plugin.CallError](e.Cause)
	conn, ofUpstream := errors.AsType[*upstream.Error](e.Cause)
	of, room := errors.AsType[full](e.Cause)
	switch {
	case room:
		s.metrics.Shed(telemetry.Shed(of))
	case e.Code == "gateway_shutdown":
		s.metrics.Shed(telemetry.ShedDraining)
	case ofPlugin && call.Kind == plugin.KindBusy:
		s.metrics.Shed(telemetry.ShedPlugins)
	case ofUpstream && conn.Kind == upstream.Busy:
		s.metrics.Shed(telemetry.ShedUpstream)
	}
}
