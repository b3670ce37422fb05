//go:build linux

package downstream

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestKeepAliveEndsWithinWriteTimeout reads the keep-alive options of a connection back from the kernel.
//
// covers: F22
func TestKeepAliveEndsWithinWriteTimeout(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	l := New(Options{Limits: Limits{Conns: 1, WriteTimeout: 12 * time.Second}}).Listen(ln)
	c, _, err := l.AcceptConn()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	option := func(option int) (got int) {
		level := unix.IPPROTO_TCP
		if option == unix.SO_KEEPALIVE {
			level = unix.SOL_SOCKET
		}
		if cerr := c.raw.Control(func(fd uintptr) { got, err = unix.GetsockoptInt(int(fd), level, option) }); cerr != nil || err != nil {
			t.Fatal(cerr, err)
		}
		return got
	}
	// The kernel counts whole seconds, and each of the two may be one more.
	idle, interval, times := option(unix.TCP_KEEPIDLE), option(unix.TCP_KEEPINTVL), option(unix.TCP_KEEPCNT)
	if option(unix.SO_KEEPALIVE) != 1 || times != 3 || idle < 3 || idle > 6 || idle+times*interval < 12 || idle+times*interval > 12+1+times {
		t.Errorf("probed after %d s, and %d times every %d s", idle, times, interval)
	}
}

// TestPeerDead goes through what successive checks of a client may find.
//
// covers: F22
func TestPeerDead(t *testing.T) {
	const d = 30 * time.Second
	type check struct {
		after   time.Duration // the one before
		pending bool
		ack     time.Duration // ago
		want    bool
	}
	for name, checks := range map[string][]check{
		"it takes everything":              {{0, false, 0, false}, {d, false, d, false}, {d, false, 2 * d, false}},
		"it takes nothing and is silent":   {{0, true, 5 * d, false}, {d - 1, true, 6 * d, false}, {1, true, 6 * d, true}},
		"it takes nothing and answers":     {{0, true, 0, false}, {d, true, time.Second, false}, {d, true, d - 1, false}},
		"it takes something in between":    {{0, true, 0, false}, {d / 2, false, 0, false}, {d / 2, true, d, false}, {d / 2, true, d, false}, {d / 2, true, d, true}},
		"it answers, and then it does not": {{0, true, 0, false}, {d, true, d / 2, false}, {d / 2, true, d, true}},
	} {
		t.Run(name, func(t *testing.T) {
			var u unacked
			now := time.Now()
			for i, l := range checks {
				now = now.Add(l.after)
				if got := u.peerDead(l.pending, now, d, func() time.Duration { return l.ack }); got != l.want {
					t.Errorf("check %d: %t", i, got)
				}
			}
		})
	}
}
