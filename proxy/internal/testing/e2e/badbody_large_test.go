package e2e_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// countingListener is a listener that counts the bytes read from all of its connections.
type countingListener struct {
	net.Listener
	read atomic.Int64
}

func (l *countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &countingConn{c, &l.read}, nil
}

type countingConn struct {
	net.Conn
	read *atomic.Int64
}

func (c *countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// serveCounted serves g on a second listener, which counts the bytes read.
func serveCounted(t *testing.T, g *proxytest.Gateway) (*proxytest.Gateway, *countingListener) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &countingListener{Listener: ln}
	served := make(chan error, 1)
	go func() { served <- g.Server.Serve(l) }()
	t.Cleanup(func() {
		if err := g.Stop(proxytest.EventTimeout); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return &proxytest.Gateway{Addr: ln.Addr().String(), Log: g.Log}, l
}

// TestBodiesAboveLimit checks that bodies above the limit of 1 MiB are rejected as soon as possible, and not read any
// further.
//
// covers: F121
func TestBodiesAboveLimit(t *testing.T) {
	const (
		limit = 1 << 20
		large = 100_000_000
		// buffered is the maximum number of bytes that may be read along with the head.
		buffered = 64 << 10
	)
	piece := strings.Repeat("x", 64<<10)
	g, l := serveCounted(t, proxytest.Start(t, configuration("", "")))
	for name, c := range map[string]struct {
		head   string
		body   func(i int) string // the i-th piece to write, "" at the end
		status int
		code   string
		most   int64 // maximum number of bytes that may be read
	}{
		"a length without a body": {postHead + fmt.Sprintf("Content-Length: %d\r\n\r\n", large), func(int) string { return "" }, 413, "request_too_large", buffered},
		"a length with the whole body": {postHead + fmt.Sprintf("Content-Length: %d\r\n\r\n", large), func(i int) string {
			return piece[:min(len(piece), max(0, large-i*len(piece)))]
		}, 413, "request_too_large", buffered},
		"a length just above the limit": {postHead + fmt.Sprintf("Content-Length: %d\r\n\r\n", limit+1), func(i int) string { return "" }, 413, "request_too_large", buffered},
		"one chunk": {postHead + fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n", large), func(i int) string {
			return piece[:min(len(piece), max(0, large-i*len(piece)))]
		}, 413, "request_too_large", limit + buffered},
		"many chunks": {postHead + "Transfer-Encoding: chunked\r\n\r\n", func(i int) string {
			if i*len(piece) > large {
				return ""
			}
			return fmt.Sprintf("%x\r\n%s\r\n", len(piece), piece)
		}, 413, "request_too_large", limit + buffered},
		"chunks of one byte": {postHead + "Transfer-Encoding: chunked\r\n\r\n", func(i int) string {
			if i > 40 {
				return ""
			}
			return strings.Repeat("1\r\nx\r\n", 64<<10)
		}, 413, "request_too_large", 6*limit + buffered},
		"a wrong key": {strings.Replace(postHead, proxytest.Key, "sk-nobody", 1) + fmt.Sprintf("Content-Length: %d\r\n\r\n", limit), func(i int) string {
			return piece[:min(len(piece), max(0, limit-i*len(piece)))]
		}, 401, "invalid_api_key", buffered},
		"a wrong key and chunks": {strings.Replace(postHead, proxytest.Key, "sk-nobody", 1) + "Transfer-Encoding: chunked\r\n\r\n", func(i int) string {
			if i > 15 {
				return ""
			}
			return fmt.Sprintf("%x\r\n%s\r\n", len(piece), piece)
		}, 401, "invalid_api_key", buffered},
		"a wrong path": {strings.Replace(postHead, "/chat", "/nowhere", 1) + fmt.Sprintf("Content-Length: %d\r\n\r\n", limit), func(i int) string { return "" }, 404, "unknown_url", buffered},
	} {
		t.Run(name, func(t *testing.T) {
			before := l.read.Load()
			client := dial(t, g)
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				_, err := io.WriteString(client, strings.Replace(c.head, "\r\n", "\r\nX-Request-Id: mine\r\n", 1))
				for i := 0; err == nil; i++ {
					p := c.body(i)
					if p == "" {
						return
					}
					_, err = io.WriteString(client, p)
				}
			}()
			defer func() { client.Close(); <-sent }()
			resp, err := http.ReadResponse(client.r, nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil || !resp.Close || resp.StatusCode != c.status {
				t.Fatalf("got %v (%v), want status %d and Connection: close", resp, err, c.status)
			}
			(&vector{code: c.code}).checkBody(t, body)
			if id := resp.Header.Get("X-Request-Id"); id != "mine" {
				t.Errorf("x-request-id is %q, want mine", id)
			}
			if n, _ := io.Copy(io.Discard, client.r); n > 0 {
				t.Errorf("%d bytes follow the response", n)
			}
			if n := l.read.Load() - before; n > c.most {
				t.Errorf("the gateway read %d bytes, want at most %d", n, c.most)
			}
		})
	}
}

// TestExtremeMessages checks that requests within the limits pass, and that the errors for others name the limit.
func TestExtremeMessages(t *testing.T) {
	if testing.Short() {
		t.Skip("32 MiB of requests; TestLimitErrorsNameTheLimit of package openai has the same limits")
	}
	provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json",
		`{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)})
	g := proxytest.Start(t, strings.Replace(configuration(provider.URL(), ""), `"1MiB"`, `"32MiB"`, 1))
	many := func(n int) string {
		return requestWithMessages(strings.TrimSuffix(strings.Repeat(`{"role":"user","content":"x"},`, n), ","))
	}
	sent := 0
	for _, c := range []struct {
		name, body         string
		status             int
		code, param, limit string
	}{
		// covers: F124
		{"100,000 messages", many(100_000), 200, "", "", ""},
		{"100,001 messages", many(100_001), 400, "array_above_max_length", "messages", "100000"},
		{"a message of 5 MiB", requestWithMessages(`{"role":"user","content":"` + strings.Repeat("x", 5<<20) + `"}`), 200, "", "", ""},
		{"an image of 20 MiB", requestWithMessages(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.Repeat("A", 20<<20) + `"}}]}`), 200, "", "", ""},
		// covers: F126
		{"logit_bias of 100,000", requestWith(`,"logit_bias":{` + biases(100_000) + `}`), 400, "object_above_max_properties", "logit_bias", "1024"},
		{"n of 1,000", requestWith(`,"n":1000`), 400, "integer_above_max_value", "n", "128"},
		{"stop of 1,000", requestWith(`,"stop":[` + strings.TrimSuffix(strings.Repeat(`"x",`, 1000), ",") + `]`), 400, "array_above_max_length", "stop", "16"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := g.Chat(t, c.body)
			if c.status != 200 {
				wantError(t, r, c.status, "invalid_request_error", c.code, c.param)
				if !strings.Contains(r.Body, c.limit) {
					t.Errorf("the error does not name the limit %s: %s", c.limit, r.Body)
				}
				return
			}
			if r.Status != 200 {
				t.Fatalf("%d %s", r.Status, r.Body)
			}
			if sent++; len(provider.Requests()) != sent {
				t.Errorf("the provider received %d requests, want %d", len(provider.Requests()), sent)
			}
			if got := provider.Requests()[sent-1].Body; len(got) < len(c.body) {
				t.Errorf("%d of %d bytes reached the provider", len(got), len(c.body))
			}
		})
	}
}
