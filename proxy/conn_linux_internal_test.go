//go:build linux

package proxy

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// TestF22_TheKernelGivesUpWithTheWriteTimeout asks the kernel how long it will try to deliver, and
// how often it asks whether a silent client is there.
func TestF22_TheKernelGivesUpWithTheWriteTimeout(t *testing.T) {
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
	s := &settings{}
	s.Store(&config.Server{MaxConns: 1, WriteTimeout: 1700 * time.Millisecond})
	l := &listener{Listener: ln, settings: s, open: &connections{}}
	c, _, err := l.accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// What it asks a silent client is in seconds, and twice that is no more than the timeout.
	for option, want := range map[int]int{unix.TCP_USER_TIMEOUT: 1700, unix.TCP_KEEPIDLE: 1, unix.TCP_KEEPINTVL: 1} {
		var got int
		err = c.raw.Control(func(fd uintptr) {
			got, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, option)
		})
		if err != nil || got != want {
			t.Errorf("option %d is %d, want %d: %v", option, got, want, err)
		}
	}
}
