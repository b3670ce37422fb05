package proxy

import (
	"context"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/downstream"
	"github.com/sluice-gateway/sluice/proxy/internal/framing"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
)

// pump writes a streamed answer to a connection that fasthttp has let go of. Each write is one chunk and one system call;
// the head leaves with the first one. One goroutine reads from the provider, translates and writes.
type pump struct {
	x    *completion
	head []byte // until it is sent; from the server's buffers
	last bool   // the connection is closed behind the answer
	n    int64  // bytes of the body that were written
}

// endOfChunks ends a body of chunks.
var endOfChunks = []byte("0\r\n\r\n")

// maxFraming is more than what stands around the data of a chunk.
const maxFraming = 32

// errPanic says nothing of the panic's value, which may hold anything.
var errPanic = errors.New("panic in a stream")

// prepare makes the answer's head of what the handler has set.
func (p *pump) prepare(x *completion, ctx *fasthttp.RequestCtx) {
	h := &ctx.Response.Header
	h.SetContentLength(-1)
	p.last = h.ConnectionClose() || ctx.Request.Header.ConnectionClose()
	if p.last {
		h.SetConnectionClose()
	}
	p.head = append(x.server.bodies.get(0), h.Header()...)
	p.x = x
}

// WriteStream writes a streamed response to its end, and accounts it. With an error the body is not complete, and the
// connection of no use. It implements downstream.Request.
func (x *completion) WriteStream() (keepAlive bool, err error) {
	if err := x.pump.stream(); err != nil {
		return false, err
	}
	_, err = x.conn.Write(endOfChunks)
	return !x.pump.last, err
}

func (p *pump) stream() (err error) {
	x := p.x
	defer func() {
		x.record.Bytes = p.n
		if err != nil && x.departed {
			// It has left: the access log says so, and there is nobody to tell.
			err = errDeparted
		}
		x.conclude()
	}()
	defer rescue.Recover(func(panicked *rescue.Error) {
		x.server.logPanic(x.record.RequestID, panicked)
		e := failedByItself(nil)
		x.writer.Fail(e)
		err = p.lastWords(e)
	})
	x.committed = true
	x.written = x.server.now()
	for {
		if out := x.writer.Output(); len(out) > 0 || p.head != nil {
			if err := p.write(out); err != nil {
				return err
			}
			x.writer.Consume()
			x.written = x.server.now()
			x.progress = x.written
		}
		failed := x.writer.Failed()
		if failed != nil && p.n == 0 {
			// The writer takes it for a response that has not begun, and keeps the failure for a status.
			if err := p.write(p.x.writer.AppendError(nil, failed)); err != nil {
				return err
			}
		}
		if x.writer.Complete() || failed != nil {
			x.drain()
			return nil
		}
		err := x.await()
		if err == nil {
			err = x.read(context.Background())
		}
		if err != nil {
			if x.departed {
				return err
			}
			x.writer.Fail(clientError(err))
		}
	}
}

// await waits for more of the provider's answer. Streams spend their time here, where little lies on the stack: the collector
// takes back half of it.
func (x *completion) await() error {
	if x.response == nil {
		return nil
	}
	return x.response.Await()
}

// write sends data as one chunk, behind the head where that has not been sent.
func (p *pump) write(data []byte) error {
	x := p.x
	out := p.head
	p.head = nil
	if out == nil {
		out = x.server.bodies.get(len(data) + maxFraming)
	}
	if len(data) > 0 {
		out = append(strconv.AppendInt(out, int64(len(data)), 16), "\r\n"...)
		out = append(append(out, data...), "\r\n"...)
	}
	_, err := x.conn.Write(out)
	x.server.bodies.put(out)
	if err != nil {
		x.departed = true
		return err
	}
	p.n += int64(len(data))
	return nil
}

// lastWords tells the client of a panic. What the writer may have rendered before it is left out.
func (p *pump) lastWords(e *apierror.Error) (err error) {
	defer rescue.Recover(func(*rescue.Error) { err = errPanic })
	return p.write(p.x.writer.AppendError(nil, e))
}

// read goes on with a streamed answer whose head has been sent.
func (x *completion) read(ctx context.Context) error {
	if !x.framed {
		return x.begin(ctx)
	}
	return x.advance(ctx)
}

// advance reads events until there is something to write to a streaming client, or until the answer is complete or
// has failed. An error is one that the writer does not know yet.
func (x *completion) advance(ctx context.Context) error {
	for events := false; ; {
		ev, ok, err := x.decoder.Next()
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
			x.decoder.Feed(p)
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
		ev, ok, err := x.decoder.End()
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

func (x *completion) event(ctx context.Context, ev framing.Event) error {
	if !x.native {
		return x.provider.binding.Event(ctx, &x.attempt, ev.Kind, ev.Name, ev.Data)
	}
	x.batch.Reset()
	if err := x.reader.ReadChunk(ev.Data, &x.batch); err != nil {
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

func (impatience) Pace() time.Duration { return drainWait }

// errCommit ends the wait for a first event that has lasted for a heartbeat: the answer's head goes out, so that the
// client sees a stream, and the wait goes on behind it.
var errCommit = commitError{}

type commitError struct{}

func (commitError) Error() string { return "silence before the first event" }

func (commitError) Resumable() bool { return true }

// Pace asks for an early tick where a probe is on its way, or heartbeats are more frequent than ticks.
func (x *completion) Pace() time.Duration {
	x.watcher.Stop()
	return x.pace()
}

func (x *completion) pace() time.Duration {
	if x.conn.Probing() {
		return downstream.ProbeWait
	}
	if p := x.provider; p != nil && x.stream && p.heartbeat < downstream.CheckInterval {
		return p.heartbeat
	}
	return 0
}

// lookAfter is how long the client's socket may go without a look.
func (x *completion) lookAfter() time.Duration {
	if p := x.pace(); p > 0 {
		return p
	}
	return downstream.CheckInterval
}

// Tick is called by the connection to the provider while it waits, and by the exchange itself between events.
func (x *completion) Tick(_ upstream.Phase, _ time.Duration) error {
	x.watcher.Stop()
	now := x.server.now()
	if err := x.look(now); err != nil {
		return err
	}
	if err := x.overdue(now); err != nil {
		return err
	}
	heartbeat := x.provider.heartbeat
	if !x.stream || heartbeat <= 0 {
		return nil
	}
	if !x.committed {
		if x.response != nil && now.Sub(x.written) >= heartbeat {
			return errCommit
		}
		return nil
	}
	if now.Sub(x.written) >= heartbeat {
		if _, err := x.conn.Write(heartbeatChunk); err != nil {
			x.departed = true
			return errDeparted
		}
		x.server.metrics.Heartbeat()
		x.written = now
	}
	return nil
}

// overdue is the error of a stream whose next event takes too long, however many bytes of it have come.
func (x *completion) overdue(now time.Time) error {
	limit := x.provider.event
	if limit <= 0 || !x.framed || now.Sub(x.progress) < limit {
		return nil
	}
	return upstreamError(&upstream.Error{Kind: upstream.Timeout, Phase: upstream.PhaseBody, Upstream: x.provider.name, Reason: "event timeout of " + limit.String(), Answered: true})
}

// CheckClient checks the client while a plugin or a connection is waited for. It implements downstream.ClientChecker.
func (x *completion) CheckClient() error { return x.look(x.server.now()) }

// look looks whether the client is still there, and the gateway has time.
func (x *completion) look(now time.Time) error {
	x.looked = now
	if x.conn.CheckClient(x.probe) {
		x.departed = true
		return errDeparted
	}
	if x.server.cut.Load() {
		return x.server.shutdownError()
	}
	return nil
}

// beat is a comment line: it dispatches no event. heartbeatChunk is the same as a chunk of a chunked body, which
// is how it is written between the chunks of fasthttp: it has flushed after the last one.
const beat = ": keep-alive\n"

var (
	heartbeatChunk = []byte("d\r\n" + beat + "\r\n")
	interimHead    = []byte("HTTP/1.1 100 Continue\r\n\r\n")
)

// probe writes something that a client must ignore.
func (x *completion) probe() bool {
	switch {
	case x.committed:
		_, err := x.conn.Write(heartbeatChunk)
		x.written = x.server.now()
		return err == nil
	case x.http11 && !x.interim:
		x.interim = true
		_, err := x.conn.Write(interimHead)
		return err == nil
	}
	return false
}

var _ upstream.Watcher = (*completion)(nil)
