package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/admission"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/downstream"
	"github.com/sluice-gateway/sluice/proxy/internal/endpoint"
	"github.com/sluice-gateway/sluice/proxy/internal/exchange"
	"github.com/sluice-gateway/sluice/proxy/internal/failure"
	"github.com/sluice-gateway/sluice/proxy/internal/holds"
	"github.com/sluice-gateway/sluice/proxy/internal/modellist"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/responses"
	"github.com/sluice-gateway/sluice/proxy/internal/responsesocket"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
	"github.com/sluice-gateway/sluice/proxy/internal/websocket"
)

// headReceived is called with a request's head before its body is read. If Admit would reject the request whatever its
// body contains, headReceived adds an Expect header, so that fasthttp calls expectContinue, which responds before the
// body is read.
func (s *Server) headReceived(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	if n := h.ContentLength(); n > endpoint.SmallBody || n == endpoint.Chunked || len(h.Peek(fasthttp.HeaderExpect)) > 0 {
		if _, e := s.admitHead(h, s.Now(), nil, nil); e != nil {
			h.Set(fasthttp.HeaderExpect, "100-continue")
		}
	}
	return fasthttp.RequestConfig{MaxRequestBodySize: int(s.Admission.Limits().MaxBody)}
}

// expectContinue responds to a client that waits for permission to send its body, or to a request that headReceived has
// marked as if its client did.
func (s *Server) expectContinue(ctx *fasthttp.RequestCtx) int {
	h := &ctx.Request.Header
	r := telemetry.Record{Began: s.Now(), RequestID: s.requestID(h), Remote: remoteHost(ctx), Trace: endpoint.Traceparent(h), Method: endpoint.Method(h)}
	to, e := s.admitHead(h, r.Began, ctx, &r)
	if e == nil {
		return fasthttp.StatusContinue
	}
	e.CloseClient = true
	r.Path = to.Path()
	s.setRequestID(ctx, r.RequestID)
	s.respondError(ctx, &r, s.apiOf(h), e)
	s.account.Request(&r)
	return r.Status
}

// admitHead decides by the head alone whether a request is admitted. ctx and record are nil for a check whose result
// the client does not see: it is neither counted nor recorded.
func (s *Server) admitHead(h *fasthttp.RequestHeader, now time.Time, ctx *fasthttp.RequestCtx, record *telemetry.Record) (endpoint.ID, *apierror.Error) {
	to, _, e := endpoint.Match(h)
	if e != nil {
		return to, e
	}
	g := s.acquire()
	if g == nil {
		return to, failure.Shutdown()
	}
	defer g.Release()
	a := g.arrival(h, to, now)
	a.Ctx, a.Record = ctx, record
	_, e = s.Admission.Admit(&a)
	return to, e
}

// handle serves one request. Its frame and that of serveCompletion are at the bottom of the stack of every completion.
// Large values are kept out of them to avoid another doubling of the goroutine's stack.
func (s *Server) handle(ctx *fasthttp.RequestCtx) {
	defer rescue.Recover(func(p *rescue.Error) { s.respondUnrecordedPanic(ctx, p) })
	if s.Draining() {
		ctx.SetConnectionClose()
	}
	// If bytes of the client's next request have arrived, fasthttp does not flush a response before it has handled that
	// request, which may take minutes, unless the handler has set a deadline. The effective deadlines are those of
	// downstream.Conn.
	_ = ctx.SetWriteDeadline(time.Time{})
	to, rest, e := endpoint.Match(&ctx.Request.Header)
	if to.HasBody() && e == nil {
		s.serveCompletion(ctx, to, rest)
		return
	}
	if to.Service() == endpoint.Socket && e == nil {
		s.serveSocket(ctx, to)
		return
	}
	s.serveDirect(ctx, to, rest, e)
}

// startRecord starts the record of a request for the access log and metrics.
func (s *Server) startRecord(ctx *fasthttp.RequestCtx, r *telemetry.Record, to endpoint.ID) {
	h := &ctx.Request.Header
	r.Began, r.RequestID, r.Remote, r.Method, r.Path = s.Now(), s.requestID(h), remoteHost(ctx), endpoint.Method(h), to.Path()
	r.Trace = endpoint.Traceparent(h)
	s.metrics.StartRequest(r)
	s.setRequestID(ctx, r.RequestID)
}

// requestID returns the ID of a request: the client's own, unless that must not be logged.
func (s *Server) requestID(h *fasthttp.RequestHeader) string {
	g := s.current.Load()
	return endpoint.RequestID(h, func(text []byte) bool { return g.holdsSecret(h, text) })
}

// apiOf returns the API of a request, judging by its head alone.
func (s *Server) apiOf(h *fasthttp.RequestHeader) *exchange.API { return &s.APIs[endpoint.GuessAPI(h)] }

// setRequestID sets the request's ID in the response headers in which clients expect it.
func (s *Server) setRequestID(ctx *fasthttp.RequestCtx, id string) {
	ctx.Response.Header.Set("x-request-id", id)
	if name := s.apiOf(&ctx.Request.Header).IDHeader; name != "" {
		ctx.Response.Header.Set(name, id)
	}
}

// respondUnrecordedPanic responds to a request that panicked before startRecord.
func (s *Server) respondUnrecordedPanic(ctx *fasthttp.RequestCtx, p *rescue.Error) {
	var r telemetry.Record
	s.startRecord(ctx, &r, endpoint.Unknown)
	s.respondPanic(ctx, &r, p)
	s.account.Request(&r)
}

// respondPanic responds to a request that panicked.
func (s *Server) respondPanic(ctx *fasthttp.RequestCtx, r *telemetry.Record, p *rescue.Error) {
	s.logPanic(r.RequestID, p)
	e := failure.Internal(nil)
	e.CloseClient = true
	s.respondError(ctx, r, s.apiOf(&ctx.Request.Header), e)
}

// serveCompletion serves a request to an endpoint for completions.
func (s *Server) serveCompletion(ctx *fasthttp.RequestCtx, to endpoint.ID, rest []byte) {
	x := &completion{server: s, Exchange: exchange.Exchange{API: &s.APIs[to.API()], HTTP11: ctx.Request.Header.IsHTTP11(), Random: s.random()}}
	x.Limiter = &s.Admission.Limiter
	s.startRecord(ctx, &x.record, to)
	x.RequestID, x.Created, x.CheckedAt = x.record.RequestID, x.record.Began.Unix(), x.record.Began
	x.Delivery.Services, x.Heartbeat, x.Continues = &s.deliveries, x.API.HeartbeatChunk, x.HTTP11
	x.Conn, _ = ctx.Conn().(*downstream.Conn)
	x.Conn.StartRequest(x)
	x.acquireWorkspace(x)
	responding := false // Delivered or WriteStream finishes the completion
	defer func() {
		x.releaseRequest(ctx)
		switch {
		case !responding:
			x.finish()
		case x.Stream:
			x.Conn.TakeOver()
			ctx.HijackSetNoResponse(true)
			ctx.Hijack(downstream.TakeBuffered)
		}
	}()
	defer rescue.Recover(func(p *rescue.Error) {
		s.respondPanic(ctx, &x.record, p)
		responding = false
	})

	if x.generation = s.acquire(); x.generation == nil {
		s.respondError(ctx, &x.record, x.API, failure.Shutdown())
		return
	}
	x.Configuration, x.record.Generation, x.record.Config = x.generation, x.generation.number, x.generation.config.Digest
	e := x.accept(ctx, to, rest)
	if e == nil && to.Service() == endpoint.TokenCount {
		x.respondCount(ctx)
		return
	}
	switch {
	case e != nil:
	case ctx.UserValue(warmUp{}) != nil:
		e = x.completeEmpty()
	default:
		captureContent(x, &ctx.Request.Header)
		e = x.tryTargets(&x.Watcher, &ctx.Request.Header)
	}
	if e != nil {
		s.respondCompletionError(ctx, x, e)
		return
	}
	x.respond(ctx)
	responding = true
}

// respondCompletionError responds with an error to a client to which nothing has been sent.
func (s *Server) respondCompletionError(ctx *fasthttp.RequestCtx, x *completion, e *apierror.Error) {
	x.setRouteHeaders(&ctx.Response.Header)
	x.generation.setRateLimitHeaders(&ctx.Response.Header, x.Key, x.holds.User(), s.Now())
	if x.Disconnected || x.leavesBodyUnread(ctx) {
		// The rest of the request, or the response, will not be read.
		closing := *e
		closing.CloseClient, e = true, &closing
	}
	s.respondError(ctx, &x.record, x.API, e)
	x.record.Bytes = int64(len(ctx.Response.Body()))
}

// maxRoute is the maximum length of x-gateway-route.
const maxRoute = 2 << 10

// appendRoute appends a routing decision as a header value. The random number comes first, so that it is never cut off.
// A value that is too long is cut between two elements.
func appendRoute(dst []byte, random uint64, d *routing.Decision) []byte {
	dst = d.AppendLine(fmt.Appendf(dst, "random %016x; ", random))
	if len(dst) > maxRoute {
		cut := dst[:maxRoute-len("...")]
		cut = cut[:max(bytes.LastIndex(cut, []byte("; ")), bytes.LastIndex(cut, []byte(", ")))+len("; ")]
		dst = append(cut, "..."...)
	}
	return dst
}

// setRateLimitHeaders sets response headers with what remains of the rate limits of a key, its team and its user: for each
// resource, those of the one of which least remains. key is nil if the client is unknown, and user without one.
func (g *generation) setRateLimitHeaders(h *fasthttp.ResponseHeader, key *access.Key, user *spend.Account, now time.Time) {
	if key == nil {
		return
	}
	var requests, tokens rateLimit
	for _, account := range [...]*spend.Account{holds.KeyAccount(g.accounts, key, now), g.accounts.Account(spend.Team, key.Team()), user} {
		if account != nil {
			s := account.Remaining(now)
			requests.tighten(rateLimit{s.Limits.RequestsPerMinute, s.Requests, s.RequestsReset})
			tokens.tighten(rateLimit{s.Limits.TokensPerMinute, s.Tokens, s.TokensReset})
		}
	}
	requests.set(h, "requests")
	tokens.set(h, "tokens")
}

// rateLimit is what remains of a limit per minute. The zero value is no limit.
type rateLimit struct {
	limit, remaining int64
	reset            time.Duration
}

// tighten replaces l by another limit if less remains of that.
func (l *rateLimit) tighten(o rateLimit) {
	if o.limit > 0 && (l.limit == 0 || o.remaining < l.remaining) {
		*l = o
	}
}

func (l *rateLimit) set(h *fasthttp.ResponseHeader, resource string) {
	if l.limit > 0 {
		h.Set("x-ratelimit-limit-"+resource, strconv.FormatInt(l.limit, 10))
		h.Set("x-ratelimit-remaining-"+resource, strconv.FormatInt(l.remaining, 10))
		h.Set("x-ratelimit-reset-"+resource, formatDuration(l.reset))
	}
}

// logExcessive records whether the provider counted more tokens than the request could use, and logs it once a minute.
func (s *Server) logExcessive(r *telemetry.Record, excessive bool) {
	if r.UsageExcessive = excessive; excessive {
		s.excessive.Do(func() {
			s.Log.Warn("provider counted more tokens than the request could use", "request", r.RequestID, "provider", r.Provider, "target", r.Target)
		})
	}
}

// formatDuration formats a duration as the OpenAI API does: 6m0s, 1.5s, 20ms, or 0s.
func formatDuration(d time.Duration) string { return d.Round(time.Millisecond).String() }

// serveDirect serves everything but completions. e is not nil if the request's head has been rejected.
func (s *Server) serveDirect(ctx *fasthttp.RequestCtx, to endpoint.ID, rest []byte, e *apierror.Error) {
	var r telemetry.Record
	s.startRecord(ctx, &r, to)
	defer rescue.Recover(func(p *rescue.Error) {
		s.respondPanic(ctx, &r, p)
		s.account.Request(&r)
	})
	if n := ctx.Request.Header.ContentLength(); n > 0 || n == endpoint.Chunked {
		// fasthttp reads an unused body if it is small, and closes the connection after a larger one.
		conn := ctx.Conn().(*downstream.Conn)
		conn.LimitInput(4 * endpoint.SmallBody)
		defer func() { conn.LingerOnClose(s.isKnown(&r)) }()
	}
	r.Status = fasthttp.StatusOK
	if e == nil {
		var stream *relay
		if stream, e = s.serveLocal(ctx, &r, to, rest); stream != nil {
			stream.start(ctx, &r)
			return
		}
	}
	if e != nil {
		s.respondError(ctx, &r, s.apiOf(&ctx.Request.Header), e)
	}
	r.Bytes = int64(len(ctx.Response.Body()))
	s.account.Request(&r)
}

// serveLocal serves requests for models and for stored responses. It returns a relay if the response is a stream.
func (s *Server) serveLocal(ctx *fasthttp.RequestCtx, r *telemetry.Record, to endpoint.ID, rest []byte) (stream *relay, e *apierror.Error) {
	g := s.acquire()
	if g == nil {
		return nil, failure.Shutdown()
	}
	defer g.Release()
	a := g.arrival(&ctx.Request.Header, to, r.Began)
	a.Ctx, a.Record = ctx, r
	key, e := s.Admission.Admit(&a)
	if e != nil {
		return nil, e
	}
	if key, e = g.authorizeRequest(r, key, new(access.User), r.Began); e != nil {
		return nil, e
	}
	var body []byte
	switch to.Service() {
	case endpoint.ModelList:
		body = modelForm(ctx).List(modellist.Visible(g.catalog, key))
	case endpoint.OneModel:
		body, e = describeModel(ctx, g, key, rest)
	default:
		id, found := string(rest), false
		if body, found, e = s.storedResponse(ctx, r.Key, to.Service(), id); !found {
			body, stream, e = requestStored(s, ctx, g, r, key, to.Service(), id)
		}
	}
	if e != nil || stream != nil {
		return stream, e
	}
	ctx.SetContentType("application/json")
	ctx.Response.SetBodyRaw(body)
	return nil, nil
}

// modelForm returns the format in which the client expects models.
func modelForm(ctx *fasthttp.RequestCtx) modellist.Form {
	switch endpoint.GuessAPI(&ctx.Request.Header) {
	case clientapi.Messages:
		return modellist.Messages
	case clientapi.Gemini:
		return modellist.Gemini
	}
	if ctx.QueryArgs().Has("client_version") {
		return modellist.Codex
	}
	return modellist.OpenAI
}

// describeModel returns the description of one model. Its id is in the path, percent-encoded or not.
func describeModel(ctx *fasthttp.RequestCtx, g *generation, key *access.Key, escaped []byte) ([]byte, *apierror.Error) {
	id, err := url.PathUnescape(string(escaped))
	if err != nil {
		return nil, modellist.NotFound(string(escaped))
	}
	m, ok := g.catalog.Model(context.Background(), id)
	if !ok || !key.Allows(id) {
		return nil, g.missingModel(&ctx.Request.Header, key, id, ok)
	}
	return modelForm(ctx).Model(m), nil
}

// serveSocket serves a request to upgrade the connection to a WebSocket for the Responses API.
func (s *Server) serveSocket(ctx *fasthttp.RequestCtx, to endpoint.ID) {
	var r telemetry.Record
	s.startRecord(ctx, &r, to)
	defer s.account.Request(&r)
	defer rescue.Recover(func(p *rescue.Error) { s.respondPanic(ctx, &r, p) })
	socket, e := s.openSocket(ctx, &r, to)
	if e != nil {
		s.respondError(ctx, &r, s.apiOf(&ctx.Request.Header), e)
		return
	}
	r.Status = fasthttp.StatusSwitchingProtocols
	conn := ctx.Conn().(*downstream.Conn)
	conn.StartRequest(socket)
	conn.TakeOver()
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(downstream.TakeBuffered)
}

// openSocket checks a request to upgrade the connection, and returns the socket. Each of its messages is a request with
// the head of this one.
func (s *Server) openSocket(ctx *fasthttp.RequestCtx, r *telemetry.Record, to endpoint.ID) (*responsesocket.Socket, *apierror.Error) {
	g := s.acquire()
	if g == nil {
		return nil, failure.Shutdown()
	}
	defer g.Release()
	h := &ctx.Request.Header
	if !g.config.Responses.WebSocket {
		return nil, endpoint.NoWebSocket()
	}
	a := g.arrival(h, to, r.Began)
	a.Ctx, a.Record = ctx, r
	key, e := s.Admission.Admit(&a)
	switch {
	case e != nil:
		return nil, e
	case s.Draining():
		return nil, failure.Shutdown()
	case g.keys == nil && len(h.Peek("Origin")) > 0:
		e := apierror.Invalid("origin_not_allowed", "", "Web pages must not open a WebSocket to a gateway without keys.")
		e.Status = fasthttp.StatusForbidden
		return nil, e
	}
	if e := endpoint.CheckHandshake(h); e != nil {
		return nil, e
	}
	turns := new(fasthttp.RequestHeader)
	h.CopyTo(turns)
	for _, name := range [...]string{"Connection", "Upgrade", "Sec-WebSocket-Key", "Sec-WebSocket-Version", "Sec-WebSocket-Extensions", "Sec-WebSocket-Protocol", "X-Request-Id"} {
		turns.Del(name)
	}
	turns.SetMethod(fasthttp.MethodPost)
	turns.SetContentType("application/json")
	response := websocket.AppendResponse(nil, h.Peek("Sec-WebSocket-Key"), "x-request-id: "+r.RequestID+"\r\n")
	return responsesocket.New(ctx.Conn().(*downstream.Conn), response, responsesocket.Options{
		Key: key.Name(), MaxMessage: int(s.Admission.Limits().MaxBody), IdleTimeout: g.config.Responses.WebSocketIdle, MaxAge: g.config.Responses.WebSocketAge,
		Memory: s.held, Limiter: &s.Admission.Limiter, Draining: s.Draining, Panicked: s.logAnyPanic,
		Serve: func(c *downstream.Conn, body *responsesocket.Body, warm bool) *responsesocket.Rejection {
			return s.serveTurn(turns, c, body, warm)
		},
	}), nil
}

// warmUp is the key of the user value of a turn to which the gateway responds without calling a model.
type warmUp struct{}

// serveTurn serves a message of a socket as a request with this head. It returns an error response, or nil if the turn
// streams its response.
func (s *Server) serveTurn(head *fasthttp.RequestHeader, c *downstream.Conn, body *responsesocket.Body, warm bool) *responsesocket.Rejection {
	ctx := new(fasthttp.RequestCtx)
	ctx.Init2(c, fasthttpLogger{s.Log}, true)
	head.CopyTo(&ctx.Request.Header)
	ctx.Request.SetBodyStream(body, body.Size())
	if warm {
		ctx.SetUserValue(warmUp{}, true)
	}
	s.serveCompletion(ctx, endpoint.Completions(clientapi.Responses), nil)
	if ctx.Hijacked() {
		return nil
	}
	r := &responsesocket.Rejection{Status: ctx.Response.StatusCode(), Body: bytes.Clone(ctx.Response.Body())}
	for _, name := range [...]string{"x-request-id", "retry-after", "retry-after-ms", "x-should-retry"} {
		if v := ctx.Response.Header.Peek(name); len(v) > 0 {
			r.Headers = append(r.Headers, [2]string{name, string(v)})
		}
	}
	return r
}

// storedResponse returns the body of a response to a request for one of the client's responses that the gateway stores.
func (s *Server) storedResponse(ctx *fasthttp.RequestCtx, client string, service endpoint.Service, id string) (body []byte, found bool, e *apierror.Error) {
	switch m := s.responses; {
	case m == nil:
	case service == endpoint.StoredItems:
		query := ctx.QueryArgs()
		page := responses.Page{After: string(query.Peek("after")), Ascending: string(query.Peek("order")) == "asc"}
		page.Limit, _ = strconv.Atoi(string(query.Peek("limit"))) // the default if it is not a number
		body, found = m.AppendInputItems(nil, client, id, page)
	case ctx.IsDelete():
		body, found = m.AppendDeleted(nil, client, id)
	default:
		body, found = m.AppendResponse(nil, client, id)
	}
	if found && service == endpoint.CancelStored {
		return nil, true, apierror.Invalid("", "", "Cannot cancel a synchronous response.")
	}
	return body, found, nil
}

// respondError writes an error response in the format of an API.
func (s *Server) respondError(ctx *fasthttp.RequestCtx, r *telemetry.Record, api *exchange.API, e *apierror.Error) {
	if reason, ok := failure.Shed(e); ok {
		s.metrics.Shed(reason)
	}
	s.logIfPanic(r.RequestID, e.Cause)
	r.Status, r.Code = api.StatusOf(e), e.Code
	if r.Code == "" {
		r.Code = string(e.Kind)
	}
	if e.Cause != nil {
		r.Cause = e.Cause
	}
	ctx.Response.ResetBody()
	ctx.SetStatusCode(r.Status)
	h := &ctx.Response.Header
	h.SetContentType("application/json")
	if e.RetryAfter > 0 {
		h.Set("retry-after", strconv.FormatInt(int64((e.RetryAfter+999_999_999).Seconds()), 10))
		h.Set("retry-after-ms", strconv.FormatInt(max(e.RetryAfter.Milliseconds(), 1), 10))
	}
	if e.Permanent() {
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
			c.LingerOnClose(s.isKnown(r))
		}
	}
	ctx.Response.SetBodyRaw(api.AppendError(nil, admission.RedactKey(&ctx.Request.Header, e), r.RequestID))
}

// isKnown reports whether the client of a request has a valid key, or needs none.
func (s *Server) isKnown(r *telemetry.Record) bool {
	g := s.current.Load()
	return r.Key != "" || g != nil && g.keys == nil
}

// handleReadError responds to input that cannot be read as an HTTP request. fasthttp closes the connection afterwards.
func (s *Server) handleReadError(ctx *fasthttp.RequestCtx, err error) {
	// The method is unknown if the head has not been read completely.
	r := telemetry.Record{Began: s.Now(), RequestID: endpoint.NewRequestID(), Remote: remoteHost(ctx), Cause: err}
	defer rescue.Recover(func(p *rescue.Error) { s.logPanic(r.RequestID, p) })
	s.setRequestID(ctx, r.RequestID)
	s.respondError(ctx, &r, s.apiOf(&ctx.Request.Header), readError(s, err))
	s.account.Request(&r)
}

// remoteHost returns the client's address without its port.
func remoteHost(ctx *fasthttp.RequestCtx) string {
	return ctx.Conn().(*downstream.Conn).RemoteHost()
}

// readError returns the client's error for a failure to read a request.
func readError(s *Server, err error) *apierror.Error {
	var small *fasthttp.ErrSmallBuffer
	var network net.Error
	e := apierror.Invalid("bad_request", "", "The request is not well-formed HTTP.")
	switch {
	case s.shutdownTimedOut.Load():
		e = failure.Shutdown()
	case errors.As(err, &small):
		e.Status, e.Code, e.Message = 431, "request_header_too_large", "The request header is larger than "+strconv.Itoa(readBuffer>>10)+" KiB."
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		e = s.Admission.TooLarge()
	case errors.As(err, &network) && network.Timeout():
		e.Status, e.Code, e.Message = 408, "request_timeout", "The request did not arrive in time."
	}
	e.Cause, e.CloseClient = failure.Unquoted(err), true
	return e
}

// fasthttpLogger is fasthttp's logger. It reports broken connections; their requests are in the access log.
type fasthttpLogger struct{ log *slog.Logger }

func (l fasthttpLogger) Printf(format string, args ...any) {
	for i, a := range args {
		if err, ok := a.(error); ok {
			args[i] = failure.Unquoted(err)
		}
	}
	l.log.Debug("fasthttp", "text", fmt.Sprintf(format, args...))
}
