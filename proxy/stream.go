package proxy

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/exchange"
	"github.com/sluice-gateway/sluice/proxy/internal/failure"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
)

// WriteStream writes a streamed response to its end, and accounts it. One goroutine reads from the provider, translates
// and writes. After an error the body is incomplete and the connection must be closed. It implements
// downstream.Request.
func (x *completion) WriteStream() (keepAlive bool, err error) {
	if err := x.writeEvents(); err != nil {
		return false, err
	}
	return x.Chunks.End()
}

// writeEvents writes the response's chunks, and finishes the completion.
func (x *completion) writeEvents() (err error) {
	defer func() {
		x.record.Bytes = x.Chunks.Written()
		if err != nil && x.Disconnected {
			err = failure.ErrDisconnected // the access log has the details
		}
		x.finishAsync()
	}()
	defer rescue.Recover(func(p *rescue.Error) {
		x.server.logPanic(x.record.RequestID, p)
		e := failure.Internal(nil)
		x.Writer.Fail(e)
		err = x.writePanic(e)
	})
	x.Committed = true
	x.WrittenAt = x.server.Now()
	for {
		if out := x.Writer.Output(); len(out) > 0 || !x.Chunks.HeadSent() {
			if len(out) > 0 {
				x.recordOrigin()
			}
			if err := x.writeOutput(out); err != nil {
				return err
			}
			x.Writer.Consume()
			x.WrittenAt = x.server.Now()
			x.EventAt = x.WrittenAt
		}
		failed := x.Writer.Failed()
		if failed != nil && x.Chunks.Written() == 0 {
			x.settle()
			// No chunk has been written, so the writer leaves the error to the HTTP status, but the head has been sent.
			if err := x.WriteChunk(x.Writer.AppendError(nil, failed)); err != nil {
				return err
			}
		}
		if x.Writer.Complete() || failed != nil {
			x.DrainBody()
			return nil
		}
		err := x.AwaitBytes()
		if err == nil {
			err = x.Read(context.Background())
		}
		if !x.Disconnected {
			x.FilterResponse(context.Background())
		}
		if err != nil {
			if x.Disconnected {
				return err
			}
			x.EndTape(err)
			x.Writer.Fail(failure.ForClient(err))
		}
	}
}

// eventEnd ends an event of an SSE stream.
var eventEnd = []byte("\n\n")

// writeOutput writes the events in out as one chunk. The events of a plugin's own response are all available at once:
// if its provider has a pace, each is a chunk of its own, followed by a pause.
func (x *completion) writeOutput(out []byte) error {
	pace := x.Provider.Pace
	for pace > 0 && x.Response == nil {
		end := bytes.Index(out, eventEnd) + len(eventEnd)
		if end < len(eventEnd) || end == len(out) {
			break
		}
		if err := x.WriteChunk(out[:end]); err != nil {
			return err
		}
		out = out[end:]
		if err := x.Pause(pace); x.Disconnected {
			return err
		} else if err != nil {
			break // the gateway is shutting down: write the rest without pauses
		}
	}
	if x.Writer.Complete() || x.Writer.Failed() != nil {
		x.settle() // these are the last events
	}
	return x.WriteChunk(out)
}

// errPanic leaves out the panic's value, which may contain anything.
var errPanic = errors.New("panic in a stream")

// writePanic writes an error event after a panic. Output that was rendered before it is dropped.
func (x *completion) writePanic(e *apierror.Error) (err error) {
	defer rescue.Recover(func(*rescue.Error) { err = errPanic })
	return x.WriteChunk(x.Writer.AppendError(nil, e))
}

// heartbeat returns how often the client receives a heartbeat; 0 if it receives none.
func (x *completion) heartbeat() time.Duration {
	if p := x.Provider; p != nil && x.Stream {
		return p.Heartbeat
	}
	return 0
}

// Pace requests an early tick after a probe, or if heartbeats are more frequent than ticks.
func (x *completion) Pace() time.Duration {
	x.Watcher.Stop()
	return x.PaceOf(x.heartbeat())
}

// Due implements exchange.Waiter.
func (x *completion) Due(now time.Time) bool {
	return now.Sub(x.CheckedAt) >= x.Interval(x.heartbeat())
}

// Tick checks the client, and sends a heartbeat if one is due. The provider's connection calls it during waits, and the
// attempt between events. It implements upstream.Watcher.
func (x *completion) Tick(_ upstream.Phase, _ time.Duration) error {
	x.Watcher.Stop()
	now := x.server.Now()
	if err := x.Check(now); err != nil {
		return err
	}
	if err := x.CheckEventTimeout(now); err != nil {
		return err
	}
	switch interval := x.heartbeat(); {
	case interval <= 0 || now.Sub(x.WrittenAt) < interval:
	case x.Committed:
		return x.Beat(now)
	case x.Response != nil:
		return exchange.ErrCommit
	}
	return nil
}

var _ exchange.Waiter = (*completion)(nil)
