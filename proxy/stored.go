package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/admission"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/background"
	"github.com/sluice-gateway/sluice/proxy/internal/chunked"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/downstream"
	"github.com/sluice-gateway/sluice/proxy/internal/endpoint"
	"github.com/sluice-gateway/sluice/proxy/internal/exchange"
	"github.com/sluice-gateway/sluice/proxy/internal/failure"
	"github.com/sluice-gateway/sluice/proxy/internal/framing"
	"github.com/sluice-gateway/sluice/proxy/internal/holds"
	"github.com/sluice-gateway/sluice/proxy/internal/journal"
	"github.com/sluice-gateway/sluice/proxy/internal/ownership"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/responses"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/shadow"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/credential"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// storedTimeout bounds a request about a stored response, and the wait for the head of a stream.
const storedTimeout = 30 * time.Second

// storedQuery lists the query parameters of requests about stored responses that are passed on.
var storedQuery = [...]string{"include", "include[]", "include_obfuscation", "stream", "starting_after", "limit", "order", "after", "before"}

// storedObject is a response that a provider stores for a client.
type storedObject struct {
	server     *Server
	generation *generation
	provider   *exchange.Provider
	account    credential.Account // that has the response
	target     string             // a model of the provider, for plugins whose paths contain it
	client, id string
	requestID  string // of the request about it
	hops       int
}

// findStored finds the response with an ID that a client has made, at its provider.
func findStored(ctx context.Context, s *Server, g *generation, client, id string) (o *storedObject, ok bool) {
	if id == "" || strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") != "" || !g.storesAtProviders() {
		return nil, false
	}
	origin, ok := s.owners.Lookup(ctx, client, id)
	if !ok {
		return nil, false
	}
	for _, p := range g.providers {
		if p.ID == origin.Provider && p.Client != nil && p.Binding.Forms()&abi.FormResponses != 0 {
			o = &storedObject{server: s, generation: g, provider: p, account: credential.Account(origin.Account), client: client, id: id}
		}
	}
	if o == nil {
		return nil, false
	}
	for i := range g.config.Models {
		for _, t := range g.config.Models[i].Targets {
			if t.Provider == o.provider.Name && o.target == "" {
				o.target = t.Model
			}
		}
	}
	return o, true
}

// send sends a request about the response, and waits for the head of its response.
func (o *storedObject) send(ctx context.Context, method, suffix, query, accept string, w upstream.Watcher) (*upstream.Response, error) {
	path, headers, err := o.path(ctx)
	if err != nil {
		return nil, err
	}
	path, own, _ := strings.Cut(path, "?")
	if path = path + "/" + o.id + suffix; own != "" || query != "" {
		path += "?" + strings.Trim(own+"&"+query, "&")
	}
	headers = append(headers, upstream.Header{Name: admission.HopsHeader, Value: admission.NextHops(o.hops)})
	return o.provider.Client.Do(ctx, &upstream.Request{Method: method, Path: path, Headers: headers, Accept: accept, Account: o.account}, w)
}

// path returns the path of the provider's responses and the headers of requests, as its plugin sets them for a request
// that creates a response.
func (o *storedObject) path(ctx context.Context) (path string, headers []upstream.Header, err error) {
	api := &o.server.APIs[clientapi.Responses]
	request, w := api.GetRequest(), api.GetWorkspace()
	defer api.PutRequest(request)
	defer api.PutWorkspace(w)
	if e := request.Parse([]byte(`{"model":"m","input":"x"}`), clientapi.Limits{}); e != nil {
		return "", nil, e
	}
	w.Writer.Reset(response.Options{Choices: 1, Aliases: w.Alias})
	w.Renderer.Respond(request)
	t := &w.Translation
	t.Reset()
	t.Writer, t.Tenant = w.Writer, o.client
	t.Request.Doc, t.Request.Body = request.Document()
	t.Summary.Describe(request.Describe(), len(t.Request.Body))
	t.Summary.Form, t.Summary.ClientForm = api.Name, api.Name
	t.Summary.RequestID, t.Summary.Time, t.Summary.Attempt, t.Summary.Target = o.requestID, o.server.Now(), 1, o.target
	if err := o.provider.Binding.Request(ctx, t); err != nil {
		return "", nil, err
	}
	if t.Answered || t.Dialect != abi.DialectResponses {
		return "", nil, fmt.Errorf("the plugin of provider %s does not request responses", o.provider.Name)
	}
	for _, h := range t.Out.Headers {
		headers = append(headers, upstream.Header(h))
	}
	return t.Out.Path, headers, nil
}

// read reads the response object. It returns background.ErrGone if the provider does not have it.
func (o *storedObject) read(ctx context.Context) ([]byte, error) {
	r, err := o.send(ctx, "GET", "", "", "application/json", exchange.ContextWatcher{Context: ctx})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	switch status := r.Status(); {
	case status == fasthttp.StatusNotFound || status == fasthttp.StatusGone:
		return nil, background.ErrGone
	case status != fasthttp.StatusOK:
		return nil, fmt.Errorf("status %d", status)
	}
	return r.ReadAll(nil, exchange.MaxDocument)
}

// recordItems records the items of a response to which a request of its client may refer by their IDs.
func (o *storedObject) recordItems(body []byte) {
	var batch response.Batch
	reader := o.server.APIs[clientapi.Responses].NewReader()
	reader.Reset(true)
	if items, ok := reader.(clientapi.ItemReader); ok && reader.ReadResponse(body, &batch) == nil {
		for _, id := range items.TakeStoredItems() {
			o.server.owners.Record(o.client, id, ownership.Origin{Provider: o.provider.ID, Account: uint64(o.account)})
		}
	}
}

// storedNotFound returns the error for a response that does not exist, or that another key has made.
func storedNotFound(id string) *apierror.Error {
	e := apierror.Invalid("", "", "Response with id '%s' not found.", clientapi.Quotable(id))
	e.Status = fasthttp.StatusNotFound
	return e
}

// errFiltered is the error for a stored response, whose texts would not pass through the filters of responses.
func errFiltered(param string) *apierror.Error {
	return apierror.Invalid(clientapi.CodeUnsupportedParameter, param, "Responses of this gateway are filtered, and filters do not apply to a stored response: it cannot be read back.")
}

// requestStored passes a request about a stored response on to its provider. It returns the body of the response, or a
// relay if that is a stream.
func requestStored(s *Server, ctx *fasthttp.RequestCtx, g *generation, r *telemetry.Record, key *access.Key, service endpoint.Service, id string) ([]byte, *relay, *apierror.Error) {
	wait, cancel := context.WithTimeout(context.Background(), storedTimeout)
	defer cancel()
	o, ok := findStored(wait, s, g, r.Key, id)
	if !ok {
		return nil, nil, storedNotFound(id)
	}
	for _, f := range g.filters {
		if f.Config.Response && !ctx.IsDelete() {
			return nil, nil, errFiltered("")
		}
	}
	var user access.User
	if u := key.Users(); u != nil && u.Header != "" { // without a header, nothing names the user
		var e *apierror.Error
		if user, e = key.FindUser(&ctx.Request.Header, nil, g.config.Router.Salt); e != nil {
			return nil, nil, e
		}
	}
	var hold spend.Hold // counts as a request, which costs nothing
	scopes := holds.ClientScopes(g.accounts, key, user, s.Now())
	if r.User = user.Name; scopes[spend.User].IsOther() {
		r.User = spend.OtherUsers
	}
	if e := hold.Reserve(scopes, &spend.Need{}, s.Now()); e != nil {
		return nil, nil, e
	}
	defer func() { hold.Settle(spend.Used{}, s.Now()) }()
	o.requestID, o.hops = r.RequestID, admission.Hops(&ctx.Request.Header)
	r.Provider, r.Target, r.Attempts = o.provider.Name, o.target, 1
	ctx.Response.Header.Set("x-gateway-provider", o.provider.Name)

	method, suffix, query := fasthttp.MethodGet, "", fasthttp.Args{}
	switch {
	case service == endpoint.StoredItems:
		suffix = "/input_items"
	case service == endpoint.CancelStored:
		method, suffix = fasthttp.MethodPost, "/cancel"
	case ctx.IsDelete():
		method = fasthttp.MethodDelete
		s.background.Refresh(wait, o.client, id) // its usage cannot be read afterwards
	}
	for _, name := range storedQuery {
		for _, v := range ctx.QueryArgs().PeekMulti(name) {
			query.AddBytesV(name, v)
		}
	}
	stream := service == endpoint.StoredResponse && ctx.IsGet() && string(query.Peek("stream")) == "true"
	if !stream {
		query.Del("stream")
	}
	accept := "application/json"
	if stream {
		accept = framing.ContentType(abi.FramingSSE)
	}
	response, err := o.send(wait, method, suffix, query.String(), accept, storedWatcher{s, wait})
	if err != nil {
		return nil, nil, failure.ForClient(err)
	}
	r.UpstreamID = string(o.provider.Redact(response.RequestID()))
	if response.Status() == fasthttp.StatusOK && bytes.HasPrefix(response.Header("content-type"), []byte("text/event-stream")) {
		g.Acquire()
		return nil, &relay{storedObject: o, response: response}, nil
	}
	defer response.Close()
	body, e := o.readBody(response)
	if e != nil {
		return nil, nil, e
	}
	switch {
	case method == fasthttp.MethodDelete:
		s.background.Forget(o.client, id)
	case suffix != "/input_items":
		o.recordItems(body)
		s.background.Observe(o.client, id, body)
	}
	return body, nil, nil
}

// readBody reads a response that is one document, or returns the error that it is.
func (o *storedObject) readBody(r *upstream.Response) ([]byte, *apierror.Error) {
	var counted int64
	limiter := &o.server.Admission.Limiter
	defer limiter.Shrink(&counted)
	body, err := r.ReadAllWithin(nil, exchange.MaxDocument, func(n int) error {
		if e := limiter.Grow(&counted, n); e != nil {
			return e
		}
		return nil
	})
	if status := r.Status(); status < 200 || status > 299 {
		if status == fasthttp.StatusNotFound {
			return nil, storedNotFound(o.id)
		}
		e := *o.server.APIs[clientapi.Responses].Failure(status, o.provider.Redact(body))
		e.Provider, e.UpstreamStatus = o.provider.Name, status
		return nil, &e
	}
	if err != nil {
		return nil, failure.ForClient(err)
	}
	return body, nil
}

// storedWatcher ends waiting for a provider when its context is done, or when the gateway stops.
type storedWatcher struct {
	server *Server
	ctx    context.Context
}

// Tick implements upstream.Watcher.
func (w storedWatcher) Tick(upstream.Phase, time.Duration) error {
	if w.server.shutdownTimedOut.Load() || w.server.background.Closed() {
		return failure.Shutdown()
	}
	return w.ctx.Err()
}

// relay passes the stream of a stored response on to its client, byte for byte. It implements downstream.Request.
type relay struct {
	*storedObject
	response  *upstream.Response
	conn      *downstream.Conn
	record    telemetry.Record
	chunks    chunked.Writer
	writtenAt time.Time
	between   bool // what has been written ends with an event
	gone      bool // the client has disconnected
}

// start makes the relay write its stream after the handler of its request has returned.
func (y *relay) start(ctx *fasthttp.RequestCtx, r *telemetry.Record) {
	y.conn, y.record, y.writtenAt, y.between = ctx.Conn().(*downstream.Conn), *r, y.server.Now(), true
	y.conn.StartRequest(y)
	h := &ctx.Response.Header
	h.SetContentType("text/event-stream; charset=utf-8")
	h.Set("cache-control", "no-cache")
	h.Set("x-accel-buffering", "no")
	h.SetContentLength(-1)
	last := h.ConnectionClose() || ctx.Request.Header.ConnectionClose()
	if last {
		h.SetConnectionClose()
	}
	y.chunks.Start(y.conn, &y.server.Buffers, h.Header(), last)
	y.server.metrics.StartStream()
	y.conn.TakeOver()
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(downstream.TakeBuffered)
}

// Delivered implements downstream.Request. WriteStream knows itself how the stream ended.
func (y *relay) Delivered(bool) {}

// WriteStream implements downstream.Request. A stream that breaks off ends without the end of its body.
func (y *relay) WriteStream() (keepAlive bool, err error) {
	defer y.generation.Release()
	defer y.response.Close()
	defer func() {
		y.server.metrics.EndStream()
		y.conn.FinishRequest()
		y.record.Bytes, y.record.Stream, y.record.Complete = y.chunks.Written(), true, err == nil
		switch {
		case y.gone:
			y.record.Status, y.record.Code = 499, "client_closed_request"
		case err != nil:
			e := failure.ForClient(err)
			y.record.Code, y.record.Cause = e.Code, e.Cause
		}
		y.server.account.Request(&y.record)
	}()
	defer rescue.Recover(func(p *rescue.Error) {
		y.server.logPanic(y.record.RequestID, p)
		err = errPanic
	})
	y.response.SetWatcher(y)
	if err := y.write(nil); err != nil {
		return false, err
	}
	for {
		p, err := y.response.Next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = y.write(p)
		}
		if err != nil {
			return false, err
		}
	}
	wait, cancel := context.WithTimeout(context.Background(), storedTimeout)
	defer cancel()
	y.server.background.Refresh(wait, y.client, y.id)
	return y.chunks.End()
}

func (y *relay) write(p []byte) error {
	err := y.chunks.Write(p)
	y.gone = err != nil
	y.writtenAt = y.server.Now()
	if len(p) > 0 {
		y.between = bytes.HasSuffix(p, []byte("\n\n")) || bytes.HasSuffix(p, []byte("\r\n\r\n"))
	}
	return err
}

// Tick checks the client, and sends a heartbeat if one is due. It implements upstream.Watcher.
func (y *relay) Tick(upstream.Phase, time.Duration) error {
	if y.server.shutdownTimedOut.Load() {
		return failure.Shutdown()
	}
	heartbeat := y.provider.Heartbeat
	due := heartbeat > 0 && y.server.Now().Sub(y.writtenAt) >= heartbeat
	if y.conn.CheckClient(y.probe) || due && y.between && !y.probe() {
		y.gone = true
		return failure.ErrDisconnected
	}
	return nil
}

// probe writes something that clients ignore, if the last event is whole. It reports whether it did.
func (y *relay) probe() bool {
	if !y.between {
		return false
	}
	_, err := y.conn.Write(y.server.APIs[clientapi.Responses].HeartbeatChunk)
	y.writtenAt = y.server.Now()
	return err == nil
}

// newBackground returns the set of responses in the background.
func newBackground(s *Server, cfg *config.Config) *background.Set {
	return background.New(background.Options{
		Poll: cfg.Responses.BackgroundPoll, Expiry: cfg.Responses.BackgroundExpiry, Ended: responses.Ended, Panicked: s.logAnyPanic,
	})
}

// checkBackground returns e or, without one, an error if the response would run in the background, and the gateway could
// not follow it.
func checkBackground(x *completion, e *apierror.Error) *apierror.Error {
	switch {
	case e != nil || !x.References.Background:
		return e
	case x.Chain.OnResponse():
		return errFiltered("background")
	case x.server.background.Full():
		return &apierror.Error{
			Status: fasthttp.StatusServiceUnavailable, Kind: apierror.KindServiceUnavailable, Code: "gateway_overloaded",
			Message: "Too many responses run in the background.", RetryAfter: time.Minute,
		}
	}
	return nil
}

// runsOn reports whether the provider goes on generating the response after the request has ended.
func runsOn(x *completion) bool {
	if !x.References.Background || x.Reader == nil || len(x.Writer.ID()) == 0 {
		return false
	}
	reader, ok := x.Reader.(clientapi.PendingReader)
	return ok && (reader.Pending() || !x.Writer.Conclusive())
}

// backgroundResponse is a response that runs on after its request, with what the request holds.
type backgroundResponse struct {
	storedObject
	provider string // its name, because the configuration may change
	holds    *holds.Holds
	held     holds.Attempt
	options  response.Options
	record   telemetry.Record
	labels   journal.Labels
}

// followBackground moves what the request holds to the response, which the server follows until it has ended.
func followBackground(x *completion) {
	s, r := x.server, &x.record
	b := &backgroundResponse{
		storedObject: storedObject{server: s, account: x.Account, target: x.Target.Model, client: r.Key, id: string(x.Writer.ID()), requestID: r.RequestID, hops: x.Hops},
		provider:     x.Provider.Name, holds: x.holds.Detach(), held: x.Held,
		options: response.Options{Prices: x.Target.Prices, Choices: 1},
		labels:  journal.Labels{Key: r.Key, Team: r.Team, Model: r.Model, Provider: x.Target.Provider, Tags: x.tagText(), User: r.User},
	}
	b.held.Stream = false // the provider does not stop when the client leaves
	b.record = telemetry.Record{
		Began: r.Began, RequestID: r.RequestID, Path: r.Path, Key: r.Key, Series: r.Series, Team: r.Team, User: r.User, Model: r.Model, Provider: x.Target.Provider,
		Target: x.Target.Model, Stream: r.Stream, Status: fasthttp.StatusOK, FailedCost: r.UnusedCost(), UncertainCost: r.UncertainCost,
	}
	x.Held = holds.Attempt{Held: x.Held.Held}
	x.Accounted = true
	s.background.Add(b.client, b.id, background.Response{Read: b.read, Settle: b.settle})
}

// read reads the response object.
func (b *backgroundResponse) read(ctx context.Context) ([]byte, error) {
	g := b.server.acquire()
	if g == nil {
		return nil, errClosed
	}
	defer g.Release()
	o := b.storedObject
	if o.provider = g.providers[b.provider]; o.provider == nil || o.provider.Client == nil {
		return nil, errors.New("the provider is not configured any more")
	}
	body, err := o.read(ctx)
	if err == nil {
		o.recordItems(body)
	}
	return body, err
}

// settle accounts the response: by its final object or, if body is nil or tells no usage of a cancelled response, at what
// it holds.
func (b *backgroundResponse) settle(body []byte) {
	s, r, now := b.server, &b.record, b.server.Now()
	used := b.held.Lost()
	defer func() { // even if the rest panics
		b.held.Settle(used, now)
		b.holds.Settle(used, spend.Used{}, now)
	}()
	failedCost, failedUncertain := r.FailedCost, r.UncertainCost // of earlier attempts, which are counted already
	r.FailedCost, r.UncertainCost = 0, 0
	if u, ok := b.usage(body); ok {
		used = spend.Used{Tokens: u.Total, Cost: u.Cost}
		r.Tokens, r.UsageEstimated, r.Cost, r.Priced = u.Tokens, u.Estimated, u.Cost, u.Priced
		s.logExcessive(r, u.Excessive)
	} else {
		r.Uncertain, r.Cost, r.UncertainCost, r.Priced = true, used.Cost, used.Uncertain, b.options.Prices != nil
	}
	s.metrics.Settled(r)
	if j := s.books.Journal(); j != nil {
		j.Request(&journal.Request{
			ID: b.holds.ID, At: now, Labels: b.labels, Tokens: r.Tokens, Cost: r.Cost.Plus(failedCost), Estimated: r.UsageEstimated,
			Booked: r.Uncertain || failedUncertain > 0, Uncertain: r.UncertainCost.Plus(failedUncertain),
		})
	}
	s.Log.Info("response in the background settled", "request", r.RequestID, "key", r.Key, "model", r.Model, "provider", r.Provider,
		"prompt_tokens", r.Tokens.Prompt, "completion_tokens", r.Tokens.Completion, "cost", r.Cost.String(), "uncertain", r.Uncertain)
}

// usage returns what the response has used according to its final object.
func (b *backgroundResponse) usage(body []byte) (u response.Usage, ok bool) {
	if body == nil {
		return u, false
	}
	var batch response.Batch
	reader, w := b.server.APIs[clientapi.Responses].NewReader(), response.NewWriter(new(shadow.DiscardRenderer))
	reader.Reset(false)
	w.Reset(b.options)
	if reader.ReadResponse(body, &batch) != nil || w.Apply(&batch) != nil {
		return u, false
	}
	if u = w.Accounted(); w.Used() {
		return u, true
	}
	return u, !responses.Cancelled(body)
}
