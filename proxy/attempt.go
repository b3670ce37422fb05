package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/admission"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/breaker"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/estimate"
	"github.com/sluice-gateway/sluice/proxy/internal/failure"
	"github.com/sluice-gateway/sluice/proxy/internal/filter"
	"github.com/sluice-gateway/sluice/proxy/internal/framing"
	"github.com/sluice-gateway/sluice/proxy/internal/holds"
	"github.com/sluice-gateway/sluice/proxy/internal/openai/native"
	"github.com/sluice-gateway/sluice/proxy/internal/recording"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/canary"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/credential"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// maxErrorBody is how many bytes of an error response are read. Its message is at the beginning.
const maxErrorBody = 64 << 10

// attempt is one attempt to serve a completion from one target.
//
// It belongs to one goroutine at a time: the completion's or, while two attempts race, one of its own until the first
// bytes of its response have arrived. Of the request it knows what was asked, which does not change during attempts, and
// the documents, which it locks. It knows the client only as a waiter.
type attempt struct {
	*workspace  // returned to the API's pool when the attempt, or the completion it serves, ends
	trial       // at its target
	incoming    // response of the provider
	services    *services
	exchange    *exchange
	documents   *documents
	memory      *admission.Reservation // counts the memory of a response that is held
	provider    *provider
	wait        waiter
	sendCopies  func()          // called when the provider has the request; nil if there are no copies to send
	translated  bool            // the plugin receives the request in its chat completions form
	followed    bool            // a further request has been sent
	dispatched  bool            // a connection to the provider has been requested
	sent        bool            // the request was written whole to the provider
	rejected    bool            // the response's status is an error
	accounted   bool            // the usage has been counted
	logged      bool            // the failure has been logged
	released    bool            // the attempt no longer uses the request's documents
	shadow      bool            // the request is a copy for a shadow target, without a client
	responseAPI *clientAPI      // the API in which the provider responds; nil if a plugin translates the response
	tape        *recording.Tape // nil if the attempt is not recorded
	followAt    time.Time       // when the next request is due; zero if it is not waited for
	account     credential.Account
	held        holds.Attempt
	progress    *atomic.Int32 // set for an attempt in a race: notSent, awaiting or receiving
}

// trial is an attempt as its target, and the routing decision, count it.
type trial struct {
	target     *routing.Target
	ticket     breaker.Ticket
	canary     *canary.Canary // counts the outcome of this attempt; nil if the target is not a canary
	recorded   bool           // the outcome is in the target's statistics
	number     int            // number of the attempt within the request, from 1
	index      int            // index of the target in the policy's list
	entry      int            // index of the attempt in the routing decision
	startedAt  time.Time
	firstEvent time.Duration // time to the first event of the response; 0 if there is none
}

// incoming is what has been read of a provider's response.
type incoming struct {
	response    *upstream.Response
	reader      clientapi.Reader // reads the response; nil if a plugin translates it
	framed      bool             // the response's first bytes have arrived, and decoder matches their framing
	bodyDone    bool             // the response's body has ended cleanly
	passthrough bool             // the response is passed on in its own form
	eventAt     time.Time        // when the last whole event of a framed response arrived
	first       []byte           // first bytes of the response's body; valid until the next read
	upstreamID  string           // the provider's ID of the request, redacted
}

// waiter watches over the waits of an attempt: it ends them when the client disconnects (a completion) or when the
// attempt is cancelled (detached).
type waiter interface {
	upstream.Watcher
	upstream.Pacer

	// AllowResend reports whether the attempt's request, whose connection was lost, may be sent again.
	upstream.Resender

	// Due reports whether Tick should be called although the attempt does not wait.
	Due(now time.Time) bool

	// StartWait begins a wait during which Tick is not called, and returns the context for it. FinishWait ends the
	// wait, and returns an error if the attempt must end.
	StartWait() context.Context
	FinishWait() error

	// Gone reports whether the client has disconnected or the attempt has been cancelled.
	Gone() bool
}

// errCommit ends the wait for the first event after a heartbeat interval: the response's head is sent, so that the
// client sees a stream, and the wait resumes.
var errCommit = commitError{}

type commitError struct{}

func (commitError) Error() string { return "silence before the first event" }

func (commitError) Resumable() bool { return true }

// tryTargets tries the targets in order until one responds. It returns after it has read a complete non-streaming
// response or the beginning of a stream. Otherwise it returns an error for the client, to which nothing has been sent.
func (x *completion) tryTargets(ctx context.Context, head *fasthttp.RequestHeader) *apierror.Error {
	now, targets := x.holds.AdmittedAt, x.policy.Targets
	if e := x.findReferences(); e != nil {
		return e
	}
	if err := x.orderTargets(ctx, head, now); err != nil {
		return failure.ForClient(err)
	}
	x.triedBudgets, x.remaining, x.mirror = x.triedBudgets[:0], x.routed.decision.Order(), newMirror(x)
	if len(targets) > 1 {
		now = x.server.now() // the decision may have waited for a router
	}
	var last *apierror.Error
	for x.startNext(x.attempt, now) {
		e := x.tryTarget(ctx)
		for attempts := 1; e != nil && x.retryTarget(e, attempts); attempts++ {
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
		if len(x.remaining) > 0 {
			x.logFailedAttempt(x.attempt, e)
		}
		now = x.server.now()
	}
	switch {
	case last == nil && x.holds.Limit != nil:
		return x.countLimit(x.holds.Limit)
	case last == nil:
		return x.allUnavailable(x.routed.decision.Order(), targets)
	}
	return last
}

// startNext starts attempt a at the next target that permits one. It returns false if there is none.
func (x *completion) startNext(a *attempt, now time.Time) bool {
	for len(x.remaining) > 0 {
		i := x.remaining[0]
		x.remaining = x.remaining[1:]
		reason := x.startAttempt(a, i, now, "")
		if reason == "" {
			return true
		}
		x.routed.decision.Skip(i, reason)
	}
	return false
}

// retryTarget starts another attempt at the target that has failed, after a pause, if the error is transient. attempts
// is how many have been made at this target.
func (x *completion) retryTarget(e *apierror.Error, attempts int) bool {
	if x.disconnected || !failure.IsTransient(e) {
		return false
	}
	wait, ok := routing.RetryWait(x.policy.Retry, attempts, e.RetryAfter)
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

// startAttempt starts attempt a at a target of the policy if the limits and budgets of its provider, its circuit
// breaker and its retry budget permit it. Otherwise it returns the reason, as the routing decision shows it. why marks
// the attempt in the decision; it is "" for one in regular order.
func (x *completion) startAttempt(a *attempt, index int, now time.Time, why string) (reason string) {
	t := &x.policy.Targets[index]
	held, reason := x.holds.StartAttempt(x.request, t, x.stream, now)
	if reason != "" {
		return reason
	}
	started := false
	defer func() {
		if !started {
			held.Settle(spend.Used{}, now)
		}
	}()
	ticket, ok := t.StartAttempt(now, x.record.Attempts > 0, slices.Contains(x.triedBudgets, t.Budget))
	if !ok {
		return routing.NotPermitted
	}
	started = true
	provider := x.generation.providers[t.Provider]
	x.record.Attempts++
	if x.server.account.Keeps() {
		x.record.Admitted = x.holds.AdmittedAt.Sub(x.record.Began)
		x.record.Tries = append(x.record.Tries, telemetry.Attempt{Provider: t.Provider, Target: t.Model, Why: why, Began: now, Plugin: provider.pluginUse(0)})
		x.server.account.Recent.Attempt(&x.record)
	}
	*a = attempt{
		workspace: a.workspace, services: &x.server.services, exchange: &x.exchange, documents: &x.documents, memory: &x.holds.Reservation,
		provider: provider, wait: x, sendCopies: x.mirror.sender(), held: held,
		trial: trial{target: t, ticket: ticket, canary: x.routed.decision.Canary(index), number: x.record.Attempts, index: index, startedAt: now},
	}
	a.entry = x.routed.decision.StartAttempt(index, why)
	return ""
}

// tryTarget sends the request to a target and reads until there is something for the client: a complete non-streaming
// response, or the first events of a stream. After an error the attempt holds nothing, and nothing has been sent to the
// client.
func (x *completion) tryTarget(ctx context.Context) *apierror.Error {
	x.writtenAt = x.startedAt
	x.holds.Reservation.ShrinkResponse()
	var err error
	if e := x.prepare(x.mirror.tap(), &x.chain); e != nil {
		err = e
	} else if err = openAttempt(x); err == nil {
		err = x.readResponse(ctx)
	}
	x.recordTarget(x.attempt)
	if err == nil {
		x.filterResponse(ctx)
	}
	if err == nil || errors.Is(err, errCommit) {
		if failed := x.writer.Failed(); failed == nil || x.writer.Started() {
			if !x.stream {
				x.drainBody()
			}
			x.endAttempt(x.attempt, "", http.StatusOK, x.firstEvent, nil)
			return nil
		}
		err = x.writer.Failed()
	}
	if x.writer.Started() && !x.disconnected {
		// Send the client what arrived before the failure, however it was split into packets.
		x.endTape(err)
		x.writer.Fail(failure.ForClient(err))
		x.endAttempt(x.attempt, "", http.StatusOK, x.firstEvent, nil)
		return nil
	}

	e := x.annotate(failure.ForClient(err))
	x.endTape(err)
	if x.disconnected {
		x.recordOutcome(routing.Inconclusive, 0)
	} else {
		x.recordError(e)
	}
	x.endAttempt(x.attempt, e.Code, e.Status, x.server.now().Sub(x.startedAt), e)
	x.closeUpstream()
	if !x.disconnected {
		x.countFailed(x.attempt, false)
	}
	x.record.Fuel += x.translation.Fuel
	x.translation.Fuel = 0
	return e
}

// prepare prepares the attempt for sendRequest, on the completion's goroutine. It fails if the request has no form that
// the target accepts. tap, if not nil, observes the response, and
// chain, if not nil, has its filters.
func (a *attempt) prepare(tap response.Tap, chain *filter.Chain) *apierror.Error {
	x, request := a.exchange, a.documents.request
	t, m, facts := &a.translation, x.model, request.Describe()
	t.Reset()
	t.Writer, t.Tenant, t.Shadow = a.writer, x.key.Name(), a.shadow
	_, document := request.Document()
	promptMost, responseMost := estimate.Most(facts, len(document), m.MaxTokens)
	a.writer.Reset(response.Options{
		Stream: x.stream, IncludeUsage: facts.IncludeUsage, FunctionCalls: facts.FunctionCalls,
		ID: x.api.NewResponseID(), RequestID: x.requestID, Model: a.target.Model, Created: x.began.Unix(),
		Choices: facts.N, PromptEstimate: estimate.PromptTokens(facts), PromptMost: promptMost, ResponseMost: responseMost,
		Prices: a.target.Prices, Aliases: a.alias,
		Tap: tap,
	})
	if chain != nil && chain.OnResponse() {
		a.filtered.Filter(chain)
	}
	a.renderer.Respond(request)
	if e := a.chooseDocument(); e != nil {
		return e
	}
	if x.remembersThinking(a.translated) && facts.Tools > 0 && !facts.FunctionCalls && !a.shadow {
		a.recorder.Record(a.services.thinking, x.key.Name(), a.provider.name)
	}
	t.Summary.Describe(facts, len(t.Request.Body))
	if a.translated {
		t.Summary.Flags |= a.documents.chatForm.request.Describe().Flags & clientapi.FlagToolNames
	}
	t.Summary.ClientForm, t.Summary.Betas, t.Summary.Tags = x.api.Name, x.betas, x.tags
	t.Summary.RequestID = x.requestID
	t.Summary.Time = a.startedAt
	t.Summary.Attempt = a.number
	t.Summary.Random = x.random
	t.Summary.Target = a.target.Model
	t.Summary.MaxTokens, t.Summary.DefaultMaxTokens = m.MaxTokens, m.DefaultMaxTokens
	t.Summary.Options = a.target.Options
	return nil
}

// remembersThinking reports whether signed reasoning is remembered for the client. The client sends back what it has
// received of it, but some clients of Messages drop empty blocks, and those of Gemini rarely receive it.
func (x *exchange) remembersThinking(translated bool) bool {
	return x.api.id == clientapi.Chat || translated
}

// chooseDocument chooses the document that the target's plugin receives: the client's own if the plugin accepts that
// form, else the request's chat completions form.
func (a *attempt) chooseDocument() *apierror.Error {
	x, d, t := a.exchange, a.documents, &a.translation
	native := x.api.form == abi.FormChat || a.provider.binding.Forms()&x.api.form != 0
	if e := x.references.Check(a.provider.name, a.provider.sharedObjects, native); e != nil {
		return e
	}
	if native {
		t.Request.Doc, t.Request.Body = d.request.Document()
		t.Summary.Form = x.api.Name
		return nil
	}
	a.translated, t.Summary.Form = true, a.services.apis[clientapi.Chat].Name
	if d.chatForm.request == nil && d.chatForm.err == nil {
		d.chatForm.err = d.buildChat(a.services, x)
	}
	if d.chatForm.err != nil {
		return d.chatForm.err
	}
	t.Request.Doc, t.Request.Body = d.chatForm.request.Document()
	return nil
}

// sendRequest makes the plugin build the provider's request, and sends it. If the plugin responds by itself, nothing is
// sent.
func (a *attempt) sendRequest() error {
	s := a.services
	if s.recorder != nil {
		a.startTape()
	}
	if err := a.buildRequest(); err != nil {
		return err
	}
	requested := a.exchange.api
	if a.translated {
		requested = &s.apis[clientapi.Chat]
	}
	if a.responseAPI = s.apis.byDialect(a.translation.Dialect, requested); a.responseAPI != nil {
		a.reader = a.getReader(a.responseAPI)
	}
	if a.translation.Answered {
		if a.sendCopies != nil {
			a.sendCopies()
		}
		a.firstEvent = s.now().Sub(a.startedAt)
		return nil
	}
	return a.doRequest()
}

// buildRequest makes the plugin build the provider's request.
func (a *attempt) buildRequest() error {
	a.documents.busy.Lock()
	defer a.documents.busy.Unlock()
	ctx := a.wait.StartWait()
	err := a.provider.binding.Request(ctx, &a.translation)
	if gone := a.wait.FinishWait(); gone != nil {
		return gone
	}
	return err
}

// doRequest sends the request that the plugin has built. It is separate from sendRequest because the stack is deepest
// in a plugin call, and should be small below it.
func (a *attempt) doRequest() error {
	x := a.exchange
	if a.provider.client == nil {
		return apierror.Fail(abi.FailServer, "plugin_protocol", "", "The provider's plugin did not respond, and the provider has no base_url.")
	}
	out := &a.translation.Out
	headers := a.out.Headers[:0]
	for _, h := range out.Headers {
		headers = append(headers, upstream.Header(h))
	}
	headers = append(headers, upstream.Header{Name: admission.HopsHeader, Value: admission.NextHops(x.hops)})
	if a.provider.trace {
		headers = x.appendTrace(headers, a.number)
	}
	a.out = upstream.Request{
		Method: "POST", Path: out.Path, Headers: headers, Body: out.Body, ContentType: "application/json",
		Accept: framing.ContentType(a.translation.Framing), Client: x.credential, Once: a.shadow,
	}
	if x.references.Previous.Exists() {
		a.out.Account = credential.Account(x.references.Origin.Account)
	}
	a.out.Sent, a.out.Resender = a.onSent(), a.wait
	a.dispatched = true
	response, err := a.send()
	if gone := a.wait.FinishWait(); gone != nil {
		return gone
	}
	if err != nil {
		return err
	}
	a.upstreamID, a.account = string(a.provider.redact(response.RequestID())), response.Account()
	a.headerSource, a.translation.ResponseHeader = response, a.header
	return nil
}

// send sends a.out, and waits for the head of the response. It records whether the request was written whole even if it
// panics.
func (a *attempt) send() (*upstream.Response, error) {
	defer func() {
		a.sent = a.sent || a.out.Written
		clear(a.out.Headers)
		a.out = upstream.Request{Headers: a.out.Headers}
	}()
	response, err := a.provider.client.Do(a.wait.StartWait(), &a.out, a.wait)
	if a.response = response; err == nil {
		a.receiveHead(response.Status())
		if a.tape != nil {
			a.tape.StartResponse(response.Status(), response.EachHeader)
		}
	}
	return response, err
}

// awaitFirst waits for the first bytes of the response's body, or reads the response if its status is an error. The body
// of the response to a further request may be empty.
func (a *attempt) awaitFirst(ctx context.Context) error {
	if a.rejected {
		return a.readErrorResponse(ctx, a.response.Status())
	}
	first, err := a.response.Next()
	for err == nil && len(bytes.TrimLeft(first, " \t\r\n")) == 0 {
		first, err = a.response.Next()
	}
	switch {
	case err == io.EOF && a.followed:
		a.bodyDone = true // as after DELETE: its status may be all that the plugin needs
		return nil
	case err == io.EOF:
		a.bodyDone = true
		return failure.EmptyResponse()
	case err != nil:
		// After errCommit, no part of the body has arrived; WriteStream continues from here.
		return err
	}
	a.first = first
	if a.firstEvent == 0 {
		a.firstEvent = a.services.now().Sub(a.startedAt)
	}
	a.target.RecordFirstEvent(a.ticket)
	return nil
}

// readErrorResponse reads a response whose status is an error.
func (a *attempt) readErrorResponse(ctx context.Context, status int) error {
	if status == http.StatusNotModified {
		return failure.EmptyResponse()
	}
	s := a.services
	body, err := a.response.ReadAll(s.buffers.Get(0), maxErrorBody)
	for errors.Is(err, errCommit) {
		body, err = a.response.ReadAll(body, maxErrorBody)
	}
	defer func() { s.buffers.Put(body) }()
	if a.wait.Gone() {
		return failure.ErrDisconnected
	}
	a.tape.Write(body)
	// Ignore a read error, because a part of an error response says more than the fact that it was truncated.
	body = a.provider.redact(body)
	cause := a.rejection(status, body)
	var e *apierror.Error
	if a.responseAPI != nil {
		e = a.responseAPI.Failure(status, body)
		a.readErrorUsage(body)
	} else {
		err := a.provider.binding.Response(ctx, &a.translation, status, body)
		if failed := a.writer.Failed(); err == nil && failed != nil {
			err = failed
		}
		if err == nil && a.follows() {
			return nil
		}
		if err == nil {
			// The plugin found no error in the body, so the status decides.
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

// allUnavailable returns the error of a request whose targets all have an open circuit.
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
