package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/chunked"
	"github.com/sluice-gateway/sluice/proxy/internal/downstream"
	"github.com/sluice-gateway/sluice/proxy/internal/failure"
	"github.com/sluice-gateway/sluice/proxy/internal/framing"
	"github.com/sluice-gateway/sluice/proxy/internal/framing/eventstream"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

const (
	// maxDocument is the maximum size of a response that is one JSON document, which is held in memory.
	maxDocument = 32 << 20

	// maxDrain is how many bytes after a complete response are read to reuse its connection.
	maxDrain = 16 << 10
)

// delivery is the client's side of a request: its connection, what has been written to it, and what is known of the
// client.
type delivery struct {
	conn         *downstream.Conn
	chunks       chunked.Writer
	committed    bool      // the head of a streamed response has been sent
	disconnected bool      // the client is gone
	probed       bool      // the one probe that HTTP permits before the response's head has been sent
	bodyRead     bool      // the client's body has been read completely
	checkedAt    time.Time // when the client's connection was last checked
	writtenAt    time.Time // time of the last write to the client, once committed
	watcher      downstream.Watcher
}

// WriteStream writes a streamed response to its end, and accounts it. One goroutine reads from the provider, translates
// and writes. After an error the body is incomplete and the connection must be closed. It implements
// downstream.Request.
func (x *completion) WriteStream() (keepAlive bool, err error) {
	if err := x.writeEvents(); err != nil {
		return false, err
	}
	return x.chunks.End()
}

// writeEvents writes the response's chunks, and finishes the completion.
func (x *completion) writeEvents() (err error) {
	defer func() {
		x.record.Bytes = x.chunks.Written()
		if err != nil && x.disconnected {
			err = failure.ErrDisconnected // the access log has the details
		}
		x.finishAsync()
	}()
	defer rescue.Recover(func(p *rescue.Error) {
		x.server.logPanic(x.record.RequestID, p)
		e := failure.Internal(nil)
		x.writer.Fail(e)
		err = x.writePanic(e)
	})
	x.committed = true
	x.writtenAt = x.server.now()
	for {
		if out := x.writer.Output(); len(out) > 0 || !x.chunks.HeadSent() {
			if len(out) > 0 {
				x.recordOrigin()
			}
			if err := x.writeOutput(out); err != nil {
				return err
			}
			x.writer.Consume()
			x.writtenAt = x.server.now()
			x.eventAt = x.writtenAt
		}
		failed := x.writer.Failed()
		if failed != nil && x.chunks.Written() == 0 {
			x.settle()
			// No chunk has been written, so the writer leaves the error to the HTTP status, but the head has been sent.
			if err := x.writeChunk(x.writer.AppendError(nil, failed)); err != nil {
				return err
			}
		}
		if x.writer.Complete() || failed != nil {
			x.drainBody()
			return nil
		}
		err := x.awaitBytes()
		if err == nil {
			err = x.readMore(context.Background())
		}
		if !x.disconnected {
			x.filterResponse(context.Background())
		}
		if err != nil {
			if x.disconnected {
				return err
			}
			x.endTape(err)
			x.writer.Fail(failure.ForClient(err))
		}
	}
}

// eventEnd ends an event of an SSE stream.
var eventEnd = []byte("\n\n")

// writeOutput writes the events in out as one chunk. The events of a plugin's own response are all available at once:
// if its provider has a pace, each is a chunk of its own, followed by a pause.
func (x *completion) writeOutput(out []byte) error {
	pace := x.provider.pace
	for pace > 0 && x.response == nil {
		end := bytes.Index(out, eventEnd) + len(eventEnd)
		if end < len(eventEnd) || end == len(out) {
			break
		}
		if err := x.writeChunk(out[:end]); err != nil {
			return err
		}
		out = out[end:]
		if err := x.pause(pace); x.disconnected {
			return err
		} else if err != nil {
			break // the gateway is shutting down: write the rest without pauses
		}
	}
	if x.writer.Complete() || x.writer.Failed() != nil {
		x.settle() // these are the last events
	}
	return x.writeChunk(out)
}

// pause waits for t. It returns an error early if the client disconnects or the shutdown deadline passes.
func (d *delivery) pause(t time.Duration) error { return d.pauseUntil(nil, t) }

func (d *delivery) pauseUntil(ready <-chan struct{}, t time.Duration) error {
	d.watcher.Start()
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ready:
	case <-d.watcher.Done():
	}
	return d.watcher.Finish()
}

// Await implements admission.Waiter.
func (d *delivery) Await(admitted <-chan struct{}, t time.Duration) *apierror.Error {
	if err := d.pauseUntil(admitted, t); err != nil {
		return failure.ForClient(err)
	}
	return nil
}

func (d *delivery) writeChunk(data []byte) error {
	err := d.chunks.Write(data)
	if err != nil {
		d.disconnected = true
	}
	return err
}

// errPanic leaves out the panic's value, which may contain anything.
var errPanic = errors.New("panic in a stream")

// writePanic writes an error event after a panic. Output that was rendered before it is dropped.
func (x *completion) writePanic(e *apierror.Error) (err error) {
	defer rescue.Recover(func(*rescue.Error) { err = errPanic })
	return x.writeChunk(x.writer.AppendError(nil, e))
}

// awaitBytes waits for more of the provider's response. Streams spend most of their time here, where the stack is
// shallow, so that the garbage collector can shrink it.
func (a *attempt) awaitBytes() error {
	if a.response == nil {
		return nil
	}
	return a.response.Await()
}

// readMore reads more of a streamed response after its head has been sent.
func (a *attempt) readMore(ctx context.Context) error {
	if !a.framed || a.follows() {
		return a.readResponse(ctx)
	}
	return a.readEvents(ctx)
}

// readResponse reads as much of the response as the client's first bytes need, with the further requests that the plugin
// asks for. It is called again after errCommit.
func (a *attempt) readResponse(ctx context.Context) error {
	for {
		if a.follows() {
			if err := a.followUp(); err != nil {
				return err
			}
		}
		if err := a.readOneResponse(ctx); err != nil || !a.follows() {
			return err
		}
		if a.exchange.stream {
			a.filterResponse(ctx)
			if len(a.writer.Output()) > 0 || a.writer.Failed() != nil {
				return nil
			}
		}
	}
}

// readOneResponse reads the response to one request.
func (a *attempt) readOneResponse(ctx context.Context) error {
	if a.response == nil {
		if !a.writer.Complete() && a.writer.Failed() == nil {
			return apierror.Fail(abi.FailServer, "plugin_protocol", "", "The provider's plugin did not complete its response.")
		}
		return nil
	}
	if a.first == nil {
		if err := a.awaitFirst(ctx); err != nil || a.follows() {
			return err
		}
		if a.bodyDone {
			return a.readDocument(ctx, nil)
		}
	}
	first := a.first
	a.first = nil
	a.tape.Write(first)
	framed, ok := framing.Detect(a.response.Header("content-type"), first, a.translation.Framing)
	if !ok {
		e := apierror.Fail(abi.FailBadAnswer, "", "", "The provider's response is neither JSON nor a stream of events.")
		e.Cause = fmt.Errorf("content type %.64q", framing.MediaType(a.response.Header("content-type")))
		return e
	}
	if a.tape.SetFraming(framed); framed == abi.FramingAWSInvoke {
		a.tape.SetFraming(abi.FramingAWSEventStream) // the same bytes
	}
	a.startReading(framed != abi.FramingJSON)
	if framed == abi.FramingJSON {
		return a.readDocument(ctx, first)
	}
	a.decoder = a.decoders.Open(framed, a.provider.maxEvent)
	a.decoder.Feed(first)
	a.framed, a.eventAt = true, a.services.now()
	return a.readEvents(ctx)
}

// startReading prepares to read a response: a stream of events, or a single document. A response to the client's own
// document is passed on if it has the form that the client wants.
func (a *attempt) startReading(stream bool) {
	if a.reader == nil {
		return
	}
	a.passthrough = a.responseAPI == a.exchange.api && stream == a.exchange.stream && !a.translated
	if a.passthrough {
		a.renderer.Pass()
		a.filtered.Pass(a.exchange.api.PassedTexts)
	}
	a.reader.Reset(a.passthrough)
}

// readDocument reads a response that is one JSON document, which begins with first.
func (a *attempt) readDocument(ctx context.Context, first []byte) error {
	read := len(first) // first itself is invalid after the next line
	body, err := a.response.ReadAllWithin(append(a.services.buffers.Get(len(first)), first...), maxDocument, a.reserveResponse)
	defer func() { a.services.buffers.Put(body) }()
	for errors.Is(err, errCommit) {
		// Nothing can be streamed before the document is complete. The wait continues until an upstream timeout.
		body, err = a.response.ReadAllWithin(body, maxDocument, a.reserveResponse)
	}
	a.tape.Write(body[min(read, len(body)):])
	if err != nil {
		return err
	}
	a.bodyDone = true
	if a.reader != nil {
		a.batch.Reset()
		if err := a.reader.ReadResponse(body, &a.batch); err != nil {
			return failure.BadResponse(err)
		}
		if err := a.applyBatch(); err != nil {
			return err
		}
	} else if err := a.provider.binding.Response(ctx, &a.translation, a.response.Status(), body); err != nil {
		return err
	}
	if a.writer.Complete() || a.writer.Failed() != nil || a.follows() {
		return nil
	}
	return a.writer.End()
}

// readEvents reads events until there is something to write to a streaming client, or the response is complete or has
// failed. An error that it returns has not been passed to the writer.
func (a *attempt) readEvents(ctx context.Context) error {
	for events := false; ; {
		ev, ok, err := a.decoder.Next()
		if err != nil {
			return a.unreadableEvent(err)
		}
		if ok {
			events = true
			if err := a.handleEvent(ctx, ev); err != nil {
				return err
			}
			if !a.exchange.stream {
				if err := a.reserveResponse(a.writer.Held() + a.filtered.Waiting()); err != nil {
					return err
				}
			}
			if a.writer.Complete() || a.writer.Failed() != nil {
				return nil
			}
			continue
		}
		if a.exchange.stream {
			a.filterResponse(ctx)
			if len(a.writer.Output()) > 0 || a.writer.Failed() != nil {
				return nil
			}
		}
		switch {
		case a.follows():
			return nil
		case a.bodyDone:
			return a.writer.End()
		}
		now := a.services.now()
		if events {
			a.eventAt, events = now, false
		}
		if a.wait.Due(now) {
			if err := a.wait.Tick(upstream.PhaseBody, 0); err != nil {
				return err
			}
		}
		p, err := a.response.Next()
		switch {
		case err == nil:
			if a.firstEvent == 0 {
				a.firstEvent = a.services.now().Sub(a.startedAt)
			}
			a.decoder.Feed(p)
			a.tape.Write(p)
		case err == io.EOF: // not errors.Is, because a truncated body wraps it
			if err := a.endBody(ctx); err != nil {
				return err
			}
		case errors.Is(err, errCommit) && !a.exchange.stream:
		default:
			return err
		}
	}
}

// unreadableEvent returns the error of a stream that cannot be split into events. If an event is too large, its cause
// names the setting.
func (a *attempt) unreadableEvent(err error) error {
	if errors.Is(err, framing.ErrTooLarge) {
		err = fmt.Errorf("%w of %d bytes (max_event of provider %s)", err, a.provider.maxEvent, a.provider.name)
	}
	return failure.BadResponse(err)
}

// endBody handles the last events after the body has ended cleanly.
func (a *attempt) endBody(ctx context.Context) error {
	a.bodyDone = true
	for {
		ev, ok, err := a.decoder.End()
		if err != nil {
			return a.unreadableEvent(err)
		}
		if !ok || a.writer.Complete() || a.writer.Failed() != nil {
			break
		}
		if err := a.handleEvent(ctx, ev); err != nil {
			return err
		}
	}
	if a.reader != nil || a.writer.Complete() || a.writer.Failed() != nil {
		return nil
	}
	return a.provider.binding.End(ctx, &a.translation)
}

// reserveResponse reserves memory for n bytes of a response that is held until it is complete.
func (a *attempt) reserveResponse(n int) error {
	if e := a.memory.GrowResponse(n); e != nil {
		return e
	}
	return nil
}

// handleEvent passes one event to the plugin or to the host's reader.
func (a *attempt) handleEvent(ctx context.Context, ev framing.Event) error {
	if a.reader == nil {
		return a.provider.binding.Event(ctx, &a.translation, ev.Kind, ev.Name, ev.Data)
	}
	a.batch.Reset()
	if ev.Kind != abi.EventPlain {
		// An exception comes from the cloud service in front of the model. Its message may name the operator's account,
		// so it is not for clients.
		e := apierror.Fail(eventstream.ExceptionKind(ev.Name), "", "", "")
		e.Cause = fmt.Errorf("exception %.64q in the stream", ev.Name)
		a.batch.Fail(e)
		return a.applyBatch()
	}
	if err := a.reader.ReadEvent(ev.Name, ev.Data, &a.batch); err != nil {
		return failure.BadResponse(err)
	}
	return a.applyBatch()
}

// applyBatch passes on to the response writer what the host's reader has read. It redacts a provider's error, which may
// repeat the provider's credential in any of its members.
func (a *attempt) applyBatch() error {
	if e := a.batch.Failure(); e != nil {
		redact := func(s string) string { return string(a.provider.redact([]byte(s))) }
		clean := *e
		clean.Message, clean.Code, clean.Param = redact(e.Message), redact(e.Code), redact(e.Param)
		if e.Cause != nil {
			if text := e.Cause.Error(); redact(text) != text {
				clean.Cause = errors.New(redact(text))
			}
		}
		a.batch.Fail(&clean)
	}
	if err := a.writer.Apply(&a.batch); err != nil {
		return failure.BadResponse(err)
	}
	return nil
}

// filterResponse runs the filters on the part of the response that has arrived. If they reject it, the response ends
// with their error.
func (a *attempt) filterResponse(ctx context.Context) {
	err := a.filtered.Run(ctx)
	if err == nil {
		return
	}
	e := failure.ForClient(err)
	a.recordOutcome(routing.Inconclusive, 0) // not the target's failure
	a.writer.Revoke(e)
}

// drainBody reads what follows a complete response, usually just the end of the body, so that the connection can be
// reused. It waits no longer than a round trip within a data centre takes.
func (a *attempt) drainBody() {
	if a.response == nil || !a.writer.Complete() {
		return
	}
	a.response.SetWatcher(drainWatcher{})
	for n := 0; n < maxDrain; {
		p, err := a.response.Next()
		if err != nil {
			return
		}
		n += len(p)
	}
}

// drainWatcher ends a wait after drainTimeout.
type drainWatcher struct{}

const drainTimeout = 2 * time.Millisecond

var errDrainTimeout = errors.New("response complete before its body ended")

func (drainWatcher) Tick(upstream.Phase, time.Duration) error { return errDrainTimeout }

func (drainWatcher) Pace() time.Duration { return drainTimeout }

// StartWait implements waiter.
func (d *delivery) StartWait() context.Context {
	d.watcher.Start()
	return &d.watcher
}

// FinishWait implements waiter.
func (d *delivery) FinishWait() error { return d.watcher.Finish() }

// Gone implements waiter.
func (d *delivery) Gone() bool { return d.disconnected }

// Pace requests an early tick after a probe, or if heartbeats are more frequent than ticks.
func (x *completion) Pace() time.Duration {
	x.watcher.Stop()
	return x.pace()
}

func (x *completion) pace() time.Duration {
	if x.conn != nil && x.conn.Probing() {
		return downstream.ProbeWait
	}
	if p := x.provider; p != nil && x.stream && p.heartbeat < downstream.CheckInterval {
		return p.heartbeat
	}
	return 0
}

// Due implements waiter.
func (x *completion) Due(now time.Time) bool { return now.Sub(x.checkedAt) >= x.checkInterval() }

// checkInterval returns how long the client's connection may go unchecked.
func (x *completion) checkInterval() time.Duration {
	if p := x.pace(); p > 0 {
		return p
	}
	return downstream.CheckInterval
}

// Tick checks the client, and sends a heartbeat if one is due. The provider's connection calls it during waits, and
// readEvents between events. It implements upstream.Watcher.
func (x *completion) Tick(_ upstream.Phase, _ time.Duration) error {
	x.watcher.Stop()
	now := x.server.now()
	if err := x.checkClient(now); err != nil {
		return err
	}
	if err := x.checkEventTimeout(now); err != nil {
		return err
	}
	heartbeat := x.provider.heartbeat
	if !x.stream || heartbeat <= 0 {
		return nil
	}
	if !x.committed {
		if x.response != nil && now.Sub(x.writtenAt) >= heartbeat {
			return errCommit
		}
		return nil
	}
	if now.Sub(x.writtenAt) >= heartbeat {
		if _, err := x.conn.Write(x.api.heartbeatChunk); err != nil {
			x.disconnected = true
			return failure.ErrDisconnected
		}
		x.server.metrics.Heartbeat()
		x.writtenAt = now
	}
	return nil
}

// checkEventTimeout fails a stream whose next event takes too long, even if bytes of it keep arriving.
func (a *attempt) checkEventTimeout(now time.Time) error {
	limit := a.provider.eventTimeout
	if limit <= 0 || !a.framed || now.Sub(a.eventAt) < limit {
		return nil
	}
	return failure.Upstream(&upstream.Error{Kind: upstream.Timeout, Phase: upstream.PhaseBody, Upstream: a.provider.name, Reason: "event timeout of " + limit.String(), Answered: true})
}

// CheckClient checks the client while the completion waits for a plugin or a connection. It implements
// downstream.ClientChecker.
func (x *completion) CheckClient() error { return x.checkClient(x.server.now()) }

// checkClient fails if the client has disconnected or the shutdown deadline has passed.
func (x *completion) checkClient(now time.Time) error {
	x.checkedAt = now
	if x.conn.CheckClient(x.probe) {
		x.disconnected = true
		return failure.ErrDisconnected
	}
	if x.server.shutdownTimedOut.Load() {
		return failure.Shutdown()
	}
	return nil
}

var continueHead = []byte("HTTP/1.1 100 Continue\r\n\r\n")

// probe writes something that clients ignore, if the protocol permits it at this moment.
func (x *completion) probe() bool {
	switch {
	case x.committed:
		_, err := x.conn.Write(x.api.heartbeatChunk)
		x.writtenAt = x.server.now()
		return err == nil
	case x.http11 && !x.probed:
		x.probed = true
		_, err := x.conn.Write(continueHead)
		return err == nil
	}
	return false
}

var _ upstream.Watcher = (*completion)(nil)
