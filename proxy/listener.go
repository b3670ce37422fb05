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

// listener accepts the connections of clients. Each is served on a goroutine of its own.
type listener struct {
	net.Listener
	settings *settings
	open     *connections
	secure   *secure // nil: plain HTTP
	log      *slog.Logger
	once     sync.Once
	closed   chan struct{}
	stopping atomic.Bool   // it takes only those that wait in its queue
	emptied  chan struct{} // closed when there is nobody left in the queue, where that is found out
}

// Close closes the listener.
func (l *listener) Close() (err error) {
	l.once.Do(func() {
		close(l.closed)
		err = l.Listener.Close()
	})
	return err
}

// accept returns the next connection. full says that there are as many as may be without it.
func (l *listener) accept() (c *clientConn, full bool, err error) {
	nc, err := l.next()
	if err != nil {
		return nil, false, err
	}
	s := l.settings.Load()
	c = &clientConn{settings: l.settings, open: l.open, accepted: time.Now()}
	c.socket = socket{Conn: nc, settings: l.settings}
	c.Conn = &c.socket
	if sc, ok := nc.(syscall.Conn); ok {
		// A connection without a descriptor is one in memory: its client is there until a write fails.
		c.raw, _ = sc.SyscallConn()
	}
	keepAlive(nc, s.WriteTimeout)
	if l.secure != nil {
		l.secure.wrap(c)
	}
	if !l.open.add(c, s.MaxConns) {
		return c, true, nil
	}
	c.patience(s.ReadTimeout)
	return c, false, nil
}

const (
	firstPause = 5 * time.Millisecond
	maxPause   = time.Second
)

// next waits out what passes by itself, as a process's being out of descriptors does.
func (l *listener) next() (net.Conn, error) {
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

// connections are those of clients that are open.
type connections struct {
	finishing atomic.Bool // those that wait for a request are closed
	ending    atomic.Bool // no connection takes another request

	handshakes handshakes

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
