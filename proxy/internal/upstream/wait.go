package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"time"
)

// Watcher is called at every tick of a wait, on the waiting goroutine, and must not block for long.
//
// silent is how long the peer has sent nothing or, during PhaseSend, accepted nothing. An error ends the wait: the
// connection is closed, and the error is returned as the cause of an Error of kind Cancelled. But if the phase is
// PhaseBody and the error has a method Resumable() bool that returns true, the connection stays open, the kind is
// Paused, and Next and ReadAll may be called again.
type Watcher interface {
	Tick(p Phase, silent time.Duration) error
}

// Pacer may be implemented by a Watcher that wants its next tick earlier or later than Ticks schedules it. Pace is
// called before each wait and returns the interval; 0 means that of Ticks. It does not affect deadlines.
type Pacer interface {
	Pace() time.Duration
}

// Ticks are the intervals between ticks. A tick costs about 10 µs of CPU, so a stream that stays silent ticks less
// often.
type Ticks struct {
	First     time.Duration // initial interval; 0 means 250 ms
	Slow      time.Duration // interval after SlowAfter; 0 means 800 ms, so that a client disconnect is noticed within a second
	SlowAfter time.Duration // silence after which Slow applies; 0 means 5 s
}

func (t Ticks) withDefaults() Ticks {
	t.First = orDefault(t.First, 250*time.Millisecond)
	t.Slow = orDefault(t.Slow, 800*time.Millisecond)
	t.SlowAfter = orDefault(t.SlowAfter, 5*time.Second)
	return t
}

func orDefault(d, def time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return def
}

// resumable may be implemented by the error that a Watcher returns.
type resumable interface {
	error
	Resumable() bool
}

// tickConn is a network connection whose reads and writes tick while they wait. It is the net.Conn that TLS runs on.
// Reads tick above TLS, whose reads can continue after a deadline. Writes tick below it, because a deadline that passes
// during a write breaks a TLS connection.
type tickConn struct {
	net.Conn
	poll  poller
	ticks Ticks
	tls   bool

	// State of the current request:
	ctx           context.Context // nil between requests and during the handshake, when nothing ticks
	watcher       Watcher
	pacer         Pacer
	phase         Phase
	limit         time.Duration // maximum silence in this phase; 0 means no limit
	limitName     string        // names limit in errors
	deadline      time.Time     // deadline of the whole request; zero means none
	since         time.Time     // start of the silence; zero means the start of the next wait
	readDeadline  time.Time     // deadline set on the connection; zero if unknown
	writeDeadline time.Time     // deadline set on the connection; zero if unknown
	answered      bool          // a byte of the response has been read
	pending       net.Buffers   // what remains to be written
	pendingMem    [2][]byte     // backing array of pending during a write
	sawEOF        bool          // EOF was read; with TLS, possibly without close_notify
	noWait        bool          // Read fails instead of waiting
}

// errEarly ends the sending of a request before which, or during which, bytes have arrived.
var errEarly = errors.New("a response arrived before the whole request was sent")

func (c *tickConn) beginRequest(ctx context.Context, w Watcher, deadline time.Time) {
	c.ctx, c.deadline, c.answered = ctx, deadline, false
	c.watch(w)
}

func (c *tickConn) watch(w Watcher) {
	c.watcher = w
	c.pacer, _ = w.(Pacer)
}

// enterPhase starts a phase.
func (c *tickConn) enterPhase(p Phase, limit time.Duration, limitName string) {
	c.phase, c.limit, c.limitName, c.since = p, limit, limitName, time.Time{}
}

// endRequest clears the state of the request.
func (c *tickConn) endRequest() {
	c.ctx, c.watcher, c.pacer, c.deadline, c.since = nil, nil, nil, time.Time{}, time.Time{}
}

// expired returns an error if a deadline has passed.
func (c *tickConn) expired(now time.Time) error {
	if c.limit > 0 && now.Sub(c.since) >= c.limit {
		return &Error{Kind: Timeout, Phase: c.phase, Reason: c.limitName + " timeout of " + c.limit.String()}
	}
	if !c.deadline.IsZero() && !now.Before(c.deadline) {
		return &Error{Kind: Timeout, Phase: c.phase, Reason: "total timeout"}
	}
	return nil
}

// tick is called when a read or write deadline has passed.
func (c *tickConn) tick() error {
	now := time.Now()
	if err := c.expired(now); err != nil {
		return err
	}
	if c.ctx.Err() != nil {
		return &Error{Kind: Cancelled, Phase: c.phase, Cause: context.Cause(c.ctx)}
	}
	if c.watcher == nil {
		return nil
	}
	err := c.watcher.Tick(c.phase, now.Sub(c.since))
	if err == nil {
		return nil
	}
	kind := Cancelled
	if r, ok := errors.AsType[resumable](err); ok && c.phase == PhaseBody && r.Resumable() {
		kind = Paused
	}
	return &Error{Kind: kind, Phase: c.phase, Cause: err}
}

// nextWake returns when the wait must tick next (wake). A deadline that was set earlier need not be replaced if it lies
// between latest and wake.
func (c *tickConn) nextWake(now time.Time) (wake, latest time.Time) {
	d := c.ticks.First
	if now.Sub(c.since) >= c.ticks.SlowAfter {
		d = c.ticks.Slow
	}
	if c.pacer != nil {
		d = orDefault(c.pacer.Pace(), d)
	}
	wake = now.Add(d)
	if c.limit > 0 {
		if t := c.since.Add(c.limit); t.Before(wake) {
			wake = t
		}
	}
	if !c.deadline.IsZero() && c.deadline.Before(wake) {
		wake = c.deadline
	}
	return wake, now.Add(d / 2)
}

// Read implements net.Conn for TLS.
func (c *tickConn) Read(p []byte) (int, error) {
	if c.noWait {
		if !c.poll.readable() {
			return 0, os.ErrDeadlineExceeded
		}
		c.readDeadline = time.Time{}
		if err := c.Conn.SetReadDeadline(c.readDeadline); err != nil {
			return 0, err
		}
	}
	n, err := c.Conn.Read(p)
	c.sawEOF = c.sawEOF || err == io.EOF
	return n, err
}

// read reads from rw, which is c or the TLS connection on top of it, and ticks while it waits.
func (c *tickConn) read(rw net.Conn, p []byte) (int, error) {
	for {
		now := time.Now()
		if c.since.IsZero() {
			c.since = now
		}
		if err := c.expired(now); err != nil {
			return 0, err
		}
		// Setting a deadline costs about as much as handling an event, so the deadline of an earlier read is used for
		// half of its time.
		if wake, latest := c.nextWake(now); c.readDeadline.After(wake) || c.readDeadline.Before(latest) {
			if err := rw.SetReadDeadline(wake); err != nil {
				return 0, err
			}
			c.readDeadline = wake
		}
		n, err := rw.Read(p)
		if n > 0 {
			c.answered = true
			if c.phase == PhaseBody {
				c.since = time.Time{}
			}
			return n, nil
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return 0, err
		}
		c.readDeadline = time.Time{}
		if err := c.tick(); err != nil {
			return 0, err
		}
	}
}

// Write implements net.Conn for TLS.
func (c *tickConn) Write(p []byte) (int, error) {
	if c.ctx == nil {
		return c.Conn.Write(p)
	}
	return c.write(p, nil)
}

// write writes p and q, with one system call if the kernel accepts all bytes, and ticks while the peer accepts none.
func (c *tickConn) write(p, q []byte) (done int, err error) {
	c.pending = append(c.pendingMem[:0], p)
	if len(q) > 0 {
		c.pending = append(c.pending, q)
	}
	defer func() { c.pending, c.pendingMem = nil, [2][]byte{} }()
	for {
		now := time.Now()
		if c.since.IsZero() {
			c.since = now
		}
		if err := c.expired(now); err != nil {
			return done, err
		}
		if wake, latest := c.nextWake(now); c.writeDeadline.After(wake) || c.writeDeadline.Before(latest) {
			if err := c.Conn.SetWriteDeadline(wake); err != nil {
				return done, err
			}
			c.writeDeadline = wake
		}
		n, err := c.writeOnce()
		done += n
		if err == nil {
			c.since = time.Time{}
			return done, nil
		}
		if n > 0 {
			c.since = time.Now()
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return done, err
		}
		c.writeDeadline = time.Time{}
		if err := c.tick(); err != nil {
			return done, err
		}
		// A provider that rejects a large request may respond without reading the rest of it. With TLS, readable data
		// may be a session ticket, so an early response is only noticed when a write fails.
		if c.phase == PhaseSend && !c.tls && c.poll.readable() {
			return done, errEarly
		}
	}
}

// writeOnce writes the rest of pending, up to the deadline.
func (c *tickConn) writeOnce() (int, error) {
	if len(c.pending) > 1 {
		n, err := c.pending.WriteTo(c.Conn)
		return int(n), err
	}
	n, err := c.Conn.Write(c.pending[0])
	c.pending[0] = c.pending[0][n:]
	return n, err
}
