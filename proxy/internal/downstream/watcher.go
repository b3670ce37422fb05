package downstream

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
)

// CheckInterval is how often a client is checked while its request waits or is busy.
const CheckInterval = 250 * time.Millisecond

// ClientChecker checks a client for a Watcher, on the Watcher's goroutine.
type ClientChecker interface {
	// CheckClient returns why the request is over: the client is gone, or there is another reason.
	CheckClient() error
}

// Watcher is a request's context for waits that cannot check the client themselves, such as for a plugin or for a
// connection to a provider. It is cancelled when the client disconnects. The goroutine that checks starts only once
// something asks for Done, so that a request that need not wait pays nothing.
//
// Its owner calls Start before what may wait, and Finish after it. In between the owner's own goroutine does nothing with
// the client's connection.
type Watcher struct {
	conn    *Conn
	checker ClientChecker
	running atomic.Bool

	mu       sync.Mutex
	started  bool
	ctx      context.Context // nil until something has waited
	cancel   context.CancelCauseFunc
	stop     chan struct{} // of the goroutine
	finished chan struct{}
}

// Watch says whom to check, before the first Start. c is nil where there is no connection.
func (w *Watcher) Watch(c *Conn, checker ClientChecker) { w.conn, w.checker = c, checker }

// Start begins a wait.
func (w *Watcher) Start() {
	w.mu.Lock()
	w.started = true
	w.mu.Unlock()
}

// Finish ends a wait, and returns why the request is over: nil if it is not.
func (w *Watcher) Finish() error {
	w.Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started = false
	if w.ctx == nil {
		return nil
	}
	err := context.Cause(w.ctx)
	if err == nil {
		w.ctx, w.cancel = nil, nil // the next wait makes another; a stream may go on for long without
	}
	return err
}

// Stop ends the goroutine: from here on its owner checks the client.
func (w *Watcher) Stop() {
	if !w.running.Load() {
		return
	}
	w.mu.Lock()
	w.started = false
	w.running.Store(false)
	w.mu.Unlock()
	close(w.stop)
	<-w.finished
	w.stop, w.finished = nil, nil
}

// Done implements context.Context.
func (w *Watcher) Done() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx == nil {
		w.ctx, w.cancel = context.WithCancelCause(context.Background())
	}
	if w.started && !w.running.Load() && w.ctx.Err() == nil {
		w.running.Store(true)
		w.stop, w.finished = make(chan struct{}), make(chan struct{})
		go w.watch(w.stop, w.finished)
	}
	return w.ctx.Done()
}

// Err implements context.Context.
func (w *Watcher) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx == nil {
		return nil
	}
	return w.ctx.Err()
}

// Value implements context.Context.
func (w *Watcher) Value(key any) any {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx == nil {
		return nil
	}
	return w.ctx.Value(key)
}

// Deadline implements context.Context.
func (w *Watcher) Deadline() (time.Time, bool) { return time.Time{}, false }

// watch checks the client until stop. A panic ends the request: it is the error.
func (w *Watcher) watch(stop <-chan struct{}, finished chan<- struct{}) {
	defer close(finished)
	t := time.NewTimer(CheckInterval)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
		}
		if err := w.check(); err != nil {
			w.cancel(err)
			return
		}
		wait := CheckInterval
		if w.conn != nil && w.conn.Probing() {
			wait = ProbeWait
		}
		t.Reset(wait)
	}
}

func (w *Watcher) check() (err error) {
	defer rescue.Into(&err)
	return w.checker.CheckClient()
}

var _ context.Context = (*Watcher)(nil)
