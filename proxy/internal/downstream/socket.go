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

// A client that reads nothing, or is gone, holds memory of the kernel: what has been written to it and not been
// acknowledged, up to some megabytes. A write that blocks times out. Where everything fits into the kernel's buffers no
// write fails, and the kernel would retry for a quarter of an hour; so peerState checks for that. Where nothing is written
// at all, keep-alive probes find a dead client.
//
// TCP_USER_TIMEOUT would do all of this, but cannot tell a client that is gone from one that reads slowly: while its
// window stays smaller than a segment the connection ends, however much it acknowledges.

// A silent client is probed keepAliveProbes times, first after a quarter to half of the write timeout, and after
// maxKeepAliveIdle at the latest.
const (
	maxKeepAliveIdle = 15 * time.Second
	keepAliveProbes  = 3
)

// keepAlive makes the kernel end a connection on which nothing is written once its client has been silent for d.
func keepAlive(c net.Conn, d time.Duration) {
	if d <= 0 {
		return
	}
	idle := min(d/2, maxKeepAliveIdle)
	idle -= rand.N(idle/2 + 1)
	tcpconn.KeepAlive(c, idle, (d-idle)/keepAliveProbes, keepAliveProbes)
}

// unacked tracks since when something written to a client has waited for its acknowledgement.
type unacked struct{ since time.Time }

// peerDead reports, at one check, whether the client is gone: something has been pending for d, and for as long nothing at
// all has been acknowledged. sinceLastAck is called only if it matters.
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

// socket is a connection whose every write has a deadline of its own: a client that stops reading is cut off after the
// write timeout, however long its stream has been open. TLS, which writes records that its caller did not ask for, writes
// through it too.
type socket struct {
	net.Conn
	limits   *atomic.Pointer[Limits]
	timeout  time.Duration // that deadline was made with
	deadline time.Time     // that is set; zero: none
	failed   atomic.Bool   // a write failed: the client misses something
	closing  atomic.Bool   // Close sets the deadlines
}

// writeSize is how much is written under one deadline: a large response takes as many as it needs, so that a stalled
// client is what ends it and not the response's size.
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
				tcpconn.SetLingerZero(s.Conn) // the client takes none of what is pending
			}
			return n, err
		}
		if n == len(p) {
			return n, nil
		}
	}
}

// setDeadline gives the write that begins the write timeout, or up to a quarter more: setting a deadline costs as much as
// all else that the gateway does for a write, so one serves several.
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
