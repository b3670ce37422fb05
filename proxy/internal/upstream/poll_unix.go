//go:build linux || darwin || freebsd

package upstream

import (
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sluice-gateway/sluice/proxy/internal/tcpconn"
)

// poller asks the kernel whether a connection has something to say, without waiting. The zero value never says so.
type poller struct {
	rc    syscall.RawConn
	ask   func(fd uintptr)      // made once, for a closure a call would be an allocation a call
	sip   func(fd uintptr) bool // the same of read; nil where somebody stands between the connection and the kernel
	ready bool
	n     int
	err   error
}

func (p *poller) init(c net.Conn, t bufferOwner) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return
	}
	p.rc = rc
	p.ask = func(fd uintptr) { p.ready = tcpconn.Poll(fd, unix.POLLIN) != 0 }
	switch c.(type) {
	case *net.TCPConn, *net.UnixConn:
		p.sip = func(fd uintptr) bool {
			buf := t.acquireBuffer()
			for {
				p.n, p.err = unix.Read(int(fd), buf)
				if p.err != unix.EINTR {
					break
				}
			}
			if p.n <= 0 {
				t.releaseBuffer()
			}
			return p.err != unix.EAGAIN
		}
	}
}

// reads tells whether read can be used.
func (p *poller) reads() bool { return p.sip != nil }

// read reads what is there, or waits for it, into a buffer that it takes only then. It gives that back with an error.
func (p *poller) read() (int, error) {
	err := p.rc.Read(p.sip)
	switch {
	case err != nil:
		return 0, err
	case p.err != nil:
		return 0, os.NewSyscallError("read", p.err)
	case p.n == 0:
		return 0, io.EOF
	}
	return p.n, nil
}

// readable reports that bytes, a FIN or an error are there to be read. A FIN makes a socket readable, so that POLLRDHUP,
// which not every system has, would add nothing.
func (p *poller) readable() bool {
	if p.rc == nil {
		return false
	}
	p.ready = false
	return p.rc.Control(p.ask) != nil || p.ready
}
