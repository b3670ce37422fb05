package upstream_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// watcher is a function as a Watcher.
type watcher func(p upstream.Phase, silent time.Duration) error

func (w watcher) Tick(p upstream.Phase, silent time.Duration) error { return w(p, silent) }

var errGone = errors.New("the client has gone")

type pause struct{}

func (pause) Error() string   { return "pause" }
func (pause) Resumable() bool { return true }

// TestDisconnectClosesConnectionWithinTick has the client disconnect at the third tick, and checks that the wait ends
// and the provider's connection is closed.
func TestDisconnectClosesConnectionWithinTick(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		phase  upstream.Phase
		body   int
		script upstreamtest.Script
	}{
		{"before the header", upstream.PhaseHead, 10, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.AwaitClose()}},
		{"in the header", upstream.PhaseHead, 10, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Write("HTTP/1.1 200 OK\r\nX-"), upstreamtest.AwaitClose()}},
		{"in the body", upstream.PhaseBody, 10, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk("data: a\n\n"), upstreamtest.AwaitClose()}},
		{"in a chunk", upstream.PhaseBody, 10, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Write("20\r\ndata: a\n"), upstreamtest.AwaitClose()}},
	} {
		for _, secure := range []bool{false, true} {
			name := tt.name
			if secure {
				name += ", TLS"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s, conf := startServer(t, secure, tt.script)
				c := newClient(t, s, conf)
				ticks := 0
				var silences []time.Duration
				w := watcher(func(p upstream.Phase, silent time.Duration) error {
					if p != tt.phase {
						return nil
					}
					silences = append(silences, silent)
					if ticks++; ticks < 3 {
						return nil
					}
					return errGone
				})
				resp, err := c.Do(context.Background(), post(strings.Repeat("x", tt.body)), w)
				if tt.phase == upstream.PhaseBody {
					if err != nil {
						t.Fatal(err)
					}
					defer resp.Close()
					_, err = drain(resp)
				}
				if errorKind(t, err) != upstream.Cancelled || !errors.Is(err, errGone) {
					t.Fatalf("got error %v", err)
				}
				awaitClientClose(t, s)
				if ticks != 3 || silences[0] <= 0 || silences[2] <= silences[1] {
					t.Errorf("got %d ticks, silences %v", ticks, silences)
				}
				if resp != nil {
					if _, err := resp.Next(); !errors.Is(err, errGone) {
						t.Errorf("second call: got %v, want the same error", err)
					}
				}
			})
		}
	}
}

// startServer starts a server with or without TLS. It returns the change of a client's configuration that TLS requires,
// or nil.
func startServer(t *testing.T, secure bool, scripts ...upstreamtest.Script) (*upstreamtest.Server, func(*upstream.Config)) {
	t.Helper()
	if !secure {
		return upstreamtest.New(t, scripts...), nil
	}
	s := upstreamtest.NewTLS(t, upstreamtest.TLS{}, scripts...)
	return s, func(c *upstream.Config) { c.TLS = s.ClientTLS() }
}

// awaitClientClose waits until the server has seen the client close a connection.
func awaitClientClose(t *testing.T, s *upstreamtest.Server) upstreamtest.How {
	t.Helper()
	select {
	case how := <-s.Ended():
		return how
	case <-time.After(testTimeout):
		t.Fatal("timed out waiting for the client to close the connection")
		return 0
	}
}

func TestDisconnectWhileSending(t *testing.T) {
	if testing.Short() {
		t.Skip("sends more than socket buffers hold")
	}
	t.Parallel()
	for _, secure := range []bool{false, true} {
		t.Run(map[bool]string{false: "plain", true: "TLS"}[secure], func(t *testing.T) {
			t.Parallel()
			gone := make(chan struct{})
			s, conf := startServer(t, secure, upstreamtest.Script{upstreamtest.ReadHead(), upstreamtest.Wait(gone), upstreamtest.AwaitClose()})
			c := newClient(t, s, conf)
			_, err := c.Do(context.Background(), post(strings.Repeat("x", 32<<20)), watcher(func(p upstream.Phase, _ time.Duration) error {
				if p != upstream.PhaseSend {
					return nil
				}
				return errGone
			}))
			var e *upstream.Error
			if !errors.As(err, &e) || e.Kind != upstream.Cancelled || e.Phase != upstream.PhaseSend || !errors.Is(err, errGone) {
				t.Fatalf("got error %v", err)
			}
			close(gone)
			awaitClientClose(t, s)
		})
	}
}

func TestContextIsCheckedOnTick(t *testing.T) {
	t.Parallel()
	s := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.AwaitClose()})
	c := newClient(t, s, nil)
	ctx, cancel := context.WithCancelCause(context.Background())
	_, err := c.Do(ctx, post(""), watcher(func(upstream.Phase, time.Duration) error {
		cancel(errGone)
		return nil
	}))
	if errorKind(t, err) != upstream.Cancelled || !errors.Is(err, errGone) {
		t.Fatalf("got error %v", err)
	}
	awaitClientClose(t, s)
	if _, err := c.Do(ctx, post(""), nil); errorKind(t, err) != upstream.Cancelled {
		t.Errorf("with a cancelled context: %v", err)
	}
}

// TestPausedWaitResumes pauses in every kind of wait.
func TestPausedWaitResumes(t *testing.T) {
	t.Parallel()
	gzipped := compress(t, "data: a\n\ndata: b\n\n")
	for name, pieces := range map[string][]string{
		"between chunks": {"", "9\r\ndata: a\n\n\r\n", "9\r\ndata: b\n\n\r\n", "0\r\n\r\n"},
		"everywhere":     {"1", "2\r", "\ndata: a\n", "\ndata: b", "\n", "\n\r", "\n0", "\r\n\r", "\n"},
		"gzip":           {"", encodeChunk(gzipped[:5]), encodeChunk(gzipped[5:21]), encodeChunk(gzipped[21:30]), encodeChunk(gzipped[30:]), "0\r\n", "\r\n"},
	} {
		for _, secure := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", TLS"}[secure], func(t *testing.T) {
				t.Parallel()
				head := upstreamtest.EventStream()
				if name == "gzip" {
					head = upstreamtest.Head(200, "Content-Encoding: gzip", "Transfer-Encoding: chunked")
				}
				script := upstreamtest.Script{upstreamtest.ReadRequest(), head}
				steps := make([]chan struct{}, len(pieces))
				for i, p := range pieces {
					steps[i] = make(chan struct{})
					script = append(script, upstreamtest.Write(p), upstreamtest.Wait(steps[i]))
				}
				s, conf := startServer(t, secure, append(script, upstreamtest.AwaitClose()))
				c := newClient(t, s, conf)
				resp, err := c.Do(context.Background(), post(""), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Close()
				resp.SetWatcher(watcher(func(upstream.Phase, time.Duration) error { return pause{} }))
				var got []byte
				paused := 0
				for {
					p, err := resp.Next()
					if err == io.EOF {
						break
					}
					got = append(got, p...)
					if err == nil {
						continue
					}
					if errorKind(t, err) != upstream.Paused {
						t.Fatal(err)
					}
					if paused < len(steps) {
						close(steps[paused])
					}
					paused++
				}
				if string(got) != "data: a\n\ndata: b\n\n" || paused < len(pieces)-1 {
					t.Errorf("got %q after %d pauses", got, paused)
				}
				resp.Close()
				if st := c.Stats(); st.Idle != 1 {
					t.Errorf("stats: %+v", st)
				}
			})
		}
	}
}

func TestPausedReadAllResumes(t *testing.T) {
	t.Parallel()
	more := make(chan struct{})
	s := upstreamtest.New(t, upstreamtest.Script{
		upstreamtest.ReadRequest(), upstreamtest.Head(200, "Content-Length: 10"), upstreamtest.Write("01234"), upstreamtest.Wait(more),
		upstreamtest.Write("56789"), upstreamtest.AwaitClose(),
	})
	c := newClient(t, s, nil)
	resp, err := c.Do(context.Background(), post(""), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Close()
	once := false
	resp.SetWatcher(watcher(func(upstream.Phase, time.Duration) error {
		if once {
			return nil
		}
		once = true
		return pause{}
	}))
	got, err := resp.ReadAll(nil, 100)
	if errorKind(t, err) != upstream.Paused || string(got) != "01234" {
		t.Fatalf("got %q, error %v", got, err)
	}
	close(more)
	if got, err = resp.ReadAll(got, 100); err != nil || string(got) != "0123456789" {
		t.Fatalf("got %q, error %v", got, err)
	}
}

func TestPauseBeforeHeadEndsWait(t *testing.T) {
	t.Parallel()
	s := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.AwaitClose()})
	c := newClient(t, s, nil)
	_, err := c.Do(context.Background(), post(""), watcher(func(upstream.Phase, time.Duration) error { return pause{} }))
	if errorKind(t, err) != upstream.Cancelled {
		t.Fatalf("got error %v", err)
	}
	awaitClientClose(t, s)
}

type pacer struct {
	watcher
	pace time.Duration
}

func (p pacer) Pace() time.Duration { return p.pace }

func TestWatcherSetsPace(t *testing.T) {
	t.Parallel()
	s := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.AwaitClose()})
	c := newClient(t, s, func(c *upstream.Config) { c.Ticks = upstream.Ticks{First: time.Hour, Slow: time.Hour} })
	start := time.Now()
	_, err := c.Do(context.Background(), post(""), pacer{watcher(func(upstream.Phase, time.Duration) error { return errGone }), time.Millisecond})
	if !errors.Is(err, errGone) || time.Since(start) > testTimeout {
		t.Errorf("got error %v after %v", err, time.Since(start))
	}
}

// TestTimeouts checks deadlines that fall between ticks.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	const short = 30 * time.Millisecond
	for _, tt := range []struct {
		name   string
		set    func(*upstream.Timeouts)
		body   int
		script upstreamtest.Script
		phase  upstream.Phase
		reason string
	}{
		// covers: F34
		{
			"silence after accept", func(t *upstream.Timeouts) { t.FirstByte = short }, 0,
			upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.AwaitClose()}, upstream.PhaseHead, "first byte",
		},
		{
			"incomplete header", func(t *upstream.Timeouts) { t.FirstByte = short }, 0,
			upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Write("HTTP/1.1 200 OK\r\nX: "), upstreamtest.AwaitClose()}, upstream.PhaseHead, "first byte",
		},
		{
			"interim responses do not extend it", func(t *upstream.Timeouts) { t.FirstByte = short }, 0, // covers: F48
			upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Write("HTTP/1.1 102 Processing\r\n\r\n"), upstreamtest.AwaitClose()}, upstream.PhaseHead, "first byte",
		},
		// covers: F35
		{
			"silence after the header", func(t *upstream.Timeouts) { t.Idle = short }, 0,
			upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.AwaitClose()}, upstream.PhaseBody, "idle",
		},
		{
			"silence after an event", func(t *upstream.Timeouts) { t.Idle = short }, 0,
			upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk("data: a\n\n"), upstreamtest.AwaitClose()}, upstream.PhaseBody, "idle",
		},
		{
			"endless drip", func(t *upstream.Timeouts) { t.Total = 5 * short }, 0, // covers: F41
			upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Loop(upstreamtest.Chunk("x"))}, upstream.PhaseBody, "total",
		},
		{
			"total timeout before the header", func(t *upstream.Timeouts) { t.Total = 20 * short }, 0, // includes connecting
			upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.AwaitClose()}, upstream.PhaseHead, "total",
		},
		{
			"provider does not read", func(t *upstream.Timeouts) { t.Write = short }, 32 << 20,
			upstreamtest.Script{upstreamtest.ReadHead(), upstreamtest.Wait(nil)}, upstream.PhaseSend, "write",
		},
	} {
		for _, secure := range []bool{false, true} {
			t.Run(tt.name+map[bool]string{true: ", TLS"}[secure], func(t *testing.T) {
				if testing.Short() && (tt.body > 0 || secure) {
					t.Skip("sends more than socket buffers hold, or repeats a timeout over TLS")
				}
				t.Parallel()
				s, conf := startServer(t, secure, tt.script)
				c := newClient(t, s, func(c *upstream.Config) {
					if conf != nil {
						conf(c)
					}
					c.Ticks = upstream.Ticks{First: time.Hour}
					tt.set(&c.Timeouts)
				})
				resp, err := c.Do(context.Background(), post(strings.Repeat("x", tt.body)), nil)
				if err == nil {
					_, err = drain(resp)
					resp.Close()
				}
				var e *upstream.Error
				if !errors.As(err, &e) || e.Kind != upstream.Timeout || e.Phase != tt.phase || !strings.Contains(e.Reason, tt.reason) {
					t.Fatalf("got error %v", err)
				}
				if st := c.Stats(); st.Open != 0 {
					t.Errorf("the connection slot was not released: %+v", st)
				}
			})
		}
	}
}

// TestSlowDrip checks that received bytes reset the idle deadline and end the silence reported to the Watcher.
//
// covers: F41
func TestSlowDrip(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a timeout")
	}
	t.Parallel()
	next := make(chan struct{})
	s := upstreamtest.New(t, upstreamtest.Script{
		upstreamtest.ReadRequest(), upstreamtest.EventStream(),
		upstreamtest.Loop(upstreamtest.Wait(next), upstreamtest.Chunk("x")),
	})
	const idle = time.Second
	c := newClient(t, s, func(c *upstream.Config) { c.Timeouts.Idle = idle })
	resp, err := c.Do(context.Background(), post(""), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Close()
	start := time.Now()
	last, ticks := start, 0
	resp.SetWatcher(watcher(func(_ upstream.Phase, silent time.Duration) error {
		if since := time.Since(last); silent > since {
			t.Errorf("reported a silence of %v, %v after the last byte", silent, since)
		}
		if ticks++; ticks%5 == 0 {
			next <- struct{}{}
		}
		return nil
	}))
	for last.Sub(start) < idle*5/4 {
		if _, err := resp.Next(); err != nil {
			t.Fatal(err)
		}
		last = time.Now()
	}
	if ticks < 5 {
		t.Errorf("%d ticks, want at least 5", ticks)
	}
}
