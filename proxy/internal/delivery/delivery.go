// Package delivery is the client's side of one request: the connection, the chunks of a streamed response, heartbeats
// while there is nothing to write, and whether the client is still there.
//
// It does not know what is written, nor where that comes from: package proxy writes what an exchange.Attempt has rendered.
//
// Concurrency: a Delivery belongs to the goroutine that serves its request. While a Watcher runs, nothing else uses the
// connection.
package delivery

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/chunked"
	"github.com/sluice-gateway/sluice/proxy/internal/downstream"
	"github.com/sluice-gateway/sluice/proxy/internal/failure"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

// Services are what deliveries use of the gateway.
type Services struct {
	Now      func() time.Time
	Metrics  *telemetry.Metrics
	TimedOut *atomic.Bool // the shutdown deadline has passed
}

// Delivery is what one client receives.
type Delivery struct {
	*Services
	Conn         *downstream.Conn
	Chunks       chunked.Writer
	Watcher      downstream.Watcher
	Heartbeat    []byte    // the API's, as an HTTP chunk
	Continues    bool      // the client understands 100 Continue, which is sent once to see whether it is there
	Committed    bool      // the head of a streamed response has been sent
	Disconnected bool      // the client is gone
	BodyRead     bool      // the client's body has been read completely
	CheckedAt    time.Time // when the client's connection was last checked
	WrittenAt    time.Time // time of the last write to the client, once committed
}

// Pause waits for t. It returns an error early if the client disconnects or the shutdown deadline passes.
func (d *Delivery) Pause(t time.Duration) error { return d.pauseUntil(nil, t) }

func (d *Delivery) pauseUntil(ready <-chan struct{}, t time.Duration) error {
	d.Watcher.Start()
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ready:
	case <-d.Watcher.Done():
	}
	return d.Watcher.Finish()
}

// Await implements admission.Waiter.
func (d *Delivery) Await(admitted <-chan struct{}, t time.Duration) *apierror.Error {
	if err := d.pauseUntil(admitted, t); err != nil {
		return failure.ForClient(err)
	}
	return nil
}

// StartWait implements exchange.Waiter.
func (d *Delivery) StartWait() context.Context {
	d.Watcher.Start()
	return &d.Watcher
}

// FinishWait implements exchange.Waiter.
func (d *Delivery) FinishWait() error { return d.Watcher.Finish() }

// Gone implements exchange.Waiter.
func (d *Delivery) Gone() bool { return d.Disconnected }

// WriteChunk writes data as one chunk.
func (d *Delivery) WriteChunk(data []byte) error {
	err := d.Chunks.Write(data)
	if err != nil {
		d.Disconnected = true
	}
	return err
}

// PaceOf returns how soon the client must be looked after: early after a probe, or if it receives a heartbeat more often
// than it is checked. heartbeat is 0 if it receives none. PaceOf returns 0 if CheckInterval is early enough.
func (d *Delivery) PaceOf(heartbeat time.Duration) time.Duration {
	if d.Conn != nil && d.Conn.Probing() {
		return downstream.ProbeWait
	}
	if heartbeat < downstream.CheckInterval {
		return heartbeat
	}
	return 0
}

// Interval returns how long the client's connection may go unchecked.
func (d *Delivery) Interval(heartbeat time.Duration) time.Duration {
	if p := d.PaceOf(heartbeat); p > 0 {
		return p
	}
	return downstream.CheckInterval
}

// CheckClient checks the client while its request waits for a plugin or a connection. It implements
// downstream.ClientChecker.
func (d *Delivery) CheckClient() error { return d.Check(d.Now()) }

// Check fails if the client has disconnected or the shutdown deadline has passed.
func (d *Delivery) Check(now time.Time) error {
	d.CheckedAt = now
	if d.Conn.CheckClient(d.probe) {
		d.Disconnected = true
		return failure.ErrDisconnected
	}
	if d.TimedOut.Load() {
		return failure.Shutdown()
	}
	return nil
}

var continueHead = []byte("HTTP/1.1 100 Continue\r\n\r\n")

// probe writes something that clients ignore, if the protocol permits it at this moment.
func (d *Delivery) probe() bool {
	switch {
	case d.Committed:
		_, err := d.Conn.Write(d.Heartbeat)
		d.WrittenAt = d.Now()
		return err == nil
	case d.Continues:
		d.Continues = false
		_, err := d.Conn.Write(continueHead)
		return err == nil
	}
	return false
}

// Beat sends a heartbeat to a client that has the head of a stream.
func (d *Delivery) Beat(now time.Time) error {
	if _, err := d.Conn.Write(d.Heartbeat); err != nil {
		d.Disconnected = true
		return failure.ErrDisconnected
	}
	d.Metrics.Heartbeat()
	d.WrittenAt = now
	return nil
}
