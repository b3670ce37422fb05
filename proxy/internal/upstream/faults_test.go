package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestTruncatedBodies checks that a truncated body is never reported as complete.
func TestTruncatedBodies(t *testing.T) {
	t.Parallel()
	const event = "data: {\"a\":1}\n\n"
	for _, tt := range []struct {
		name string
		head upstreamtest.Step
		sent string
		body string
	}{
		{"after a chunk", upstreamtest.EventStream(), encodeChunk(event), event},
		{"in a chunk", upstreamtest.EventStream(), "20\r\n" + event, event},
		{"in a chunk's size", upstreamtest.EventStream(), encodeChunk(event) + "2", event},
		{"in the last chunk", upstreamtest.EventStream(), encodeChunk(event) + "0\r\n", event},
		{"in the last CRLF", upstreamtest.EventStream(), encodeChunk(event) + "0\r\n\r", event},
		{"in a trailer", upstreamtest.EventStream(), encodeChunk(event) + "0\r\nX-A: 1\r\n", event},
		{"in a length", upstreamtest.Head(200, "Content-Length: 100"), strings.Repeat("x", 60), strings.Repeat("x", 60)}, // covers: F40
	} {
		for _, end := range []struct {
			name string
			step upstreamtest.Step
			// covers: F37
		}{{"FIN", upstreamtest.Close()}, {"RST", upstreamtest.Reset()}} { // covers: F36
			for _, secure := range []bool{false, true} {
				t.Run(end.name+" "+tt.name+map[bool]string{true: ", TLS"}[secure], func(t *testing.T) {
					t.Parallel()
					read := make(chan struct{})
					s, conf := startServer(t, secure, upstreamtest.Script{upstreamtest.ReadRequest(), tt.head, upstreamtest.Write(tt.sent), upstreamtest.Wait(read), end.step})
					c := newClient(t, s, conf)
					resp, err := c.Do(context.Background(), post(""), nil)
					if err != nil {
						t.Fatal(err)
					}
					defer resp.Close()
					// A RST may overtake the bytes sent before it, so those are read first.
					p, err := resp.Next()
					if err != nil || string(p) != tt.body {
						t.Fatalf("got %q, error %v", p, err)
					}
					close(read)
					_, err = resp.Next()
					if errorKind(t, err) != upstream.Truncated {
						t.Fatalf("got error %v", err)
					}
					if _, again := resp.Next(); again != err {
						t.Errorf("second call: got %v, want the same error", again)
					}
					resp.Close()
					if st := c.Stats(); st.Open != 0 {
						t.Errorf("stats: %+v", st)
					}
				})
			}
		}
	}
	t.Run("until close, TLS without close_notify", func(t *testing.T) {
		t.Parallel()
		// Without close_notify, an attacker could have truncated the response here.
		s, conf := startServer(t, true, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Head(200), upstreamtest.Write("hello"), upstreamtest.CloseRaw()})
		c := newClient(t, s, conf)
		if _, got, err := roundTrip(t, c, post("")); errorKind(t, err) != upstream.Truncated || got != "hello" {
			t.Errorf("got %q, error %v", got, err)
		}
	})
	t.Run("until close, TLS with close_notify", func(t *testing.T) {
		t.Parallel()
		s, conf := startServer(t, true, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Head(200), upstreamtest.Write("hello"), upstreamtest.Close()})
		c := newClient(t, s, conf)
		if _, got, err := roundTrip(t, c, post("")); err != nil || got != "hello" {
			t.Errorf("got %q, error %v", got, err)
		}
	})
}

// covers: F38
func TestBodyUntilClose(t *testing.T) {
	t.Parallel()
	s := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk("data: a\n\n"), upstreamtest.LastChunk(), upstreamtest.AwaitClose()})
	c := newClient(t, s, nil)
	resp, err := c.Do(context.Background(), post(""), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Close()
	if got, err := drain(resp); err != nil || got != "data: a\n\n" {
		t.Errorf("got %q, error %v", got, err)
	}
	if _, err := resp.Next(); err != io.EOF {
		t.Errorf("second call: got %v, want io.EOF", err)
	}
}

func TestRejectsInvalidResponses(t *testing.T) {
	t.Parallel()
	const ok = "HTTP/1.1 200 OK\r\n"
	many := strings.Repeat("X-A: 1\r\n", 10_000)
	for _, tt := range []struct{ name, response string }{
		// covers: F47
		{"endless header", ok + "X-A: " + strings.Repeat("x", 100<<10)},
		{"endless status line", "HTTP/1.1 200 " + strings.Repeat("x", 100<<10)},
		{"10,000 headers", ok + many + "\r\n"},
		{"300 short headers", ok + strings.Repeat("A:\r\n", 300) + "\r\n"},
		{"flood of 102", strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 200) + ok + "Content-Length: 0\r\n\r\n"}, // covers: F48
		{"101", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"},            // covers: F49
		// covers: F60
		{"length and chunks", ok + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{"chunks and length", ok + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"},
		{"two lengths", ok + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"},
		{"the same length twice", ok + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"},
		{"list of lengths", ok + "Content-Length: 5, 5\r\n\r\nhello"},
		{"length with a sign", ok + "Content-Length: +5\r\n\r\nhello"},
		{"negative length", ok + "Content-Length: -5\r\n\r\nhello"},
		{"hexadecimal length", ok + "Content-Length: 0x5\r\n\r\nhello"},
		{"length that overflows", ok + "Content-Length: 18446744073709551621\r\n\r\nhello"},
		{"empty length", ok + "Content-Length: \r\n\r\nhello"},
		{"unknown coding", ok + "Transfer-Encoding: x\r\n\r\nhello"},
		{"list of codings", ok + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
		{"identity", ok + "Transfer-Encoding: identity\r\n\r\nhello"},
		{"chunked twice", ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{"chunked with a vertical tab", ok + "Transfer-Encoding: \vchunked\r\n\r\n0\r\n\r\n"},
		{"chunks in HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{"space before the colon", ok + "Content-Length : 5\r\n\r\nhello"},
		{"folded line", ok + "X-A: 1\r\n Content-Length: 5\r\n\r\nhello"},
		{"folded first line", ok + " X-A: 1\r\nContent-Length: 5\r\n\r\nhello"},
		{"bare LF", ok + "X-A: 1\nContent-Length: 5\r\n\r\nhello"},
		{"bare LF at the end", ok + "Content-Length: 5\r\n\nhello"},
		{"bare CR", ok + "X-A: 1\rContent-Length: 5\r\n\r\nhello"},
		{"NUL", ok + "X-A: \x00\r\nContent-Length: 5\r\n\r\nhello"},
		{"no colon", ok + "X-A\r\nContent-Length: 5\r\n\r\nhello"},
		{"no name", ok + ": 1\r\nContent-Length: 5\r\n\r\nhello"},
		{"not HTTP", "SSH-2.0-OpenSSH_9.6\r\n"},
		{"HTML", "<html>"},
		{"HTTP/2", "HTTP/2 200\r\n\r\n"},
		{"HTTP/1.2", "HTTP/1.2 200 OK\r\n\r\n"},
		{"status of two digits", "HTTP/1.1 20 OK\r\n\r\n"},
		{"status of four digits", "HTTP/1.1 2000 OK\r\n\r\n"},
		{"status 600", "HTTP/1.1 600 OK\r\n\r\n"},
		{"status 099", "HTTP/1.1 099 OK\r\n\r\n"},
		{"no status", "HTTP/1.1 OK\r\n\r\n"},
		{"empty line first", "\r\n" + ok + "Content-Length: 5\r\n\r\nhello"},
		{"invalid chunk size", ok + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n"},
		{"chunk size with 0x", ok + "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n"},
		{"chunk size with a sign", ok + "Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n"},
		{"chunk size that overflows", ok + "Transfer-Encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\n"},
		{"chunk size after a space", ok + "Transfer-Encoding: chunked\r\n\r\n 5\r\nhello\r\n0\r\n\r\n"},
		{"chunk size and bare LF", ok + "Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n"},
		{"chunk size and bare CR", ok + "Transfer-Encoding: chunked\r\n\r\n5\rXhello\r\n0\r\n\r\n"},
		{"chunk longer than its size", ok + "Transfer-Encoding: chunked\r\n\r\n4\r\nhello\r\n0\r\n\r\n"},
		{"chunk shorter than its size", ok + "Transfer-Encoding: chunked\r\n\r\n6\r\nhello\r\n0\r\n\r\n"},
		{"LF in a chunk extension", ok + "Transfer-Encoding: chunked\r\n\r\n5;a\nb\r\nhello\r\n0\r\n\r\n"},
		{"long chunk extension", ok + "Transfer-Encoding: chunked\r\n\r\n5;" + strings.Repeat("a", 2000) + "\r\nhello\r\n0\r\n\r\n"},
		{"long trailers", ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("X-A: 1\r\n", 2000) + "\r\n"},
		{"LF in a trailer", ok + "Transfer-Encoding: chunked\r\n\r\n0\r\nX-A: 1\nX-B: 2\r\n\r\n"},
		{"bare LF at the end of the chunks", ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Write(tt.response), upstreamtest.AwaitClose()})
			c := newClient(t, s, nil)
			_, _, err := roundTrip(t, c, post(""))
			var e *upstream.Error
			if !errors.As(err, &e) || e.Kind != upstream.InvalidResponse || !e.Answered {
				t.Fatalf("got error %v", err)
			}
			awaitClientClose(t, s)
			if st := c.Stats(); st.Open != 0 || s.Connections() != 1 {
				t.Errorf("stats %+v after %d connections", st, s.Connections())
			}
		})
	}
}

// covers: F51
func TestRedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	other := okServer(t)
	s := upstreamtest.New(t, upstreamtest.Script{
		upstreamtest.ReadRequest(), upstreamtest.Write("HTTP/1.1 302 Found\r\nLocation: " + other.URL() + "/?key=canary\r\nContent-Length: 0\r\n\r\n"), upstreamtest.AwaitClose(),
	})
	c := newClient(t, s, nil)
	resp, err := c.Do(context.Background(), post(""), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Close()
	if resp.Status() != 302 || resp.Header("location") != nil || resp.Location() != other.URL()+"/?key=canary" {
		t.Errorf("got status %d, header %q, location %q", resp.Status(), resp.Header("location"), resp.Location())
	}
	if other.Connections() != 0 {
		t.Error("the redirect was followed")
	}
}

// TestResponseBeforeRequestIsComplete has the provider reject a large request before reading all of it, and checks that
// the caller gets the response and not the failed write.
//
// covers: F61
func TestResponseBeforeRequestIsComplete(t *testing.T) {
	if testing.Short() {
		t.Skip("sends more than socket buffers hold, five times")
	}
	t.Parallel()
	reject := upstreamtest.Answer(413, "application/json", `{"error":{}}`)
	for _, tt := range []struct {
		name   string
		script upstreamtest.Script
	}{
		{"then waits", upstreamtest.Script{upstreamtest.ReadHead(), reject, upstreamtest.Wait(nil)}},
		{"then half-closes", upstreamtest.Script{upstreamtest.ReadHead(), reject, upstreamtest.HalfClose(), upstreamtest.Wait(nil)}},
		{"then reads the rest", upstreamtest.Script{upstreamtest.ReadHead(), reject, upstreamtest.AwaitClose()}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := upstreamtest.New(t, tt.script)
			c := newClient(t, s, nil)
			status, body, err := roundTrip(t, c, post(strings.Repeat("x", 32<<20)))
			if err != nil || status != 413 || body != `{"error":{}}` {
				t.Fatalf("got status %d, body %q, error %v", status, body, err)
			}
			if st := c.Stats(); tt.name != "then reads the rest" && st.Open != 0 {
				t.Errorf("the connection was kept after an incomplete request: %+v", st)
			}
		})
	}
	for _, secure := range []bool{false, true} {
		t.Run("then closes"+map[bool]string{true: ", TLS"}[secure], func(t *testing.T) {
			t.Parallel()
			s, conf := startServer(t, secure, upstreamtest.Script{upstreamtest.ReadHead(), reject, upstreamtest.Close()})
			c := newClient(t, s, conf)
			status, _, err := roundTrip(t, c, post(strings.Repeat("x", 32<<20)))
			// The kernel may discard the response together with the connection, so only check how the request ends.
			if k := errorKind(t, err); err == nil && status != 413 || err != nil && k != upstream.Unreachable && k != upstream.Truncated {
				t.Fatalf("got status %d, error %v", status, err)
			}
			if st := c.Stats(); st.Open != 0 || s.Connections() != 1 {
				t.Errorf("stats %+v after %d connections", st, s.Connections())
			}
		})
	}
}

// TestStaleConnections checks that callers do not notice a provider that closes connections at any time.
//
// covers: F62
func TestStaleConnections(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		end  upstreamtest.Step
	}{{"FIN", upstreamtest.Close()}, {"RST", upstreamtest.Reset()}} {
		for _, secure := range []bool{false, true} {
			t.Run(tt.name+map[bool]string{true: ", TLS"}[secure], func(t *testing.T) {
				t.Parallel()
				idle := make(chan struct{})
				closed := make(chan struct{})
				s, conf := startServer(t, secure,
					upstreamtest.Script{upstreamtest.Echo(), upstreamtest.Wait(idle), tt.end, upstreamtest.Signal(closed), upstreamtest.AwaitClose()},
					upstreamtest.Script{upstreamtest.Loop(upstreamtest.Echo())})
				c := newClient(t, s, conf)
				for i, body := range []string{"one", "two", "three"} {
					if i == 1 {
						close(idle)
						<-closed
					}
					if _, got, err := roundTrip(t, c, post(body)); err != nil || got != body {
						t.Fatalf("request %d: got %q, error %v", i, got, err)
					}
				}
				if st := c.Stats(); st.Stale+st.Retried != 1 || st.Dialled != 2 || st.Open != 1 {
					t.Errorf("stats: %+v", st)
				}
			})
		}
	}

	t.Run("two responses in one TLS record", func(t *testing.T) {
		t.Parallel()
		response := "HTTP/1.1 200 OK\r\nContent-Length: 600\r\n\r\n" + strings.Repeat("x", 600)
		s, conf := startServer(t, true,
			upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Write(response + response), upstreamtest.AwaitClose()},
			upstreamtest.Script{upstreamtest.Loop(upstreamtest.Echo())})
		c := newClient(t, s, func(cfg *upstream.Config) { conf(cfg); cfg.ReadBuffer = 256 })
		if _, _, err := roundTrip(t, c, post("one")); err != nil {
			t.Fatal(err)
		}
		if _, got, err := roundTrip(t, c, post("two")); err != nil || got != "two" {
			t.Errorf("got %q, error %v", got, err)
		}
	})

	// The connection looks alive, but is closed during the request.
	t.Run("one retry", func(t *testing.T) {
		t.Parallel()
		for name, end := range map[string]upstreamtest.Step{"FIN": upstreamtest.Close(), "RST": upstreamtest.Reset()} {
			s := upstreamtest.New(t,
				upstreamtest.Script{upstreamtest.Echo(), upstreamtest.ReadRequest(), end},
				upstreamtest.Script{upstreamtest.Echo(), upstreamtest.ReadRequest(), end},
				upstreamtest.Script{upstreamtest.ReadRequest(), end})
			c := newClient(t, s, nil)
			for i := range 3 {
				body := fmt.Sprint(i)
				_, got, err := roundTrip(t, c, post(body))
				if i < 2 && (err != nil || got != body) {
					t.Fatalf("%s, request %d: got %q, error %v", name, i, got, err)
				}
				// The third request fails on the reused connection and again on its new one, so its error is returned.
				if i == 2 && errorKind(t, err) != upstream.Unreachable {
					t.Fatalf("%s, request %d: got %q, error %v", name, i, got, err)
				}
			}
			if st := c.Stats(); st.Retried != 2 || st.Dialled != 3 || st.Open != 0 || len(s.Requests()) != 5 {
				t.Errorf("%s: stats %+v, %d requests", name, st, len(s.Requests()))
			}
		}
	})
	t.Run("no retry on a new connection", func(t *testing.T) {
		t.Parallel()
		s := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Close()})
		c := newClient(t, s, nil)
		_, err := c.Do(context.Background(), post(""), nil)
		if errorKind(t, err) != upstream.Unreachable || s.Connections() != 1 {
			t.Errorf("got error %v after %d connections", err, s.Connections())
		}
	})
	t.Run("no retry after the first byte", func(t *testing.T) {
		t.Parallel()
		s := upstreamtest.New(t, upstreamtest.Script{upstreamtest.Echo(), upstreamtest.ReadRequest(), upstreamtest.Write("H"), upstreamtest.Close()})
		c := newClient(t, s, nil)
		if _, _, err := roundTrip(t, c, post("")); err != nil {
			t.Fatal(err)
		}
		_, err := c.Do(context.Background(), post(""), nil)
		var e *upstream.Error
		if !errors.As(err, &e) || e.Kind != upstream.Truncated || !e.Answered || s.Connections() != 1 {
			t.Errorf("got error %v after %d connections", err, s.Connections())
		}
	})
	t.Run("no retry after a timeout", func(t *testing.T) {
		t.Parallel()
		s := upstreamtest.New(t, upstreamtest.Script{upstreamtest.Echo(), upstreamtest.ReadRequest(), upstreamtest.AwaitClose()})
		c := newClient(t, s, func(c *upstream.Config) { c.Timeouts.FirstByte = 200 * time.Millisecond })
		if _, _, err := roundTrip(t, c, post("")); err != nil {
			t.Fatal(err)
		}
		_, err := c.Do(context.Background(), post(""), nil)
		if errorKind(t, err) != upstream.Timeout || s.Connections() != 1 {
			t.Errorf("got error %v after %d connections", err, s.Connections())
		}
	})
}

// TestIdleTimeoutCrossesRequest has the provider time out an idle connection with a 408 that crosses a request. The
// request is sent again on a new connection, but a 408 that may be meant for the request is returned.
//
// covers: F62
func TestIdleTimeoutCrossesRequest(t *testing.T) {
	t.Parallel()
	const (
		closing = "HTTP/1.1 408 Request Timeout\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: 4\r\n\r\ntime"
		reason  = "HTTP/1.1 408 Request Timeout\r\nContent-Length: 2\r\n\r\n{}"
	)
	for _, tt := range []struct {
		name, response string
		status         int // status of the second request; 200 means that it was retried
	}{
		{"closing", closing, 200},
		{"chunked and closing", "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200},
		{"HTTP/1.0", "HTTP/1.0 408 Request Time-out\r\nCache-Control: no-cache\r\n\r\n<html>", 200},
		{"without a body", "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n", 200},
		{"truncated header", closing[:40], 200},
		{"kept alive, with a reason", reason, 408},
		{"another status", strings.Replace(closing, "408 Request Timeout", "503 Unavailable", 1), 503},
	} {
		for _, secure := range []bool{false, true} {
			t.Run(tt.name+map[bool]string{true: ", TLS"}[secure], func(t *testing.T) {
				t.Parallel()
				s, conf := startServer(t, secure,
					upstreamtest.Script{upstreamtest.Echo(), upstreamtest.ReadRequest(), upstreamtest.Write(tt.response), upstreamtest.Close()},
					upstreamtest.Script{upstreamtest.Loop(upstreamtest.Echo())})
				c := newClient(t, s, conf)
				if _, got, err := roundTrip(t, c, post("one")); err != nil || got != "one" {
					t.Fatalf("got %q, error %v", got, err)
				}
				status, got, err := roundTrip(t, c, post("two"))
				if err != nil || status != tt.status || status == 200 && got != "two" {
					t.Fatalf("got status %d, body %q, error %v", status, got, err)
				}
				if st := c.Stats(); (st.Retried == 1) != (tt.status == 200) || st.Open > 1 {
					t.Errorf("stats: %+v", st)
				}
			})
		}
	}
	t.Run("no retry on a new connection", func(t *testing.T) {
		t.Parallel()
		s := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Write(closing), upstreamtest.Close()})
		c := newClient(t, s, nil)
		if status, _, err := roundTrip(t, c, post("")); err != nil || status != 408 || s.Connections() != 1 {
			t.Errorf("got status %d, error %v after %d connections", status, err, s.Connections())
		}
	})
}

// TestAbandonedResponses checks that every request gets its own response after others were abandoned.
//
// covers: F63
func TestAbandonedResponses(t *testing.T) {
	if testing.Short() {
		t.Skip("abandons hundreds of responses")
	}
	t.Parallel()
	for _, secure := range []bool{false, true} {
		t.Run(map[bool]string{true: ", TLS"}[secure], func(t *testing.T) {
			t.Parallel()
			s, conf := startServer(t, secure, upstreamtest.Script{upstreamtest.Loop(upstreamtest.Echo())})
			c := newClient(t, s, func(cfg *upstream.Config) {
				if conf != nil {
					conf(cfg)
				}
				cfg.MaxConns, cfg.ConnWait, cfg.ReadBuffer = 8, testTimeout, 512
			})
			var wg sync.WaitGroup
			var failed atomic.Int32
			for g := range 8 {
				wg.Go(func() {
					for i := range 40 {
						id := fmt.Sprintf("%d/%d ", g, i)
						body := strings.Repeat(id, 200)
						resp, err := c.Do(context.Background(), post(body), nil)
						if err != nil {
							failed.Add(1)
							t.Error(err)
							return
						}
						switch i % 4 {
						case 0: // abandoned before the first byte of the body
						case 1:
							if p, err := resp.Next(); err != nil || !strings.HasPrefix(body, string(p)) {
								t.Errorf("%s: another request's bytes, or error %v", id, err)
							}
						default:
							if p, err := resp.ReadAll(nil, 1<<20); err != nil || string(p) != body {
								t.Errorf("%s: another request's response, or error %v", id, err)
							}
						}
						resp.Close()
						resp.Close()
					}
				})
			}
			wg.Wait()
			if st := c.Stats(); st.InUse != 0 || st.Open > 8 || failed.Load() != 0 {
				t.Errorf("stats: %+v", st)
			}
		})
	}
}
