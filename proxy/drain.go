package proxy

import (
	"context"
	"errors"
	"io"
	"os"
	"time"
)

// The end of a gateway takes these steps. Drain: it is not ready any more, serves on, and answers with Connection:
// close. Shutdown: the listeners are closed, then the connections that wait for a request, then each one whose request
// has been answered. At the deadline, the streams that are left get an error frame, and what is written by then is what
// their clients get.
//
// fasthttp's own shutdown does not do for that: it closes idle connections though a request may have arrived on them,
// looks only ten times a second whether it is over, and tells every request in flight that it is cancelled.

const (
	// queueGrace is for the clients that the kernel has told that they are connected: what is in a listener's queue when
	// it is closed is reset.
	queueGrace = 20 * time.Millisecond

	// acceptGrace is how long whoever accepts may take to find that out.
	acceptGrace = time.Second

	// firstGrace is how long the first request of a new connection may take to come once the gateway shuts down.
	firstGrace = time.Second

	// cutGrace is how long streams that were cut at the end of a shutdown get to write their error frames.
	cutGrace = 2 * time.Second
)

// stop takes the connections that wait in the queue, and closes the listener.
func (l *listener) stop() error {
	d, ok := l.Listener.(interface{ SetDeadline(time.Time) error })
	l.stopping.Store(true)
	if ok && d.SetDeadline(time.Now().Add(queueGrace)) == nil {
		t := time.NewTimer(acceptGrace)
		defer t.Stop()
		select {
		case <-l.emptied:
		case <-l.closed:
		case <-t.C:
		}
	}
	return l.Close()
}

// finish closes the connections that wait for a request and the others behind the answer that they are getting. It
// returns when none is left, or with ctx's error.
func (o *connections) finish(ctx context.Context) error {
	o.finishing.Store(true)
	none := o.wake()
	select {
	case <-none:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-none:
		return nil // nobody was left to wait for
	default:
		return ctx.Err()
	}
}

// end has every connection closed once the answer that it is writing is written, and at the latest when ctx ends.
func (o *connections) end(ctx context.Context) {
	o.ending.Store(true)
	select {
	case <-o.wake():
		return
	case <-ctx.Done():
	}
	o.sever()
}

// sever ends every connection that is left, and that is about to come. What it was used for notices.
func (o *connections) sever() {
	o.ending.Store(true)
	o.mu.Lock()
	defer o.mu.Unlock()
	for c := range o.all {
		c.sever()
	}
}

// wake has every connection that is waiting in a read look at what it is waiting for. The channel is closed when no
// connection is left.
func (o *connections) wake() (none <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.none == nil {
		o.none = make(chan struct{})
	}
	none = o.none
	o.tell()
	for c := range o.all {
		if c.shaking.Load() {
			continue // it looks by itself when that is over
		}
		c.woken.Store(true)
		_ = c.SetReadDeadline(time.Unix(1, 0))
	}
	return none
}

// Read reads for fasthttp.
func (c *clientConn) Read(p []byte) (int, error) {
	if c.taking || len(c.ahead) > 0 {
		return c.readAhead(p)
	}
	for {
		c.arm() // and then look whether it was too late to be woken
		grace, over := c.over()
		if over {
			return 0, io.EOF
		}
		if grace > 0 {
			c.patience(grace)
		}
		if c.tls != nil && !c.greeted {
			if !c.shake() {
				return 0, io.EOF
			}
			c.greeted = true
			continue
		}
		n, err := c.Conn.Read(p)
		if !c.greeted && n > 0 {
			if c.misplaced(p[:n]) {
				return 0, io.EOF
			}
			c.greeted = true
		}
		c.ended = c.ended || err == io.EOF
		switch {
		case n > 0 || !errors.Is(err, os.ErrDeadlineExceeded):
			return c.unanswerable(n, err)
		case grace > 0:
			return 0, io.EOF
		case !c.woken.CompareAndSwap(true, false):
			return c.unanswerable(n, err)
		}
		c.patience(c.settings.Load().ReadTimeout)
	}
}

// unanswerable makes an error between two requests the end: there is nothing to be answered. fasthttp takes the first request
// behind a stream for the connection's first one, and would answer.
func (c *clientConn) unanswerable(n int, err error) (int, error) {
	if n == 0 && err != nil && c.phase.Load() == phaseIdle {
		err = io.EOF
	}
	return n, err
}

// over tells whether the gateway's end is one for this connection too, when it is about to read, or else how long it may
// wait for its next request; 0 is for as long as ever. A request of which something has come is read and answered.
func (c *clientConn) over() (grace time.Duration, over bool) {
	if c.open.ending.Load() {
		return 0, true
	}
	if !c.open.finishing.Load() {
		return 0, false
	}
	switch c.phase.Load() {
	case phaseNew:
		grace = firstGrace - time.Since(c.accepted)
		return grace, grace <= 0
	case phaseIdle:
		return firstGrace, !c.readable()
	}
	return 0, false
}
