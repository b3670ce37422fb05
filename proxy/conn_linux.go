package proxy

import (
	"time"

	"golang.org/x/sys/unix"
)

// look polls the client's socket once, without waiting. Whatever the client sent is left where it is.
func (c *clientConn) look() presence {
	if c.raw == nil {
		return present
	}
	is := present
	err := c.raw.Control(func(fd uintptr) {
		p := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		for {
			_, err := unix.Poll(p[:], 0)
			if err != unix.EINTR {
				break
			}
		}
		switch {
		case p[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0:
			is = gone
		case c.owing.vanished(owes(fd), time.Now(), c.settings.Load().WriteTimeout, func() time.Duration { return heard(fd) }):
			is = gone
		case p[0].Revents&unix.POLLRDHUP != 0:
			is = suspect
		}
	})
	if err != nil {
		return gone
	}
	return is
}

// readable tells whether the client has sent something, or closed its sending side.
func (c *clientConn) readable() (is bool) {
	if c.raw == nil {
		return false
	}
	// A connection that is closed has nothing to read.
	_ = c.raw.Control(func(fd uintptr) {
		p := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for {
			_, err := unix.Poll(p[:], 0)
			if err != unix.EINTR {
				break
			}
		}
		is = p[0].Revents&unix.POLLIN != 0
	})
	return is
}

// owes tells whether something that was written has not been acknowledged.
func owes(fd uintptr) bool {
	n, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
	return err == nil && n > 0
}

// heard is how long ago the last acknowledgement of the peer came, if only of a question whether it takes more.
func heard(fd uintptr) time.Duration {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0
	}
	return time.Duration(info.Last_ack_recv) * time.Millisecond
}
