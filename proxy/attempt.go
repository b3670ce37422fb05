package proxy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/excerpt"
	"github.com/sluice-gateway/sluice/proxy/internal/framing"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/openai/native"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

const (
	// maxErrorBody is how much of an error response is read: its message is at its beginning.
	maxErrorBody = 64 << 10

	// maxDocument bounds a response that is one JSON document, which is held in memory.
	maxDocument = 32 << 20

	// maxDrain is how much may follow a complete response for its connection to be worth keeping.
	maxDrain = 16 << 10
)

// tryTargets tries the targets in order until one responds. It returns with a non-streaming response, or with the beginning
// of a streamed one, or with an error for the client, which has been sent nothing.
func (x *completion) tryTargets(ctx context.Context, targets []routing.Target) *apierror.Error {
	now := x.admittedAt
	order, err := x.orderTargets(ctx, targets, now)
	if err != nil {
		return clientError(err)
	}
	if stateful, ok := x.request.(clientapi.StatefulRequest); ok && x.server.responses != nil && stateful.Previous() != "" {
		preferTarget(order, targets, x.server.responses.Target(x.record.Key, stateful.Previous()))
	}
	x.tried = x.tried[:0]
	var last *apierror.Error
	for n, i := range order {
		t := &targets[i]
		if len(targets) > 1 {
			now = x.server.now() // the router, or the attempt before, took its time
		}
		if !x.startAttempt(t, now) {
			continue
		}
		e := x.tryTarget(ctx, t)
		if e == nil {
			return nil
		}
		if last == nil || !isUnsupported(e) {
			// An unsupported error from one target must not mask another target's error.
			last = e
		}
		if x.disconnected || !e.TryNext {
			break
		}
		if n+1 < len(order) {
			x.logFailedAttempt(t, e)
		}
	}
	if last == nil {
		return x.allUnavailable(order, targets)
	}
	return last
}

// orderTargets puts the targets into the order in which they are tried.
func (x *completion) orderTargets(ctx context.Context, targets []routing.Target, now time.Time) ([]int, error) {
	x.watcher.Start()
	order, explain, err := x.generation.router.Order(ctx, x.order[:0], targets, now, x.record.Key, x.appendSummary, func(err error) bool {
		_, refused := errors.AsType[*apierror.Error](err)
		return refused
	})
	if gone := x.watcher.Finish(); gone != nil {
		err = gone
	}
	x.order = order
	if err == nil && explain != "" {
		x.server.log.Debug("routed", "request", x.record.RequestID, "model", x.record.Model, "why", explain)
	}
	return order, err
}

// startAttempt counts an attempt at a target, if its circuit breaker and retry budget permit one.
func (x *completion) startAttempt(t *routing.Target, now time.Time) bool {
	ticket, ok := t.StartAttempt(now, x.record.Attempts > 0, slices.Contains(x.tried, t.Budget))
	if !ok {
		return false
	}
	x.target, x.provider, x.ticket, x.recorded = t, x.generation.providers[t.Provider], ticket, false
	x.record.Attempts++
	x.attemptStart = now
	return true
}

// tryTarget sends the request to a target and reads until there is something for the client: all of a non-streaming
// response, or the first events of a stream. After an error nothing is left of the attempt, and the client has been sent
// nothing.
func (x *completion) tryTarget(ctx context.Context, t *routing.Target) *apierror.Error {
	x.record.Provider, x.record.Target = t.Provider, t.Model
	x.record.UpstreamID, x.record.FirstEvent = "", 0
	x.framed, x.bodyDone = false, false
	x.writtenAt, x.sent = x.attemptStart, false
	x.room.shrink(&x.room.response)
	var err error
	if e := x.resetAttempt(); e != nil {
		err = e
	} else if err = x.sendRequest(ctx); err == nil {
		err = x.readResponse(ctx)
	}
	if err == nil {
		x.filterResponse(ctx)
	}
	if err == nil || errors.Is(err, errCommit) {
		if failed := x.writer.Failed(); failed == nil || x.writer.Started() {
			if !x.stream {
				x.drainBody()
			}
			return nil
		}
		err = x.writer.Failed()
	}
	if x.writer.Started() && !x.disconnected {
		// The client gets what came before the failure, however that was split on its way.
		x.endTape(err)
		x.writer.Fail(clientError(err))
		return nil
	}

	e := x.annotate(clientError(err))
	x.endTape(err)
	if x.disconnected {
		x.recordOutcome(routing.Inconclusive, 0)
	} else {
		x.recordError(e)
	}
	x.closeUpstream()
	x.record.Fuel += x.attempt.Fuel
	x.attempt.Fuel = 0
	return e
}

// resetAttempt prepares an attempt at x.target. It fails if the request cannot be made one that the target takes.
func (x *completion) resetAttempt() *apierror.Error {
	a, m, facts := &x.attempt, x.model, x.request.Describe()
	x.reader, x.speaks, x.translated, x.passing = nil, nil, false, false
	a.Reset()
	a.Writer, a.Tenant = x.writer, x.record.Key
	x.writer.Reset(response.Options{
		Stream: x.stream, IncludeUsage: facts.IncludeUsage, FunctionCalls: facts.FunctionCalls,
		ID: randomID(x.api.IDPrefix), RequestID: x.record.RequestID, Model: x.target.Model, Created: x.record.Began.Unix(),
		Choices: facts.N, PromptEstimate: promptEstimate(facts), Aliases: x.alias,
	})
	if x.chain.OnResponse() {
		x.filtered.Filter(&x.chain)
	}
	x.renderer.Respond(x.request)
	if e := x.chooseDocument(); e != nil {
		return e
	}
	if x.remembersThinking() && facts.Tools > 0 && !facts.FunctionCalls {
		x.recorder.Record(x.server.thinking, x.record.Key, x.provider.name)
	}
	a.Summary.Describe(facts, len(a.Request.Body))
	a.Summary.ClientForm, a.Summary.Betas, a.Summary.Tags = x.api.Name, x.betas, x.tags
	a.Summary.RequestID = x.record.RequestID
	a.Summary.Time = x.attemptStart
	a.Summary.Attempt = x.record.Attempts
	a.Summary.Random = x.random
	a.Summary.Target = x.target.Model
	a.Summary.MaxTokens, a.Summary.DefaultMaxTokens = m.MaxTokens, m.DefaultMaxTokens
	a.Summary.Options = x.target.Options
	return nil
}

// remembersThinking reports whether signed reasoning is kept for the client: those of Messages always send it back, and those of
// Gemini mostly never get it.
func (x *completion) remembersThinking() bool {
	return x.api.id == chatAPI || (x.api.id == responsesAPI || x.api.id == geminiAPI) && x.translated
}

// chooseDocument chooses what x.target's plugin makes its request from: the client's own document where that is what the plugin
// takes, else the lowered one.
func (x *completion) chooseDocument() *apierror.Error {
	a := &x.attempt
	if x.api.form == abi.FormChat || x.provider.binding.Forms()&x.api.form != 0 {
		a.Request.Doc, a.Request.Body = x.request.Document()
		a.Summary.Form = x.api.Name
		return nil
	}
	x.translated, a.Summary.Form = true, x.server.apis[chatAPI].Name
	if x.lowered.request == nil && x.lowered.err == nil {
		x.lowered.err = x.lower()
	}
	if x.lowered.err != nil {
		return x.lowered.err
	}
	a.Request.Doc, a.Request.Body = x.lowered.request.Document()
	return nil
}

// lower makes a chat completions request of the client's. It is done once a request.
func (x *completion) lower() *apierror.Error {
	l, s := &x.lowered, x.server
	_, own := x.request.Document()
	body, warnings, e := x.request.AppendChat(s.buffers.get(len(own)))
	l.body = body
	if e != nil {
		return e
	}
	if e := x.room.grow(&x.room.request, len(x.body)+len(body)); e != nil {
		return e
	}
	r := s.apis[chatAPI].getRequest().(*openai.Request)
	l.request = r
	if e := r.Parse(body, clientapi.Limits{}.Lowered()); e != nil {
		e = originError(x.request, e)
		e.TryNext = true // a provider that speaks the client's API may take it
		return e
	}
	if x.remembersThinking() {
		l.body = x.restoreThinking(r, body, len(x.body))
	}
	l.warnings = warnings
	for _, w := range r.Warnings {
		l.warnings = clientapi.AddWarning(l.warnings, w.Kind, cmp.Or(x.request.Origin(w.Member), w.Member))
	}
	return nil
}

// releaseLowered gives back the lowered request.
func (x *completion) releaseLowered() {
	l := &x.lowered
	if l.request != nil {
		x.server.apis[chatAPI].putRequest(l.request)
	}
	x.server.buffers.put(l.body)
	*l = lowered{}
}

// sendRequest makes the plugin build the provider's request, and sends it. There is none where the plugin has responded by
// itself.
func (x *completion) sendRequest(ctx context.Context) error {
	if x.server.recorder != nil {
		x.startTape()
	}
	x.watcher.Start()
	err := x.provider.binding.Request(ctx, &x.attempt)
	if gone := x.watcher.Finish(); gone != nil {
		return gone
	}
	if err != nil {
		return err
	}
	asked := x.api
	if x.translated {
		asked = &x.server.apis[chatAPI]
	}
	if x.speaks = x.server.apis.ofDialect(x.attempt.Dialect, asked); x.speaks != nil {
		x.reader = x.work.reader(x.speaks)
	}
	if x.attempt.Answered {
		x.record.FirstEvent = x.server.now().Sub(x.attemptStart)
		return nil
	}
	return x.doRequest(ctx)
}

// doRequest sends the request that the plugin has built. It is apart from sendRequest to keep the stack small below a
// plugin, which is where it is deepest.
func (x *completion) doRequest(ctx context.Context) error {
	if x.provider.client == nil {
		return apierror.Fail(abi.FailServer, "plugin_protocol", "", "The provider's plugin did not respond, and the provider has no base_url.")
	}
	out := &x.attempt.Out
	headers := x.out.Headers[:0]
	for _, h := range out.Headers {
		headers = append(headers, upstream.Header(h))
	}
	headers = append(headers, upstream.Header{Name: hopsHeader, Value: hopTexts[x.hops+1]})
	if x.record.Trace != "" && !slices.ContainsFunc(headers, func(h upstream.Header) bool { return h.Name == traceHeader }) {
		headers = append(headers, upstream.Header{Name: traceHeader, Value: x.record.Trace})
	}
	x.out = upstream.Request{
		Method: "POST", Path: out.Path, Headers: headers, Body: out.Body, ContentType: "application/json",
		Accept: framing.ContentType(x.attempt.Framing), Client: x.clientHash(),
	}
	x.tried = append(x.tried, x.target.Budget)
	x.watcher.Start()
	response, err := x.provider.client.Do(ctx, &x.out, x)
	clear(headers)
	x.out = upstream.Request{Headers: headers}
	gone := x.watcher.Finish()
	x.response, x.sent = response, err == nil || mayHaveReached(err)
	if gone != nil {
		return gone
	}
	if err != nil {
		return err
	}
	x.record.UpstreamID = string(x.provider.redact(upstreamRequestID(response)))
	x.headerSource, x.attempt.ResponseHeader = response, x.header
	if x.tape != nil {
		x.tape.SetHead(response.Status(), response.EachHeader)
	}
	return nil
}

// clientHash is a hash of the client: of its key, or where none is needed, of its address.
func (x *completion) clientHash() uint64 {
	if x.key == access.Anonymous() {
		return access.Hash(x.record.Remote)
	}
	return x.key.Hash()
}

// mayHaveReached reports whether the provider may have read the request although it has not responded.
func mayHaveReached(err error) bool {
	e, ok := errors.AsType[*upstream.Error](err)
	return ok && e.Phase >= upstream.PhaseHead
}

// upstreamRequestID is the provider's ID of the request.
func upstreamRequestID(r *upstream.Response) []byte {
	for _, name := range []string{"x-request-id", "request-id", "x-amzn-requestid", "x-generation-id"} {
		if v := r.Header(name); len(v) > 0 && len(v) <= abi.MaxName && isVisibleASCII(v) {
			return v
		}
	}
	return nil
}

// readResponse reads the response as far as the client's first bytes need it. It is called again after errCommit.
func (x *completion) readResponse(ctx context.Context) error {
	if x.response == nil {
		if !x.writer.Complete() && x.writer.Failed() == nil {
			return apierror.Fail(abi.FailServer, "plugin_protocol", "", "The provider's plugin did not complete its response.")
		}
		return nil
	}
	if status := x.response.Status(); status < 200 || status >= 300 {
		return x.readErrorResponse(ctx, status)
	}
	first, err := x.response.Next()
	for err == nil && len(bytes.TrimLeft(first, " \t\r\n")) == 0 {
		first, err = x.response.Next()
	}
	if errors.Is(err, errCommit) {
		// Nothing of the body has come: WriteStream goes on from here.
		return err
	}
	if err == io.EOF {
		x.bodyDone = true
		return emptyResponse()
	}
	if err != nil {
		return err
	}
	x.record.FirstEvent = x.server.now().Sub(x.attemptStart)
	x.target.RecordFirstEvent(x.ticket)
	x.tape.Write(first)
	framed, ok := framing.Detect(x.response.Header("content-type"), first, x.attempt.Framing)
	switch {
	case !ok:
		e := apierror.Fail(abi.FailBadAnswer, "", "", "The provider's response is neither JSON nor a stream of events.")
		e.Cause = fmt.Errorf("content type %.64q", framing.MediaType(x.response.Header("content-type")))
		return e
	}
	if x.tape.SetFraming(framed); framed == abi.FramingAWSInvoke {
		x.tape.SetFraming(abi.FramingAWSEventStream) // the same bytes
	}
	x.startReading(framed != abi.FramingJSON)
	if framed == abi.FramingJSON {
		return x.readDocument(ctx, first)
	}
	x.decoder = x.decoders.Open(framed, x.provider.maxEvent)
	x.decoder.Feed(first)
	x.framed, x.eventAt = true, x.server.now()
	return x.readEvents(ctx)
}

// startReading prepares for a response that is a stream of events, or is not. One to the client's own document is passed on if it has
// the form that the client wants.
func (x *completion) startReading(stream bool) {
	if x.reader == nil {
		return
	}
	x.passing = x.speaks == x.api && stream == x.stream && !x.translated
	if x.passing {
		x.renderer.Pass()
		x.filtered.Pass(x.api.PassedTexts)
	}
	x.reader.Reset(x.passing)
}

// readDocument reads a response that is one JSON document, of which first is the beginning.
func (x *completion) readDocument(ctx context.Context, first []byte) error {
	read := len(first) // which is invalid after the next line
	body, err := x.response.ReadAllWithin(append(x.server.buffers.get(len(first)), first...), maxDocument, x.reserveResponse)
	defer func() { x.server.buffers.put(body) }()
	for errors.Is(err, errCommit) {
		// There is nothing to stream before all of it is there; the wait goes on until its own deadlines.
		body, err = x.response.ReadAllWithin(body, maxDocument, x.reserveResponse)
	}
	x.tape.Write(body[min(read, len(body)):])
	if err != nil {
		return err
	}
	x.bodyDone = true
	if x.reader != nil {
		x.batch.Reset()
		if err := x.reader.ReadResponse(body, &x.batch); err != nil {
			return badResponse(err)
		}
		if err := x.applyBatch(); err != nil {
			return err
		}
	} else if err := x.provider.binding.Response(ctx, &x.attempt, x.response.Status(), body); err != nil {
		return err
	}
	if x.writer.Complete() || x.writer.Failed() != nil {
		return nil
	}
	return x.writer.End()
}

// readErrorResponse reads a response whose status is an error.
func (x *completion) readErrorResponse(ctx context.Context, status int) error {
	if status == http.StatusNotModified {
		return emptyResponse()
	}
	body, err := x.response.ReadAll(x.server.buffers.get(0), maxErrorBody)
	for errors.Is(err, errCommit) {
		body, err = x.response.ReadAll(body, maxErrorBody)
	}
	defer func() { x.server.buffers.put(body) }()
	if x.disconnected {
		return errDisconnected
	}
	x.tape.Write(body)
	// A read error is ignored: a part of an error response says more than that it was cut off.
	body = x.provider.redact(body)
	cause := x.rejection(status, body)
	var e *apierror.Error
	if x.speaks != nil {
		e = x.speaks.Failure(status, body)
	} else {
		err := x.provider.binding.Response(ctx, &x.attempt, status, body)
		if failed := x.writer.Failed(); err == nil && failed != nil {
			err = failed
		}
		if err == nil {
			// The plugin found no error in the body: the status decides.
			e = native.Failure(status, nil)
		} else if !errors.As(err, &e) {
			return err
		}
	}
	d := *e
	if d.RetryAfter == 0 {
		d.RetryAfter = parseRetryAfter(x.response.Header, x.server.now())
	}
	if cause != nil {
		d.Cause = cause
	}
	return &d
}

// rejection is the cause of an error response with a status 4xx: the provider's words say what is wrong with the request, or with
// the configuration. nil for another status.
func (x *completion) rejection(status int, body []byte) error {
	if status < 400 || status >= 500 {
		return nil
	}
	r := &rejection{provider: x.provider.name, target: x.provider.client.Target("POST", x.attempt.Out.Path), status: status}
	if x.request != nil { // else what the words repeat of it could not be found any more
		words := excerpt.New([]byte(native.Words(body)))
		doc, _ := x.request.Document()
		clientapi.EachText(doc, words.Cut)
		r.words = words.String()
	}
	return r
}

// annotate adds to an error the provider and the response that it comes from, and for the log, its cause.
func (x *completion) annotate(e *apierror.Error) *apierror.Error {
	if x.translated && e != x.lowered.err {
		e = originError(x.request, e)
	}
	d := *e
	if x.response != nil {
		if x.response.Status() >= 300 {
			d.Provider, d.UpstreamStatus = x.provider.name, x.response.Status()
		}
		d.UpstreamRequestID = x.record.UpstreamID
	}
	if d.Cause == nil {
		d.Cause = x.responseCause()
	}
	return &d
}

// responseCause is the cause of a failure that has no other: it is in the response, in words that the log must not repeat,
// or the response ended early.
func (x *completion) responseCause() error {
	switch {
	case x.lowered.err != nil && x.attempt.Request.Doc == nil:
		return fmt.Errorf("provider %s does not speak the client's API, and the request cannot be translated", x.provider.name)
	case x.response == nil:
		return fmt.Errorf("reported by the plugin for provider %s", x.provider.name)
	case x.bodyDone && x.reader == nil && x.attempt.Dialect == abi.DialectTranslated && !x.writer.Began():
		return fmt.Errorf("plugin %s reported nothing of the response from provider %s, status %d", x.provider.binding.Plugin().Name(), x.provider.name, x.response.Status())
	case x.bodyDone && x.reader == nil && x.attempt.Dialect == abi.DialectTranslated && x.writer.Incomplete():
		return fmt.Errorf("plugin %s did not call done before the response from provider %s ended, status %d: the response is incomplete, or the plugin missed its end",
			x.provider.binding.Plugin().Name(), x.provider.name, x.response.Status())
	case x.bodyDone:
		return fmt.Errorf("incomplete response from provider %s, status %d", x.provider.name, x.response.Status())
	}
	return fmt.Errorf("reported in the response from provider %s, status %d", x.provider.name, x.response.Status())
}

// closeUpstream ends the provider's response, if there is one.
func (x *completion) closeUpstream() {
	if r := x.response; r != nil {
		x.response = nil
		r.Close()
	}
}

// logFailedAttempt logs why an attempt failed: the access log has only the last one. The error's message is left out, as it
// may be the provider's and repeat the prompt.
func (x *completion) logFailedAttempt(t *routing.Target, e *apierror.Error) {
	attrs := []slog.Attr{
		slog.String("request", x.record.RequestID), slog.String("model", x.record.Model), slog.String("provider", t.Provider),
		slog.String("target", t.Model), slog.Int("attempt", x.record.Attempts), slog.Int("status", e.Status), slog.String("code", e.Code),
	}
	if e.Cause != nil {
		attrs = append(attrs, slog.String("cause", e.Cause.Error()))
	}
	x.server.log.LogAttrs(context.Background(), slog.LevelWarn, "attempt failed", attrs...)
}

// allUnavailable is the error of a request for which every target's circuit is open.
func (x *completion) allUnavailable(order []int, targets []routing.Target) *apierror.Error {
	now := x.server.now()
	soonest, limited := time.Duration(math.MaxInt64), false
	for _, i := range order {
		if wait, l := targets[i].Wait(now); wait < soonest {
			soonest, limited = wait, l
			x.record.Provider, x.record.Target = targets[i].Provider, targets[i].Model
		}
	}
	e := apierror.Fail(abi.FailOverloaded, "upstream_unavailable", "", "The provider of this model failed repeatedly; its circuit breaker is open.")
	if limited {
		e = apierror.Fail(abi.FailRateLimit, "", "", "")
	}
	e.RetryAfter = max(soonest, time.Millisecond)
	e.Cause = fmt.Errorf("circuit of provider %s open for another %v", x.record.Provider, soonest.Round(time.Millisecond))
	return e
}
