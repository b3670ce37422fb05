//go:build linux

package downstream

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestKeepAliveEndsWithinWriteTimeout reads the keep-alive options of a connection from the kernel.
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
	// The kernel uses whole seconds, so both durations may be rounded up.
	idle, interval, times := option(unix.TCP_KEEPIDLE), option(unix.TCP_KEEPINTVL), option(unix.TCP_KEEPCNT)
	if option(unix.SO_KEEPALIVE) != 1 || times != 3 || idle < 3 || idle > 6 || idle+times*interval < 12 || idle+times*interval > 12+1+times {
		t.Errorf("first probe after %d s, %d probes, one every %d s; want a dead peer to be detected in about 12 s", idle, times, interval)
	}
}

// TestPeerDead covers sequences of checks of a client.
//
// covers: F22
func TestPeerDead(t *testing.T) {
	const d = 30 * time.Second
	type check struct {
		after   time.Duration // time since the previous check
		pending bool
		ack     time.Duration // time since the last acknowledgement
		want    bool
	}
	for name, checks := range map[string][]check{
		"acks everything":               {{0, false, 0, false}, {d, false, d, false}, {d, false, 2 * d, false}},
		"accepts nothing, acks nothing": {{0, true, 5 * d, false}, {d - 1, true, 6 * d, false}, {1, true, 6 * d, true}},
		"accepts nothing, acks probes":  {{0, true, 0, false}, {d, true, time.Second, false}, {d, true, d - 1, false}},
		"accepts something in between":  {{0, true, 0, false}, {d / 2, false, 0, false}, {d / 2, true, d, false}, {d / 2, true, d, false}, {d / 2, true, d, true}},
		"acks probes, then stops":       {{0, true, 0, false}, {d, true, d / 2, false}, {d / 2, true, d, true}},
	} {
		t.Run(name, func(t *testing.T) {
			var u unacked
			now := time.Now()
			for i, l := range checks {
				now = now.Add(l.after)
				if got := u.peerDead(l.pending, now, d, func() time.Duration { return l.ack }); got != l.want {
					t.Errorf("check %d: got %t, want %t", i, got, l.want)
				}
			}
		})
	}
}
