//go:build linux || darwin || freebsd

package upstream

import (
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestKeepAliveProbes checks that the kernel detects a dead provider, besides the idle timeout.
//
// covers: F64
func TestKeepAliveProbes(t *testing.T) {
	t.Parallel()
	s := upstreamtest.New(t, upstreamtest.Script{upstreamtest.AwaitClose()})
	c, err := New(Config{BaseURL: s.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	option := func(cn *conn, name int) (value int) {
		rc, err := cn.Conn.(syscall.Conn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		level := unix.IPPROTO_TCP
		if name == unix.SO_KEEPALIVE {
			level = unix.SOL_SOCKET
		}
		if cerr := rc.Control(func(fd uintptr) { value, err = unix.GetsockoptInt(int(fd), level, name) }); cerr != nil || err != nil {
			t.Fatal(cerr, err)
		}
		return value
	}
	intervals := make(map[int]bool)
	for range 30 {
		cn, err := c.dial(t.Context(), time.Now().Add(10*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		defer cn.close()
		if option(cn, unix.SO_KEEPALIVE) == 0 {
			t.Error("keep-alive probes are off")
		}
		n := option(cn, unix.TCP_KEEPINTVL)
		if n < 5 || n > 10 {
			t.Errorf("a probe every %d s, want 5 to 10 s", n)
		}
		intervals[n] = true
	}
	if len(intervals) < 2 {
		t.Error("all connections have the same probe interval")
	}
}
