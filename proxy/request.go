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
	"github.com/sluice-gateway/sluice/proxy/internal/delivery"
	"github.com/sluice-gateway/sluice/proxy/internal/downstream"
	"github.com/sluice-gateway/sluice/proxy/internal/endpoint"
	"github.com/sluice-gateway/sluice/proxy/internal/estimate"
	"github.com/sluice-gateway/sluice/proxy/internal/exchange"
	"github.com/sluice-gateway/sluice/proxy/internal/failure"
	"github.com/sluice-gateway/sluice/proxy/internal/filter"
	"github.com/sluice-gateway/sluice/proxy/internal/holds"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/modellist"
	"github.com/sluice-gateway/sluice/proxy/internal/ownership"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
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
	server             *Server
	generation         *generation
	delivery.Delivery                   // to the client
	*exchange.Attempt                   // the current attempt, or the one that has responded; never nil
	firstAttempt       exchange.Attempt // avoids an allocation
	exchange.Exchange                   // what was asked
	exchange.Documents                  // released before the response's head is sent
	record             telemetry.Record
	firstTry           [1]telemetry.Attempt // memory for record.Tries; avoids an allocation
	holds              holds.Holds
	routed             *routed // the routing decision; nil before it is made and after releaseRequest
	mirror             *mirror // sends copies to shadow targets; nil if there are none
	remaining          []int   // indexes of targets that have not been tried yet, in order
	finished           bool
}

// acquireWorkspace sets up the first attempt with a workspace, and makes waits of the completion check client.
func (x *completion) acquireWorkspace(client downstream.ClientChecker) {
	x.Watcher.Watch(x.Conn, client)
	x.record.Tries = x.firstTry[:0]
	x.Attempt, x.firstAttempt = &x.firstAttempt, exchange.Attempt{Workspace: x.API.GetWorkspace(), Services: &x.server.Services, Exchange: &x.Exchange, Documents: &x.Documents, Wait: x}
	x.Users.Store(1)
}

// accept admits the request, reads and parses it, finds its model, applies filters, and reserves its limits and
// budgets: everything that happens before a provider is involved.
func (x *completion) accept(ctx *fasthttp.RequestCtx, to endpoint.ID, rest []byte) *apierror.Error {
	s, h := x.server, &ctx.Request.Header
	a := x.generation.arrival(h, to, x.record.Began)
	a.Ctx, a.Record, a.Reservation, a.Waiter = ctx, &x.record, &x.holds.Reservation, x
	key, e := s.Admission.Admit(&a)
	x.Key = key
	if e != nil {
		return e
	}
	startTrace(x, h)
	s.account.Recent.Start(&x.record)
	x.Hops = admission.Hops(h)
	x.Explain = key.MayExplain() && string(h.Peek("x-gateway-explain")) == "1"
	if s.Recorder != nil {
		x.Presented = admission.PresentedKeys(h)
	}
	if x.API.ID == clientapi.Messages {
		x.Betas = endpoint.Betas(h, func(text []byte) bool { return x.generation.holdsSecret(h, text) })
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
	x.Stream = facts.Stream
	x.record.Stream = x.Stream
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
	x.Model, x.record.Model = m, m.ID
	if x.Key, e = x.generation.authorizeRequest(&x.record, key, &x.User, s.Now()); e != nil {
		return e
	}
	if m.Kinds&x.API.Kind == 0 {
		return modellist.WrongKind(m, x.API.Kind)
	}
	if to.Service() != endpoint.TokenCount {
		if e := x.filterRequest(to, facts); e != nil {
			return e
		}
		facts = x.Request.Describe()
	}
	if e := x.releaseBody(); e != nil {
		return e
	}
	if e := x.fitModel(); e != nil {
		return e
	}
	if x.Stream && !x.HTTP11 {
		return apierror.Invalid("http_version", "stream", "A streamed response needs HTTP/1.1; over HTTP/1.0, ask for a non-streaming one.")
	}
	if len(x.Policy.Targets) == 0 {
		return modellist.NotFound(facts.Model)
	}
	x.holds.Open(s.newJournalID(), x.generation.accounts, x.Key, x.User, m, s.Now())
	if x.record.User = x.User.Name; x.holds.User().IsOther() {
		x.record.User = spend.OtherUsers
	}
	if e := x.holds.CheckTargets(x.Policy.Targets); e != nil {
		return x.countLimit(e)
	}
	if to.Service() == endpoint.TokenCount {
		return x.countLimit(x.holds.Reserve(s.Now()))
	}
	return x.admitTokens(to, h)
}

// findUser finds the person behind the key, if the key tells them apart.
func (x *completion) findUser(head *fasthttp.RequestHeader) (e *apierror.Error) {
	if x.Key.Users() != nil {
		doc, _ := x.Request.Document()
		x.User, e = x.Key.FindUser(head, doc, x.generation.config.Router.Salt)
	}
	return e
}

// fitModel sets the model's routing policy, and adapts the request to the model.
func (x *completion) fitModel() *apierror.Error {
	x.Policy = x.generation.policies.Of(x.Model)
	if r, ok := x.Request.(clientapi.RewritableRequest); ok {
		x.Body = x.Documents.RestoreThinking(&x.server.Services, &x.Exchange, r, x.Body, 0)
	}
	return x.Request.FitModel(x.Model.MaxTokens, x.Model.Thinking, x.server.Admission.Limits().Strict)
}

// readPath reads the model, and whether to stream, from the path if the API puts them there.
func (x *completion) readPath(ctx *fasthttp.RequestCtx, to endpoint.ID, rest []byte) *apierror.Error {
	if x.API.ID != clientapi.Gemini {
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
	x.Request = x.API.GetRequest()
	x.Request.(clientapi.AddressedRequest).Address(model, to.Streams())
	return nil
}

// translateBody translates the body into the form that the API's requests are parsed in. For APIs that have no other form,
// it sets the member model to the model in the path, if the path has one: clients of such paths may leave out the member,
// and their provider ignores it.
func (x *completion) translateBody(rest []byte) *apierror.Error {
	translate := x.API.Translate
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
	old := x.Body
	body, e := translate(x.server.Buffers.Get(len(old)), old, model)
	x.Body = body
	x.server.Buffers.Put(old)
	if e != nil {
		return e
	}
	if e := x.Limiter.Grow(&x.Counted, len(old)+len(body)); e != nil {
		return e
	}
	return nil
}

// parseRequest parses and validates the body.
func (x *completion) parseRequest(to endpoint.ID) (*clientapi.Facts, *apierror.Error) {
	if x.Request == nil {
		x.Request = x.API.GetRequest()
	}
	parse := x.Request.Parse
	if count, ok := x.Request.(clientapi.CountRequest); ok && to.Service() == endpoint.TokenCount {
		parse = count.ParseCount
	}
	if e := parse(x.Body, clientapi.Limits{}); e != nil {
		return nil, e
	}
	if stateful, ok := x.Request.(clientapi.StatefulRequest); ok {
		if e := stateful.Expand(x.record.Key); e != nil {
			return nil, e
		}
	}
	return x.Request.Describe(), nil
}

// filterRequest runs the filters that apply to the request on its texts. If they change anything, the client's document
// is rewritten and parsed again.
func (x *completion) filterRequest(to endpoint.ID, facts *clientapi.Facts) *apierror.Error {
	if len(x.generation.filters) == 0 {
		return nil
	}
	x.Chain.Begin(x.generation.filters, x.API.Name, facts.Model, x.Model.Own, x.record.Key)
	s := x.server
	if p := s.Recorder.Plugin(); p != "" {
		x.Chain.Record(&filter.Recorder{Plugin: p, Text: x.recordText})
	}
	if !x.Chain.OnRequest() {
		return nil
	}
	doc, text := x.Request.Document()
	if len(text) != len(x.Body) || &text[0] != &x.Body[0] { // the gateway's seals have been removed from it
		doc = new(jsondoc.Doc)
		if err := doc.Parse(x.Body, jsondoc.Limits{}); err != nil {
			return failure.ForClient(err)
		}
	}
	x.Watcher.Start()
	var err error
	if x.Chain.ReadsRequest() {
		input := append(x.AppendSummary([]byte(`{"summary":`)), '}')
		err = x.Chain.Announce(&x.Watcher, addKey(input, x.record.Key))
	}
	changed := false
	if err == nil {
		changed, err = x.Chain.Request(&x.Watcher, x.API.Name, doc)
	}
	if gone := x.Watcher.Finish(); gone != nil {
		err = gone
	}
	x.Tags = x.Chain.AppendTags(nil)
	if err != nil {
		return failure.ForClient(err)
	}
	if !changed {
		return nil
	}
	body, err := x.Chain.AppendRequest(s.Buffers.Get(len(x.Body)))
	if err != nil {
		s.Buffers.Put(body)
		return failure.ForClient(err)
	}
	old := x.Body
	defer s.Buffers.Put(old)
	x.Body = body
	if e := x.Limiter.Grow(&x.Counted, len(old)+len(body)); e != nil {
		return e
	}
	_, e := x.parseRequest(to)
	return e
}

// addKey adds the name of the client key to a filter's input, whose last member is the summary.
func addKey(input []byte, key string) []byte {
	input = append(input[:len(input)-len("}}")], `,"key":"`...)
	return append(jsondoc.AppendEscaped(input, []byte(key)), `"}}`...)
}

// releaseBody frees the client's body if the request has been rewritten into another document.
func (x *completion) releaseBody() *apierror.Error {
	r, ok := x.Request.(clientapi.RewritableRequest)
	if !ok || !r.Rewritten() {
		return nil
	}
	x.server.Buffers.Put(x.Body)
	x.Body = nil
	_, body := r.Document()
	return x.Limiter.Grow(&x.Counted, len(body))
}

// admitTokens reserves the limits and budgets of the request's key, team and model. Under a strict budget, the response
// has a token limit, which is lowered to what the budget allows.
func (x *completion) admitTokens(to endpoint.ID, head *fasthttp.RequestHeader) *apierror.Error {
	targets, now := x.Policy.Targets, x.server.Now()
	if x.Policy.ReadsBudget {
		// Only what conditions leave must fit the budgets, so that a budget which is almost spent leads to a cheaper target.
		x.Budget = x.holds.BudgetLeft(now)
		x.describeRouting(head)
		if left := x.Policy.Candidates(&x.routed.request, now); len(left) > 0 {
			targets = left
		}
		x.server.routings.put(x.routed)
		x.routed = nil
	}
	x.holds.Estimate(x.Request, x.API.Limit, targets)
	if e := x.holds.Reserve(now); e != nil {
		return x.countLimit(e)
	}
	if limit := x.holds.MaxTokens(); limit > 0 && x.Request.Describe().MaxTokens == 0 {
		if e := x.insertLimit(to, limit); e != nil {
			return e
		}
	}
	if lowered := x.holds.Lowered(); lowered > 0 {
		return x.Request.FitModel(lowered, x.Model.Thinking, false)
	}
	return nil
}

// insertLimit inserts a token limit into the client's document, which has none, and parses the document again.
func (x *completion) insertLimit(to endpoint.ID, tokens int64) *apierror.Error {
	s, warnings := x.server, slices.Clone(x.Request.Describe().Warnings)
	rewritable, ok := x.Request.(clientapi.RewritableRequest)
	old, own := x.Body, x.Body
	if ok {
		_, own = rewritable.Document()
	}
	body, err := estimate.AppendWithLimit(s.Buffers.Get(len(own)+64), own, x.API.Limit, tokens)
	if err != nil {
		s.Buffers.Put(body)
		return failure.Internal(err)
	}
	x.Body = body
	if e := x.Limiter.Grow(&x.Counted, len(old)+len(body)); e != nil {
		s.Buffers.Put(old)
		return e
	}
	var e *apierror.Error
	if ok {
		e = rewritable.Replace(body, clientapi.Limits{}.Lowered())
	} else {
		_, e = x.parseRequest(to)
	}
	s.Buffers.Put(old)
	if e != nil {
		return e
	}
	r := x.Request.Describe()
	for _, w := range warnings {
		r.Warn(w.Kind, w.Member)
	}
	return x.Request.FitModel(x.Model.MaxTokens, x.Model.Thinking, false)
}

// readBody reads the client's body into x.body. It reserves memory before it reads anything or, for a chunked body,
// before it allocates memory for the next chunks.
func (x *completion) readBody(ctx *fasthttp.RequestCtx) *apierror.Error {
	s := x.server
	limit := int(s.Admission.Limits().MaxBody)
	length := ctx.Request.Header.ContentLength()
	if length > limit {
		return s.Admission.TooLarge()
	}
	body := ctx.RequestBodyStream()
	if body == nil || length == 0 {
		x.BodyRead = true
		return nil
	}
	x.Body = s.Buffers.Get(max(length, 0))
	if length > 0 {
		if e := x.Limiter.Grow(&x.Counted, length); e != nil {
			return e
		}
		x.Body = slices.Grow(x.Body, length)[:length]
		n, err := io.ReadFull(body, x.Body)
		x.Body = x.Body[:n]
		return x.finishBody(err)
	}
	// The input also contains what fasthttp reads ahead, and the line of each chunk without its extension.
	x.Conn.LimitInput(int64(limit) + 1 + readBuffer)
	for {
		x.Conn.ExtendInput(chunked.MaxOverhead)
		if size := cap(x.Body); len(x.Body) == size {
			if e := x.Limiter.Grow(&x.Counted, 2*size); e != nil {
				return e
			}
			x.Body = slices.Grow(x.Body, size)
		}
		// Reading one byte beyond the limit detects a body that is too long.
		n, err := body.Read(x.Body[len(x.Body):min(cap(x.Body), limit+1)])
		x.Body = x.Body[:len(x.Body)+n]
		switch {
		case len(x.Body) > limit:
			return s.Admission.TooLarge()
		case err == io.EOF && x.Conn.InputEnded():
			// fasthttp mistakes the end of the connection for the end of the chunks.
			return x.finishBody(io.ErrUnexpectedEOF)
		case err == io.EOF:
			return x.finishBody(nil)
		case err != nil && x.Conn.InputLimitReached():
			return s.Admission.TooLarge()
		case err != nil:
			return x.finishBody(err)
		}
	}
}

// finishBody records the outcome of reading the body, and converts its error for the client.
func (x *completion) finishBody(err error) *apierror.Error {
	if err == nil {
		x.BodyRead = true
		return nil
	}
	x.Disconnected = x.Conn.Disconnected() // a client that has only closed its sending side still reads the error
	return readError(x.server, err)
}

// leavesBodyUnread reports whether too much of the client's body is unread for the connection to be worth keeping.
func (x *completion) leavesBodyUnread(ctx *fasthttp.RequestCtx) bool {
	length := ctx.Request.Header.ContentLength()
	return !x.BodyRead && (length < 0 || length > endpoint.SmallBody)
}

// findReferences finds what the request refers to that a provider stores. It fails if the client has not made it.
func (x *completion) findReferences() *apierror.Error {
	x.References.Find(x.Request, x.API.API, x.API.ID)
	x.Watcher.Start()
	e := x.References.LookUp(&x.Watcher, x.server.owners, x.record.Key, x.Request, x.generation.storesAtProviders())
	if gone := x.Watcher.Finish(); gone != nil {
		return failure.ForClient(gone)
	}
	return checkBackground(x, e)
}

// recordOrigin records where the response is if its provider stores it. It is called before the client learns the
// response's ID.
func (x *completion) recordOrigin() {
	if x.Passthrough {
		x.References.Record(x.server.owners, x.record.Key, x.Writer.ID(), x.Reader, ownership.Origin{Provider: x.Provider.ID, Account: uint64(x.Account)})
	}
}

// orderTargets decides the order in which the targets are tried.
func (x *completion) orderTargets(ctx context.Context, head *fasthttp.RequestHeader, now time.Time) error {
	x.describeRouting(head)
	x.Watcher.Start()
	err := x.Policy.Decide(ctx, &x.routed.request, now, &x.routed.decision)
	if gone := x.Watcher.Finish(); gone != nil {
		return gone
	}
	d, s := &x.routed.decision, x.server
	// Providers cache prompts per account, so requests of one conversation or one client prefer the same credential.
	switch {
	case d.Affinity.Known:
		x.Credential = d.Affinity.Sum
	case x.Key == access.Anonymous():
		x.Credential = access.Hash(x.record.Remote)
	default:
		x.Credential = x.Key.Hash()
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
			s.Log.Warn("router failed; using the configured order", "request", x.record.RequestID, "model", x.record.Model, "plugin", d.Plugin(), "error", d.Err)
		}
	}
	if s.Log.Enabled(ctx, slog.LevelDebug) {
		s.Log.Debug("routed", "request", x.record.RequestID, "model", x.record.Model, "decision", string(d.AppendLine(nil)))
	}
	return nil
}

// describeRouting prepares the routing decision: it describes the request for the policy.
func (x *completion) describeRouting(head *fasthttp.RequestHeader) {
	x.routed = x.server.routings.get()
	facts, r := x.Request.Describe(), &x.routed.request
	*r = routing.Request{
		Key: x.record.Key, Team: x.Key.Team(), KeyTags: x.Key.Tags(), Claims: x.Key.Claims(), Budget: x.Budget, API: x.API.Name,
		Stream: x.Stream, Thinking: facts.Flags&(clientapi.FlagThinking|clientapi.FlagReasoning) != 0,
		Tools: facts.Tools, Images: facts.Images, Messages: facts.Messages, PromptTokens: estimate.PromptTokens(facts), MaxTokens: facts.MaxTokens,
		Random: x.Random, Summary: x,
	}
	doc, body := x.Request.Document()
	r.IncludeUsage, r.Flags, r.Size = facts.IncludeUsage, facts.Flags, len(body)
	if p := x.server.Recorder.Plugin(); p != "" {
		r.Recorder = &routing.Recorder{Plugin: p, Input: x.recordRouting}
	}
	if stateful, ok := x.Request.(clientapi.StatefulRequest); ok {
		doc = stateful.Expanded()
	}
	if x.References.Previous.Exists() {
		for i := range x.Policy.Targets {
			if t := &x.Policy.Targets[i]; ownership.ProviderID(t.Provider) == x.References.Origin.Provider {
				r.Previous = t.Provider
			}
		}
	}
	client := x.record.Key
	if x.Key == access.Anonymous() {
		client = x.record.Remote
	}
	r.Explained = x.Explain || x.server.Log.Enabled(context.Background(), slog.LevelDebug)
	r.Identity = routing.Identity{Salt: x.generation.salt, Header: head, Doc: doc, Client: client}
}

// AppendSummary appends the summary of the request that a router receives. It implements routing.Summary.
func (x *completion) AppendSummary(dst []byte) []byte {
	s := &x.Translation.Summary
	_, body := x.Request.Document()
	s.Describe(x.Request.Describe(), len(body))
	s.RequestID, s.Time, s.Attempt, s.Random = x.record.RequestID, x.record.Began, 1, x.Random
	s.Target, s.Form, s.ClientForm, s.Betas, s.Tags = "", x.API.Name, x.API.Name, x.Betas, x.Tags
	s.MaxTokens, s.DefaultMaxTokens = x.Model.MaxTokens, x.Model.DefaultMaxTokens
	return s.Append(dst)
}

// ExpectedCost returns what the request probably costs at a target. It implements routing.Summary.
func (x *completion) ExpectedCost(t *routing.Target, cachedShare float64) cost.Nano {
	return estimate.Cost(x.Request, t, cachedShare, x.Model.DefaultMaxTokens)
}

// releaseRequest frees what only the request needs, before the response's head is sent.
func (x *completion) releaseRequest(ctx *fasthttp.RequestCtx) {
	if x.Request != nil {
		x.Betas = nil
		x.Translation.Release()
	}
	if x.routed != nil {
		x.server.account.Recent.Routed(&x.record, &x.routed.decision)
		x.server.routings.put(x.routed)
		x.routed = nil
	}
	x.Released = true
	x.Documents.Release(&x.server.Services, x.API)
	if x.Stream {
		ctx.Request.ReleaseBody(0)
	}
}
