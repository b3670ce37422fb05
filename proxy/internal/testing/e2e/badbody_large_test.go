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

// gauged is a listener that counts what is read from all of its connections.
type gauged struct {
	net.Listener
	read atomic.Int64
}

func (l *gauged) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &gaugedConn{c, &l.read}, nil
}

type gaugedConn struct {
	net.Conn
	read *atomic.Int64
}

func (c *gaugedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// gauge serves g on a second listener, which counts.
func gauge(t *testing.T, g *proxytest.Gateway) (*proxytest.Gateway, *gauged) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &gauged{Listener: ln}
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

// TestBodiesAboveLimit checks that they are rejected as soon as that is known, and that no more of them is read. The
// limit is 1 MiB.
//
// covers: F121
func TestBodiesAboveLimit(t *testing.T) {
	const (
		limit = 1 << 20
		large = 100_000_000
		// buffered is what may be read along with the head.
		buffered = 64 << 10
	)
	piece := strings.Repeat("x", 64<<10)
	g, l := gauge(t, proxytest.Start(t, configuration("", "")))
	for name, c := range map[string]struct {
		head   string
		body   func(i int) string // the i-th piece that is written, "" for the end
		status int
		code   string
		most   int64
	}{
		"a length, and nothing of the body": {postHead + fmt.Sprintf("Content-Length: %d\r\n\r\n", large), func(int) string { return "" }, 413, "request_too_large", buffered},
		"a length, and all of the body": {postHead + fmt.Sprintf("Content-Length: %d\r\n\r\n", large), func(i int) string {
			return piece[:min(len(piece), max(0, large-i*len(piece)))]
		}, 413, "request_too_large", buffered},
		"a length just beyond": {postHead + fmt.Sprintf("Content-Length: %d\r\n\r\n", limit+1), func(i int) string { return "" }, 413, "request_too_large", buffered},
		"one chunk": {postHead + fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n", large), func(i int) string {
			return piece[:min(len(piece), max(0, large-i*len(piece)))]
		}, 413, "request_too_large", limit + buffered},
		"many chunks": {postHead + "Transfer-Encoding: chunked\r\n\r\n", func(i int) string {
			if i*len(piece) > large {
				return ""
			}
			return fmt.Sprintf("%x\r\n%s\r\n", len(piece), piece)
		}, 413, "request_too_large", limit + buffered},
		"chunks of a byte": {postHead + "Transfer-Encoding: chunked\r\n\r\n", func(i int) string {
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
				t.Fatalf("%v, %v", resp, err)
			}
			(&vector{code: c.code}).checkBody(t, body)
			if id := resp.Header.Get("X-Request-Id"); id != "mine" {
				t.Errorf("the request's id is %q", id)
			}
			if n, _ := io.Copy(io.Discard, client.r); n > 0 {
				t.Errorf("%d bytes behind the answer", n)
			}
			if n := l.read.Load() - before; n > c.most {
				t.Errorf("%d bytes were read, want %d at most", n, c.most)
			}
		})
	}
}

// TestExtremeMessages checks that requests within the limits pass and that the error for others names the limit.
func TestExtremeMessages(t *testing.T) {
	if testing.Short() {
		t.Skip("32 MiB of requests; TestLimitErrorsNameTheLimit of package openai has the same limits")
	}
	provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json",
		`{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)})
	g := proxytest.Start(t, strings.Replace(configuration(provider.URL(), ""), `"1MiB"`, `"32MiB"`, 1))
	many := func(n int) string {
		return saying(strings.TrimSuffix(strings.Repeat(`{"role":"user","content":"x"},`, n), ","))
	}
	sent := 0
	for _, c := range []struct {
		name, body         string
		status             int
		code, param, names string
	}{
		// covers: F124
		{"100,000 messages", many(100_000), 200, "", "", ""},
		{"100,001 messages", many(100_001), 400, "array_above_max_length", "messages", "100000"},
		{"a message of 5 MiB", saying(`{"role":"user","content":"` + strings.Repeat("x", 5<<20) + `"}`), 200, "", "", ""},
		{"an image of 20 MiB", saying(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.Repeat("A", 20<<20) + `"}}]}`), 200, "", "", ""},
		// covers: F126
		{"logit_bias of 100,000", with(`,"logit_bias":{` + biases(100_000) + `}`), 400, "object_above_max_properties", "logit_bias", "1024"},
		{"n of 1,000", with(`,"n":1000`), 400, "integer_above_max_value", "n", "128"},
		{"stop of 1,000", with(`,"stop":[` + strings.TrimSuffix(strings.Repeat(`"x",`, 1000), ",") + `]`), 400, "array_above_max_length", "stop", "16"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := g.Chat(t, c.body)
			if c.status != 200 {
				wantError(t, r, c.status, "invalid_request_error", c.code, c.param)
				if !strings.Contains(r.Body, c.names) {
					t.Errorf("the limit %s is not named: %s", c.names, r.Body)
				}
				return
			}
			if r.Status != 200 {
				t.Fatalf("%d %s", r.Status, r.Body)
			}
			if sent++; len(provider.Requests()) != sent {
				t.Errorf("%d requests at the provider", len(provider.Requests()))
			}
			if got := provider.Requests()[sent-1].Body; len(got) < len(c.body) {
				t.Errorf("%d of %d bytes reached the provider", len(got), len(c.body))
			}
		})
	}
}
