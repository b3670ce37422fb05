package upstream

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestAddressRace uses a clock that advances only when every goroutine waits. One address of each family drops
// connection attempts, refuses them, or accepts them after a second.
//
// covers: F31
func TestAddressRace(t *testing.T) {
	const drops, refuses, slow, good = "2001:db8::1", "2001:db8::2", "2001:db8::3", "192.0.2.1"
	refused := errors.New("refused")
	for _, tt := range []struct {
		name  string
		addrs string
		at    time.Duration // when the connection is established or has failed
		to    string
	}{
		{"IPv6 drops packets", drops + " " + good, 250 * time.Millisecond, good},
		{"IPv6 refuses", refuses + " " + good, 0, good},
		{"three addresses drop packets", "2001:db8::1 192.0.2.9 2001:db8::1 " + good, 750 * time.Millisecond, good},
		{"slow, and the other refuses", slow + " " + refuses, time.Second, slow},
		{"slow, and the other accepts", slow + " " + good, 250 * time.Millisecond, good},
		{"all refuse", refuses + " " + refuses, 0, ""},
		{"all drop packets", drops + " " + drops, 3 * time.Second, ""},
		{"address families alternate", refuses + " " + refuses + " " + drops + " " + good, 0, good},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var open atomic.Int32
				var addrs []netip.Addr
				for a := range strings.FieldsSeq(tt.addrs) {
					addrs = append(addrs, netip.MustParseAddr(a))
				}
				c := &connector{port: "443", dial: func(ctx context.Context, _, address string) (net.Conn, error) {
					host, _, err := net.SplitHostPort(address)
					if err != nil {
						return nil, err
					}
					switch host {
					case refuses:
						return nil, refused
					case slow:
						select {
						case <-time.After(time.Second):
						case <-ctx.Done():
							// The connection was established just before it was canceled.
						}
					case good:
					default:
						<-ctx.Done()
						return nil, ctx.Err()
					}
					open.Add(1)
					return &countedConn{host: host, open: &open}, nil
				}}
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				start := time.Now()
				conn, err := c.race(ctx, interleave(addrs))
				if took := time.Since(start); took != tt.at {
					t.Errorf("took %v, want %v", took, tt.at)
				}
				if tt.to == "" {
					if want := []error{refused, context.DeadlineExceeded}; !slices.Contains(want, err) {
						t.Errorf("got error %v, want one of %v", err, want)
					}
					return
				}
				if err != nil || conn.(*countedConn).host != tt.to || open.Load() != 1 {
					t.Errorf("got %v, %v with %d open connections, want one to %s", conn, err, open.Load(), tt.to)
				}
			})
		})
	}
}

// countedConn is a connection that counts open connections.
type countedConn struct {
	net.Conn
	host string
	open *atomic.Int32
}

func (c *countedConn) Close() error {
	c.open.Add(-1)
	return nil
}
