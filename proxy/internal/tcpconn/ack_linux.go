package tcpconn

import (
	"time"

	"golang.org/x/sys/unix"
)

// Unacked reports whether some written data has not been acknowledged by the peer.
func Unacked(fd uintptr) bool {
	n, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
	return err == nil && n > 0
}

// RoundTrip returns the smoothed round-trip time to the peer, or 0 if it is unknown. The handshake is its first sample.
func RoundTrip(fd uintptr) time.Duration {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0
	}
	return time.Duration(info.Rtt) * time.Microsecond
}

// SinceLastAck returns the time since the last acknowledgement from the peer, including responses to zero-window
// probes.
func SinceLastAck(fd uintptr) time.Duration {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0
	}
	return time.Duration(info.Last_ack_recv) * time.Millisecond
}
