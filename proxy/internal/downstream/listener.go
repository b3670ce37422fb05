package downstream

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Listener accepts the connections of clients.
type Listener struct {
	net.Listener
	conns    *Conns
	once     sync.Once
	closed   chan struct{}
	stopping atomic.Bool   // only connections that wait in the queue are accepted
	emptied  chan struct{} // closed when the queue is found empty
}

// Listen accepts connections from ln.
func (g *Conns) Listen(ln net.Listener) *Listener {
	return &Listener{Listener: ln, conns: g, closed: make(chan struct{}), emptied: make(chan struct{})}
}

// Stop closes the listener after the connections that wait in its queue have been accepted.
func (l *Listener) Stop() error {
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

// Close closes the listener.
func (l *Listener) Close() (err error) {
	l.once.Do(func() {
		close(l.closed)
		err = l.Listener.Close()
	})
	return err
}

// AcceptConn returns the next connection. full means that Limits.Conns connections are already open: this one is not
// counted, and can only be refused or closed.
func (l *Listener) AcceptConn() (c *Conn, full bool, err error) {
	nc, err := l.accept()
	if err != nil {
		return nil, false, err
	}
	limits := l.conns.limits.Load()
	now := time.Now()
	c = &Conn{conns: l.conns, accepted: now, ready: now}
	c.socket = socket{Conn: nc, limits: &l.conns.limits}
	c.Conn = &c.socket
	if sc, ok := nc.(syscall.Conn); ok {
		// An in-memory connection has no descriptor. Its client counts as present until a write fails.
		c.raw, _ = sc.SyscallConn()
	}
	keepAlive(nc, limits.WriteTimeout)
	if l.conns.tls != nil {
		c.startTLS(l.conns.tls)
	}
	if !l.conns.add(c, limits.Conns) {
		return c, true, nil
	}
	c.setReadTimeout(limits.ReadTimeout)
	return c, false, nil
}

const (
	firstPause = 5 * time.Millisecond
	maxPause   = time.Second
)

// accept accepts a connection. It retries after temporary errors, such as when the process has run out of descriptors.
func (l *Listener) accept() (net.Conn, error) {
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		c, err := l.Listener.Accept()
		var temporary interface{ Temporary() bool }
		if l.stopping.Load() && errors.Is(err, os.ErrDeadlineExceeded) {
			close(l.emptied)
			return nil, net.ErrClosed
		}
		if err == nil || !errors.As(err, &temporary) || !temporary.Temporary() {
			return c, err
		}
		l.conns.options.Log.Warn("accept failed; retrying", "error", err, "pause_ms", pause.Milliseconds())
		t := time.NewTimer(pause)
		select {
		case <-l.closed:
			t.Stop()
			return nil, net.ErrClosed
		case <-t.C:
		}
	}
}
