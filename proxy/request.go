package proxy

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/admission"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/chunked"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/downstream"
	"github.com/sluice-gateway/sluice/proxy/internal/endpoint"
	"github.com/sluice-gateway/sluice/proxy/internal/estimate"
	"github.com/sluice-gateway/sluice/proxy/internal/failure"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/modellist"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/catalog"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

// completion is one completion in flight: a request in one of the client APIs, the attempts at its targets, and the response.
//
// It lives from the handler to the last byte of the response, on one goroutine. What only the request needs (request, and
// the body) is given back when the response's head is sent; the rest when finish ends it.
type completion struct {
	// What each event of a stream needs lies together: between two of them it has left the processor's caches.
	server       *Server
	conn         *downstream.Conn
	*attempt     // that is under way or has responded; from the start of the request
	own          attempt
	chunks       chunked.Writer
	api          *clientAPI
	stream       bool
	committed    bool // the head of a streamed response has been sent
	disconnected bool // the client is gone
	finished     bool
	checkedAt    time.Time // when the client was last checked
	writtenAt    time.Time // when the client was last sent something, once committed

	generation *generation
	record     telemetry.Record

	documents // until the head of the response is on its way

	// Of the request.
	model      *catalog.Model
	policy     *routing.Policy // of the model
	routed     *routed
	mirror     *mirror  // nil: no shadow gets a copy
	turns      []int    // the targets of the decision that have not been tried, in their order
	credential uint64   // a hash by which one of several credentials of a provider is chosen
	betas      []string // that a client of Messages has asked for
	tags       []string // that filters have set
	random     uint64
	hops       int // gateways that the request has passed before this one
	http11     bool

	explain  bool // the client is told how the request was routed
	probed   bool // the one probe that can be sent before the head has been sent
	bodyRead bool // the client's body has been read to its end
	watcher  downstream.Watcher

	presented []string // keys of the request, if any of its attempts may be recorded

	reservation admission.Reservation

	key        *access.Key     // nil until the client is known
	need       spend.Need      // of the request, until its response is there
	hold       spend.Hold      // of the key, the team and the model
	again      *spend.Hold     // of the same, for a hedge; nil: there was none
	failed     *failedCost     // of attempts whose response is not used; nil: there is none
	maxTokens  int64           // limit of each choice, where a budget bounds what the response costs
	spent      *apierror.Error // of the provider that was left out last, for its limits or budgets; nil: none was
	ledgerID   uint64          // of journalID; 0: it has none yet
	admittedAt time.Time
	finishedAt time.Time // when finish began
}

// documents are the client's request, as the attempts at it read it.
//
// Its documents are read by one goroutine at a time, which holds busy: an attempt that makes the provider's request, or the
// completion. The memory is given back by the last of its users, as a provider may be slow to take a request that another has
// responded to.
type documents struct {
	busy    sync.Mutex
	users   atomic.Int32 // the completion, and each attempt on a goroutine of its own
	request clientapi.Request
	lowered lowered
	body    []byte // from the server's buffers
	counted int64  // bytes of room that bodies take

	room *admission.Room // that counts them, and those of the response
}

// release gives the documents back, if no one else uses them.
func (d *documents) release(s *Server, a *clientAPI) {
	if d.users.Add(-1) > 0 {
		return
	}
	if d.request != nil {
		d.lowered.release(&s.apis[clientapi.Chat], &s.buffers)
		a.putRequest(d.request)
		d.request = nil
	}
	s.buffers.Put(d.body)
	d.body = nil
	d.room.Shrink(&d.counted)
}

// acquireWork gives x what attempts are made with, and has its waits check the client.
func (x *completion) acquireWork(client downstream.ClientChecker) {
	x.watcher.Watch(x.conn, client)
	x.attempt, x.own = &x.own, attempt{work: x.api.getWork(), of: x, wait: x}
	x.users.Store(1)
}

// accept checks all of the request that can be checked before a provider is asked, and finds its model.
func (x *completion) accept(ctx *fasthttp.RequestCtx, to endpoint.ID, rest []byte) *apierror.Error {
	s, h := x.server, &ctx.Request.Header
	a := x.generation.arrival(h, to, x.record.Began)
	a.Ctx, a.Record, a.Reservation = ctx, &x.record, &x.reservation
	key, e := s.admission.Admit(&a)
	x.key = key
	if e != nil {
		return e
	}
	x.hops = admission.Hops(h)
	x.explain = key.MayExplain() && string(h.Peek("x-gateway-explain")) == "1"
	if s.recorder != nil {
		x.presented = admission.PresentedKeys(h)
	}
	if x.api.id == clientapi.Messages {
		x.betas = endpoint.Betas(h, func(text []byte) bool { return x.generation.holdsSecret(h, text) })
	}
	if e := x.readBody(ctx); e != nil {
		return e
	}
	if e := x.readAddress(ctx, to, rest); e != nil {
		return e
	}
	facts, e := x.parseRequest(to)
	if e != nil {
		return e
	}
	x.stream = facts.Stream
	x.record.Stream = x.stream
	m, ok := x.generation.catalog.Model(context.Background(), facts.Model)
	if !ok || !key.Allows(facts.Model) {
		if ok {
			s.metrics.Refuse(telemetry.RefusedModel)
			s.metrics.RejectKey(key.Name(), telemetry.RejectedModel)
		}
		return x.generation.missingModel(&ctx.Request.Header, key, facts.Model, ok)
	}
	x.model, x.record.Model = m, m.ID
	if m.Kinds&x.api.kind == 0 {
		return modellist.WrongKind(m, x.api.kind)
	}
	if to.Service() != endpoint.TokenCount {
		if e := x.filterRequest(to, facts); e != nil {
			return e
		}
		facts = x.request.Describe()
	}
	if e := x.releaseBody(); e != nil {
		return e
	}
	if e := x.fitModel(); e != nil {
		return e
	}
	if x.stream && !x.http11 {
		return apierror.Invalid("http_version", "stream", "A streamed response needs HTTP/1.1; over HTTP/1.0, ask for a non-streaming one.")
	}
	if len(x.policy.Targets) == 0 {
		return modellist.NotFound(facts.Model)
	}
	if to.Service() == endpoint.TokenCount {
		return x.reserve(x.scopes())
	}
	return x.admitTokens(to)
}

// fitModel finds how requests of the model are routed, and makes this one fit the model.
func (x *completion) fitModel() *apierror.Error {
	x.policy = x.generation.policies.Of(x.model)
	if chat, ok := x.request.(*openai.Request); ok {
		x.body = x.restoreThinking(chat, x.body, 0)
	}
	return x.request.FitModel(x.model.MaxTokens, x.model.Thinking, x.server.admission.Limits().Strict)
}

// readAddress reads what the path says of the request, in an API where it does.
func (x *completion) readAddress(ctx *fasthttp.RequestCtx, to endpoint.ID, rest []byte) *apierror.Error {
	if x.api.id != clientapi.Gemini {
		return nil
	}
	if to.Streams() {
		if e := endpoint.CheckStream(ctx.QueryArgs()); e != nil {
			return e
		}
	}
	model, ok := endpoint.UnescapeModel(rest)
	if !ok {
		return modellist.NotFound(string(rest))
	}
	x.request = x.api.getRequest()
	x.request.(clientapi.AddressedRequest).Address(model, to.Streams())
	return nil
}

// parseRequest reads and checks the request.
func (x *completion) parseRequest(to endpoint.ID) (*clientapi.Facts, *apierror.Error) {
	if x.request == nil {
		x.request = x.api.getRequest()
	}
	parse := x.request.Parse
	if count, ok := x.request.(clientapi.CountRequest); ok && to.Service() == endpoint.TokenCount {
		parse = count.ParseCount
	}
	if e := parse(x.body, clientapi.Limits{}); e != nil {
		return nil, e
	}
	if stateful, ok := x.request.(clientapi.StatefulRequest); ok {
		if e := stateful.Expand(x.record.Key); e != nil {
			return nil, e
		}
	}
	return x.request.Describe(), nil
}

// filterRequest takes the request's texts through the filters that apply to it. What they change is changed in the client's own document,
// which is then read again.
func (x *completion) filterRequest(to endpoint.ID, facts *clientapi.Facts) *apierror.Error {
	if len(x.generation.filters) == 0 {
		return nil
	}
	x.chain.Begin(x.generation.filters, x.api.Name, facts.Model, x.model.Own, x.record.Key)
	if !x.chain.OnRequest() {
		return nil
	}
	s := x.server
	x.watcher.Start()
	input := append(x.AppendSummary([]byte(`{"summary":`)), '}')
	err := x.chain.Announce(&x.watcher, addKey(input, x.record.Key))
	body, changed := s.buffers.Get(len(x.body)), false
	if err == nil {
		body, changed, err = x.chain.Request(&x.watcher, x.api.Name, x.body, body)
	}
	if gone := x.watcher.Finish(); gone != nil {
		err = gone
	}
	x.tags = x.chain.AppendTags(nil)
	if err != nil || !changed {
		s.buffers.Put(body)
		if err != nil {
			return failure.ForClient(err)
		}
		return nil
	}
	old := x.body
	defer s.buffers.Put(old)
	x.body = body
	if e := x.room.Grow(&x.counted, len(old)+len(body)); e != nil {
		return e
	}
	_, e := x.parseRequest(to)
	return e
}

// addKey adds the name of the client key to the summary that a filter gets, which ends the document.
func addKey(input []byte, key string) []byte {
	input = append(input[:len(input)-len("}}")], `,"key":"`...)
	return append(jsondoc.AppendEscaped(input, []byte(key)), `"}}`...)
}

// releaseBody gives back the client's body where the request has become another document.
func (x *completion) releaseBody() *apierror.Error {
	chat, ok := x.request.(*openai.Request)
	if !ok || !chat.Rewritten() {
		return nil
	}
	x.server.buffers.Put(x.body)
	x.body = nil
	if e := x.room.Grow(&x.counted, len(chat.Body)); e != nil {
		return e
	}
	return nil
}

// restoreThinking puts back into a chat completions request the signed reasoning of earlier responses that the client has not kept.
// body is the buffer that has the request, and held how many bytes count besides it; the result is the buffer that has it then.
// Where there is no room for it, the request goes on as it came: its provider may do without.
func (x *completion) restoreThinking(r *openai.Request, body []byte, held int) []byte {
	s := x.server
	if !r.Flags.Has(clientapi.FlagToolHistory) || r.FunctionCalls {
		return body // a function_call has no id
	}
	usable := func(provider string) bool {
		return slices.ContainsFunc(x.policy.Targets, func(t routing.Target) bool { return t.Provider == provider })
	}
	limit := int(s.admission.Limits().MaxBody)
	restored, changed := s.thinking.Restore(s.buffers.Get(len(r.Body)), &r.Doc, x.record.Key, usable, limit)
	if !changed || x.room.Grow(&x.counted, held+len(restored)) != nil || r.Replace(restored, clientapi.Limits{}.Lowered()) != nil {
		s.buffers.Put(restored)
		return body
	}
	s.buffers.Put(body)
	return restored
}

// admitTokens lets the request in under the limits and budgets of its key, team and model. Where a budget is strict, the response has a
// limit of tokens, which is lowered to what the budget allows.
func (x *completion) admitTokens(to endpoint.ID) *apierror.Error {
	r, n, scopes := x.request.Describe(), &x.need, x.scopes()
	*n = estimate.Rates(r, x.model.DefaultMaxTokens)
	strict := scopes.Strict() || x.generation.accounts.Strict(spend.Provider)
	if !strict && !scopes.Budgeted() {
		return x.reserve(scopes)
	}
	n.MaxTokens = estimate.MaxTokens(x.request, x.api.Limit, x.model.MaxTokens, x.model.DefaultMaxTokens)
	prompt := estimate.Prompt(x.request)
	for i := range x.policy.Targets {
		estimate.AddTarget(n, x.request, &prompt, &x.policy.Targets[i], x.model.MaxImageTokens)
	}
	x.maxTokens = n.MaxTokens
	if e := x.reserve(scopes); e != nil {
		return e
	}
	if !strict || n.MaxTokens == 0 {
		return nil
	}
	if r.MaxTokens == 0 {
		if e := x.insertLimit(to, n.MaxTokens); e != nil {
			return e
		}
	}
	if lowered := x.hold.Lowered(); lowered > 0 {
		x.maxTokens = lowered
		return x.request.FitModel(lowered, x.model.Thinking, false)
	}
	return nil
}

// readBody reads the client's body into x.body. Room for it is reserved before a byte of it is read, or where it comes in
// chunks, before memory for the next ones is allocated.
func (x *completion) readBody(ctx *fasthttp.RequestCtx) *apierror.Error {
	s := x.server
	limit := int(s.admission.Limits().MaxBody)
	length := ctx.Request.Header.ContentLength()
	if length > limit {
		return s.admission.TooLarge()
	}
	body := ctx.RequestBodyStream()
	if body == nil || length == 0 {
		x.bodyRead = true
		return nil
	}
	x.body = s.buffers.Get(max(length, 0))
	if length > 0 {
		if e := x.room.Grow(&x.counted, length); e != nil {
			return e
		}
		x.body = slices.Grow(x.body, length)[:length]
		n, err := io.ReadFull(body, x.body)
		x.body = x.body[:n]
		return x.finishBody(err)
	}
	// What is read beyond the data is fasthttp's buffer, and the line of each chunk without its extension.
	x.conn.LimitInput(int64(limit) + 1 + readBuffer)
	for {
		x.conn.ExtendInput(chunked.MaxOverhead)
		if size := cap(x.body); len(x.body) == size {
			if e := x.room.Grow(&x.counted, 2*size); e != nil {
				return e
			}
			x.body = slices.Grow(x.body, size)
		}
		// Reading one byte more than the limit shows that a body is too long.
		n, err := body.Read(x.body[len(x.body):min(cap(x.body), limit+1)])
		x.body = x.body[:len(x.body)+n]
		switch {
		case len(x.body) > limit:
			return s.admission.TooLarge()
		case err == io.EOF && x.conn.InputEnded():
			// fasthttp takes the end of the connection for the end of the chunks.
			return x.finishBody(io.ErrUnexpectedEOF)
		case err == io.EOF:
			return x.finishBody(nil)
		case err != nil && x.conn.InputLimitReached():
			return s.admission.TooLarge()
		case err != nil:
			return x.finishBody(err)
		}
	}
}

// finishBody returns what the end of reading the body means.
func (x *completion) finishBody(err error) *apierror.Error {
	if err == nil {
		x.bodyRead = true
		return nil
	}
	x.disconnected = x.conn.Disconnected() // a client that has only closed its sending side reads the error
	return readError(x.server, err)
}

// readError is the client's view of an error in reading a request.
func readError(s *Server, err error) *apierror.Error {
	var small *fasthttp.ErrSmallBuffer
	var network net.Error
	e := apierror.Invalid("bad_request", "", "The request is not well-formed HTTP.")
	switch {
	case s.cut.Load():
		e = failure.Shutdown()
	case errors.As(err, &small):
		e.Status, e.Code, e.Message = 431, "request_header_too_large", "The request's header is larger than "+strconv.Itoa(readBuffer>>10)+" KiB."
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		e = s.admission.TooLarge()
	case errors.As(err, &network) && network.Timeout():
		e.Status, e.Code, e.Message = 408, "request_timeout", "The request did not arrive in time."
	}
	e.Cause, e.CloseClient = failure.Unquoted(err), true
	return e
}

// leavesBodyUnread reports whether so much of the client's body is unread that it is not worth reading for the sake of the
// connection.
func (x *completion) leavesBodyUnread(ctx *fasthttp.RequestCtx) bool {
	length := ctx.Request.Header.ContentLength()
	return !x.bodyRead && (length < 0 || length > endpoint.SmallBody)
}

// orderTargets decides in which order the targets are tried.
func (x *completion) orderTargets(ctx context.Context, head *fasthttp.RequestHeader, now time.Time) error {
	x.describeRouting(head)
	x.watcher.Start()
	err := x.policy.Decide(ctx, &x.routed.request, now, &x.routed.decision)
	if gone := x.watcher.Finish(); gone != nil {
		return gone
	}
	d, s := &x.routed.decision, x.server
	// What a provider caches belongs to an account: one conversation, or one client, prefers one credential.
	switch {
	case d.Affinity.Known:
		x.credential = d.Affinity.Sum
	case x.key == access.Anonymous():
		x.credential = access.Hash(x.record.Remote)
	default:
		x.credential = x.key.Hash()
	}
	x.record.Rule = d.Rule()
	if d.Router != routing.RouterNotAsked {
		s.metrics.Route(routerChoices[d.Router])
	}
	if err != nil {
		return failure.Routing(err)
	}
	if d.Err != nil {
		// An open circuit was logged when it opened.
		if e, ok := errors.AsType[*plugin.CallError](d.Err); !ok || e.Kind != plugin.KindOpen {
			s.log.Warn("router failed; using the configured order", "request", x.record.RequestID, "model", x.record.Model, "plugin", d.Plugin(), "error", d.Err)
		}
	}
	if s.log.Enabled(ctx, slog.LevelDebug) {
		s.log.Debug("routed", "request", x.record.RequestID, "model", x.record.Model, "decision", string(d.AppendLine(nil)))
	}
	return nil
}

var routerChoices = [...]telemetry.RouterChoice{
	routing.RouterOrdered: telemetry.RouterOrdered, routing.RouterNamedNone: telemetry.RouterNamedNone,
	routing.RouterFailed: telemetry.RouterFailed, routing.RouterRejected: telemetry.RouterRejected,
}

// describeRouting describes the request for the decision where it goes.
func (x *completion) describeRouting(head *fasthttp.RequestHeader) {
	x.routed = x.server.routings.get()
	facts, r := x.request.Describe(), &x.routed.request
	*r = routing.Request{
		Key: x.record.Key, Team: x.key.Team(), KeyTags: x.key.Tags(), API: x.api.Name,
		Stream: x.stream, Thinking: facts.Flags&(clientapi.FlagThinking|clientapi.FlagReasoning) != 0,
		Tools: facts.Tools, Images: facts.Images, Messages: facts.Messages, PromptTokens: estimate.PromptTokens(facts), MaxTokens: facts.MaxTokens,
		Random: x.random, Summary: x,
	}
	doc, _ := x.request.Document()
	if stateful, ok := x.request.(clientapi.StatefulRequest); ok {
		doc = stateful.Expanded()
		if previous := stateful.Previous(); previous != "" && x.server.responses != nil {
			r.Previous = x.server.responses.Target(x.record.Key, previous)
		}
	}
	client := x.record.Key
	if x.key == access.Anonymous() {
		client = x.record.Remote
	}
	r.Identity = routing.Identity{Salt: x.generation.salt, Header: head, Doc: doc, Client: client}
}

// AppendSummary appends what a router learns about the request. It implements routing.Summary.
func (x *completion) AppendSummary(dst []byte) []byte {
	s := &x.translation.Summary
	_, body := x.request.Document()
	s.Describe(x.request.Describe(), len(body))
	s.RequestID, s.Time, s.Attempt, s.Random = x.record.RequestID, x.record.Began, 1, x.random
	s.Target, s.Form, s.ClientForm, s.Betas, s.Tags = "", x.api.Name, x.api.Name, x.betas, x.tags
	s.MaxTokens, s.DefaultMaxTokens = x.model.MaxTokens, x.model.DefaultMaxTokens
	return s.Append(dst)
}

// releaseRequest gives back what only the request needed, before the response's head is sent.
func (x *completion) releaseRequest(ctx *fasthttp.RequestCtx) {
	if x.request != nil {
		x.betas = nil
		x.translation.Release()
	}
	if x.routed != nil {
		x.server.routings.put(x.routed)
		x.routed = nil
	}
	x.released = true
	x.documents.release(x.server, x.api)
	if x.stream {
		ctx.Request.ReleaseBody(0)
	}
}
