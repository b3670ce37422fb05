package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"time"
)

// Watcher is asked at every tick of a wait. It runs on the waiting goroutine, so it must not wait for long itself.
//
// silent is for how long nothing has come, or while sending, nothing has been taken. An error ends the wait: the
// connection is closed, and the error comes back as the cause of an Error of kind Cancelled. Where it has a method
// Resumable() bool that says true, and the phase is PhaseBody, everything stays as it is instead: the kind is Paused, and
// Next and ReadAll may be called again.
type Watcher interface {
	Tick(p Phase, silent time.Duration) error
}

// Pacer may be implemented by a Watcher that wants its next tick sooner or later than Ticks say. Pace is asked before
// each wait; 0 leaves it to Ticks. Deadlines are kept whatever it says.
type Pacer interface {
	Pace() time.Duration
}

// Ticks are the lengths of a tick. A silent stream costs some 10 µs of CPU a tick, so there are fewer of them once the
// silence has lasted.
type Ticks struct {
	First     time.Duration // 0 is 250 ms
	Slow      time.Duration // after SlowAfter; 0 is 800 ms, so that a departed client is noticed within a second
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

// resumable is what an error of a Watcher may be.
type resumable interface {
	error
	Resumable() bool
}

// line is a raw connection together with the waiting on it. It is the net.Conn that TLS runs on: reads tick above TLS,
// whose reads survive a deadline, and writes tick here below it, for a TLS connection is broken by one write that ran
// into its deadline.
type line struct {
	net.Conn
	poll  poller
	ticks Ticks
	tls   bool

	// Of the request on it:
	ctx      context.Context // nil between requests and in the handshake: then nothing ticks
	watcher  Watcher
	pacer    Pacer
	phase    Phase
	limit    time.Duration // longest silence, of the phase; 0 is none
	limitIs  string
	deadline time.Time // of the whole request; zero is none
	since    time.Time // the silence's beginning; zero: the next wait's beginning
	armed    time.Time // read deadline that is set; zero: none that can be relied on
	due      time.Time // the same of writes
	answered bool      // a byte has been read
	vec      net.Buffers
	vecs     [2][]byte // the memory of vec, while something is written
	cut      bool      // the peer's FIN has been read: under TLS, without the closing message that belongs before it
}

// errEarly ends the sending of a request because an answer is there before all of it was taken.
var errEarly = errors.New("the answer came before the whole request was sent")

func (l *line) begin(ctx context.Context, w Watcher, deadline time.Time) {
	l.ctx, l.deadline, l.answered = ctx, deadline, false
	l.watch(w)
}

func (l *line) watch(w Watcher) {
	l.watcher = w
	l.pacer, _ = w.(Pacer)
}

// enter begins a phase and its silence.
func (l *line) enter(p Phase, limit time.Duration, is string) {
	l.phase, l.limit, l.limitIs, l.since = p, limit, is, time.Time{}
}

// end forgets the request.
func (l *line) end() {
	l.ctx, l.watcher, l.pacer, l.deadline, l.since = nil, nil, nil, time.Time{}, time.Time{}
}

// expired looks at the deadlines.
func (l *line) expired(now time.Time) error {
	if l.limit > 0 && now.Sub(l.since) >= l.limit {
		return &Error{Kind: Timeout, Phase: l.phase, Reason: l.limitIs + " timeout of " + l.limit.String()}
	}
	if !l.deadline.IsZero() && !now.Before(l.deadline) {
		return &Error{Kind: Timeout, Phase: l.phase, Reason: "total timeout"}
	}
	return nil
}

// tick is called when a deadline that was armed has passed.
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

// wake returns when the wait must look up next, and the latest moment at which a deadline armed earlier is near enough.
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

// Read is what TLS reads from.
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
		// Arming a deadline costs about as much as the bookkeeping of an event, so one that was armed for an earlier read
		// serves until half of it is over.
		if wake, latest := l.wake(now); l.armed.After(wake) || l.armed.Before(latest) {
			if err := rw.SetReadDeadline(wake); err != nil {
				return 0, err
			}
			l.armed = wake
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
		l.armed = time.Time{}
		if err := l.tick(); err != nil {
			return 0, err
		}
	}
}

// Write is what TLS writes to.
func (l *line) Write(p []byte) (int, error) {
	if l.ctx == nil {
		return l.Conn.Write(p)
	}
	return l.write(p, nil)
}

// write writes all of p and q, with one system call where the kernel takes it all, and ticks while the peer takes
// nothing.
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
		if wake, latest := l.wake(now); l.due.After(wake) || l.due.Before(latest) {
			if err := l.Conn.SetWriteDeadline(wake); err != nil {
				return done, err
			}
			l.due = wake
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
		l.due = time.Time{}
		if err := l.tick(); err != nil {
			return done, err
		}
		// A provider that has refused a large request may answer and not read the rest of it. With TLS, what is there to
		// be read may be a session ticket, so there only a write that fails shows it.
		if l.phase == PhaseSend && !l.tls && l.poll.readable() {
			return done, errEarly
		}
	}
}

// writeOnce writes what is left of vec, up to the deadline.
func (l *line) writeOnce() (int, error) {
	if len(l.vec) > 1 {
		n, err := l.vec.WriteTo(l.Conn)
		return int(n), err
	}
	n, err := l.Conn.Write(l.vec[0])
	l.vec[0] = l.vec[0][n:]
	return n, err
}
