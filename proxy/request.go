package proxy

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/admission"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/chunked"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/downstream"
	"github.com/sluice-gateway/sluice/proxy/internal/endpoint"
	"github.com/sluice-gateway/sluice/proxy/internal/estimate"
	"github.com/sluice-gateway/sluice/proxy/internal/failure"
	"github.com/sluice-gateway/sluice/proxy/internal/filter"
	"github.com/sluice-gateway/sluice/proxy/internal/holds"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/modellist"
	"github.com/sluice-gateway/sluice/proxy/internal/ownership"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/catalog"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

// completion is one request to a client API in flight: what was asked (exchange and documents), the attempts at its
// targets, what it holds, and what the client receives (delivery).
//
// It lives from the handler to the last byte of the response, on one goroutine. releaseRequest frees what only the
// request needs, such as the parsed request and the body, before the response's head is sent; finish releases the rest.
type completion struct {
	// Fields used for each event of a stream are first, because they have left the processor's caches between two events.
	server       *Server
	generation   *generation
	delivery             // to the client
	*attempt             // the current attempt, or the one that has responded; never nil
	firstAttempt attempt // avoids an allocation
	exchange             // what was asked
	documents            // released before the response's head is sent
	record       telemetry.Record
	firstTry     [1]telemetry.Attempt // memory for record.Tries; avoids an allocation
	holds        holds.Holds
	routed       *routed // the routing decision; nil before it is made and after releaseRequest
	mirror       *mirror // sends copies to shadow targets; nil if there are none
	remaining    []int   // indexes of targets that have not been tried yet, in order
	finished     bool
}

// exchange is what a client has asked for, except for the documents, which are released earlier. It does not change once
// the request is routed.
type exchange struct {
	api           *clientAPI
	configuration configuration
	stream        bool
	http11        bool
	explain       bool        // the response describes the routing decision in x-gateway-route
	hops          int         // gateways that the request has passed through before this one
	random        uint64      // decides whatever is decided at random
	key           *access.Key // nil until the client is known
	user          access.User // the person behind the key; nobody if the key does not tell them apart
	model         *catalog.Model
	policy        *routing.Policy     // the model's
	budget        routing.BudgetShare // for a policy that reads it
	credential    uint64              // hash that selects one of a provider's credentials
	betas         []string            // beta features that a client of the Messages API requests
	tags          []string            // set by filters
	presented     []string            // keys in the request's head, to be redacted from recordings
	requestID     string
	began         time.Time
	span          telemetry.SpanContext
	references    ownership.References

	traceparent string // the client's trace context, if it is continued; else ""
	tracestate  string
}

// configuration is the loaded configuration that an exchange is served with. It stays open while it is referenced.
type configuration interface {
	// acquire takes a reference, which release gives back. It returns false if the last one has been given back.
	acquire() bool
	release()

	// newFileRedactor returns a function that removes secrets from text, also the keys presented.
	newFileRedactor(presented []string) func([]byte) []byte
}

// acquireWorkspace sets up the first attempt with a workspace, and makes waits of the completion check client.
func (x *completion) acquireWorkspace(client downstream.ClientChecker) {
	x.watcher.Watch(x.conn, client)
	x.record.Tries = x.firstTry[:0]
	x.attempt, x.firstAttempt = &x.firstAttempt, attempt{workspace: x.api.getWorkspace(), services: &x.server.services, exchange: &x.exchange, documents: &x.documents, wait: x}
	x.users.Store(1)
}

// accept admits the request, reads and parses it, finds its model, applies filters, and reserves its limits and
// budgets: everything that happens before a provider is involved.
func (x *completion) accept(ctx *fasthttp.RequestCtx, to endpoint.ID, rest []byte) *apierror.Error {
	s, h := x.server, &ctx.Request.Header
	a := x.generation.arrival(h, to, x.record.Began)
	a.Ctx, a.Record, a.Reservation, a.Waiter = ctx, &x.record, &x.holds.Reservation, x
	key, e := s.admission.Admit(&a)
	x.key = key
	if e != nil {
		return e
	}
	startTrace(x, h)
	s.account.Recent.Start(&x.record)
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
	if e := x.readPath(ctx, to, rest); e != nil {
		return e
	}
	facts, e := x.parseRequest(to)
	if e != nil {
		return e
	}
	x.stream = facts.Stream
	x.record.Stream = x.stream
	if e := x.findUser(h); e != nil {
		return e
	}
	m, ok := x.generation.catalog.Model(context.Background(), facts.Model)
	if !ok || !key.Allows(facts.Model) {
		if ok {
			s.metrics.Refuse(telemetry.RefusedModel)
			s.metrics.RejectKey(key.Series(), telemetry.RejectedModel)
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
	x.holds.Open(s.newJournalID(), x.generation.accounts, key, x.user, m, s.now())
	if x.record.User = x.user.Name; x.holds.User().IsOther() {
		x.record.User = spend.OtherUsers
	}
	if e := x.holds.CheckTargets(x.policy.Targets); e != nil {
		return x.countLimit(e)
	}
	if to.Service() == endpoint.TokenCount {
		return x.countLimit(x.holds.Reserve(s.now()))
	}
	return x.admitTokens(to, h)
}

// findUser finds the person behind the key, if the key tells them apart.
func (x *completion) findUser(head *fasthttp.RequestHeader) (e *apierror.Error) {
	if x.key.Users() != nil {
		doc, _ := x.request.Document()
		x.user, e = x.key.FindUser(head, doc, x.generation.config.Router.Salt)
	}
	return e
}

// fitModel sets the model's routing policy, and adapts the request to the model.
func (x *completion) fitModel() *apierror.Error {
	x.policy = x.generation.policies.Of(x.model)
	if r, ok := x.request.(clientapi.RewritableRequest); ok {
		x.body = x.documents.restoreThinking(&x.server.services, &x.exchange, r, x.body, 0)
	}
	return x.request.FitModel(x.model.MaxTokens, x.model.Thinking, x.server.admission.Limits().Strict)
}

// readPath reads the model, and whether to stream, from the path if the API puts them there.
func (x *completion) readPath(ctx *fasthttp.RequestCtx, to endpoint.ID, rest []byte) *apierror.Error {
	if x.api.id != clientapi.Gemini {
		return x.translateBody(rest)
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

// translateBody translates the body into the form that the API's requests are parsed in. For APIs that have no other form,
// it sets the member model to the model in the path, if the path has one: clients of such paths may leave out the member,
// and their provider ignores it.
func (x *completion) translateBody(rest []byte) *apierror.Error {
	translate := x.api.Translate
	switch {
	case translate != nil:
	case len(rest) > 0:
		translate = clientapi.AppendWithModel
	default:
		return nil
	}
	model, ok := endpoint.UnescapeModel(rest)
	if !ok {
		return modellist.NotFound(string(rest))
	}
	old := x.body
	body, e := translate(x.server.buffers.Get(len(old)), old, model)
	x.body = body
	x.server.buffers.Put(old)
	if e != nil {
		return e
	}
	if e := x.limiter.Grow(&x.counted, len(old)+len(body)); e != nil {
		return e
	}
	return nil
}

// parseRequest parses and validates the body.
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

// filterRequest runs the filters that apply to the request on its texts. If they change anything, the client's document
// is rewritten and parsed again.
func (x *completion) filterRequest(to endpoint.ID, facts *clientapi.Facts) *apierror.Error {
	if len(x.generation.filters) == 0 {
		return nil
	}
	x.chain.Begin(x.generation.filters, x.api.Name, facts.Model, x.model.Own, x.record.Key)
	s := x.server
	if p := s.recorder.Plugin(); p != "" {
		x.chain.Record(&filter.Recorder{Plugin: p, Text: x.recordText})
	}
	if !x.chain.OnRequest() {
		return nil
	}
	doc, text := x.request.Document()
	if len(text) != len(x.body) || &text[0] != &x.body[0] { // the gateway's seals have been removed from it
		doc = new(jsondoc.Doc)
		if err := doc.Parse(x.body, jsondoc.Limits{}); err != nil {
			return failure.ForClient(err)
		}
	}
	x.watcher.Start()
	var err error
	if x.chain.ReadsRequest() {
		input := append(x.AppendSummary([]byte(`{"summary":`)), '}')
		err = x.chain.Announce(&x.watcher, addKey(input, x.record.Key))
	}
	changed := false
	if err == nil {
		changed, err = x.chain.Request(&x.watcher, x.api.Name, doc)
	}
	if gone := x.watcher.Finish(); gone != nil {
		err = gone
	}
	x.tags = x.chain.AppendTags(nil)
	if err != nil {
		return failure.ForClient(err)
	}
	if !changed {
		return nil
	}
	body, err := x.chain.AppendRequest(s.buffers.Get(len(x.body)))
	if err != nil {
		s.buffers.Put(body)
		return failure.ForClient(err)
	}
	old := x.body
	defer s.buffers.Put(old)
	x.body = body
	if e := x.limiter.Grow(&x.counted, len(old)+len(body)); e != nil {
		return e
	}
	_, e := x.parseRequest(to)
	return e
}

// releaseBody frees the client's body if the request has been rewritten into another document.
func (x *completion) releaseBody() *apierror.Error {
	r, ok := x.request.(clientapi.RewritableRequest)
	if !ok || !r.Rewritten() {
		return nil
	}
	x.server.buffers.Put(x.body)
	x.body = nil
	_, body := r.Document()
	return x.limiter.Grow(&x.counted, len(body))
}

// admitTokens reserves the limits and budgets of the request's key, team and model. Under a strict budget, the response
// has a token limit, which is lowered to what the budget allows.
func (x *completion) admitTokens(to endpoint.ID, head *fasthttp.RequestHeader) *apierror.Error {
	targets, now := x.policy.Targets, x.server.now()
	if x.policy.ReadsBudget {
		// Only what conditions leave must fit the budgets, so that a budget which is almost spent leads to a cheaper target.
		x.budget = x.holds.BudgetLeft(now)
		x.describeRouting(head)
		if left := x.policy.Candidates(&x.routed.request, now); len(left) > 0 {
			targets = left
		}
		x.server.routings.put(x.routed)
		x.routed = nil
	}
	x.holds.Estimate(x.request, x.api.Limit, targets)
	if e := x.holds.Reserve(now); e != nil {
		return x.countLimit(e)
	}
	if limit := x.holds.MaxTokens(); limit > 0 && x.request.Describe().MaxTokens == 0 {
		if e := x.insertLimit(to, limit); e != nil {
			return e
		}
	}
	if lowered := x.holds.Lowered(); lowered > 0 {
		return x.request.FitModel(lowered, x.model.Thinking, false)
	}
	return nil
}

// insertLimit inserts a token limit into the client's document, which has none, and parses the document again.
func (x *completion) insertLimit(to endpoint.ID, tokens int64) *apierror.Error {
	s, warnings := x.server, slices.Clone(x.request.Describe().Warnings)
	rewritable, ok := x.request.(clientapi.RewritableRequest)
	old, own := x.body, x.body
	if ok {
		_, own = rewritable.Document()
	}
	body, err := estimate.AppendWithLimit(s.buffers.Get(len(own)+64), own, x.api.Limit, tokens)
	if err != nil {
		s.buffers.Put(body)
		return failure.Internal(err)
	}
	x.body = body
	if e := x.limiter.Grow(&x.counted, len(old)+len(body)); e != nil {
		s.buffers.Put(old)
		return e
	}
	var e *apierror.Error
	if ok {
		e = rewritable.Replace(body, clientapi.Limits{}.Lowered())
	} else {
		_, e = x.parseRequest(to)
	}
	s.buffers.Put(old)
	if e != nil {
		return e
	}
	r := x.request.Describe()
	for _, w := range warnings {
		r.Warn(w.Kind, w.Member)
	}
	return x.request.FitModel(x.model.MaxTokens, x.model.Thinking, false)
}

// readBody reads the client's body into x.body. It reserves memory before it reads anything or, for a chunked body,
// before it allocates memory for the next chunks.
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
		if e := x.limiter.Grow(&x.counted, length); e != nil {
			return e
		}
		x.body = slices.Grow(x.body, length)[:length]
		n, err := io.ReadFull(body, x.body)
		x.body = x.body[:n]
		return x.finishBody(err)
	}
	// The input also contains what fasthttp reads ahead, and the line of each chunk without its extension.
	x.conn.LimitInput(int64(limit) + 1 + readBuffer)
	for {
		x.conn.ExtendInput(chunked.MaxOverhead)
		if size := cap(x.body); len(x.body) == size {
			if e := x.limiter.Grow(&x.counted, 2*size); e != nil {
				return e
			}
			x.body = slices.Grow(x.body, size)
		}
		// Reading one byte beyond the limit detects a body that is too long.
		n, err := body.Read(x.body[len(x.body):min(cap(x.body), limit+1)])
		x.body = x.body[:len(x.body)+n]
		switch {
		case len(x.body) > limit:
			return s.admission.TooLarge()
		case err == io.EOF && x.conn.InputEnded():
			// fasthttp mistakes the end of the connection for the end of the chunks.
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

// finishBody records the outcome of reading the body, and converts its error for the client.
func (x *completion) finishBody(err error) *apierror.Error {
	if err == nil {
		x.bodyRead = true
		return nil
	}
	x.disconnected = x.conn.Disconnected() // a client that has only closed its sending side still reads the error
	return readError(x.server, err)
}

// leavesBodyUnread reports whether too much of the client's body is unread for the connection to be worth keeping.
func (d *delivery) leavesBodyUnread(ctx *fasthttp.RequestCtx) bool {
	length := ctx.Request.Header.ContentLength()
	return !d.bodyRead && (length < 0 || length > endpoint.SmallBody)
}

// findReferences finds what the request refers to that a provider stores. It fails if the client has not made it.
func (x *completion) findReferences() *apierror.Error {
	x.references.Find(x.request, x.api.API, x.api.id)
	x.watcher.Start()
	e := x.references.LookUp(&x.watcher, x.server.owners, x.record.Key, x.request, x.generation.storesAtProviders())
	if gone := x.watcher.Finish(); gone != nil {
		return failure.ForClient(gone)
	}
	return checkBackground(x, e)
}

// recordOrigin records where the response is if its provider stores it. It is called before the client learns the
// response's ID.
func (x *completion) recordOrigin() {
	if x.passthrough {
		x.references.Record(x.server.owners, x.record.Key, x.writer.ID(), x.reader, ownership.Origin{Provider: x.provider.id, Account: uint64(x.account)})
	}
}

// orderTargets decides the order in which the targets are tried.
func (x *completion) orderTargets(ctx context.Context, head *fasthttp.RequestHeader, now time.Time) error {
	x.describeRouting(head)
	x.watcher.Start()
	err := x.policy.Decide(ctx, &x.routed.request, now, &x.routed.decision)
	if gone := x.watcher.Finish(); gone != nil {
		return gone
	}
	d, s := &x.routed.decision, x.server
	// Providers cache prompts per account, so requests of one conversation or one client prefer the same credential.
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
		// The opening of a circuit has been logged already.
		if e, ok := errors.AsType[*plugin.CallError](d.Err); !ok || e.Kind != plugin.KindOpen {
			s.log.Warn("router failed; using the configured order", "request", x.record.RequestID, "model", x.record.Model, "plugin", d.Plugin(), "error", d.Err)
		}
	}
	if s.log.Enabled(ctx, slog.LevelDebug) {
		s.log.Debug("routed", "request", x.record.RequestID, "model", x.record.Model, "decision", string(d.AppendLine(nil)))
	}
	return nil
}

// describeRouting prepares the routing decision: it describes the request for the policy.
func (x *completion) describeRouting(head *fasthttp.RequestHeader) {
	x.routed = x.server.routings.get()
	facts, r := x.request.Describe(), &x.routed.request
	*r = routing.Request{
		Key: x.record.Key, Team: x.key.Team(), KeyTags: x.key.Tags(), Claims: x.key.Claims(), Budget: x.budget, API: x.api.Name,
		Stream: x.stream, Thinking: facts.Flags&(clientapi.FlagThinking|clientapi.FlagReasoning) != 0,
		Tools: facts.Tools, Images: facts.Images, Messages: facts.Messages, PromptTokens: estimate.PromptTokens(facts), MaxTokens: facts.MaxTokens,
		Random: x.random, Summary: x,
	}
	doc, body := x.request.Document()
	r.IncludeUsage, r.Flags, r.Size = facts.IncludeUsage, facts.Flags, len(body)
	if p := x.server.recorder.Plugin(); p != "" {
		r.Recorder = &routing.Recorder{Plugin: p, Input: x.recordRouting}
	}
	if stateful, ok := x.request.(clientapi.StatefulRequest); ok {
		doc = stateful.Expanded()
	}
	if x.references.Previous.Exists() {
		for i := range x.policy.Targets {
			if t := &x.policy.Targets[i]; ownership.ProviderID(t.Provider) == x.references.Origin.Provider {
				r.Previous = t.Provider
			}
		}
	}
	client := x.record.Key
	if x.key == access.Anonymous() {
		client = x.record.Remote
	}
	r.Explained = x.explain || x.server.log.Enabled(context.Background(), slog.LevelDebug)
	r.Identity = routing.Identity{Salt: x.generation.salt, Header: head, Doc: doc, Client: client}
}

// AppendSummary appends the summary of the request that a router receives. It implements routing.Summary.
func (x *completion) AppendSummary(dst []byte) []byte {
	s := &x.translation.Summary
	_, body := x.request.Document()
	s.Describe(x.request.Describe(), len(body))
	s.RequestID, s.Time, s.Attempt, s.Random = x.record.RequestID, x.record.Began, 1, x.random
	s.Target, s.Form, s.ClientForm, s.Betas, s.Tags = "", x.api.Name, x.api.Name, x.betas, x.tags
	s.MaxTokens, s.DefaultMaxTokens = x.model.MaxTokens, x.model.DefaultMaxTokens
	return s.Append(dst)
}

// ExpectedCost returns what the request probably costs at a target. It implements routing.Summary.
func (x *completion) ExpectedCost(t *routing.Target, cachedShare float64) cost.Nano {
	return estimate.Cost(x.request, t, cachedShare, x.model.DefaultMaxTokens)
}

// releaseRequest frees what only the request needs, before the response's head is sent.
func (x *completion) releaseRequest(ctx *fasthttp.RequestCtx) {
	if x.request != nil {
		x.betas = nil
		x.translation.Release()
	}
	if x.routed != nil {
		x.server.account.Recent.Routed(&x.record, &x.routed.decision)
		x.server.routings.put(x.routed)
		x.routed = nil
	}
	x.released = true
	x.documents.release(&x.server.services, x.api)
	if x.stream {
		ctx.Request.ReleaseBody(0)
	}
}
