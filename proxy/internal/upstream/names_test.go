package upstream_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// clock is a Config.Now that only the test advances.
type clock struct{ passed atomic.Int64 }

func (c *clock) now() time.Time {
	return time.Unix(1_700_000_000, 0).Add(time.Duration(c.passed.Load()))
}

func (c *clock) pass(d time.Duration) { c.passed.Add(int64(d)) }

// requestOnNewConn sends a request over a new connection.
func requestOnNewConn(t *testing.T, c *upstream.Client) error {
	t.Helper()
	resp, err := c.Do(context.Background(), post("x"), nil)
	if err == nil {
		resp.Close() // before the end of the body, so that the connection is not kept
	}
	return err
}

// covers: F29
func TestNameServerErrors(t *testing.T) {
	t.Parallel()
	s := okServer(t)
	for name, code := range map[string]int{"NXDOMAIN": upstreamtest.NXDomain, "SERVFAIL": upstreamtest.ServFail, "timeout": upstreamtest.Silence} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := upstreamtest.NewNameServer(t, "127.0.0.1")
			n.Fail(code)
			var time clock
			c := newNamedClient(t, s, n, func(c *upstream.Config) {
				c.Now = time.now
				if code == upstreamtest.Silence {
					c.Timeouts.Connect = 50e6
				}
			})
			err := requestOnNewConn(t, c)
			var e *upstream.Error
			var dns *net.DNSError
			if !errors.As(err, &e) || e.Kind != upstream.Unreachable || e.Phase != upstream.PhaseConnect || !errors.As(err, &dns) {
				t.Fatalf("got error %v", err)
			}
			if code == upstreamtest.Silence {
				// The query continues for later requests, until the client is closed.
				return
			}
			queries := n.Queries()
			n.Answer("127.0.0.1")
			time.pass(5e9 - 1)
			if err := requestOnNewConn(t, c); errorKind(t, err) != upstream.Unreachable || n.Queries() != queries {
				t.Errorf("within 5 s: %v, %d more queries", err, n.Queries()-queries)
			}
			time.pass(1)
			if err := requestOnNewConn(t, c); err != nil {
				t.Errorf("after 5 s: %v", err)
			}
		})
	}

	t.Run("cached addresses are used during a failure", func(t *testing.T) {
		t.Parallel()
		n := upstreamtest.NewNameServer(t, "127.0.0.1")
		var time clock
		c := newNamedClient(t, s, n, func(c *upstream.Config) { c.Now = time.now })
		if err := requestOnNewConn(t, c); err != nil {
			t.Fatal(err)
		}
		n.Fail(upstreamtest.ServFail)
		time.pass(31e9)
		queries := n.Queries()
		if err := requestOnNewConn(t, c); err != nil || n.Queries() == queries {
			t.Errorf("got error %v after %d queries", err, n.Queries()-queries)
		}
		queries = n.Queries()
		if err := requestOnNewConn(t, c); err != nil || n.Queries() != queries {
			t.Errorf("got error %v after %d more queries", err, n.Queries()-queries)
		}
		time.pass(600e9)
		if err := requestOnNewConn(t, c); errorKind(t, err) != upstream.Unreachable {
			t.Errorf("with addresses ten minutes old: %v", err)
		}
	})

	t.Run("cached addresses are not used after NXDOMAIN", func(t *testing.T) {
		t.Parallel()
		n := upstreamtest.NewNameServer(t, "127.0.0.1")
		var time clock
		c := newNamedClient(t, s, n, func(c *upstream.Config) { c.Now = time.now })
		if err := requestOnNewConn(t, c); err != nil {
			t.Fatal(err)
		}
		n.Fail(upstreamtest.NXDomain)
		time.pass(31e9)
		if err := requestOnNewConn(t, c); errorKind(t, err) != upstream.Unreachable {
			t.Errorf("got error %v", err)
		}
	})
}

// covers: F29
func TestOneQueryForConcurrentLookups(t *testing.T) {
	t.Parallel()
	s := okServer(t)
	n := upstreamtest.NewNameServer(t, "127.0.0.1")
	c := newNamedClient(t, s, n, nil)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			resp, err := c.Do(context.Background(), post(""), nil)
			if err != nil {
				t.Error(err)
				return
			}
			resp.Close()
		})
	}
	wg.Wait()
	if n.Queries() != 1 {
		t.Errorf("%d queries, want 1", n.Queries())
	}
}

// TestNameChangesAddress checks that connections established 30 s later go to the new address, that requests in flight
// finish at the old one, and that no old connection is reused forever.
//
// covers: F30
func TestNameChangesAddress(t *testing.T) {
	t.Parallel()
	proceed := make(chan struct{})
	old := upstreamtest.New(t,
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk("a"), upstreamtest.Wait(proceed), upstreamtest.Chunk("b"), upstreamtest.LastChunk(), upstreamtest.Loop(upstreamtest.Echo())},
		upstreamtest.Script{upstreamtest.Loop(upstreamtest.Echo())})
	_, port, err := net.SplitHostPort(old.Addr())
	if err != nil {
		t.Fatal(err)
	}
	moved := upstreamtest.NewAt(t, "127.0.0.2:"+port, upstreamtest.Script{upstreamtest.Loop(upstreamtest.Echo())})
	n := upstreamtest.NewNameServer(t, "127.0.0.1")
	var time clock
	c := newNamedClient(t, old, n, func(c *upstream.Config) { c.Now = time.now })
	stream, err := c.Do(context.Background(), post(""), nil)
	if err != nil {
		t.Fatal(err)
	}
	n.Answer("127.0.0.2")
	time.pass(30e9 - 1)
	if err := requestOnNewConn(t, c); err != nil || old.Connections() != 2 {
		t.Errorf("got error %v, %d connections to the old address", err, old.Connections())
	}
	time.pass(1)
	if err := requestOnNewConn(t, c); err != nil || moved.Connections() != 1 || old.Connections() != 2 {
		t.Errorf("after 30 s: %v, %d connections to the new address", err, moved.Connections())
	}

	close(proceed)
	if got, err := drain(stream); got != "ab" || err != nil {
		t.Errorf("stream from the old address: %q, %v", got, err)
	}
	stream.Close()
	if _, got, err := roundTrip(t, c, post("kept")); err != nil || got != "kept" || moved.Connections() != 1 {
		t.Errorf("got %q, error %v, %d connections to the new address", got, err, moved.Connections())
	}
	time.pass(270e9)
	if _, got, err := roundTrip(t, c, post("moved")); err != nil || got != "moved" || moved.Connections() != 2 {
		t.Errorf("after 5 min: %q %v, %d connections to the new address", got, err, moved.Connections())
	}
	time.pass(300e9)
	resp, err := c.Do(context.Background(), post("x"), nil)
	if err != nil {
		t.Fatal(err)
	}
	time.pass(300e9)
	finish(t, resp)
	if st := c.Stats(); st.Open != 0 || st.Stale != 0 {
		t.Errorf("a connection that exceeded its age while in use was kept: %+v", st)
	}
}

// TestBrokenIPv6 checks that an address that drops connection attempts does not prevent the use of another.
//
// covers: F31
func TestBrokenIPv6(t *testing.T) {
	t.Parallel()
	for _, broken := range []string{"::1", "127.0.0.2"} {
		t.Run("packets dropped by "+broken, func(t *testing.T) {
			t.Parallel()
			s := okServer(t)
			_, port, _ := net.SplitHostPort(s.Addr())
			p, err := net.LookupPort("tcp", port)
			if err != nil {
				t.Fatal(err)
			}
			if upstreamtest.Blackhole(t, broken, p) == "" {
				return
			}
			c := newNamedClient(t, s, upstreamtest.NewNameServer(t, broken, "127.0.0.1"), func(c *upstream.Config) { c.Timeouts.Connect = testTimeout })
			start := time.Now()
			if _, _, err := roundTrip(t, c, post("")); err != nil {
				t.Error(err)
			}
			t.Logf("connected after %v", time.Since(start))
		})
	}
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		s := okServer(t) // listens only on 127.0.0.1
		c := newNamedClient(t, s, upstreamtest.NewNameServer(t, "::1", "127.0.0.1"), nil)
		if _, _, err := roundTrip(t, c, post("")); err != nil {
			t.Error(err)
		}
	})
}
