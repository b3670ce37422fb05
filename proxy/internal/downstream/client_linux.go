package downstream

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-gateway/sluice/proxy/internal/tcpconn"
)

// peerState polls a client's socket once, without waiting and without reading from it.
func peerState(raw syscall.RawConn, u *unacked, timeout time.Duration) clientState {
	if raw == nil {
		return clientPresent
	}
	state := clientPresent
	err := raw.Control(func(fd uintptr) {
		events := tcpconn.Poll(fd, unix.POLLRDHUP)
		switch {
		case events&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0:
			state = clientGone
		case u.peerDead(tcpconn.Unacked(fd), time.Now(), timeout, func() time.Duration { return tcpconn.SinceLastAck(fd) }):
			state = clientGone
		case events&unix.POLLRDHUP != 0:
			state = clientSentFIN
		}
	})
	if err != nil {
		return clientGone
	}
	return state
}

// readable reports whether the client has sent data or closed its sending side. It reports false for a connection that
// was closed here.
func readable(raw syscall.RawConn) (is bool) {
	if raw != nil {
		_ = raw.Control(func(fd uintptr) { is = tcpconn.Poll(fd, unix.POLLIN)&unix.POLLIN != 0 })
	}
	return is
}

// roundTrip returns the round-trip time to the client, or 0 if it is unknown.
func roundTrip(raw syscall.RawConn) (d time.Duration) {
	if raw != nil {
		_ = raw.Control(func(fd uintptr) { d = tcpconn.RoundTrip(fd) })
	}
	return d
}
