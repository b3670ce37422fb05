package e2e_test

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// TestClientDisconnectWhileConnecting has clients disconnect while their request waits for a connection to be
// established. The request must end long before the connect timeout.
//
// covers: F18
func TestClientDisconnectWhileConnecting(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a connection that is never established")
	}
	withAndWithoutTLS(t, func(t *testing.T, table string) {
		for _, reset := range []bool{false, true} {
			t.Run(map[bool]string{false: "FIN", true: "RST"}[reset], func(t *testing.T) {
				g := proxytest.Start(t, strings.Replace(configuration("http://"+blackhole(t), ""), `connect = "2s"`, `connect = "10m"`, 1)+table)
				admin := g.Admin(t)
				client := dial(t, g)
				client.post("dials", ask)
				proxytest.AwaitMetrics(t, admin, func(m proxytest.Metrics) bool { return m.Sum("sluice_target_in_flight") == 1 })
				left := time.Now()
				client.disconnect(reset)
				wantDisconnect(t, g, "dials", map[string]string{"prompt_tokens": ""})
				t.Logf("request ended after %v", time.Since(left))
				awaitReleased(t, admin)
			})
		}
	})
}

// blackhole returns an address at which connections are neither established nor refused: a listener with a full accept
// queue.
func blackhole(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", name.(*unix.SockaddrInet4).Port)
	for range 16 {
		c, err := net.DialTimeout("tcp", address, 200*time.Millisecond)
		if os.IsTimeout(err) {
			return address
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Fatal("16 connections did not fill the accept queue")
	return ""
}
