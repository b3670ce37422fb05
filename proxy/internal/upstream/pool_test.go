package upstream_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

func echoServer(tb testing.TB) *upstreamtest.Server {
	return upstreamtest.New(tb, upstreamtest.Script{upstreamtest.Loop(upstreamtest.Echo())})
}

func do(t *testing.T, c *upstream.Client) *upstream.Response {
	t.Helper()
	resp, err := c.Do(context.Background(), post("x"), nil)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// finish reads a response to its end and closes it.
func finish(t *testing.T, resp *upstream.Response) {
	t.Helper()
	if _, err := drain(resp); err != nil {
		t.Fatal(err)
	}
	resp.Close()
}

// eventually waits until another goroutine has made a condition true.
func eventually(t *testing.T, condition string, holds func() bool) {
	t.Helper()
	for start := time.Now(); !holds(); runtime.Gosched() {
		if time.Since(start) > testTimeout {
			t.Fatalf("timed out waiting until %s", condition)
		}
	}
}

// covers: F7
func TestConnectionLimit(t *testing.T) {
	t.Parallel()
	s := echoServer(t)
	c := newClient(t, s, func(c *upstream.Config) { c.MaxConns, c.ConnWait = 2, 20*time.Millisecond })
	a, b := do(t, c), do(t, c)
	start := time.Now()
	_, err := c.Do(context.Background(), post("x"), nil)
	if errorKind(t, err) != upstream.Busy || time.Since(start) < 20*time.Millisecond {
		t.Fatalf("got error %v after %v", err, time.Since(start))
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errGone)
	if _, err := c.Do(ctx, post("x"), nil); errorKind(t, err) != upstream.Cancelled || !errors.Is(err, errGone) {
		t.Fatalf("with a cancelled context: %v", err)
	}
	finish(t, a)
	finish(t, do(t, c))
	b.Close()
	finish(t, do(t, c))
	if st := c.Stats(); st.Dialled != 2 || st.Open != 1 || st.Idle != 1 {
		t.Errorf("stats: %+v", st)
	}
}

// TestWaitersAreServedInOrder checks that the caller that has waited longest gets the connection, or the right to
// establish one.
func TestWaitersAreServedInOrder(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testing.T, *upstream.Response){
		"connection": finish,
		"slot":       func(_ *testing.T, r *upstream.Response) { r.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := echoServer(t)
			c := newClient(t, s, func(c *upstream.Config) { c.MaxConns, c.ConnWait = 1, testTimeout })
			held := do(t, c)
			order := make(chan int, 3)
			var wg sync.WaitGroup
			for i := range 3 {
				wg.Go(func() {
					resp, err := c.Do(context.Background(), post("x"), nil)
					if err != nil {
						t.Error(err)
						return
					}
					order <- i
					if _, err := drain(resp); err != nil {
						t.Error(err)
					}
					resp.Close()
				})
				eventually(t, "a request waits", func() bool { return c.Stats().Waiting == i+1 })
			}
			end(t, held)
			wg.Wait()
			for want := range 3 {
				if got := <-order; got != want {
					t.Errorf("request %d was served as number %d", got, want)
				}
			}
			if st := c.Stats(); st.Open != 1 || st.Idle != 1 || st.Waiting != 0 {
				t.Errorf("stats: %+v", st)
			}
		})
	}
}

func TestIdleConnections(t *testing.T) {
	t.Parallel()
	t.Run("the most recently used one is reused first", func(t *testing.T) {
		t.Parallel()
		s := echoServer(t)
		c := newClient(t, s, nil)
		a, b := do(t, c), do(t, c)
		finish(t, a)
		finish(t, b)
		for range 5 {
			finish(t, do(t, c))
		}
		for _, r := range s.Requests()[2:] {
			if r.Conn != 1 {
				t.Errorf("request on connection %d", r.Conn)
			}
		}
	})
	t.Run("limit", func(t *testing.T) {
		t.Parallel()
		s := echoServer(t)
		c := newClient(t, s, func(c *upstream.Config) { c.MaxIdle = 2 })
		rs := []*upstream.Response{do(t, c), do(t, c), do(t, c)}
		for _, r := range rs {
			finish(t, r)
		}
		if st := c.Stats(); st.Open != 2 || st.Idle != 2 {
			t.Errorf("stats: %+v", st)
		}
		awaitClientClose(t, s)
	})
	t.Run("age", func(t *testing.T) {
		t.Parallel()
		s := echoServer(t)
		c := newClient(t, s, func(c *upstream.Config) { c.IdleAge = 30 * time.Millisecond })
		a, b := do(t, c), do(t, c)
		finish(t, a)
		finish(t, b)
		// They are closed even without another request.
		awaitClientClose(t, s)
		awaitClientClose(t, s)
		eventually(t, "both are closed", func() bool { return c.Stats().Open == 0 })
		finish(t, do(t, c))
		if st := c.Stats(); st.Dialled != 3 || st.Reused != 0 {
			t.Errorf("stats: %+v", st)
		}
	})
}

func TestCloseLetsRequestsFinish(t *testing.T) {
	t.Parallel()
	more := make(chan struct{})
	s := upstreamtest.New(t,
		upstreamtest.Script{upstreamtest.Echo(), upstreamtest.AwaitClose()},
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk("a"), upstreamtest.Wait(more), upstreamtest.Chunk("b"), upstreamtest.LastChunk(), upstreamtest.AwaitClose()})
	c := newClient(t, s, func(c *upstream.Config) { c.MaxConns, c.ConnWait = 2, testTimeout })
	idle, stream := do(t, c), do(t, c)
	waited := make(chan error)
	go func() {
		_, err := c.Do(context.Background(), post("x"), nil)
		waited <- err
	}()
	eventually(t, "a request waits", func() bool { return c.Stats().Waiting == 1 })
	c.Close()
	if err := <-waited; errorKind(t, err) != upstream.Closed {
		t.Errorf("waiting request: %v", err)
	}
	finish(t, idle)
	awaitClientClose(t, s)
	if _, err := c.Do(context.Background(), post("x"), nil); errorKind(t, err) != upstream.Closed {
		t.Errorf("Do after Close: %v", err)
	}
	close(more)
	if got, err := drain(stream); err != nil || got != "ab" {
		t.Errorf("got %q, error %v", got, err)
	}
	stream.Close()
	awaitClientClose(t, s)
	c.Close()
}

// TestPoolHammer uses the pool from many goroutines, with a limit that makes them wait and responses that end in every
// possible way.
func TestPoolHammer(t *testing.T) {
	t.Parallel()
	s := upstreamtest.New(t,
		upstreamtest.Script{upstreamtest.Echo(), upstreamtest.Echo(), upstreamtest.Close()},
		upstreamtest.Script{upstreamtest.Echo(), upstreamtest.Reset()},
		upstreamtest.Script{upstreamtest.Loop(upstreamtest.Echo())})
	c := newClient(t, s, func(c *upstream.Config) {
		c.MaxConns, c.MaxIdle, c.ConnWait, c.IdleAge = 4, 2, testTimeout, time.Millisecond
	})
	var wg sync.WaitGroup
	for g := range 12 {
		wg.Go(func() {
			for i := range 30 {
				resp, err := c.Do(context.Background(), post(strings.Repeat("x", i)), nil)
				if err != nil {
					t.Error(err)
					return
				}
				if (g+i)%3 > 0 {
					if got, err := resp.ReadAll(nil, 100); err != nil || len(got) != i {
						t.Errorf("got %q, error %v", got, err)
					}
				}
				if st := c.Stats(); st.Open > 4 || st.Idle > 2 || st.InUse < 1 {
					t.Errorf("stats: %+v", st)
				}
				resp.Close()
			}
		})
	}
	wg.Wait()
	if st := c.Stats(); st.InUse != 0 || st.Waiting != 0 {
		t.Errorf("stats: %+v", st)
	}
}
