package proxy

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// TestF22_TheKernelGivesUpWithTheWriteTimeout asks the kernel how long it will try to deliver.
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
	var got int
	err = c.raw.Control(func(fd uintptr) {
		got, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
	})
	if err != nil || got != 1700 {
		t.Errorf("%d ms, %v", got, err)
	}
}
