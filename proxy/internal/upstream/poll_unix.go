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

// poller asks the kernel whether a connection is readable, without waiting. The zero value always reports false.
type poller struct {
	rc       syscall.RawConn
	pollOnce func(fd uintptr)      // polls and sets ready; created once, because each closure is an allocation
	readOnce func(fd uintptr) bool // reads and sets n and err; nil if the connection is not itself a socket, as in tests
	ready    bool
	n        int
	err      error
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
	p.pollOnce = func(fd uintptr) { p.ready = tcpconn.Poll(fd, unix.POLLIN) != 0 }
	switch c.(type) {
	case *net.TCPConn, *net.UnixConn:
		p.readOnce = func(fd uintptr) bool {
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

// reads reports whether read can be used.
func (p *poller) reads() bool { return p.readOnce != nil }

// read waits until the connection is readable, acquires a buffer only then, and reads into it. If it fails, it releases
// the buffer.
func (p *poller) read() (int, error) {
	err := p.rc.Read(p.readOnce)
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

// readable reports whether bytes, a FIN or an error can be read. A FIN makes a socket readable, so POLLRDHUP, which not
// every system has, would add nothing.
func (p *poller) readable() bool {
	if p.rc == nil {
		return false
	}
	p.ready = false
	return p.rc.Control(p.pollOnce) != nil || p.ready
}
