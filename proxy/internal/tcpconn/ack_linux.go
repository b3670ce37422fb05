package tcpconn

import (
	"time"

	"golang.org/x/sys/unix"
)

// Unacked reports whether the peer has not acknowledged all that was written.
func Unacked(fd uintptr) bool {
	n, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
	return err == nil && n > 0
}

// RoundTrip returns the smoothed round-trip time to the peer, of which the handshake is the first sample; 0: unknown.
func RoundTrip(fd uintptr) time.Duration {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0
	}
	return time.Duration(info.Rtt) * time.Microsecond
}

// SinceLastAck returns how long ago the peer last acknowledged anything, be it a probe of its receive window.
func SinceLastAck(fd uintptr) time.Duration {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0
	}
	return time.Duration(info.Last_ack_recv) * time.Millisecond
}
