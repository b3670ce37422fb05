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
// silent is how long nothing has been received, or while sending, nothing has been accepted. An error ends the wait: the
// connection is closed, and the error is returned as the cause of an Error of kind Cancelled. If the error has a method
// Resumable() bool that returns true, and the phase is PhaseBody, the connection stays open instead: the kind is Paused, and Next
// and ReadAll may be called again.
type Watcher interface {
	Tick(p Phase, silent time.Duration) error
}

// Pacer may be implemented by a Watcher that wants its next tick earlier or later than Ticks. Pace is called before each wait; 0
// means Ticks. It does not affect deadlines.
type Pacer interface {
	Pace() time.Duration
}

// Ticks are the tick intervals. A silent stream costs about 10 µs of CPU per tick, so they get fewer as the silence lasts.
type Ticks struct {
	First     time.Duration // 0 is 250 ms
	Slow      time.Duration // after SlowAfter; 0 is 800 ms, so that a client disconnect is noticed within a second
	SlowAfter time.Duration // 0 is 5 s
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

// resumable may be implemented by an error of a Watcher.
type resumable interface {
	error
	Resumable() bool
}

// line is a network connection with ticking waits. It is the net.Conn that TLS runs on: reads tick above TLS, whose reads can
// continue after a deadline, while writes tick below it, since a deadline during a write breaks a TLS connection.
type line struct {
	net.Conn
	poll  poller
	ticks Ticks
	tls   bool

	// For the current request:
	ctx           context.Context // nil between requests and in the handshake, when nothing ticks
	watcher       Watcher
	pacer         Pacer
	phase         Phase
	limit         time.Duration // maximum silence in this phase; 0 is none
	limitName     string
	deadline      time.Time // of the whole request; zero is none
	since         time.Time // start of the silence; zero: the start of the next wait
	readDeadline  time.Time // as set on the connection; zero: unknown
	writeDeadline time.Time // as set on the connection; zero: unknown
	answered      bool      // a byte has been read
	vec           net.Buffers
	vecs          [2][]byte // the memory of vec, while something is written
	cut           bool      // EOF was read; under TLS, possibly without close_notify
}

// errEarly stops sending a request whose response has already arrived.
var errEarly = errors.New("the response arrived before the whole request was sent")

func (l *line) begin(ctx context.Context, w Watcher, deadline time.Time) {
	l.ctx, l.deadline, l.answered = ctx, deadline, false
	l.watch(w)
}

func (l *line) watch(w Watcher) {
	l.watcher = w
	l.pacer, _ = w.(Pacer)
}

// enter starts a phase.
func (l *line) enter(p Phase, limit time.Duration, is string) {
	l.phase, l.limit, l.limitName, l.since = p, limit, is, time.Time{}
}

// end clears the request.
func (l *line) end() {
	l.ctx, l.watcher, l.pacer, l.deadline, l.since = nil, nil, nil, time.Time{}, time.Time{}
}

// expired returns an error if a deadline has passed.
func (l *line) expired(now time.Time) error {
	if l.limit > 0 && now.Sub(l.since) >= l.limit {
		return &Error{Kind: Timeout, Phase: l.phase, Reason: l.limitName + " timeout of " + l.limit.String()}
	}
	if !l.deadline.IsZero() && !now.Before(l.deadline) {
		return &Error{Kind: Timeout, Phase: l.phase, Reason: "total timeout"}
	}
	return nil
}

// tick is called when a read or write deadline has passed.
func (l *line) tick() error {
	now := time.Now()
	if err := l.expired(now); err != nil {
		return err
	}
	if l.ctx.Err() != nil {
		return &Error{Kind: Cancelled, Phase: l.phase, Cause: context.Cause(l.ctx)}
	}
	if l.watcher == nil {
		return nil
	}
	err := l.watcher.Tick(l.phase, now.Sub(l.since))
	if err == nil {
		return nil
	}
	kind := Cancelled
	if r, ok := errors.AsType[resumable](err); ok && l.phase == PhaseBody && r.Resumable() {
		kind = Paused
	}
	return &Error{Kind: kind, Phase: l.phase, Cause: err}
}

// wake returns when the wait must tick next, and the latest time up to which a deadline set earlier still serves.
func (l *line) wake(now time.Time) (wake, latest time.Time) {
	d := l.ticks.First
	if now.Sub(l.since) >= l.ticks.SlowAfter {
		d = l.ticks.Slow
	}
	if l.pacer != nil {
		d = orDefault(l.pacer.Pace(), d)
	}
	wake = now.Add(d)
	if l.limit > 0 {
		if t := l.since.Add(l.limit); t.Before(wake) {
			wake = t
		}
	}
	if !l.deadline.IsZero() && l.deadline.Before(wake) {
		wake = l.deadline
	}
	return wake, now.Add(d / 2)
}

// Read implements net.Conn for TLS.
func (l *line) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	l.cut = l.cut || err == io.EOF
	return n, err
}

// read reads from rw, which is l or the TLS connection on it, and ticks while it waits.
func (l *line) read(rw net.Conn, p []byte) (int, error) {
	for {
		now := time.Now()
		if l.since.IsZero() {
			l.since = now
		}
		if err := l.expired(now); err != nil {
			return 0, err
		}
		// Setting a deadline costs about as much as handling an event, so one that was set for an earlier read serves for half
		// its time.
		if wake, latest := l.wake(now); l.readDeadline.After(wake) || l.readDeadline.Before(latest) {
			if err := rw.SetReadDeadline(wake); err != nil {
				return 0, err
			}
			l.readDeadline = wake
		}
		n, err := rw.Read(p)
		if n > 0 {
			l.answered = true
			if l.phase == PhaseBody {
				l.since = time.Time{}
			}
			return n, nil
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return 0, err
		}
		l.readDeadline = time.Time{}
		if err := l.tick(); err != nil {
			return 0, err
		}
	}
}

// Write implements net.Conn for TLS.
func (l *line) Write(p []byte) (int, error) {
	if l.ctx == nil {
		return l.Conn.Write(p)
	}
	return l.write(p, nil)
}

// write writes p and q, with one system call if the kernel accepts all of it, and ticks while the peer accepts nothing.
func (l *line) write(p, q []byte) (done int, err error) {
	l.vec = append(l.vecs[:0], p)
	if len(q) > 0 {
		l.vec = append(l.vec, q)
	}
	defer func() { l.vec, l.vecs = nil, [2][]byte{} }()
	for {
		now := time.Now()
		if l.since.IsZero() {
			l.since = now
		}
		if err := l.expired(now); err != nil {
			return done, err
		}
		if wake, latest := l.wake(now); l.writeDeadline.After(wake) || l.writeDeadline.Before(latest) {
			if err := l.Conn.SetWriteDeadline(wake); err != nil {
				return done, err
			}
			l.writeDeadline = wake
		}
		n, err := l.writeOnce()
		done += n
		if err == nil {
			l.since = time.Time{}
			return done, nil
		}
		if n > 0 {
			l.since = time.Now()
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return done, err
		}
		l.writeDeadline = time.Time{}
		if err := l.tick(); err != nil {
			return done, err
		}
		// A provider that rejects a large request may respond without reading the rest. Under TLS, readable data may be a session
		// ticket, so that only a failed write shows it.
		if l.phase == PhaseSend && !l.tls && l.poll.readable() {
			return done, errEarly
		}
	}
}

// writeOnce writes the rest of vec, up to the deadline.
func (l *line) writeOnce() (int, error) {
	if len(l.vec) > 1 {
		n, err := l.vec.WriteTo(l.Conn)
		return int(n), err
	}
	n, err := l.Conn.Write(l.vec[0])
	l.vec[0] = l.vec[0][n:]
	return n, err
}
