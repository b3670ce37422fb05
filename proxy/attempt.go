package proxy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/admission"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/breaker"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/endpoint"
	"github.com/sluice-gateway/sluice/proxy/internal/estimate"
	"github.com/sluice-gateway/sluice/proxy/internal/excerpt"
	"github.com/sluice-gateway/sluice/proxy/internal/failure"
	"github.com/sluice-gateway/sluice/proxy/internal/framing"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/openai/native"
	"github.com/sluice-gateway/sluice/proxy/internal/recording"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/canary"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// maxErrorBody is how much of an error response is read: its message is at its beginning.
const maxErrorBody = 64 << 10

// attempt is one try at serving a completion from one target.
//
// It belongs to one goroutine at a time: the completion's, or while another attempt runs beside it, one of its own until the first
// bytes of its response are there. Of its completion it reads only what does not change while there are attempts, and the
// documents, which it locks.
type attempt struct {
	*work                       // from the API's pool until the attempt ends, or the completion it serves
	reader     clientapi.Reader // of the provider's response; nil: a plugin translates it
	provider   *provider
	response   *upstream.Response
	of         *completion
	wait       waiter
	framed     bool      // the response's first bytes have come, and decoder is the one for its framing
	bodyDone   bool      // the provider's body has ended cleanly
	translated bool      // the plugin has been given the lowered request
	passing    bool      // the provider's response is passed on
	asked      bool      // a connection to the provider has been asked for
	sent       bool      // the provider has been sent the request
	recorded   bool      // the target's statistics know the outcome
	logged     bool      // its failure has been
	released   bool      // the documents are not this attempt's any more
	shadow     bool      // no client waits for the response
	eventAt    time.Time // when the last whole event of a framed response was there
	first      []byte    // of the response's body, until the next read
	target     *routing.Target
	ticket     breaker.Ticket
	canary     *canary.Canary  // whose outcome this is; nil: none
	speaks     *clientAPI      // in which the provider responds; nil: the plugin translates the response
	tape       *recording.Tape // nil: the attempt is not recorded
	number     int             // within the request, from 1
	index      int             // of the target in the policy
	entry      int             // of the decision
	startedAt  time.Time
	firstEvent time.Duration // time to the first event of the response; 0: there was none
	upstreamID string
	held       *spend.Hold // of the provider; nil: it has neither limits nor budgets
}

// waiter is who an attempt waits for: the client, of which a completion is the waiter, or only the end of the attempt.
type waiter interface {
	upstream.Watcher
	upstream.Pacer

	// StartWait begins a wait that does not tick, and FinishWait ends it, with the reason why the attempt is over.
	StartWait() context.Context
	FinishWait() error

	// Gone reports whether nobody waits for the response any more.
	Gone() bool
}

// errCommit ends the wait for a first event that has lasted for a heartbeat: the response's head is sent, so that the
// client sees a stream, and then the wait goes on.
var errCommit = commitError{}

type commitError struct{}

func (commitError) Error() string { return "silence before the first event" }

func (commitError) Resumable() bool { return true }

// tryTargets tries the targets in order until one responds. It returns with a non-streaming response, or with the beginning
// of a streamed one, or with an error for the client, which has been sent nothing.
func (x *completion) tryTargets(ctx context.Context, head *fasthttp.RequestHeader) *apierror.Error {
	now, targets := x.admittedAt, x.policy.Targets
	if err := x.orderTargets(ctx, head, now); err != nil {
		return failure.ForClient(err)
	}
	x.tried, x.turns, x.mirror = x.tried[:0], x.routed.decision.Order(), newMirror(x)
	if len(targets) > 1 {
		now = x.server.now() // the router took its time
	}
	var last *apierror.Error
	for x.startNext(x.attempt, now) {
		e := x.tryTarget(ctx)
		for made := 1; e != nil && x.retryTarget(e, made); made++ {
			e = x.tryTarget(ctx)
		}
		if e == nil {
			return nil
		}
		if last == nil || !failure.IsUnsupported(e) {
			// An unsupported error from one target must not mask another target's error.
			last = e
		}
		if x.disconnected || !e.TryNext {
			break
		}
		if len(x.turns) > 0 {
			x.logFailedAttempt(x.attempt, e)
		}
		now = x.server.now()
	}
	switch {
	case last == nil && x.spent != nil:
		x.countLimit(x.spent)
		return x.spent
	case last == nil:
		return x.allUnavailable(x.routed.decision.Order(), targets)
	}
	return last
}

// startNext makes a an attempt at the next target of the decision that permits one, and returns false if none does.
func (x *completion) startNext(a *attempt, now time.Time) bool {
	for len(x.turns) > 0 {
		i := x.turns[0]
		x.turns = x.turns[1:]
		refused := x.startAttempt(a, i, now, "")
		if refused == "" {
			return true
		}
		x.routed.decision.Skip(i, refused)
	}
	return false
}

// retryTarget starts another attempt at the target that has failed, after a pause, if the error is worth one. made is how many attempts
// at the target have been made.
func (x *completion) retryTarget(e *apierror.Error, made int) bool {
	if x.disconnected || !failure.IsTransient(e) {
		return false
	}
	wait, ok := routing.RetryWait(x.policy.Retry, made, e.RetryAfter)
	if !ok {
		return false
	}
	x.logFailedAttempt(x.attempt, e)
	if x.pause(wait) != nil || x.startAttempt(x.attempt, x.index, x.server.now(), "retry") != "" {
		return false
	}
	x.target.RecordRetry()
	return true
}

// startAttempt makes a an attempt at a target of the policy, if its provider's limits and budgets, its circuit breaker and its retry
// budget permit one. Else it returns why they do not, as the decision has it. why says what the attempt is, "" for one in its turn.
func (x *completion) startAttempt(a *attempt, index int, now time.Time, why string) (refused string) {
	t := &x.policy.Targets[index]
	if !x.holdFailed(now) {
		return routing.BudgetSpent
	}
	hold, e := x.holdProvider(t, now)
	if e != nil {
		x.spent = e
		return routing.Spent
	}
	ticket, ok := t.StartAttempt(now, x.record.Attempts > 0, slices.Contains(x.tried, t.Budget))
	if !ok {
		hold.Settle(spend.Used{}, now)
		return routing.NotPermitted
	}
	x.record.Attempts++
	*a = attempt{
		work: a.work, of: x, wait: x, target: t, index: index, ticket: ticket, number: x.record.Attempts, startedAt: now,
		entry: x.routed.decision.StartAttempt(index, why), provider: x.generation.providers[t.Provider],
		canary: x.routed.decision.Canary(index), held: hold,
	}
	return ""
}

// tryTarget sends the request to a target and reads until there is something for the client: all of a non-streaming
// response, or the first events of a stream. After an error nothing is left of the attempt, and the client has been sent
// nothing.
func (x *completion) tryTarget(ctx context.Context) *apierror.Error {
	x.writtenAt = x.startedAt
	x.reservation.ShrinkResponse()
	var err error
	if e := x.prepare(); e != nil {
		err = e
	} else if err = openAttempt(x); err == nil {
		err = x.readResponse(ctx)
	}
	x.noteAttempt(x.attempt)
	if err == nil {
		x.filterResponse(ctx)
	}
	if err == nil || errors.Is(err, errCommit) {
		if failed := x.writer.Failed(); failed == nil || x.writer.Started() {
			if !x.stream {
				x.drainBody()
			}
			x.routed.decision.EndAttempt(x.entry, "", http.StatusOK, x.firstEvent)
			return nil
		}
		err = x.writer.Failed()
	}
	if x.writer.Started() && !x.disconnected {
		// The client gets what came before the failure, however that was split on its way.
		x.endTape(err)
		x.writer.Fail(failure.ForClient(err))
		x.routed.decision.EndAttempt(x.entry, "", http.StatusOK, x.firstEvent)
		return nil
	}

	e := x.annotate(failure.ForClient(err))
	x.endTape(err)
	if x.disconnected {
		x.recordOutcome(routing.Inconclusive, 0)
	} else {
		x.recordError(e)
	}
	x.routed.decision.EndAttempt(x.entry, e.Code, e.Status, x.server.now().Sub(x.startedAt))
	x.closeUpstream()
	if !x.disconnected {
		x.held.Settle(x.countFailed(x.attempt), x.server.now())
	}
	x.record.Fuel += x.translation.Fuel
	x.translation.Fuel = 0
	return e
}

// prepare makes the attempt ready for sendRequest, on the completion's goroutine. It fails if the request cannot be made one that
// the target takes.
func (a *attempt) prepare() *apierror.Error {
	x := a.of
	t, m, facts := &a.translation, x.model, x.request.Describe()
	t.Reset()
	t.Writer, t.Tenant, t.Shadow = a.writer, x.record.Key, a.shadow
	a.writer.Reset(response.Options{
		Stream: x.stream, IncludeUsage: facts.IncludeUsage, FunctionCalls: facts.FunctionCalls,
		ID: x.api.NewResponseID(), RequestID: x.record.RequestID, Model: a.target.Model, Created: x.record.Began.Unix(),
		Choices: facts.N, PromptEstimate: estimate.PromptTokens(facts), Prices: a.target.Prices, Aliases: a.alias,
		Tap: x.mirror.tap(),
	})
	if x.chain.OnResponse() {
		a.filtered.Filter(&x.chain)
	}
	a.renderer.Respond(x.request)
	if e := a.chooseDocument(); e != nil {
		return e
	}
	if x.remembersThinking(a.translated) && facts.Tools > 0 && !facts.FunctionCalls && !a.shadow {
		a.recorder.Record(x.server.thinking, x.record.Key, a.provider.name)
	}
	t.Summary.Describe(facts, len(t.Request.Body))
	t.Summary.ClientForm, t.Summary.Betas, t.Summary.Tags = x.api.Name, x.betas, x.tags
	t.Summary.RequestID = x.record.RequestID
	t.Summary.Time = a.startedAt
	t.Summary.Attempt = a.number
	t.Summary.Random = x.random
	t.Summary.Target = a.target.Model
	t.Summary.MaxTokens, t.Summary.DefaultMaxTokens = m.MaxTokens, m.DefaultMaxTokens
	t.Summary.Options = a.target.Options
	return nil
}

// remembersThinking reports whether signed reasoning is kept for the client: those of Messages always send it back, and those of
// Gemini mostly never get it.
func (x *completion) remembersThinking(translated bool) bool {
	return x.api.id == clientapi.Chat || (x.api.id == clientapi.Responses || x.api.id == clientapi.Gemini) && translated
}

// chooseDocument chooses what the target's plugin makes its request from: the client's own document where that is what the plugin
// takes, else the lowered one.
func (a *attempt) chooseDocument() *apierror.Error {
	x, t := a.of, &a.translation
	if x.api.form == abi.FormChat || a.provider.binding.Forms()&x.api.form != 0 {
		t.Request.Doc, t.Request.Body = x.request.Document()
		t.Summary.Form = x.api.Name
		return nil
	}
	a.translated, t.Summary.Form = true, x.server.apis[clientapi.Chat].Name
	if x.lowered.request == nil && x.lowered.err == nil {
		x.lowered.err = x.lower()
	}
	if x.lowered.err != nil {
		return x.lowered.err
	}
	t.Request.Doc, t.Request.Body = x.lowered.request.Document()
	return nil
}

// lower makes a chat completions request of the client's. It is done once a request.
func (x *completion) lower() *apierror.Error {
	l, s := &x.lowered, x.server
	_, own := x.request.Document()
	body, warnings, e := x.request.AppendChat(s.buffers.Get(len(own)))
	l.body = body
	if e != nil {
		return e
	}
	if e := x.room.Grow(&x.counted, len(x.body)+len(body)); e != nil {
		return e
	}
	r := s.apis[clientapi.Chat].getRequest().(*openai.Request)
	l.request = r
	if e := r.Parse(body, clientapi.Limits{}.Lowered()); e != nil {
		e = clientapi.OriginError(x.request, e)
		e.TryNext = true // a provider that speaks the client's API may take it
		return e
	}
	if x.remembersThinking(true) {
		l.body = x.restoreThinking(r, body, len(x.body))
	}
	l.warnings = warnings
	for _, w := range r.Warnings {
		l.warnings = clientapi.AddWarning(l.warnings, w.Kind, cmp.Or(x.request.Origin(w.Member), w.Member))
	}
	return nil
}

// sendRequest makes the plugin build the provider's request, and sends it. There is none where the plugin has responded by
// itself.
func (a *attempt) sendRequest() error {
	s := a.of.server
	if s.recorder != nil {
		a.startTape()
	}
	if err := a.buildRequest(); err != nil {
		return err
	}
	asked := a.of.api
	if a.translated {
		asked = &s.apis[clientapi.Chat]
	}
	if a.speaks = s.apis.ofDialect(a.translation.Dialect, asked); a.speaks != nil {
		a.reader = a.work.reader(a.speaks)
	}
	if a.translation.Answered {
		a.of.mirror.send()
		a.firstEvent = s.now().Sub(a.startedAt)
		return nil
	}
	return a.doRequest()
}

// buildRequest makes the plugin build the provider's request.
func (a *attempt) buildRequest() error {
	a.of.busy.Lock()
	defer a.of.busy.Unlock()
	ctx := a.wait.StartWait()
	err := a.provider.binding.Request(ctx, &a.translation)
	if gone := a.wait.FinishWait(); gone != nil {
		return gone
	}
	return err
}

// doRequest sends the request that the plugin has built. It is apart from sendRequest to keep the stack small below a
// plugin, which is where it is deepest.
func (a *attempt) doRequest() error {
	x := a.of
	if a.provider.client == nil {
		return apierror.Fail(abi.FailServer, "plugin_protocol", "", "The provider's plugin did not respond, and the provider has no base_url.")
	}
	out := &a.translation.Out
	headers := a.out.Headers[:0]
	for _, h := range out.Headers {
		headers = append(headers, upstream.Header(h))
	}
	headers = append(headers, upstream.Header{Name: admission.HopsHeader, Value: admission.NextHops(x.hops)})
	if x.record.Trace != "" && !slices.ContainsFunc(headers, func(h upstream.Header) bool { return h.Name == endpoint.TraceHeader }) {
		headers = append(headers, upstream.Header{Name: endpoint.TraceHeader, Value: x.record.Trace})
	}
	a.out = upstream.Request{
		Method: "POST", Path: out.Path, Headers: headers, Body: out.Body, ContentType: "application/json",
		Accept: framing.ContentType(a.translation.Framing), Client: x.credential, Once: a.shadow,
	}
	if x.mirror != nil {
		a.out.Sent = x.mirror.send
	}
	a.asked = true
	ctx := a.wait.StartWait()
	response, err := a.provider.client.Do(ctx, &a.out, a.wait)
	clear(headers)
	a.out = upstream.Request{Headers: headers}
	gone := a.wait.FinishWait()
	a.response, a.sent = response, err == nil || failure.MayHaveReached(err)
	if gone != nil {
		return gone
	}
	if err != nil {
		return err
	}
	a.upstreamID = string(a.provider.redact(response.RequestID()))
	a.headerSource, a.translation.ResponseHeader = response, a.header
	if a.tape != nil {
		a.tape.SetHead(response.Status(), response.EachHeader)
	}
	return nil
}

// awaitFirst waits for the first bytes of the response's body, or reads a response whose status is an error.
func (a *attempt) awaitFirst(ctx context.Context) error {
	if status := a.response.Status(); status < 200 || status >= 300 {
		return a.readErrorResponse(ctx, status)
	}
	first, err := a.response.Next()
	for err == nil && len(bytes.TrimLeft(first, " \t\r\n")) == 0 {
		first, err = a.response.Next()
	}
	switch {
	case err == io.EOF:
		a.bodyDone = true
		return failure.EmptyResponse()
	case err != nil:
		// With errCommit nothing of the body has come: WriteStream goes on from here.
		return err
	}
	a.first, a.firstEvent = first, a.of.server.now().Sub(a.startedAt)
	a.target.RecordFirstEvent(a.ticket)
	return nil
}

// readErrorResponse reads a response whose status is an error.
func (a *attempt) readErrorResponse(ctx context.Context, status int) error {
	if status == http.StatusNotModified {
		return failure.EmptyResponse()
	}
	s := a.of.server
	body, err := a.response.ReadAll(s.buffers.Get(0), maxErrorBody)
	for errors.Is(err, errCommit) {
		body, err = a.response.ReadAll(body, maxErrorBody)
	}
	defer func() { s.buffers.Put(body) }()
	if a.wait.Gone() {
		return failure.ErrDisconnected
	}
	a.tape.Write(body)
	// A read error is ignored: a part of an error response says more than that it was cut off.
	body = a.provider.redact(body)
	cause := a.rejection(status, body)
	var e *apierror.Error
	if a.speaks != nil {
		e = a.speaks.Failure(status, body)
		a.readErrorUsage(body)
	} else {
		err := a.provider.binding.Response(ctx, &a.translation, status, body)
		if failed := a.writer.Failed(); err == nil && failed != nil {
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
		d.RetryAfter = a.response.RetryAfter(s.now())
	}
	if cause != nil {
		d.Cause = cause
	}
	return &d
}

// rejection is the cause of an error response with a status 4xx: the provider's words say what is wrong with the request, or with
// the configuration. nil for another status.
func (a *attempt) rejection(status int, body []byte) error {
	if status < 400 || status >= 500 {
		return nil
	}
	r := &failure.Rejection{Provider: a.provider.name, Target: a.provider.client.Target("POST", a.translation.Out.Path), Status: status}
	if !a.released { // else what the words repeat of it could not be found any more
		a.of.busy.Lock()
		defer a.of.busy.Unlock()
		words := excerpt.New([]byte(native.ErrorText(body)))
		doc, _ := a.of.request.Document()
		clientapi.EachText(doc, words.Cut)
		r.Words = words.String()
	}
	return r
}

// annotate adds to an error the provider and the response that it comes from, and for the log, its cause.
func (a *attempt) annotate(e *apierror.Error) *apierror.Error {
	if x := a.of; a.translated && e != x.lowered.err {
		x.busy.Lock()
		e = clientapi.OriginError(x.request, e)
		x.busy.Unlock()
	}
	d := *e
	if a.response != nil {
		if a.response.Status() >= 300 {
			d.Provider, d.UpstreamStatus = a.provider.name, a.response.Status()
		}
		d.UpstreamRequestID = a.upstreamID
	}
	if d.Cause == nil {
		d.Cause = a.responseCause()
	}
	return &d
}

// responseCause is the cause of a failure that has no other: it is in the response, in words that the log must not repeat,
// or the response ended early.
func (a *attempt) responseCause() error {
	switch {
	case a.translated && a.of.lowered.err != nil && a.translation.Request.Doc == nil:
		return fmt.Errorf("provider %s does not speak the client's API, and the request cannot be translated", a.provider.name)
	case a.response == nil:
		return fmt.Errorf("reported by the plugin for provider %s", a.provider.name)
	case a.bodyDone && a.reader == nil && a.translation.Dialect == abi.DialectTranslated && !a.writer.Began():
		return fmt.Errorf("plugin %s reported nothing of the response from provider %s, status %d", a.provider.binding.Plugin().Name(), a.provider.name, a.response.Status())
	case a.bodyDone && a.reader == nil && a.translation.Dialect == abi.DialectTranslated && a.writer.Incomplete():
		return fmt.Errorf("plugin %s did not call done before the response from provider %s ended, status %d: the response is incomplete, or the plugin missed its end",
			a.provider.binding.Plugin().Name(), a.provider.name, a.response.Status())
	case a.bodyDone:
		return fmt.Errorf("incomplete response from provider %s, status %d", a.provider.name, a.response.Status())
	}
	return fmt.Errorf("reported in the response from provider %s, status %d", a.provider.name, a.response.Status())
}

// closeUpstream ends the provider's response, if there is one.
func (a *attempt) closeUpstream() {
	if r := a.response; r != nil {
		a.response = nil
		r.Close()
	}
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
