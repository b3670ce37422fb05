//go:build linux || darwin || freebsd

package upstream

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// poller asks the kernel whether a connection has something to say, without waiting. The zero value never says so.
type poller struct {
	rc  syscall.RawConn
	ask func(fd uintptr) // made once, for a closure a call would be an allocation a call
	fds [1]unix.PollFd
	n   int
}

func (p *poller) init(c net.Conn) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return
	}
	p.rc = rc
	p.ask = func(fd uintptr) {
		for {
			p.fds[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
			var err error
			if p.n, err = unix.Poll(p.fds[:], 0); err != unix.EINTR {
				return
			}
		}
	}
}

// readable reports that bytes, a FIN or an error are there to be read. A FIN makes a socket readable, so that POLLRDHUP,
// which not every system has, would add nothing.
func (p *poller) readable() bool {
	if p.rc == nil {
		return false
	}
	p.n = 0
	return p.rc.Control(p.ask) != nil || p.n != 0
}
