package proxy

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/chunked"
	"github.com/sluice-gateway/sluice/proxy/internal/downstream"
	"github.com/sluice-gateway/sluice/proxy/internal/exchange"
	"github.com/sluice-gateway/sluice/proxy/internal/failure"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
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
		x.Writer.Fail(e)
		err = x.writePanic(e)
	})
	x.committed = true
	x.writtenAt = x.server.Now()
	for {
		if out := x.Writer.Output(); len(out) > 0 || !x.chunks.HeadSent() {
			if len(out) > 0 {
				x.recordOrigin()
			}
			if err := x.writeOutput(out); err != nil {
				return err
			}
			x.Writer.Consume()
			x.writtenAt = x.server.Now()
			x.EventAt = x.writtenAt
		}
		failed := x.Writer.Failed()
		if failed != nil && x.chunks.Written() == 0 {
			x.settle()
			// No chunk has been written, so the writer leaves the error to the HTTP status, but the head has been sent.
			if err := x.writeChunk(x.Writer.AppendError(nil, failed)); err != nil {
				return err
			}
		}
		if x.Writer.Complete() || failed != nil {
			x.DrainBody()
			return nil
		}
		err := x.AwaitBytes()
		if err == nil {
			err = x.ReadMore(context.Background())
		}
		if !x.disconnected {
			x.FilterResponse(context.Background())
		}
		if err != nil {
			if x.disconnected {
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
	if x.Writer.Complete() || x.Writer.Failed() != nil {
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
	return x.writeChunk(x.Writer.AppendError(nil, e))
}

// StartWait implements exchange.Waiter.
func (d *delivery) StartWait() context.Context {
	d.watcher.Start()
	return &d.watcher
}

// FinishWait implements exchange.Waiter.
func (d *delivery) FinishWait() error { return d.watcher.Finish() }

// Gone implements exchange.Waiter.
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
	if p := x.Provider; p != nil && x.Stream && p.Heartbeat < downstream.CheckInterval {
		return p.Heartbeat
	}
	return 0
}

// Due implements exchange.Waiter.
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
	now := x.server.Now()
	if err := x.checkClient(now); err != nil {
		return err
	}
	if err := x.CheckEventTimeout(now); err != nil {
		return err
	}
	heartbeat := x.Provider.Heartbeat
	if !x.Stream || heartbeat <= 0 {
		return nil
	}
	if !x.committed {
		if x.Response != nil && now.Sub(x.writtenAt) >= heartbeat {
			return exchange.ErrCommit
		}
		return nil
	}
	if now.Sub(x.writtenAt) >= heartbeat {
		if _, err := x.conn.Write(x.API.HeartbeatChunk); err != nil {
			x.disconnected = true
			return failure.ErrDisconnected
		}
		x.server.metrics.Heartbeat()
		x.writtenAt = now
	}
	return nil
}

// CheckClient checks the client while the completion waits for a plugin or a connection. It implements
// downstream.ClientChecker.
func (x *completion) CheckClient() error { return x.checkClient(x.server.Now()) }

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
		_, err := x.conn.Write(x.API.HeartbeatChunk)
		x.writtenAt = x.server.Now()
		return err == nil
	case x.HTTP11 && !x.probed:
		x.probed = true
		_, err := x.conn.Write(continueHead)
		return err == nil
	}
	return false
}

var _ upstream.Watcher = (*completion)(nil)
