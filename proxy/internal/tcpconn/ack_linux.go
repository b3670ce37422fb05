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

// SinceLastAck returns how long ago the peer last acknowledged anything, be it a probe of its receive window.
func SinceLastAck(fd uintptr) time.Duration {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0
	}
	return time.Duration(info.Last_ack_recv) * time.Millisecond
}
