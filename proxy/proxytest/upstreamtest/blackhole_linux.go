package upstreamtest

import (
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// Blackhole returns a loopback address at which connections are neither established nor refused, because the socket's
// accept queue is full and the kernel drops SYNs. Port 0 means any port. It returns "" if the socket cannot be bound,
// as on a machine without the IP address.
func Blackhole(tb testing.TB, ip string, port int) string {
	tb.Helper()
	addr := netip.MustParseAddr(ip)
	family, sa := syscall.AF_INET, syscall.Sockaddr(&syscall.SockaddrInet4{Port: port, Addr: [4]byte(addr.AsSlice()[:4])})
	if addr.Is6() {
		family, sa = syscall.AF_INET6, &syscall.SockaddrInet6{Port: port, Addr: addr.As16()}
	}
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		tb.Log("no blackhole: ", os.NewSyscallError("socket", err))
		return ""
	}
	tb.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, sa); err != nil {
		tb.Log("no blackhole: ", os.NewSyscallError("bind", err))
		return ""
	}
	if err := syscall.Listen(fd, 0); err != nil {
		tb.Fatal(os.NewSyscallError("listen", err))
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		tb.Fatal(os.NewSyscallError("getsockname", err))
	}
	switch b := bound.(type) {
	case *syscall.SockaddrInet4:
		port = b.Port
	case *syscall.SockaddrInet6:
		port = b.Port
	}
	at := net.JoinHostPort(ip, strconv.Itoa(port))
	// Open connections until one is not established: the queue is full.
	for range 16 {
		c, err := net.DialTimeout("tcp", at, 100*time.Millisecond)
		if err != nil {
			return at
		}
		tb.Cleanup(func() { c.Close() })
	}
	tb.Fatal("16 connections did not fill the accept queue")
	return ""
}
