package proxy

import (
	"net"
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

// setUserTimeout sets how long what was sent may stay without acknowledgement, and a window closed (RFC 5482).
func setUserTimeout(c *net.TCPConn, d time.Duration) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(max(d.Milliseconds(), 1)))
	})
	if err != nil {
		return err
	}
	return failed
}
