package proxy

import (
	"github.com/sluice-gateway/sluice/proxy/internal/openai"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"

	"github.com/sluice-gateway/sluice/proxy/internal/response"

	"bytes"
	"context"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// complete serves POST /v1/chat/completions.
func (s *Server) complete(ctx *fasthttp.RequestCtx) {
	x := &completion{server: s, http11: ctx.Request.Header.IsHTTP11(), random: rand.Uint64()}
	s.record(ctx, &x.record, completions)
	x.looked = x.record.Began
	x.conn, _ = ctx.Conn().(*clientConn)
	x.conn.begin()
	x.conn.exchange, x.vigil.x = x, x
	x.writer, x.work = s.writer(), s.work()
	under := false // somebody else finishes it: the answer is under way
	defer func() {
		if v := recover(); v != nil {
			s.failed(ctx, &x.record, v)
			under = false
		}
		x.releaseRequest(ctx)
		switch {
		case !under:
			x.finish()
		case x.stream:
			x.handOver(ctx)
		}
	}()

	if x.gen = s.acquire(); x.gen == nil {
		s.refuse(ctx, &x.record, s.shutdownError())
		return
	}
	targets, e := x.accept(ctx)
	if e == nil {
		e = x.answer(&x.vigil, targets)
	}
	under = x.respond(ctx, e)
}

// respond writes the answer or e, and tells whether the answer is under way: somebody else finishes it then.
func (x *completion) respond(ctx *fasthttp.RequestCtx, e *apierror.Error) (under bool) {
	s := x.server
	x.describeRoute(&ctx.Response.Header)
	x.describeLimits(&ctx.Response.Header)
	if e != nil {
		if x.departed || x.abandoned(ctx) {
			// Nobody reads the answer, or the rest of the request.
			closing := *e
			closing.CloseClient, e = true, &closing
		}
		s.refuse(ctx, &x.record, e)
		x.record.Bytes = int64(len(ctx.Response.Body()))
		return false
	}
	x.record.Status = fasthttp.StatusOK
	h := &ctx.Response.Header
	if !x.stream {
		h.SetContentType("application/json")
		ctx.Response.SwapBody(x.writer.AppendResponse(ctx.Response.SwapBody(nil)[:0]))
		x.record.Bytes = int64(len(ctx.Response.Body()))
		return true
	}
	h.SetContentType("text/event-stream; charset=utf-8")
	h.Set("cache-control", "no-cache")
	h.Set("x-accel-buffering", "no")
	x.pump.prepare(x, ctx)
	s.metrics.StreamBegan()
	return true
}

// accept checks everything about the request that can be checked before a provider is asked, and finds the targets of
// its model.
func (x *completion) accept(ctx *fasthttp.RequestCtx) ([]routing.Target, *apierror.Error) {
	key, e := x.server.authorize(ctx, x.gen, &x.record)
	if e != nil {
		return nil, e
	}
	x.key = key
	if e := checkContent(&ctx.Request.Header); e != nil {
		return nil, e
	}
	if x.hops = hopsOf(&ctx.Request.Header); x.hops >= maxHops {
		return nil, looped(x.hops)
	}
	if e := x.enter(); e != nil {
		return nil, e
	}
	if e := x.readBody(ctx); e != nil {
		return nil, e
	}
	x.request = x.server.request()
	if e := x.request.Parse(x.body, openai.Limits{}); e != nil {
		return nil, e
	}
	x.stream = x.request.Stream
	x.record.Stream = x.stream
	m, ok := x.gen.catalog.Model(context.Background(), x.request.Model)
	if !ok || !key.Allows(x.request.Model) {
		if ok {
			x.server.metrics.Refuse(telemetry.RefusedModel)
		}
		e := noModel(x.request.Model)
		e.Cause = x.gen.without(x.request.Model, ok)
		return nil, e
	}
	x.model, x.record.Model = m, m.ID
	if e := x.request.CheckModel(m.MaxTokens, m.Thinking); e != nil {
		return nil, e
	}
	if x.stream && !x.http11 {
		return nil, apierror.Invalid("http_version", "stream", "A streamed answer needs HTTP/1.1; ask for a whole one over HTTP/1.0.")
	}
	targets := x.gen.targetsOf(m, &x.server.board)
	if len(targets) == 0 {
		return nil, noModel(x.request.Model)
	}
	return targets, x.admit()
}

// checkContent refuses what is not a JSON document as it stands. A missing content type is taken for JSON: whether it
// is one, the body says.
func checkContent(h *fasthttp.RequestHeader) *apierror.Error {
	refuse := func(format string, args ...any) *apierror.Error {
		e := apierror.Invalid("unsupported_media_type", "", format, args...)
		e.Status = 415
		return e
	}
	for _, e := range h.PeekAll(fasthttp.HeaderContentEncoding) {
		if len(e) > 0 && !bytes.EqualFold(e, []byte("identity")) {
			return refuse("The request's body must not be compressed.")
		}
	}
	if severalTypes(h) {
		return refuse("The request has more than one Content-Type.")
	}
	declared := h.ContentType()
	if len(declared) == 0 {
		return nil
	}
	if !isJSON(declared) {
		return refuse("The request's Content-Type must be application/json.")
	}
	_, parameters, more := bytes.Cut(declared, []byte(";"))
	if !more {
		return nil
	}
	parameters = bytes.ToLower(parameters)
	for p := range bytes.SplitSeq(parameters, []byte(";")) {
		name, value, _ := bytes.Cut(bytes.TrimSpace(p), []byte("="))
		if string(name) == "charset" && !bytes.Equal(bytes.Trim(value, `"`), []byte("utf-8")) {
			return refuse("The request's body must be UTF-8.")
		}
	}
	return nil
}

// resetAttempt makes ready for a try at x.target.
func (x *completion) resetAttempt() {
	a, m := &x.attempt, x.model
	a.Reset()
	a.Request, a.Writer, a.Tenant = x.request, x.writer, x.record.Key
	a.Summary.Describe(x.request)
	a.Summary.RequestID = x.record.RequestID
	a.Summary.Time = x.began
	a.Summary.Attempt = x.record.Attempts
	a.Summary.Random = x.random
	a.Summary.Target = x.target.Model
	a.Summary.MaxTokens, a.Summary.DefaultMaxTokens = m.MaxTokens, m.DefaultMaxTokens
	a.Summary.Options = x.target.Options
	x.writer.Reset(response.Options{
		Stream: x.stream, IncludeUsage: x.request.IncludeUsage,
		ID: randomName("chatcmpl-"), Model: x.target.Model, Created: x.record.Began.Unix(),
		Choices: x.request.N, PromptEstimate: promptEstimate(x.request), Aliases: x.alias,
	})
}

// appendSummary writes what a router is told of the request.
func (x *completion) appendSummary(dst []byte) []byte {
	s := &x.attempt.Summary
	s.Describe(x.request)
	s.RequestID, s.Time, s.Attempt, s.Random = x.record.RequestID, x.record.Began, 1, x.random
	s.Target = ""
	s.MaxTokens, s.DefaultMaxTokens = x.model.MaxTokens, x.model.DefaultMaxTokens
	return s.Append(dst)
}

// maxWarnings is how long x-gateway-warning may be about: some clients take no more than 8 KiB of headers.
const maxWarnings = 1 << 10

// describeRoute says in the response's head what was chosen and what became of the request on its way.
func (x *completion) describeRoute(h *fasthttp.ResponseHeader) {
	set := func(name, value string) {
		if value != "" && printable([]byte(strings.ReplaceAll(value, " ", ""))) {
			h.Set(name, value)
		}
	}
	set("x-gateway-model", x.record.Model)
	if x.record.Attempts == 0 {
		return
	}
	set("x-gateway-provider", x.record.Provider)
	set("x-gateway-attempts", strconv.Itoa(x.record.Attempts))
	set("x-upstream-request-id", x.record.UpstreamID)
	if len(x.attempt.Warnings) == 0 {
		return
	}
	var w []string
	size := 0
	for i, warning := range x.attempt.Warnings {
		words := warningWords[warning.Kind] + " " + warning.Member
		if size += len(words) + len(", "); size > maxWarnings {
			w = append(w, strconv.Itoa(len(x.attempt.Warnings)-i)+" more")
			break
		}
		w = append(w, words)
	}
	set("x-gateway-warning", strings.Join(w, ", "))
}

var warningWords = [abi.WarnKinds]string{abi.WarnDropped: "dropped", abi.WarnClamped: "clamped", abi.WarnChanged: "changed"}
