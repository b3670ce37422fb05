package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
)

// isPanic reports whether an error is a recovered panic.
func isPanic(err error) bool {
	_, ok := errors.AsType[*rescue.Error](err)
	return ok
}

// TestPanicsInBackgroundGoroutines checks that callers that wait for a background goroutine get an error if it panics,
// and that the next caller succeeds.
func TestPanicsInBackgroundGoroutines(t *testing.T) {
	broken := true
	t.Run("name lookup", func(t *testing.T) {
		n := newNames("host", nil, time.Now)
		defer n.close()
		n.resolve = func(context.Context, string, string) ([]netip.Addr, error) { panic("resolver") }
		if _, err := n.lookup(t.Context()); !isPanic(err) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("address race", func(t *testing.T) {
		c := &connector{port: "1", dial: func(context.Context, string, string) (net.Conn, error) {
			if broken {
				panic("dialer")
			}
			client, server := net.Pipe()
			server.Close()
			return client, nil
		}}
		addrs := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")}
		if _, err := c.race(t.Context(), addrs); !isPanic(err) {
			t.Errorf("got %v", err)
		}
		broken = false
		conn, err := c.race(t.Context(), addrs)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	})
}

// panicker is a Watcher that panics in a phase.
type panicker Phase

func (p panicker) Tick(in Phase, _ time.Duration) error {
	if in == Phase(p) {
		panic("watcher")
	}
	return nil
}

// TestWatcherPanicReleasesConnection panics while a request is being written, and after a provider has read it.
func TestWatcherPanicReleasesConnection(t *testing.T) {
	for phase, read := range map[Phase]bool{PhaseSend: false, PhaseHead: true} {
		client, server := net.Pipe()
		defer server.Close()
		c, err := New(Config{
			Name: "up", BaseURL: "http://127.0.0.1:1", Ticks: Ticks{First: time.Millisecond},
			Dial: func(context.Context, string, string) (net.Conn, error) { return client, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if read {
			go func() { _, _ = io.Copy(io.Discard, server) }()
		}
		request := Request{Method: "POST", Path: "/"}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("Do did not panic")
				}
			}()
			_, _ = c.Do(t.Context(), &request, panicker(phase))
		}()
		if request.Written != read {
			t.Errorf("Written is %t, want %t", request.Written, read)
		}
		if s := c.Stats(); s.InUse != 0 {
			t.Errorf("%d connections in use, want 0", s.InUse)
		}
		if _, err := client.Write([]byte("x")); err == nil {
			t.Error("the connection was not closed")
		}
	}
}
