package proxy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/breaker"
	"github.com/sluice-gateway/sluice/proxy/internal/downstream"
	"github.com/sluice-gateway/sluice/proxy/internal/framing"
	"github.com/sluice-gateway/sluice/proxy/internal/framing/decoders"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/openai/native"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/catalog"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
)

// completion is one chat completion in flight: a request, the attempts at its targets, and the answer.
//
// It lives from the handler to the last byte of the answer, on one goroutine. What belongs to the request (request,
// and the body in the RequestCtx) is given back when the answer's head is sent; the rest when finish ends it.
type completion struct {
	// What each event of a stream needs lies together: between two of them it has left the processor's caches.
	server    *Server
	conn      *downstream.Conn
	provider  *provider
	response  *upstream.Response
	writer    *response.Writer // from the server's pool until finish
	*work                      // the same
	pump      pump
	stream    bool
	native    bool // the host reads the answer
	framed    bool // the answer's first bytes have come, and decoder is the one for its framing
	bodyEnd   bool // the answer's body has ended cleanly
	committed bool // the head of a streamed answer has been sent
	departed  bool
	finished  bool
	settled   bool      // the target's statistics know the outcome
	progress  time.Time // when the last whole event of a framed answer was there
	looked    time.Time // when the client's socket was last looked at
	written   time.Time // when the client was last sent something, once committed

	gen    *generation
	record telemetry.Record

	// Of the request; nil once the head of the answer is on its way.
	request *openai.Request
	model   *catalog.Model
	body    []byte // from the server's buffers
	random  uint64
	hops    int // gateways that the request has passed before this one
	http11  bool

	interim  bool // the one probe that can be sent before the head has been sent
	bodyRead bool // the client's body has been read to its end
	watcher  downstream.Watcher

	// What the exchange is counted for, until leave.
	entered                 bool
	heldRequest, heldAnswer int64 // bytes

	key       *access.Key // nil until the client is known
	admission access.Admission
	admitted  time.Time
	ended     time.Time // when finish began

	// Of the attempt that is under way or has answered.
	target *routing.Target
	ticket breaker.Ticket
	sent   bool // the provider has been sent the request
	began  time.Time
}

// work is what attempts are made with. Its memory outlives an exchange: the server keeps it for another one.
type work struct {
	attempt  plugin.Attempt
	decoders decoders.Set
	decoder  framing.Decoder // of the response's framing, once framed
	reader   native.Reader
	batch    response.Batch
	asked    []*routing.Budget // of the providers that have been sent the request
	order    []int             // in which the targets are tried
	out      upstream.Request
	from     *upstream.Response // whose headers the plugin may read

	// Methods of what is above, made once.
	alias  func(name []byte) []byte
	header func(name []byte) []byte
}

func newWork() *work {
	w := new(work)
	w.alias = w.attempt.Alias
	w.header = func(name []byte) []byte { return w.from.Header(string(name)) }
	return w
}

// errDeparted ends a wait whose client has gone.
var errDeparted = errors.New("the client closed the connection")

// complete serves POST /v1/chat/completions.
func (s *Server) complete(ctx *fasthttp.RequestCtx) {
	x := &completion{server: s, http11: ctx.Request.Header.IsHTTP11(), random: rand.Uint64()}
	s.record(ctx, &x.record, completions)
	x.looked = x.record.Began
	x.conn, _ = ctx.Conn().(*downstream.Conn)
	x.conn.StartRequest(x)
	x.watcher.Watch(x.conn, x)
	x.writer, x.work = s.writer(), s.work()
	under := false // somebody else finishes it: the answer is under way
	defer func() {
		x.releaseRequest(ctx)
		switch {
		case !under:
			x.finish()
		case x.stream:
			x.conn.TakeOver()
			ctx.HijackSetNoResponse(true)
			ctx.Hijack(downstream.TakeBuffered)
		}
	}()
	defer rescue.Recover(func(p *rescue.Error) {
		s.refusePanic(ctx, &x.record, p)
		under = false
	})

	if x.gen = s.acquire(); x.gen == nil {
		s.refuse(ctx, &x.record, s.shutdownError())
		return
	}
	targets, e := x.accept(ctx)
	if e == nil {
		e = x.answer(&x.watcher, targets)
	}
	under = x.respond(ctx, e)
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
		case err == io.EOF && x.conn.InputEnded():
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
	x.departed = x.conn.Disconnected() // a client that has only closed its sending side reads the error
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

// admit lets the request in under its key's limits. What it uses of them settles finish.
func (x *completion) admit() (e *apierror.Error) {
	r := x.request
	answer := min(cmp.Or(r.MaxTokens, x.model.DefaultMaxTokens, assumedAnswer), maxAssumed)
	x.admitted = x.server.now()
	x.admission, e = x.key.Admit(promptEstimate(r), int64(r.N)*answer, x.admitted)
	return e
}

// promptEstimate is how many tokens a request's prompt is taken for.
func promptEstimate(r *openai.Request) int64 { return int64(r.TextBytes+3) / 4 }

// What an answer is taken for, in tokens, until it is there: what its request says, up to a maximum, as most of those that
// allow for a long answer get a short one.
const (
	assumedAnswer = 1024
	maxAssumed    = 4096
)

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
	if !framing.IsJSON(declared) {
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

// appendSummary writes what a router is told of the request.
func (x *completion) appendSummary(dst []byte) []byte {
	s := &x.attempt.Summary
	s.Describe(x.request)
	s.RequestID, s.Time, s.Attempt, s.Random = x.record.RequestID, x.record.Began, 1, x.random
	s.Target = ""
	s.MaxTokens, s.DefaultMaxTokens = x.model.MaxTokens, x.model.DefaultMaxTokens
	return s.Append(dst)
}

// releaseRequest gives back what only the request needed. After the head of an answer nothing of the request is kept.
func (x *completion) releaseRequest(ctx *fasthttp.RequestCtx) {
	if x.request != nil {
		x.request.Reset()
		x.server.requests.Put(x.request)
		x.request = nil
		x.attempt.Release()
	}
	x.server.bodies.put(x.body)
	x.body = nil
	x.drop(&x.heldRequest)
	if x.stream {
		ctx.Request.ReleaseBody(0)
	}
}

// A gateway whose provider is a gateway may be its own provider, by a mistake in a configuration, and each request would
// make another one without end. So each gateway says how many gateways a request has passed.
const (
	hopsHeader = "x-sluice-hops"
	maxHops    = 5
)

// hopsOf is how many gateways a request has passed before this one, as far as it says so. A client that invents a number
// can only be refused sooner.
func hopsOf(h *fasthttp.RequestHeader) int {
	hops := 0
	for _, v := range h.PeekAll(hopsHeader) {
		if n, err := strconv.ParseUint(string(v), 10, 16); err == nil {
			hops = max(hops, int(n))
		}
	}
	return hops
}

// looped refuses a request that has passed too many gateways. Nobody on its way should try it again.
func looped(hops int) *apierror.Error {
	e := apierror.Invalid("loop_detected", "", "The request has passed %d gateways: one of them is its own provider.", hops)
	e.NoRetry = true
	return e
}

var hopTexts = [maxHops + 1]string{"0", "1", "2", "3", "4", "5"}
