package proxy

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"

	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/openai"
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
		x.settle(routing.Neither, 0)
	} else {
		x.settle(outcome(e))
	}
	x.hangUp()
	x.record.Fuel += x.attempt.Fuel
	x.attempt.Fuel = 0
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

// send has the plugin build the provider's request and sends it. Where the plugin answered by itself there is none.
func (x *completion) send(ctx context.Context) error {
	x.vigil.begin()
	err := x.provider.binding.Request(ctx, &x.attempt)
	if gone := x.vigil.end(); gone != nil {
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
		Accept: mediaTypes[x.attempt.Framing],
	}
	x.asked = append(x.asked, x.target.Budget)
	x.vigil.begin()
	response, err := x.provider.client.Do(ctx, &x.out, x)
	clear(headers)
	x.out = upstream.Request{Headers: headers}
	gone := x.vigil.end()
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
	x.target.Answering(x.ticket)
	framing, ok := framingOf(x.response.Header("content-type"), first, x.attempt.Framing)
	switch {
	case !ok:
		e := apierror.Fail(abi.FailBadAnswer, "", "", "The provider's answer is neither JSON nor a stream of events.")
		e.Cause = fmt.Errorf("content type %.64q", mediaType(x.response.Header("content-type")))
		return e
	case framing == abi.FramingJSON:
		return x.whole(ctx, first)
	}
	x.framer.reset(framing)
	x.framer.feed(first)
	x.framed, x.progress = true, x.server.now()
	return x.advance(ctx)
}

// read goes on with a streamed answer whose head has been sent.
func (x *completion) read(ctx context.Context) error {
	if !x.framed {
		return x.begin(ctx)
	}
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
		if err := x.reader.Answer(body, &x.batch); err != nil {
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
		e = openai.Failure(status, body)
	} else {
		err := x.provider.binding.Response(ctx, &x.attempt, status, body)
		if failed := x.writer.Failed(); err == nil && failed != nil {
			err = failed
		}
		if err == nil {
			// A plugin that finds nothing wrong with an error answer leaves it to its status.
			e = openai.Failure(status, nil)
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

// advance reads events until there is something to write to a streaming client, or until the answer is complete or
// has failed. An error is one that the writer does not know yet.
func (x *completion) advance(ctx context.Context) error {
	for events := false; ; {
		ev, ok, err := x.framer.next()
		if err != nil {
			return badAnswer(err)
		}
		if ok {
			events = true
			if err := x.event(ctx, ev); err != nil {
				return err
			}
			if !x.stream {
				if err := x.gathers(x.writer.Held()); err != nil {
					return err
				}
			}
			if x.writer.Complete() || x.writer.Failed() != nil {
				return nil
			}
			continue
		}
		if x.stream && len(x.writer.Output()) > 0 {
			return nil
		}
		if x.bodyEnd {
			return x.writer.End()
		}
		now := x.server.now()
		if events {
			x.progress, events = now, false
		}
		if now.Sub(x.looked) >= x.lookAfter() {
			if err := x.Tick(upstream.PhaseBody, 0); err != nil {
				return err
			}
		}
		p, err := x.response.Next()
		switch {
		case err == nil:
			if x.record.FirstEvent == 0 {
				x.record.FirstEvent = x.server.now().Sub(x.began)
			}
			x.framer.feed(p)
		case err == io.EOF: // itself: a body that was cut off has it for its cause
			if err := x.end(ctx); err != nil {
				return err
			}
		case errors.Is(err, errCommit) && !x.stream:
		default:
			return err
		}
	}
}

// end reads what is left at a clean end of the body.
func (x *completion) end(ctx context.Context) error {
	x.bodyEnd = true
	for {
		ev, ok, err := x.framer.end()
		if err != nil {
			return badAnswer(err)
		}
		if !ok || x.writer.Complete() || x.writer.Failed() != nil {
			break
		}
		if err := x.event(ctx, ev); err != nil {
			return err
		}
	}
	if x.native || x.writer.Complete() || x.writer.Failed() != nil {
		return nil
	}
	return x.provider.binding.End(ctx, &x.attempt)
}

// overdue is the error of a stream whose next event takes too long, however many bytes of it have come.
func (x *completion) overdue(now time.Time) error {
	limit := x.provider.event
	if limit <= 0 || !x.framed || now.Sub(x.progress) < limit {
		return nil
	}
	return upstreamError(&upstream.Error{Kind: upstream.Timeout, Phase: upstream.PhaseBody, Upstream: x.provider.name, Reason: "event timeout of " + limit.String(), Answered: true})
}

func (x *completion) event(ctx context.Context, ev event) error {
	if !x.native {
		return x.provider.binding.Event(ctx, &x.attempt, ev.kind, ev.name, ev.data)
	}
	x.batch.Reset()
	if err := x.reader.Chunk(ev.data, &x.batch); err != nil {
		return badAnswer(err)
	}
	return x.apply()
}

// apply gives the response writer what the host has read natively. A provider's error may hold the credential that it was sent,
// in any of its members.
func (x *completion) apply() error {
	if e := x.batch.Failure(); e != nil {
		redact := func(s string) string { return string(x.provider.redact([]byte(s))) }
		clean := *e
		clean.Message, clean.Code, clean.Param = redact(e.Message), redact(e.Code), redact(e.Param)
		if e.Cause != nil {
			if text := e.Cause.Error(); redact(text) != text {
				clean.Cause = errors.New(redact(text))
			}
		}
		x.batch.Fail(&clean)
	}
	if err := x.writer.Apply(&x.batch); err != nil {
		return badAnswer(err)
	}
	return nil
}

// lookAfter is how long the client's socket may go without a look.
func (x *completion) lookAfter() time.Duration {
	if p := x.pace(); p > 0 {
		return p
	}
	return lookEvery
}

// drain reads what follows a complete answer, which is mostly the end of the body, so that the connection can be used
// again. It does not wait for it longer than a round trip within a data centre takes.
func (x *completion) drain() {
	if x.response == nil || !x.writer.Complete() {
		return
	}
	x.response.SetWatcher(impatience{})
	for n := 0; n < maxDrain; {
		p, err := x.response.Next()
		if err != nil {
			return
		}
		n += len(p)
	}
}

// impatience ends a wait after drainWait.
type impatience struct{}

const drainWait = 2 * time.Millisecond

var errDrained = errors.New("the answer was complete before its body ended")

func (impatience) Tick(upstream.Phase, time.Duration) error { return errDrained }
func (impatience) Pace() time.Duration                      { return drainWait }

func isJSON(contentType []byte) bool {
	m := mediaType(contentType)
	return isName(m, mediaTypes[abi.FramingJSON]) || len(m) > 5 && isName(m[len(m)-5:], "+json")
}

// mediaType is a content type without its parameters.
func mediaType(contentType []byte) []byte {
	m, _, _ := bytes.Cut(contentType, []byte(";"))
	return bytes.TrimSpace(m)
}

// isName tells whether p is name, which is in lower case, in any case of ASCII.
func isName(p []byte, name string) bool {
	if len(p) != len(name) {
		return false
	}
	for i, c := range p {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != name[i] {
			return false
		}
	}
	return true
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

func printable(s []byte) bool {
	for _, c := range s {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}

var _ upstream.Watcher = (*completion)(nil)
