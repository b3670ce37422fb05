//go:build linux || darwin || freebsd

package upstream

import (
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-gateway/sluice/proxy/upstream/upstreamtest"
)

// A provider that vanished without a word is found by the kernel, besides by the idle timeout.
func TestFaults64_KeepAliveProbes(t *testing.T) {
	t.Parallel()
	s := upstreamtest.New(t, upstreamtest.Script{upstreamtest.AwaitClose()})
	c, err := New(Config{BaseURL: s.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cn, err := c.dial(t.Context(), time.Now().Add(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer cn.close()
	rc, err := cn.Conn.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	on := 0
	if cerr := rc.Control(func(fd uintptr) { on, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_KEEPALIVE) }); cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
	if on == 0 {
		t.Error("no keep-alive probes")
	}
}
