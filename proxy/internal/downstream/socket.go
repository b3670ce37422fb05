package downstream

import (
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/tcpconn"
)

// A client that reads nothing, or is gone, holds kernel memory: data that was written and is not acknowledged yet, up
// to some megabytes. There are three cases. A write that blocks times out. If all data fits into the kernel's buffers,
// no write fails, and the kernel would retransmit for a quarter of an hour; peerState detects that. If nothing is
// written at all, keep-alive probes detect a dead client.
//
// TCP_USER_TIMEOUT would cover all three, but cannot tell a client that is gone from one that reads slowly: it ends a
// connection whose window stays smaller than a segment, even if the client keeps acknowledging data.

// A silent client is probed keepAliveProbes times, first after a quarter to half of the write timeout, and after
// maxKeepAliveIdle at the latest.
const (
	maxKeepAliveIdle = 15 * time.Second
	keepAliveProbes  = 3
)

// keepAlive makes the kernel close a connection on which nothing is written once its client has been silent for d.
func keepAlive(c net.Conn, d time.Duration) {
	if d <= 0 {
		return
	}
	idle := min(d/2, maxKeepAliveIdle)
	idle -= rand.N(idle/2 + 1)
	tcpconn.KeepAlive(c, idle, (d-idle)/keepAliveProbes, keepAliveProbes)
}

// unacked tracks since when checks have found unacknowledged data.
type unacked struct{ since time.Time }

// peerDead reports whether the client is gone: data has been pending for d, and no data has been acknowledged for as
// long. It is called at each check. sinceLastAck is called only if its result matters.
func (u *unacked) peerDead(pending bool, now time.Time, d time.Duration, sinceLastAck func() time.Duration) bool {
	switch {
	case !pending || d <= 0:
		u.since = time.Time{}
	case u.since.IsZero():
		u.since = now
	case now.Sub(u.since) >= d:
		return sinceLastAck() >= d
	}
	return false
}

// socket is a connection that sets a deadline for each write, so that a client that stops reading is disconnected after
// the write timeout, however long its stream has been open. It is below TLS, which also writes records on its own.
type socket struct {
	net.Conn
	limits   *atomic.Pointer[Limits]
	timeout  time.Duration // write timeout that deadline was computed from
	deadline time.Time     // deadline set on the connection; zero means none
	failed   atomic.Bool   // a write has failed, so the client has not received everything
	closing  atomic.Bool   // Close sets the deadlines from now on
}

// writeSize is how many bytes are written under one deadline. A large response gets a new deadline for each part, so
// that only a stalled client makes it fail, and not its size.
const writeSize = 64 << 10

// Write writes p.
func (s *socket) Write(p []byte) (n int, err error) {
	for {
		part := p[n:min(len(p), n+writeSize)]
		if err := s.setDeadline(); err != nil {
			s.failed.Store(true)
			return n, err
		}
		m, err := s.Conn.Write(part)
		n += m
		if err != nil {
			s.failed.Store(true)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				tcpconn.SetLingerZero(s.Conn) // the client does not accept the pending data
			}
			return n, err
		}
		if n == len(p) {
			return n, nil
		}
	}
}

// setDeadline gives the next write the write timeout, or up to a quarter more. Setting a deadline costs as much as
// everything else that the gateway does for a write, so one deadline is used for several writes.
func (s *socket) setDeadline() error {
	timeout := s.limits.Load().WriteTimeout
	switch {
	case s.closing.Load():
		return nil
	case timeout <= 0 && s.deadline.IsZero():
		return nil
	case timeout <= 0:
		s.deadline = time.Time{}
		return s.SetWriteDeadline(s.deadline)
	}
	now := time.Now()
	if timeout == s.timeout && !s.deadline.Before(now.Add(timeout)) {
		return nil
	}
	s.timeout, s.deadline = timeout, now.Add(timeout+timeout/4)
	return s.SetWriteDeadline(s.deadline)
}
