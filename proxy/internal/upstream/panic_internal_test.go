package upstream

import (
	"context"
	"errors"
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

// panicker is a Watcher that panics.
type panicker struct{}

func (panicker) Tick(Phase, time.Duration) error { panic("watcher") }

func TestWatcherPanicReleasesConnection(t *testing.T) {
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
	func() {
		defer func() {
			if recover() == nil {
				t.Error("Do did not panic")
			}
		}()
		_, _ = c.Do(t.Context(), &Request{Method: "POST", Path: "/"}, panicker{})
	}()
	if s := c.Stats(); s.InUse != 0 {
		t.Errorf("%d connections in use, want 0", s.InUse)
	}
	if _, err := client.Write([]byte("x")); err == nil {
		t.Error("the connection was not closed")
	}
}
