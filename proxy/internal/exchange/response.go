package exchange

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/failure"
	"github.com/sluice-gateway/sluice/proxy/internal/framing"
	"github.com/sluice-gateway/sluice/proxy/internal/framing/eventstream"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

const (
	// maxDocument is the maximum size of a response that is one JSON document, which is held in memory.
	MaxDocument = 32 << 20

	// maxDrain is how many bytes after a complete response are read to reuse its connection.
	maxDrain = 16 << 10
)

// AwaitFirst waits for the first bytes of the response's body, or reads the response if its status is an error. The body
// of the response to a further request may be empty.
func (a *Attempt) AwaitFirst(ctx context.Context) error {
	if a.Rejected {
		return a.readErrorResponse(ctx, a.Response.Status())
	}
	first, err := a.Response.Next()
	for err == nil && len(bytes.TrimLeft(first, " \t\r\n")) == 0 {
		first, err = a.Response.Next()
	}
	switch {
	case err == io.EOF && a.Followed:
		a.bodyDone = true // as after DELETE: its status may be all that the plugin needs
		return nil
	case err == io.EOF:
		a.bodyDone = true
		return failure.EmptyResponse()
	case err != nil:
		// After ErrCommit, no part of the body has arrived; Read continues from here.
		return err
	}
	a.first = first
	if a.FirstEvent == 0 {
		a.FirstEvent = a.Services.Now().Sub(a.StartedAt)
	}
	a.Target.RecordFirstEvent(a.Ticket)
	return nil
}

// AwaitBytes waits for more of the provider's response. Streams spend most of their time here, where the stack is
// shallow, so that the garbage collector can shrink it.
func (a *Attempt) AwaitBytes() error {
	if a.Response == nil {
		return nil
	}
	return a.Response.Await()
}

// Read reads the response until Writer has output for the client, is complete or has failed. It is called again after
// ErrCommit and, for a stream, after the output has been written.
func (a *Attempt) Read(ctx context.Context) error {
	if !a.Framed || a.follows() {
		return a.readResponse(ctx)
	}
	return a.readEvents(ctx)
}

// readResponse reads as much of the response as the client's first bytes need, with the further requests that the plugin
// asks for. It is called again after ErrCommit.
func (a *Attempt) readResponse(ctx context.Context) error {
	for {
		if a.follows() {
			if err := a.followUp(); err != nil {
				return err
			}
		}
		if err := a.readOneResponse(ctx); err != nil || !a.follows() {
			return err
		}
		if a.Exchange.Stream {
			a.FilterResponse(ctx)
			if len(a.Writer.Output()) > 0 || a.Writer.Failed() != nil {
				return nil
			}
		}
	}
}

// readOneResponse reads the response to one request.
func (a *Attempt) readOneResponse(ctx context.Context) error {
	if a.Response == nil {
		if !a.Writer.Complete() && a.Writer.Failed() == nil {
			return apierror.Fail(abi.FailServer, "plugin_protocol", "", "The provider's plugin did not complete its response.")
		}
		return nil
	}
	if a.first == nil {
		if err := a.AwaitFirst(ctx); err != nil || a.follows() {
			return err
		}
		if a.bodyDone {
			return a.readDocument(ctx, nil)
		}
	}
	first := a.first
	a.first = nil
	a.tape.Write(first)
	framed, ok := framing.Detect(a.Response.Header("content-type"), first, a.Translation.Framing)
	if !ok {
		e := apierror.Fail(abi.FailBadAnswer, "", "", "The provider's response is neither JSON nor a stream of events.")
		e.Cause = fmt.Errorf("content type %.64q", framing.MediaType(a.Response.Header("content-type")))
		return e
	}
	if a.tape.SetFraming(framed); framed == abi.FramingAWSInvoke {
		a.tape.SetFraming(abi.FramingAWSEventStream) // the same bytes
	}
	a.startReading(framed != abi.FramingJSON)
	if framed == abi.FramingJSON {
		return a.readDocument(ctx, first)
	}
	a.decoder = a.decoders.Open(framed, a.Provider.MaxEvent)
	a.decoder.Feed(first)
	a.Framed, a.EventAt = true, a.Services.Now()
	return a.readEvents(ctx)
}

// startReading prepares to read a response: a stream of events, or a single document. A response to the client's own
// document is passed on if it has the form that the client wants.
func (a *Attempt) startReading(stream bool) {
	if a.Reader == nil {
		return
	}
	a.Passthrough = a.responseAPI == a.Exchange.API && stream == a.Exchange.Stream && !a.Translated
	if a.Passthrough {
		a.Renderer.Pass()
		a.filtered.Pass(a.Exchange.API.PassedTexts)
	}
	a.Reader.Reset(a.Passthrough)
}

// readDocument reads a response that is one JSON document, which begins with first.
func (a *Attempt) readDocument(ctx context.Context, first []byte) error {
	read := len(first) // first itself is invalid after the next line
	body, err := a.Response.ReadAllWithin(append(a.Services.Buffers.Get(len(first)), first...), MaxDocument, a.reserveResponse)
	defer func() { a.Services.Buffers.Put(body) }()
	for errors.Is(err, ErrCommit) {
		// Nothing can be streamed before the document is complete. The wait continues until an upstream timeout.
		body, err = a.Response.ReadAllWithin(body, MaxDocument, a.reserveResponse)
	}
	a.tape.Write(body[min(read, len(body)):])
	if err != nil {
		return err
	}
	a.bodyDone = true
	if a.Reader != nil {
		a.Batch.Reset()
		if err := a.Reader.ReadResponse(body, &a.Batch); err != nil {
			return failure.BadResponse(err)
		}
		if err := a.applyBatch(); err != nil {
			return err
		}
	} else if err := a.Provider.Binding.Response(ctx, &a.Translation, a.Response.Status(), body); err != nil {
		return err
	}
	if a.Writer.Complete() || a.Writer.Failed() != nil || a.follows() {
		return nil
	}
	return a.Writer.End()
}

// readEvents reads events until there is something to write to a streaming client, or the response is complete or has
// failed. An error that it returns has not been passed to the writer.
func (a *Attempt) readEvents(ctx context.Context) error {
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
			if !a.Exchange.Stream {
				if err := a.reserveResponse(a.Writer.Held() + a.filtered.Waiting()); err != nil {
					return err
				}
			}
			if a.Writer.Complete() || a.Writer.Failed() != nil {
				return nil
			}
			continue
		}
		if a.Exchange.Stream {
			a.FilterResponse(ctx)
			if len(a.Writer.Output()) > 0 || a.Writer.Failed() != nil {
				return nil
			}
		}
		switch {
		case a.follows():
			return nil
		case a.bodyDone:
			return a.Writer.End()
		}
		now := a.Services.Now()
		if events {
			a.EventAt, events = now, false
		}
		if a.Wait.Due(now) {
			if err := a.Wait.Tick(upstream.PhaseBody, 0); err != nil {
				return err
			}
		}
		p, err := a.Response.Next()
		switch {
		case err == nil:
			if a.FirstEvent == 0 {
				a.FirstEvent = a.Services.Now().Sub(a.StartedAt)
			}
			a.decoder.Feed(p)
			a.tape.Write(p)
		case err == io.EOF: // not errors.Is, because a truncated body wraps it
			if err := a.endBody(ctx); err != nil {
				return err
			}
		case errors.Is(err, ErrCommit) && !a.Exchange.Stream:
		default:
			return err
		}
	}
}

// unreadableEvent returns the error of a stream that cannot be split into events. If an event is too large, its cause
// names the setting.
func (a *Attempt) unreadableEvent(err error) error {
	if errors.Is(err, framing.ErrTooLarge) {
		err = fmt.Errorf("%w of %d bytes (max_event of provider %s)", err, a.Provider.MaxEvent, a.Provider.Name)
	}
	return failure.BadResponse(err)
}

// endBody handles the last events after the body has ended cleanly.
func (a *Attempt) endBody(ctx context.Context) error {
	a.bodyDone = true
	for {
		ev, ok, err := a.decoder.End()
		if err != nil {
			return a.unreadableEvent(err)
		}
		if !ok || a.Writer.Complete() || a.Writer.Failed() != nil {
			break
		}
		if err := a.handleEvent(ctx, ev); err != nil {
			return err
		}
	}
	if a.Reader != nil || a.Writer.Complete() || a.Writer.Failed() != nil {
		return nil
	}
	return a.Provider.Binding.End(ctx, &a.Translation)
}

// reserveResponse reserves memory for n bytes of a response that is held until it is complete.
func (a *Attempt) reserveResponse(n int) error {
	if e := a.Memory.GrowResponse(n); e != nil {
		return e
	}
	return nil
}

// handleEvent passes one event to the plugin or to the host's reader.
func (a *Attempt) handleEvent(ctx context.Context, ev framing.Event) error {
	if a.Reader == nil {
		return a.Provider.Binding.Event(ctx, &a.Translation, ev.Kind, ev.Name, ev.Data)
	}
	a.Batch.Reset()
	if ev.Kind != abi.EventPlain {
		// An exception comes from the cloud service in front of the model. Its message may name the operator's account,
		// so it is not for clients.
		e := apierror.Fail(eventstream.ExceptionKind(ev.Name), "", "", "")
		e.Cause = fmt.Errorf("exception %.64q in the stream", ev.Name)
		a.Batch.Fail(e)
		return a.applyBatch()
	}
	if err := a.Reader.ReadEvent(ev.Name, ev.Data, &a.Batch); err != nil {
		return failure.BadResponse(err)
	}
	return a.applyBatch()
}

// applyBatch passes on to the response writer what the host's reader has read. It redacts a provider's error, which may
// repeat the provider's credential in any of its members.
func (a *Attempt) applyBatch() error {
	if e := a.Batch.Failure(); e != nil {
		redact := func(s string) string { return string(a.Provider.Redact([]byte(s))) }
		clean := *e
		clean.Message, clean.Code, clean.Param = redact(e.Message), redact(e.Code), redact(e.Param)
		if e.Cause != nil {
			if text := e.Cause.Error(); redact(text) != text {
				clean.Cause = errors.New(redact(text))
			}
		}
		a.Batch.Fail(&clean)
	}
	if err := a.Writer.Apply(&a.Batch); err != nil {
		return failure.BadResponse(err)
	}
	return nil
}

// FilterResponse runs the filters on the part of the response that has arrived. If they reject it, the response ends
// with their error.
func (a *Attempt) FilterResponse(ctx context.Context) {
	err := a.filtered.Run(ctx)
	if err == nil {
		return
	}
	e := failure.ForClient(err)
	a.RecordOutcome(routing.Inconclusive, 0) // not the target's failure
	a.Writer.Revoke(e)
}

// DrainBody reads what follows a complete response, usually just the end of the body, so that the connection can be
// reused. It waits no longer than a round trip within a data centre takes.
func (a *Attempt) DrainBody() {
	if a.Response == nil || !a.Writer.Complete() {
		return
	}
	a.Response.SetWatcher(drainWatcher{})
	for n := 0; n < maxDrain; {
		p, err := a.Response.Next()
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

// CheckEventTimeout fails a stream whose next event takes too long, even if bytes of it keep arriving.
func (a *Attempt) CheckEventTimeout(now time.Time) error {
	limit := a.Provider.EventTimeout
	if limit <= 0 || !a.Framed || now.Sub(a.EventAt) < limit {
		return nil
	}
	return failure.Upstream(&upstream.Error{Kind: upstream.Timeout, Phase: upstream.PhaseBody, Upstream: a.Provider.Name, Reason: "event timeout of " + limit.String(), Answered: true})
}
