package proxy

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// vigil is the context of an exchange for the waits that do not tick: for a plugin, and for a connection to a provider.
// It ends when the client leaves. Nobody looks after the client unless somebody waits: asking for Done is what has a
// goroutine do it, so a request that need not wait pays nothing.
//
// The exchange opens it before something that may wait, and closes it behind that. In between the exchange's own goroutine
// does nothing with the client's connection.
type vigil struct {
	x *completion

	running atomic.Bool

	mu     sync.Mutex
	open   bool
	ctx    context.Context // nil until somebody has waited
	cancel context.CancelCauseFunc
	stop   chan struct{} // of the goroutine
	ended  chan struct{}
}

// begin opens the vigil.
func (v *vigil) begin() {
	v.mu.Lock()
	v.open = true
	v.mu.Unlock()
}

// end closes it, and says why the wait, and all that was to come behind it, is over: nil for no such reason.
func (v *vigil) end() error {
	v.rest()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.open = false
	if v.ctx == nil {
		return nil
	}
	err := context.Cause(v.ctx)
	if err == nil {
		v.ctx, v.cancel = nil, nil // the next wait makes another; a stream may go on for long without
	}
	return err
}

// rest ends the goroutine, for the exchange's own looks after the client from here on.
func (v *vigil) rest() {
	if !v.running.Load() {
		return
	}
	v.mu.Lock()
	v.open = false
	v.running.Store(false)
	v.mu.Unlock()
	close(v.stop)
	<-v.ended
	v.stop, v.ended = nil, nil
}

// Done implements context.Context.
func (v *vigil) Done() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ctx == nil {
		v.ctx, v.cancel = context.WithCancelCause(context.Background())
	}
	if v.open && !v.running.Load() && v.ctx.Err() == nil {
		v.running.Store(true)
		v.stop, v.ended = make(chan struct{}), make(chan struct{})
		go v.keep(v.stop, v.ended)
	}
	return v.ctx.Done()
}

// Err implements context.Context.
func (v *vigil) Err() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ctx == nil {
		return nil
	}
	return v.ctx.Err()
}

// Value implements context.Context.
func (v *vigil) Value(key any) any {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ctx == nil {
		return nil
	}
	return v.ctx.Value(key)
}

// Deadline implements context.Context.
func (v *vigil) Deadline() (time.Time, bool) { return time.Time{}, false }

// keep looks after the client until stop.
func (v *vigil) keep(stop <-chan struct{}, ended chan<- struct{}) {
	defer close(ended)
	defer v.x.server.survive(v.x.record.RequestID)
	t := time.NewTimer(lookEvery)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
		}
		if err := v.x.look(v.x.server.now()); err != nil {
			v.cancel(err)
			return
		}
		wait := lookEvery
		if v.x.conn.probing {
			wait = probeWait
		}
		t.Reset(wait)
	}
}

var _ context.Context = (*vigil)(nil)
