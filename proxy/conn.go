package proxy

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// listener hands fasthttp connections that know how to ask whether the client is still there.
type listener struct {
	net.Listener
	settings *settings
	open     *connections
	full     func() []byte // what connections beyond the limit are told
	log      *slog.Logger
	once     sync.Once
	closed   chan struct{}
	stopping atomic.Bool   // it takes only those that wait in its queue
	emptied  chan struct{} // closed when there is nobody left in the queue, where that is found out
}

// Close closes the listener; it may be closed by fasthttp and by Shutdown.
func (l *listener) Close() (err error) {
	l.once.Do(func() {
		close(l.closed)
		err = l.Listener.Close()
	})
	return err
}

// connections are those of clients that are open.
type connections struct {
	finishing atomic.Bool // those that wait for a request are closed
	ending    atomic.Bool // no connection takes another request

	mu   sync.Mutex
	all  map[*clientConn]struct{}
	none chan struct{} // closed when the last one has gone; nil until somebody waits for that
}

// add is false where there are max connections already.
func (o *connections) add(c *clientConn, max int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.all) >= max {
		return false
	}
	if o.all == nil {
		o.all = make(map[*clientConn]struct{})
	}
	o.all[c] = struct{}{}
	return true
}

func (o *connections) remove(c *clientConn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, there := o.all[c]; !there {
		return
	}
	delete(o.all, c)
	o.tell()
}

// tell closes none, once, where there is no connection. o.mu is held.
func (o *connections) tell() {
	if o.none != nil && len(o.all) == 0 {
		close(o.none)
		o.none = nil
	}
}

// Accept returns the next connection within the limit.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.accept()
		if err != nil {
			return nil, err
		}
		cc := &clientConn{Conn: c, settings: l.settings, open: l.open, accepted: time.Now()}
		if !l.open.add(cc, l.settings.Load().MaxConns) {
			// It fits into the memory of the socket, so that nobody waits here. A client that does not get it sees
			// the connection closed, which is all the rest of what it says.
			_, _ = cc.Write(l.full())
			_ = c.Close()
			continue
		}
		if sc, ok := c.(syscall.Conn); ok {
			// A connection without a descriptor is one in memory: its client is there until a write fails.
			cc.raw, _ = sc.SyscallConn()
		}
		cc.patience(l.settings.Load().ReadTimeout)
		limitUnread(c, l.settings.Load().WriteTimeout)
		return cc, nil
	}
}

const (
	firstPause = 5 * time.Millisecond
	maxPause   = time.Second
)

// accept waits out what passes by itself, as a process's being out of descriptors does. fasthttp takes it for the end
// of the listener.
func (l *listener) accept() (net.Conn, error) {
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		c, err := l.Listener.Accept()
		var passing interface{ Temporary() bool }
		if l.stopping.Load() && errors.Is(err, os.ErrDeadlineExceeded) {
			close(l.emptied)
			return nil, net.ErrClosed
		}
		if err == nil || !errors.As(err, &passing) || !passing.Temporary() {
			return c, err
		}
		l.log.Warn("accept connections", "error", err, "pause", pause)
		t := time.NewTimer(pause)
		select {
		case <-l.closed:
			t.Stop()
			return nil, net.ErrClosed
		case <-t.C:
		}
	}
}

// clientConn is a client's connection. Its reads belong to fasthttp. Writes come from fasthttp and, for heartbeats and
// probes, from the exchange, always on the goroutine that serves the connection.
type clientConn struct {
	net.Conn
	raw      syscall.RawConn
	settings *settings
	open     *connections
	accepted time.Time
	phase    atomic.Int32
	woken    atomic.Bool // a read was ended so that it looks at the phase; its time is not over

	// Of the request in flight: what was found out about a client that has closed its sending side.
	halfClosed bool // a probe showed that it still reads
	probing    bool // a probe is on its way
	interim    bool // the one probe that can be sent before the head has been sent
}

// The phases of a connection.
const (
	phaseNew    = iota // nothing has come
	phaseActive        // a request is being read, or answered
	phaseIdle          // between two requests
)

// Write writes p under a deadline of its own: a client that stops reading is cut off after the write timeout, however
// long its stream has been open.
func (c *clientConn) Write(p []byte) (int, error) {
	if timeout := c.settings.Load().WriteTimeout; timeout > 0 {
		if err := c.Conn.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
			return 0, err
		}
	}
	n, err := c.Conn.Write(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		abandon(c.Conn)
	}
	return n, err
}

// Close closes the connection.
func (c *clientConn) Close() error {
	c.open.remove(c)
	return c.Conn.Close()
}

// begin forgets what was learnt for the request before.
func (c *clientConn) begin() { c.halfClosed, c.probing, c.interim = false, false, false }

// presence is what one look at a client's socket says.
type presence uint8

const (
	present presence = iota
	suspect          // it has closed its sending side: gone or half-closed, which only a probe can tell apart
	gone
)

// probeWait is how long a client's kernel gets to answer a probe.
const probeWait = 50 * time.Millisecond

// left reports whether the client has gone. probe writes something harmless to it, where that is possible at the
// moment; while probing is set, left wants to be asked again after probeWait.
//
// A full close and a half-close look alike until something is written: then the kernel of a client that is gone
// answers with a reset, and that of a half-closed one takes it.
func (c *clientConn) left(probe func() bool) bool {
	switch c.look() {
	case gone:
		return true
	case suspect:
		switch {
		case c.halfClosed:
		case c.probing:
			c.halfClosed, c.probing = true, false
		default:
			c.probing = probe()
		}
	}
	return false
}
