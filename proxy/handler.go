package proxy

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"net"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/access"
	"github.com/sluice-gateway/sluice/proxy/catalog"
	"github.com/sluice-gateway/sluice/proxy/chat"
	"github.com/sluice-gateway/sluice/proxy/telemetry"
)

// The routes. A path is compared as it came, byte for byte: what a normaliser would make of it is another path.
const (
	pathCompletions = "/v1/chat/completions"
	pathModels      = "/v1/models"
)

// maxRequestID is how long a client's own x-request-id may be.
const maxRequestID = 128

// handle serves one request.
func (s *Server) handle(ctx *fasthttp.RequestCtx) {
	r := telemetry.Record{Began: s.now(), RequestID: requestID(&ctx.Request.Header), Remote: remote(ctx), Method: method(ctx)}
	s.metrics.Begin(&r)
	ctx.Response.Header.Set("x-request-id", r.RequestID)
	if s.Draining() {
		ctx.SetConnectionClose()
	}
	defer func() {
		if v := recover(); v != nil {
			s.panicked(r.RequestID, v, debug.Stack())
			s.refuse(ctx, &r, &chat.Error{Status: 500, Type: chat.TypeServer, Code: "internal_error", Message: "The gateway failed.", CloseClient: true})
			s.account.Request(&r)
		}
	}()

	// fasthttp holds an answer back while the client's next request is there to be read, and that one may take minutes.
	// It does not where the handler has set a deadline; the deadlines that count are those of clientConn.
	_ = ctx.SetWriteDeadline(time.Time{})
	path, _, _ := bytes.Cut(ctx.Request.Header.RequestURI(), []byte{'?'})
	refused := checkHead(&ctx.Request.Header)
	switch {
	case refused != nil:
		s.plain(ctx, &r, func() *chat.Error { return refused })
	case string(path) == pathCompletions:
		r.Path = pathCompletions
		if !ctx.IsPost() {
			s.plain(ctx, &r, func() *chat.Error { return wrongMethod(ctx, "POST") })
			return
		}
		s.complete(ctx, r)
	case string(path) == pathModels:
		r.Path = pathModels
		s.plain(ctx, &r, func() *chat.Error { return s.read(ctx, &r, models) })
	case bytes.HasPrefix(path, []byte(pathModels+"/")):
		r.Path = pathModels + "/{id}"
		id := path[len(pathModels)+1:]
		s.plain(ctx, &r, func() *chat.Error {
			return s.read(ctx, &r, func(g *generation, key *access.Key) ([]byte, *chat.Error) { return model(g, key, id) })
		})
	default:
		s.plain(ctx, &r, func() *chat.Error { return notFound(ctx, path) })
	}
}

// checkHead refuses what fasthttp lets pass: a line that goes on in the next one, and a body whose length is said twice,
// or in another way than by a length or by chunks, all of which somebody in between may have read otherwise; and
// expectations that nobody here can meet.
func checkHead(h *fasthttp.RequestHeader) *chat.Error {
	coded, sized, certain := false, false, true
	for line := range bytes.Lines(h.RawHeaders()) {
		name, value, _ := bytes.Cut(line, []byte{':'})
		switch {
		case line[0] == ' ' || line[0] == '\t':
			certain = false
		case bytes.EqualFold(name, []byte("transfer-encoding")):
			coded = true
			certain = certain && bytes.EqualFold(bytes.TrimSpace(value), []byte("chunked"))
		case bytes.EqualFold(name, []byte("content-length")):
			sized = true
		}
	}
	if !certain || coded && sized {
		e := chat.Invalid("bad_request", "", "The request's header can be read in more than one way.")
		e.CloseClient = true
		return e
	}
	if e := h.Peek(fasthttp.HeaderExpect); len(e) > 0 && !bytes.EqualFold(e, []byte("100-continue")) {
		e := chat.Invalid("expectation_failed", "", "The request's Expect can only be 100-continue.")
		e.Status = 417
		return e
	}
	return nil
}

// plain runs a handler that answers at once, and accounts its request.
func (s *Server) plain(ctx *fasthttp.RequestCtx, r *telemetry.Record, answer func() *chat.Error) {
	r.Status = fasthttp.StatusOK
	if e := answer(); e != nil {
		s.refuse(ctx, r, e)
	}
	r.Bytes = int64(len(ctx.Response.Body()))
	s.account.Request(r)
}

// authorize checks the client's key.
func (s *Server) authorize(ctx *fasthttp.RequestCtx, g *generation, r *telemetry.Record) (*access.Key, *chat.Error) {
	if g.keys == nil {
		return access.Anyone(), nil
	}
	key, e := g.keys.Check(ctx.Request.Header.PeekAll(fasthttp.HeaderAuthorization), s.now())
	if e != nil {
		s.countRefusal(e)
		return nil, e
	}
	r.Key = key.Name()
	return key, nil
}

// read serves a GET: answer is called with the generation and the client's key.
func (s *Server) read(ctx *fasthttp.RequestCtx, r *telemetry.Record, answer func(*generation, *access.Key) ([]byte, *chat.Error)) *chat.Error {
	if !ctx.IsGet() {
		return wrongMethod(ctx, "GET")
	}
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

// models lists the models that the key may use.
func models(g *generation, key *access.Key) ([]byte, *chat.Error) {
	all := g.catalog.List(context.Background())
	mine := make([]*catalog.Model, 0, len(all))
	for _, m := range all {
		if key.Allows(m.ID) {
			mine = append(mine, m)
		}
	}
	return catalog.AppendList(nil, mine), nil
}

// model describes one model. Its id stands in the path as it is, or percent-encoded.
func model(g *generation, key *access.Key, escaped []byte) ([]byte, *chat.Error) {
	id, err := url.PathUnescape(string(escaped))
	if err != nil {
		return nil, noModel(string(escaped))
	}
	m, ok := g.catalog.Model(context.Background(), id)
	if !ok || !key.Allows(id) {
		return nil, noModel(id)
	}
	return catalog.AppendModel(nil, m), nil
}

// refuse writes an error as the response.
func (s *Server) refuse(ctx *fasthttp.RequestCtx, r *telemetry.Record, e *chat.Error) {
	s.countShed(e)
	r.Status, r.Code = e.Status, e.Code
	if r.Code == "" {
		r.Code = e.Type
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
	}
	ctx.Response.SetBodyRaw(chat.AppendErrorBody(nil, e))
}

// unreadable answers what is not an HTTP request. fasthttp closes the connection behind it.
func (s *Server) unreadable(ctx *fasthttp.RequestCtx, err error) {
	// What the method is, cannot be known of a head that was not read to its end.
	r := telemetry.Record{Began: s.now(), RequestID: newRequestID(), Remote: remote(ctx), Cause: err}
	ctx.Response.Header.Set("x-request-id", r.RequestID)
	var small *fasthttp.ErrSmallBuffer
	var network net.Error
	e := chat.Invalid("bad_request", "", "The request is not well-formed HTTP.")
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
	e.Cause = unquoted(err)
	s.refuse(ctx, &r, e)
	s.account.Request(&r)
}

// unquoted is an error of fasthttp up to the first thing that it quotes: that is the client's, and may be its key.
func unquoted(err error) error {
	if text, _, quotes := strings.Cut(err.Error(), `"`); quotes {
		return errors.New(strings.TrimRight(text, " :"))
	}
	return err
}

func (s *Server) tooLarge() *chat.Error {
	e := chat.Invalid("request_too_large", "", "The request's body is larger than %d bytes.", s.settings.Load().MaxBody)
	e.Status, e.CloseClient = 413, true
	return e
}

// expect answers a client that waits for leave to send its body: one without a key, or with too much, is told so
// before it sends any of it.
func (s *Server) expect(ctx *fasthttp.RequestCtx) int {
	r := telemetry.Record{Began: s.now(), RequestID: requestID(&ctx.Request.Header), Remote: remote(ctx), Method: method(ctx), Path: pathCompletions}
	g := s.acquire()
	if g == nil {
		return fasthttp.StatusServiceUnavailable
	}
	defer g.release()
	_, e := s.authorize(ctx, g, &r)
	if e == nil && int64(ctx.Request.Header.ContentLength()) > s.settings.Load().MaxBody {
		e = s.tooLarge()
	}
	if e == nil {
		return fasthttp.StatusContinue
	}
	ctx.Response.Header.Set("x-request-id", r.RequestID)
	s.refuse(ctx, &r, e)
	s.account.Request(&r)
	return e.Status
}

// requestID is the client's own id where it is usable, else a new one.
func requestID(h *fasthttp.RequestHeader) string {
	if id := h.Peek("x-request-id"); len(id) > 0 && len(id) <= maxRequestID && printable(id) {
		return string(id)
	}
	return newRequestID()
}

func newRequestID() string { return "req_" + randomName() }

// randomName is 128 random bits. They need not be secret: they only must not repeat.
func randomName() string {
	var b [16]byte
	for i, v := range [2]uint64{rand.Uint64(), rand.Uint64()} {
		for j := range 8 {
			b[8*i+j] = byte(v >> (8 * j))
		}
	}
	return hex.EncodeToString(b[:])
}

func remote(ctx *fasthttp.RequestCtx) string {
	host, _, err := net.SplitHostPort(ctx.RemoteAddr().String())
	if err != nil {
		return ctx.RemoteAddr().String()
	}
	return host
}

// method keeps what a client invents out of the log.
func method(ctx *fasthttp.RequestCtx) string {
	switch m := string(ctx.Method()); m {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT":
		return m
	}
	return "other"
}

func wrongMethod(ctx *fasthttp.RequestCtx, allowed string) *chat.Error {
	e := chat.Invalid("method_not_allowed", "", "This address takes %s, not %s.", allowed, method(ctx))
	e.Status, e.Allow = 405, allowed
	return e
}

func notFound(ctx *fasthttp.RequestCtx, path []byte) *chat.Error {
	e := chat.Invalid("unknown_url", "", "There is nothing at %s '%s'.", method(ctx), chat.Quotable(string(path)))
	e.Status = 404
	return e
}

// noModel is the answer for a model that does not exist and for one that the key may not use, in the same words.
func noModel(id string) *chat.Error {
	e := chat.Invalid("model_not_found", "", "The model '%s' does not exist or you do not have access to it.", chat.Quotable(id))
	e.Status = 404
	return e
}
