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
	// CheckClient returns an error if the request must end because the client is gone or for another reason, and nil
	// otherwise.
	CheckClient() error
}

// Watcher is a request's context for waits that cannot check the client themselves, such as waiting for a plugin or for
// a connection to a provider. It is cancelled when the client disconnects. Its goroutine starts only when Done is
// called, so that a request that does not wait pays nothing.
//
// Its owner calls Start before an operation that may wait, and Finish after it. In between, the owner's own goroutine
// must not use the client's connection.
type Watcher struct {
	conn    *Conn
	checker ClientChecker
	running atomic.Bool

	mu       sync.Mutex
	started  bool
	ctx      context.Context // nil until Done is called
	cancel   context.CancelCauseFunc
	stop     chan struct{} // closed to stop the goroutine
	finished chan struct{} // closed when the goroutine has ended
}

// Watch sets the connection and the checker. It is called before the first Start. c may be nil.
func (w *Watcher) Watch(c *Conn, checker ClientChecker) { w.conn, w.checker = c, checker }

// Start begins a wait.
func (w *Watcher) Start() {
	w.mu.Lock()
	w.started = true
	w.mu.Unlock()
}

// Finish ends a wait. It returns an error if the request must end, and nil otherwise.
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
		w.ctx, w.cancel = nil, nil // the next wait creates another one; a long stream may never need it
	}
	return err
}

// Stop ends the goroutine. From then on, the owner checks the client itself.
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

// watch checks the client until stop is closed. A panic of the checker ends the request with an error.
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
