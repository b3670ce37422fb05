package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/breaker"
	"github.com/sluice-gateway/sluice/proxy/internal/framing"
	"github.com/sluice-gateway/sluice/proxy/internal/openai/native"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

const (
	// maxErrorBody is how much of an error answer is read: its message stands at its beginning.
	maxErrorBody = 64 << 10

	// maxWholeAnswer bounds a whole answer, which is held in memory.
	maxWholeAnswer = 32 << 20

	// maxDrain is how much may follow a complete answer for its connection to be worth keeping.
	maxDrain = 16 << 10
)

// answer tries the targets in order until one answers, and returns with the answer whole, or streamed and begun, or
// with an error for the client of which nothing has been sent.
func (x *completion) answer(ctx context.Context, targets []routing.Target) *apierror.Error {
	now := x.admitted
	order, err := x.choose(ctx, targets, now)
	if err != nil {
		return clientError(err)
	}
	x.asked = x.asked[:0]
	var last *apierror.Error
	for n, i := range order {
		t := &targets[i]
		if len(targets) > 1 {
			now = x.server.now() // the router, or the attempt before, took its time
		}
		if !x.attemptAt(t, now) {
			continue
		}
		e := x.try(ctx, t)
		if e == nil {
			return nil
		}
		if last == nil || !unsupported(e) {
			// That one target cannot do what another could have done does not make the request a wrong one.
			last = e
		}
		if x.departed || !e.TryNext {
			break
		}
		if n+1 < len(order) {
			x.passOver(t, e)
		}
	}
	if last == nil {
		return x.unavailable(order, targets)
	}
	return last
}

// choose puts the targets into the order in which they are tried.
func (x *completion) choose(ctx context.Context, targets []routing.Target, now time.Time) ([]int, error) {
	x.watcher.Start()
	order, explain, err := x.gen.router.Order(ctx, x.order[:0], targets, now, x.record.Key, x.appendSummary, func(err error) bool {
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

// attemptAt asks for leave to try a target, and counts the attempt.
func (x *completion) attemptAt(t *routing.Target, now time.Time) bool {
	ticket, ok := t.StartAttempt(now, x.record.Attempts > 0, slices.Contains(x.asked, t.Budget))
	if !ok {
		return false
	}
	x.target, x.provider, x.ticket, x.settled = t, x.gen.providers[t.Provider], ticket, false
	x.record.Attempts++
	x.began = now
	return true
}

// try sends the request to the target that has been admitted and reads until there is something for the client: the answer whole, or the
// first events of a stream. An error leaves nothing of the attempt behind, and nothing has been sent to the client.
func (x *completion) try(ctx context.Context, t *routing.Target) *apierror.Error {
	x.record.Provider, x.record.Target = t.Provider, t.Model
	x.record.UpstreamID, x.record.FirstEvent = "", 0
	x.framed, x.bodyEnd = false, false
	x.written, x.sent = x.began, false
	x.drop(&x.heldAnswer)
	x.resetAttempt()

	err := x.send(ctx)
	if err == nil {
		err = x.begin(ctx)
	}
	if err == nil || errors.Is(err, errCommit) {
		if failed := x.writer.Failed(); failed == nil || x.writer.Started() {
			if !x.stream {
				x.drain()
			}
			return nil
		}
		err = x.writer.Failed()
	}
	if x.writer.Started() && !x.departed {
		// What came before belongs to the client, however it was cut on its way here.
		x.writer.Fail(clientError(err))
		return nil
	}

	e := x.describe(clientError(err))
	if x.departed {
		x.settle(routing.Inconclusive, 0)
	} else {
		x.settle(outcome(e))
	}
	x.hangUp()
	x.record.Fuel += x.attempt.Fuel
	x.attempt.Fuel = 0
	return e
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

// send has the plugin build the provider's request and sends it. Where the plugin answered by itself there is none.
func (x *completion) send(ctx context.Context) error {
	x.watcher.Start()
	err := x.provider.binding.Request(ctx, &x.attempt)
	if gone := x.watcher.Finish(); gone != nil {
		return gone
	}
	if err != nil {
		return err
	}
	x.native = x.attempt.Dialect == abi.DialectOpenAI
	if x.attempt.Answered {
		x.record.FirstEvent = x.server.now().Sub(x.began)
		return nil
	}
	return x.ask(ctx)
}

// ask sends the request that the plugin has built. It is apart from send for the sake of the stack below a plugin, which
// is where it is deepest.
func (x *completion) ask(ctx context.Context) error {
	if x.provider.client == nil {
		return apierror.Fail(abi.FailServer, "plugin_protocol", "", "The provider's plugin did not answer, and the provider has no address.")
	}
	if x.native {
		x.reader.Reset(x.attempt.DialectOptions)
	}
	out := &x.attempt.Out
	headers := x.out.Headers[:0]
	for _, h := range out.Headers {
		headers = append(headers, upstream.Header(h))
	}
	headers = append(headers, upstream.Header{Name: hopsHeader, Value: hopTexts[x.hops+1]})
	x.out = upstream.Request{
		Method: "POST", Path: out.Path, Headers: headers, Body: out.Body, ContentType: "application/json",
		Accept: framing.ContentType(x.attempt.Framing),
	}
	x.asked = append(x.asked, x.target.Budget)
	x.watcher.Start()
	response, err := x.provider.client.Do(ctx, &x.out, x)
	clear(headers)
	x.out = upstream.Request{Headers: headers}
	gone := x.watcher.Finish()
	x.response, x.sent = response, err == nil || reached(err)
	if gone != nil {
		return gone
	}
	if err != nil {
		return err
	}
	x.record.UpstreamID = string(x.provider.redact(upstreamID(response)))
	x.from, x.attempt.ResponseHeader = response, x.header
	return nil
}

// reached tells whether the provider may have read the request for which there is no answer.
func reached(err error) bool {
	e, ok := errors.AsType[*upstream.Error](err)
	return ok && e.Phase >= upstream.PhaseHead
}

// upstreamID is the provider's own name of the request.
func upstreamID(r *upstream.Response) []byte {
	for _, name := range []string{"x-request-id", "request-id", "x-amzn-requestid", "x-generation-id"} {
		if v := r.Header(name); len(v) > 0 && len(v) <= abi.MaxName && printable(v) {
			return v
		}
	}
	return nil
}

// begin reads the answer as far as the client's first bytes need it. It may be called again where the head of the
// client's stream went out while nothing had come.
func (x *completion) begin(ctx context.Context) error {
	if x.response == nil {
		if !x.writer.Complete() && x.writer.Failed() == nil {
			return apierror.Fail(abi.FailServer, "plugin_protocol", "", "The provider's plugin did not complete its answer.")
		}
		return nil
	}
	if status := x.response.Status(); status < 200 || status >= 300 {
		return x.refused(ctx, status)
	}
	first, err := x.response.Next()
	for err == nil && len(bytes.TrimLeft(first, " \t\r\n")) == 0 {
		first, err = x.response.Next()
	}
	if errors.Is(err, errCommit) {
		// Not a byte of the body so far: the pump goes on from here.
		return err
	}
	if err == io.EOF {
		x.bodyEnd = true
		return emptyAnswer()
	}
	if err != nil {
		return err
	}
	x.record.FirstEvent = x.server.now().Sub(x.began)
	x.target.RecordFirstEvent(x.ticket)
	framed, ok := framing.Detect(x.response.Header("content-type"), first, x.attempt.Framing)
	switch {
	case !ok:
		e := apierror.Fail(abi.FailBadAnswer, "", "", "The provider's answer is neither JSON nor a stream of events.")
		e.Cause = fmt.Errorf("content type %.64q", framing.MediaType(x.response.Header("content-type")))
		return e
	case framed == abi.FramingJSON:
		return x.whole(ctx, first)
	}
	x.decoder = x.decoders.Open(framed)
	x.decoder.Feed(first)
	x.framed, x.progress = true, x.server.now()
	return x.advance(ctx)
}

// whole reads an answer that is one JSON document, of which first is the beginning.
func (x *completion) whole(ctx context.Context, first []byte) error {
	body, err := x.response.ReadAllWithin(append(x.server.bodies.get(len(first)), first...), maxWholeAnswer, x.gathers)
	defer func() { x.server.bodies.put(body) }()
	for errors.Is(err, errCommit) {
		// A whole answer cannot begin before it is there; the wait goes on until its own deadlines.
		body, err = x.response.ReadAllWithin(body, maxWholeAnswer, x.gathers)
	}
	if err != nil {
		return err
	}
	x.bodyEnd = true
	if x.native {
		x.batch.Reset()
		if err := x.reader.ReadResponse(body, &x.batch); err != nil {
			return badAnswer(err)
		}
		if err := x.apply(); err != nil {
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

// refused reads an answer that is an error.
func (x *completion) refused(ctx context.Context, status int) error {
	if status == http.StatusNotModified {
		return emptyAnswer()
	}
	body, err := x.response.ReadAll(x.server.bodies.get(0), maxErrorBody)
	for errors.Is(err, errCommit) {
		body, err = x.response.ReadAll(body, maxErrorBody)
	}
	defer func() { x.server.bodies.put(body) }()
	if x.departed {
		return errDeparted
	}
	// What could be read of an error answer is better than that it could not be read whole.
	body = x.provider.redact(body)
	var e *apierror.Error
	if x.native {
		e = native.Failure(status, body)
	} else {
		err := x.provider.binding.Response(ctx, &x.attempt, status, body)
		if failed := x.writer.Failed(); err == nil && failed != nil {
			err = failed
		}
		if err == nil {
			// A plugin that finds nothing wrong with an error answer leaves it to its status.
			e = native.Failure(status, nil)
		} else if !errors.As(err, &e) {
			return err
		}
	}
	if e.RetryAfter == 0 {
		if wait := retryAfter(x.response.Header, x.server.now()); wait > 0 {
			d := *e
			d.RetryAfter = wait
			e = &d
		}
	}
	return e
}

// describe adds to an error which provider and which of its answers it comes from, and for the log, why.
func (x *completion) describe(e *apierror.Error) *apierror.Error {
	d := *e
	if x.response != nil {
		if x.response.Status() >= 300 {
			d.Provider, d.UpstreamStatus = x.provider.name, x.response.Status()
		}
		d.UpstreamRequestID = x.record.UpstreamID
	}
	if d.Cause == nil {
		d.Cause = x.said()
	}
	return &d
}

// said is the cause of a failure that has no other: the answer says it, in words that the log must not repeat, or it
// ended.
func (x *completion) said() error {
	switch {
	case x.response == nil:
		return fmt.Errorf("the plugin of %s says so", x.provider.name)
	case x.bodyEnd:
		return fmt.Errorf("the answer of %s, with status %d, ended without being complete", x.provider.name, x.response.Status())
	}
	return fmt.Errorf("the answer of %s, with status %d, says so", x.provider.name, x.response.Status())
}

// hangUp ends what there is with a provider.
func (x *completion) hangUp() {
	if r := x.response; r != nil {
		x.response = nil
		r.Close()
	}
}

// passOver writes down why a target was not the one to answer: the line of the request only speaks of the last one. The
// error's message stays out, as it may be the provider's and repeat the prompt.
func (x *completion) passOver(t *routing.Target, e *apierror.Error) {
	attrs := []slog.Attr{
		slog.String("request", x.record.RequestID), slog.String("model", x.record.Model), slog.String("provider", t.Provider),
		slog.String("target", t.Model), slog.Int("attempt", x.record.Attempts), slog.Int("status", e.Status), slog.String("code", e.Code),
	}
	if e.Cause != nil {
		attrs = append(attrs, slog.String("cause", e.Cause.Error()))
	}
	x.server.log.LogAttrs(context.Background(), slog.LevelWarn, "attempt failed", attrs...)
}

// unavailable is what a client gets of whose model every target is left alone.
func (x *completion) unavailable(order []int, targets []routing.Target) *apierror.Error {
	now := x.server.now()
	soonest, limited := time.Duration(math.MaxInt64), false
	for _, i := range order {
		if wait, l := targets[i].Wait(now); wait < soonest {
			soonest, limited = wait, l
			x.record.Provider, x.record.Target = targets[i].Provider, targets[i].Model
		}
	}
	e := apierror.Fail(abi.FailOverloaded, "upstream_unavailable", "", "The provider of this model has failed repeatedly and is left alone for a while.")
	if limited {
		e = apierror.Fail(abi.FailRateLimit, "", "", "")
	}
	e.RetryAfter = max(soonest, time.Millisecond)
	e.Cause = fmt.Errorf("%s is left alone for another %v", x.record.Provider, soonest.Round(time.Millisecond))
	return e
}

// settle tells the target's statistics how the attempt ended, once. spare is how long the target wants to be left alone.
func (x *completion) settle(o routing.Outcome, spare time.Duration) {
	if x.settled || x.target == nil {
		return
	}
	t, now := x.target, x.ended
	if now.IsZero() {
		now = x.server.now()
	}
	x.settled = true
	switch t.EndAttempt(x.ticket, o, spare, x.record.FirstEvent, now) {
	case breaker.Opened:
		wait, _ := t.Wait(now)
		x.server.log.Warn("target left alone", "provider", t.Provider, "target", t.Model, "for", wait)
	case breaker.Recovered:
		x.server.log.Info("target answers again", "provider", t.Provider, "target", t.Model)
	}
}

// outcome is what an error says of the target that it came from, and how long that wants to be left alone.
func outcome(e *apierror.Error) (routing.Outcome, time.Duration) {
	switch {
	case !e.TryNext, e.Status >= 400 && e.Status < 500 && e.Status != fasthttp.StatusTooManyRequests, ours(e):
		return routing.Inconclusive, 0
	case e.Status == fasthttp.StatusTooManyRequests && e.RetryAfter > 0:
		return routing.RateLimited, e.RetryAfter
	}
	return routing.Failed, e.RetryAfter
}

// ours tells what the gateway, a plugin or the model itself did wrong from what the provider did.
func ours(e *apierror.Error) bool {
	switch e.Code {
	case "gateway_overloaded", "plugin_crashed", "plugin_timeout", "plugin_protocol", "upstream_invalid_tool_call":
		return e.UpstreamStatus == 0
	}
	return false
}

// unsupported tells a request that is too much for a target from a target that failed.
func unsupported(e *apierror.Error) bool { return e.TryNext && e.Status == fasthttp.StatusBadRequest }
