package upstream_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/credential"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

func okServer(tb testing.TB) *upstreamtest.Server {
	return upstreamtest.New(tb, upstreamtest.Script{upstreamtest.Loop(
		upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", `{"ok":true}`),
	)})
}

func TestRequestBytes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*upstream.Config)
		r      upstream.Request
		want   string // %s is the server's address
	}{
		{
			"credential in a header", nil,
			upstream.Request{Method: "POST", Path: "/chat/completions", Body: []byte(`{"model":"m"}`), ContentType: "application/json", Accept: "text/event-stream"},
			"POST /v1/chat/completions HTTP/1.1\r\nUser-Agent: sluice\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 13\r\n" +
				"Accept: text/event-stream\r\nAccept-Encoding: identity\r\nAuthorization: Bearer sk-canary-0123456789",
		},
		{
			"headers as given, no body",
			nil,
			upstream.Request{Method: "GET", Path: "/models?limit=5&after=a%2Fb", Headers: []upstream.Header{{Name: "anthropic-version", Value: "2023-06-01"}, {Name: "X-a", Value: "1"}, {Name: "x-A"}}},
			"GET /v1/models?limit=5&after=a%%2Fb HTTP/1.1\r\nUser-Agent: sluice\r\nHost: %s\r\nAccept-Encoding: identity\r\n" +
				"anthropic-version: 2023-06-01\r\nX-a: 1\r\nx-A: \r\nAuthorization: Bearer sk-canary-0123456789",
		},
		{
			"credential in the query",
			func(c *upstream.Config) {
				c.Credential = credential.Credential{Query: "key", Secrets: []string{"a b&c=d"}}
			},
			upstream.Request{Method: "POST", Path: "/x:generate"},
			"POST /v1/x:generate?key=a+b%%26c%%3Dd HTTP/1.1\r\nUser-Agent: sluice\r\nHost: %s\r\nContent-Length: 0\r\nAccept-Encoding: identity",
		},
		{
			"credential after a query, base URL without a path",
			func(c *upstream.Config) {
				c.BaseURL = strings.TrimSuffix(c.BaseURL, "/v1") + "/"
				c.Credential = credential.Credential{Query: "key", Secrets: []string{"secret"}}
			},
			upstream.Request{Method: "POST", Path: "/x?alt=sse"},
			"POST /x?alt=sse&key=secret HTTP/1.1\r\nUser-Agent: sluice\r\nHost: %s\r\nContent-Length: 0\r\nAccept-Encoding: identity",
		},
		{
			"no credential", func(c *upstream.Config) { c.Credential = credential.Credential{Header: "Authorization"} },
			upstream.Request{Method: "GET", Path: "/"},
			"GET /v1/ HTTP/1.1\r\nUser-Agent: sluice\r\nHost: %s\r\nAccept-Encoding: identity",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := okServer(t)
			c := newClient(t, s, tt.change)
			status, body, err := roundTrip(t, c, &tt.r)
			if err != nil || status != 200 || body != `{"ok":true}` {
				t.Fatalf("got status %d, body %q, error %v", status, body, err)
			}
			got := s.Requests()
			if len(got) != 1 {
				t.Fatalf("%d requests, want 1", len(got))
			}
			if d := cmp.Diff(fmt.Sprintf(tt.want, s.Addr()), got[0].Head); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if string(got[0].Body) != string(tt.r.Body) {
				t.Errorf("body %q", got[0].Body)
			}
		})
	}
}

// TestBodySizes covers bodies around the sizes at which the first write is split, over plain TCP and TLS, on one
// connection.
func TestBodySizes(t *testing.T) {
	t.Parallel()
	loop := upstreamtest.Script{upstreamtest.Loop(upstreamtest.Echo())}
	plain, secure := upstreamtest.New(t, loop), upstreamtest.NewTLS(t, upstreamtest.TLS{}, loop)
	for name, c := range map[string]*upstream.Client{
		"plain": newClient(t, plain, nil),
		"TLS":   newClient(t, secure, func(c *upstream.Config) { c.TLS = secure.ClientTLS() }),
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{0, 1, 4 << 10, 16<<10 - 400, 16 << 10, 16<<10 + 1, 100_000, 1 << 20} {
				body := strings.Repeat("abcdefghi\n", n/10+1)[:n]
				status, got, err := roundTrip(t, c, post(body))
				if err != nil || status != 200 || got != body {
					t.Errorf("%d bytes: got status %d, %d bytes, error %v", n, status, len(got), err)
				}
			}
			if st := c.Stats(); st.Dialled != 1 || st.Idle != 1 || st.InUse != 0 {
				t.Errorf("stats: %+v", st)
			}
		})
	}
}

func TestRejectsInvalidRequests(t *testing.T) {
	t.Parallel()
	s := okServer(t)
	header := newClient(t, s, nil)
	query := newClient(t, s, func(c *upstream.Config) {
		c.Credential = credential.Credential{Query: "key", Secrets: []string{"secret-canary"}}
	})
	with := func(f func(*upstream.Request)) *upstream.Request {
		r := post("{}")
		f(r)
		return r
	}
	path := func(p string) *upstream.Request { return with(func(r *upstream.Request) { r.Path = p }) }
	set := func(name, value string) *upstream.Request {
		return with(func(r *upstream.Request) { r.Headers = []upstream.Header{{Name: name, Value: value}} })
	}
	for _, tt := range []struct {
		name string
		c    *upstream.Client
		r    *upstream.Request
	}{
		{"CR in a value", header, set("x-a", "1\rx-b: 2")},
		{"LF in a value", header, set("x-a", "1\nx-b: 2")},
		{"NUL in a value", header, set("x-a", "1\x00")},
		{"DEL in a value", header, set("x-a", "1\x7F")},
		{"LF in a name", header, set("x-a\nx-b", "1")},
		{"space in a name", header, set("x-a ", "1")},
		{"colon in a name", header, set("x-a:", "1")},
		{"no name", header, set("", "1")},
		{"credential's header", header, set("AUTHORIZATION", "Bearer mine")},
		{"authorization with a query credential", query, set("authorization", "Bearer mine")},
		{"host", header, set("Host", "elsewhere")},
		{"length", header, set("content-length", "5")},
		{"coding", header, set("Transfer-Encoding", "chunked")},
		{"connection", header, set("Connection", "x-a")},
		{"upgrade", header, set("Upgrade", "h2c")},
		{"cookie", header, set("Cookie", "a=b")},
		{"accept-encoding", header, set("accept-encoding", "br")},
		{"content-type twice", header, set("content-type", "text/plain")},
		{"LF in the content type", header, with(func(r *upstream.Request) { r.ContentType = "a\n" })},
		{"CR in accept", header, with(func(r *upstream.Request) { r.Accept = "a\r" })},
		{"method", header, with(func(r *upstream.Request) { r.Method = "GET /" })},
		{"body with GET", header, with(func(r *upstream.Request) { r.Method = "GET" })},
		{"empty path", header, path("")},
		{"no slash", header, path("chat")},
		{"another host", header, path("@elsewhere/")},
		{"double slash", header, path("//elsewhere/x")},
		{"empty segment", header, path("/a//b")},
		{"dot segment", header, path("/a/../b")},
		{"dot segment at the end", header, path("/a/.")},
		{"escaped dot segment", header, path("/a/%2e%2E/b")},
		{"half escaped dot segment", header, path("/a/.%2e?x")},
		{"fragment", header, path("/a#b")},
		{"space", header, path("/a b")},
		{"LF in the path", header, path("/a\r\nx-b: 2")},
		{"NUL in the path", header, path("/a\x00")},
		{"backslash", header, path(`/a\b`)},
		{"not ASCII", header, path("/ä")},
		{"credential's parameter", query, path("/a?key=mine")},
		{"credential's parameter after others", query, path("/a?b=c&key")},
		{"credential's parameter escaped", query, path("/a?%6bey=mine")},
		{"credential's parameter after a semicolon", query, path("/a?b;key=mine")},
	} {
		t.Run("I18/"+tt.name, func(t *testing.T) {
			_, err := tt.c.Do(context.Background(), tt.r, nil)
			if k := errorKind(t, err); k != upstream.BadRequest {
				t.Fatalf("got error %v", err)
			}
			if strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "mine") {
				t.Errorf("the error quotes the request: %v", err)
			}
		})
	}
	if s.Connections() != 0 {
		t.Errorf("%d connections, want none", s.Connections())
	}
}

func TestResponseFramings(t *testing.T) {
	t.Parallel()
	const ok = "HTTP/1.1 200 OK\r\n"
	for _, tt := range []struct {
		name, method, response string
		status                 int
		body                   string
		reused                 bool
	}{
		{"length", "POST", ok + "Content-Length: 5\r\n\r\nhello", 200, "hello", true},
		{"length of zero", "POST", ok + "content-length: 0\r\n\r\n", 200, "", true},
		{"length with spaces", "POST", ok + "Content-Length: \t 5 \r\n\r\nhello", 200, "hello", true},
		{"chunks", "POST", ok + "Transfer-Encoding: Chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", 200, "hello", true},
		{"no chunks", "POST", ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200, "", true},
		{"chunks with extensions and trailers", "POST", ok + "Transfer-Encoding: chunked\r\n\r\n0005;a=\"b\"\r\nhello\r\n00 ;c\r\nX-T: 1\r\nX-U: 2\r\n\r\n", 200, "hello", true},
		{"until close", "POST", ok + "\r\nhello", 200, "hello", false},
		{"connection: close", "POST", ok + "Content-Length: 5\r\nConnection: close\r\n\r\nhello", 200, "hello", false},
		{"HTTP/1.0", "POST", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", false},
		{"HTTP/1.0 keep-alive", "POST", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello", 200, "hello", true},
		{"no reason phrase", "POST", "HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", true},
		// covers: F50
		{"204", "POST", "HTTP/1.1 204 No Content\r\n\r\n", 204, "", true},
		{"304", "POST", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, "", true},
		{"HEAD", "HEAD", ok + "Content-Length: 5\r\n\r\n", 200, "", true},
		// covers: F39
		{"bytes after the length", "POST", ok + "Content-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\n\r\n", 200, "hello", false},
		{"bytes after the last chunk", "POST", ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n\n", 200, "hello", false},
		{"body of a 204", "POST", "HTTP/1.1 204 No Content\r\n\r\nhello", 204, "", false},
		// covers: F48
		{"interim responses", "POST", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + ok + "Content-Length: 5\r\n\r\nhello", 200, "hello", true},
		{"error status", "POST", "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 5\r\n\r\nhello", 429, "hello", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for how, step := range map[string]upstreamtest.Step{
				"whole": upstreamtest.Write(tt.response), "byte by byte": upstreamtest.Bytes(tt.response), // covers: F42
			} {
				t.Run(how, func(t *testing.T) {
					// Only a body without a length ends with the connection.
					last := upstreamtest.AwaitClose()
					if tt.name == "until close" {
						last = upstreamtest.Close()
					}
					s := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), step, last})
					c := newClient(t, s, nil)
					r := post("")
					r.Method = tt.method
					status, body, err := roundTrip(t, c, r)
					if err != nil || status != tt.status || body != tt.body {
						t.Fatalf("got status %d, body %q, error %v", status, body, err)
					}
					// Bytes after a response may arrive after it was read. The connection is then kept, and found stale
					// later.
					if st := c.Stats(); st.InUse != 0 || st.Idle != 1 && tt.reused || st.Idle != 0 && !tt.reused && how == "whole" {
						t.Errorf("stats: %+v", st)
					}
				})
			}
		})
	}
}

func TestResponseHeaders(t *testing.T) {
	t.Parallel()
	s := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Write(
		"HTTP/1.1 429 x\r\nretry-AFTER: 7\r\nX-Request-Id: abc\r\nX-Many: 1\r\nX-Many: 2\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n"),
		upstreamtest.AwaitClose(),
	})
	c := newClient(t, s, nil)
	resp, err := c.Do(context.Background(), post(""), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"Retry-After": "7", "x-request-id": "abc", "X-MANY": "1", "content-type": "", "nothing": ""} {
		if got := string(resp.Header(name)); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	resp.Close()
	resp.Close()
	if got := resp.Header("x-request-id"); got != nil {
		t.Errorf("Header after Close: %q", got)
	}
	if _, err := resp.Next(); errorKind(t, err) != upstream.Closed {
		t.Errorf("Next after Close: %v", err)
	}
	if _, err := resp.ReadAll(nil, 10); errorKind(t, err) != upstream.Closed {
		t.Errorf("ReadAll after Close: %v", err)
	}
	resp.SetWatcher(nil)
}

// TestLongHeads reads a response whose header exceeds the connection's buffer, with and without a body, and then
// another response.
func TestLongHeads(t *testing.T) {
	t.Parallel()
	long := "X-Long: " + strings.Repeat("x", 20<<10)
	body := strings.Repeat("0123456789", 2000)
	s := upstreamtest.New(t, upstreamtest.Script{upstreamtest.Loop(
		upstreamtest.ReadRequest(), upstreamtest.Answer(200, "text/plain", body, long),
		upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk("data: a\n\n"), upstreamtest.LastChunk(),
	)})
	c := newClient(t, s, func(c *upstream.Config) { c.ReadBuffer = 512 })
	for range 3 {
		resp, err := c.Do(context.Background(), post(""), nil)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(resp.Header("X-Long")); n != 20<<10 {
			t.Errorf("header of %d bytes", n)
		}
		if got, err := drain(resp); err != nil || got != body {
			t.Errorf("got %d bytes, error %v", len(got), err)
		}
		resp.Close()
		if _, got, err := roundTrip(t, c, post("")); err != nil || got != "data: a\n\n" {
			t.Errorf("got %q, error %v", got, err)
		}
	}
	if st := c.Stats(); st.Dialled != 1 || st.Idle != 1 {
		t.Errorf("stats: %+v", st)
	}
}

func TestBufferedSeesEnd(t *testing.T) {
	t.Parallel()
	more := make(chan struct{})
	s := upstreamtest.New(t, upstreamtest.Script{
		upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk("data: a\n\n"), upstreamtest.Wait(more),
		upstreamtest.Write("9\r\ndata: b\n\n\r\n0\r\n\r\n"), upstreamtest.AwaitClose(),
	})
	c := newClient(t, s, nil)
	resp, err := c.Do(context.Background(), post(""), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Close()
	if p, err := resp.Next(); err != nil || string(p) != "data: a\n\n" || resp.Buffered() {
		t.Fatalf("got %q, error %v, buffered %v", p, err, resp.Buffered())
	}
	close(more)
	if p, err := resp.Next(); err != nil || string(p) != "data: b\n\n" || !resp.Buffered() {
		t.Fatalf("got %q, error %v, buffered %v", p, err, resp.Buffered())
	}
}

func TestReadAllLimit(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("0123456789", 1000)
	for name, steps := range map[string][]upstreamtest.Step{
		"length":      {upstreamtest.Answer(200, "text/plain", body)},
		"chunks":      {upstreamtest.EventStream(), upstreamtest.Chunk(body[:10], body[10:9000], body[9000:]), upstreamtest.LastChunk()},
		"until close": {upstreamtest.Head(200), upstreamtest.Write(body), upstreamtest.Close()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps := append([]upstreamtest.Step{upstreamtest.ReadRequest()}, steps...)
			s := upstreamtest.New(t, upstreamtest.Script{upstreamtest.Loop(steps...)})
			c := newClient(t, s, nil)
			for limit, want := range map[int]upstream.ErrorKind{
				0: upstream.TooLarge, 9: upstream.TooLarge, 5000: upstream.TooLarge, 10001: upstream.TooLarge, 10002: 0, 1 << 20: 0,
			} {
				resp, err := c.Do(context.Background(), post(""), nil)
				if err != nil {
					t.Fatal(err)
				}
				got, err := resp.ReadAll([]byte("ab")[:min(2, limit)], limit)
				if k := errorKind(t, err); k != want {
					t.Errorf("limit %d: got error %v", limit, err)
				}
				if want == 0 && string(got) != "ab"+body {
					t.Errorf("limit %d: %d bytes", limit, len(got))
				}
				if len(got) > limit {
					t.Errorf("limit %d: returned %d bytes with an error", limit, len(got))
				}
				if _, err := resp.Next(); want != 0 && errorKind(t, err) != upstream.TooLarge {
					t.Errorf("limit %d: second call: got %v, want the same error", limit, err)
				}
				resp.Close()
			}
		})
	}
}
