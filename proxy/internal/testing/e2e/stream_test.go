package e2e_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

const (
	ask       = `{"model":"gpt","messages":[{"role":"user","content":"x"}]}`
	askStream = `{"model":"gpt","messages":[{"role":"user","content":"x"}],"stream":true}`
)

// text returns a chunk of a compatible provider's stream. finish is the last one, with the finish reason.
func text(s string) string {
	return fmt.Sprintf("data: {\"id\":\"up-1\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", s)
}

const finish = "data: {\"id\":\"up-1\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"

// content joins the text of a stream's chunks.
func content(body string) string {
	var b strings.Builder
	for _, piece := range strings.Split(body, `"content":"`)[1:] {
		b.WriteString(piece[:strings.IndexByte(piece, '"')])
	}
	return b.String()
}

// rawClient is a client whose bytes a test sends and reads itself.
type rawClient struct {
	t            *testing.T
	*net.TCPConn // the socket, below TLS if there is TLS
	w            io.Writer
	r            *bufio.Reader
}

func dial(t *testing.T, g *proxytest.Gateway) *rawClient {
	t.Helper()
	c, err := net.Dial("tcp", g.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetReadDeadline(time.Now().Add(proxytest.EventTimeout)); err != nil {
		t.Fatal(err)
	}
	var rw io.ReadWriter = c
	if g.TLS != nil {
		rw = tls.Client(c, g.TLS)
	}
	return &rawClient{t, c.(*net.TCPConn), rw, bufio.NewReader(rw)}
}

func (c *rawClient) send(s string) {
	c.t.Helper()
	if _, err := io.WriteString(c.w, s); err != nil {
		c.t.Fatal(err)
	}
}

// post sends a chat completion with a request ID.
func (c *rawClient) post(id, body string, headers ...string) {
	c.postTo("/v1/chat/completions", id, body, headers...)
}

// postTo sends a request with a request ID to a path.
func (c *rawClient) postTo(path, id, body string, headers ...string) {
	c.send("POST " + path + " HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer " + proxytest.Key +
		"\r\nContent-Type: application/json\r\nX-Request-Id: " + id + "\r\n" + strings.Join(append(headers, ""), "\r\n") +
		fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body))
}

// readUntil reads up to and including mark, and returns what it has read.
func (c *rawClient) readUntil(mark string) string {
	c.t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(proxytest.EventTimeout)); err != nil {
		c.t.Fatal(err)
	}
	var b strings.Builder
	for !strings.HasSuffix(b.String(), mark) {
		ch, err := c.r.ReadByte()
		if err != nil {
			c.t.Fatalf("%v after %q, waiting for %q", err, b.String(), mark)
		}
		b.WriteByte(ch)
	}
	return b.String()
}

// reset closes the connection with an RST.
func (c *rawClient) reset() {
	c.t.Helper()
	if err := c.SetLinger(0); err != nil {
		c.t.Fatal(err)
	}
	c.Close()
}

// awaitEnd waits until the gateway closes its connection to a provider.
func awaitEnd(t *testing.T, s *upstreamtest.Server) {
	t.Helper()
	timer := time.NewTimer(proxytest.EventTimeout)
	defer timer.Stop()
	select {
	case <-s.Ended():
	case <-timer.C:
		t.Fatal("the connection to the provider stays open")
	}
}

// covers: S12
func TestHeartbeatWhileProviderIsSilent(t *testing.T) {
	proceed := make(chan struct{})
	provider := upstreamtest.New(t, upstreamtest.Script{
		upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Wait(proceed),
		upstreamtest.Chunk(text("late"), finish, "data: [DONE]\n\n"), upstreamtest.LastChunk(),
	})
	g := proxytest.Start(t, configuration(provider.URL(), ""))
	client := dial(t, g)
	client.post("silent", askStream)
	head := client.readUntil("\r\n\r\n")
	if !strings.HasPrefix(head, "HTTP/1.1 200") {
		t.Fatalf("head %q", head)
	}
	const beat = "d\r\n: keep-alive\n\r\n"
	for range 3 {
		if got := client.readUntil(": keep-alive\n\r\n"); got != beat {
			t.Fatalf("got %q, want %q", got, beat)
		}
	}
	close(proceed)
	rest := client.readUntil("0\r\n\r\n")
	if content(rest) != "late" || !strings.Contains(rest, "data: [DONE]\n\n") {
		t.Errorf("the stream ended with %q", rest)
	}
}

// TestTruncatedStreamsAreNeverComplete covers every way in which a provider's stream can end too early.
//
// covers: S10
func TestTruncatedStreamsAreNeverComplete(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a provider's timeout")
	}
	t.Parallel()
	cases := []struct {
		name   string
		steps  []upstreamtest.Step
		code   string
		before string // text that the client gets before the error
	}{
		{"FIN between chunks", []upstreamtest.Step{upstreamtest.EventStream(), upstreamtest.Chunk(text("Hal"))}, "upstream_stream_truncated", "Hal"},                                                                                      // covers: F36
		{"FIN after the finish", []upstreamtest.Step{upstreamtest.EventStream(), upstreamtest.Chunk(text("Hal"), finish)}, "upstream_stream_truncated", "Hal"},                                                                            // covers: F36
		{"RST", []upstreamtest.Step{upstreamtest.EventStream(), upstreamtest.Chunk(text("Hal")), upstreamtest.Reset()}, "upstream_stream_truncated", "Hal"},                                                                               // covers: F37
		{"clean end without a finish", []upstreamtest.Step{upstreamtest.EventStream(), upstreamtest.Chunk(text("Hal")), upstreamtest.LastChunk()}, "upstream_stream_truncated", "Hal"},                                                    // covers: F38
		{"garbage", []upstreamtest.Step{upstreamtest.EventStream(), upstreamtest.Chunk(text("Hal"), "data: <html>\n\n")}, "upstream_bad_answer", "Hal"},                                                                                   // covers: F45
		{"giant event", []upstreamtest.Step{upstreamtest.EventStream(), upstreamtest.Chunk(text("Hal"), "data: "+strings.Repeat("x", 2<<20))}, "upstream_bad_answer", "Hal"},                                                              // covers: F46
		{"error in the stream", []upstreamtest.Step{upstreamtest.EventStream(), upstreamtest.Chunk(text("Hal"), "data: {\"error\":{\"message\":\"busy\",\"type\":\"server_error\",\"code\":null}}\n\n")}, "upstream_stream_error", "Hal"}, // covers: F59
		{"silence", []upstreamtest.Step{upstreamtest.EventStream(), upstreamtest.Chunk(text("Hal")), upstreamtest.AwaitClose()}, "upstream_timeout", "Hal"},                                                                               // covers: F35
	}
	var scripts []upstreamtest.Script
	for _, c := range cases {
		scripts = append(scripts, append(upstreamtest.Script{upstreamtest.ReadRequest()}, c.steps...))
	}
	provider := upstreamtest.New(t, scripts...)
	g := proxytest.Start(t, configuration(provider.URL(), ""))
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			id := fmt.Sprint("broken-", i)
			r := g.Do(t, "POST", "/v1/chat/completions", askStream, "X-Request-Id: "+id)
			if r.Err != nil {
				t.Errorf("reading the body: %v", r.Err)
			}
			frames := strings.Split(strings.TrimSuffix(strings.ReplaceAll(r.Body, ": keep-alive\n", ""), "\n\n"), "\n\n")
			last := frames[len(frames)-1]
			if r.Status != 200 || content(strings.Join(frames[:len(frames)-1], "\n")) != c.before ||
				!strings.HasPrefix(last, `data: {"error":{`) || !strings.Contains(last, `"code":"`+c.code+`"`) {
				t.Errorf("status %d, the stream ends with %s, want %s", r.Status, last, c.code)
			}
			if strings.Contains(r.Body, "[DONE]") || strings.Contains(r.Body, `"finish_reason":"`) {
				t.Errorf("the stream looks complete: %s", r.Body)
			}
			if line := g.Log.Request(t, id); line["complete"] != "false" || line["code"] != c.code {
				t.Errorf("logged %v, want code %s and complete=false", line, c.code)
			}
		})
	}
}

// TestToolCallCutBeforeEnd has providers terminate a stream, each in its own format, within the arguments of a tool
// call and without a finish reason.
func TestToolCallCutBeforeEnd(t *testing.T) {
	openai := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "text/event-stream",
		`data: {"id":"x","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"t","type":"function","function":{"name":"f","arguments":"{\"city\":\"Par"}}]},"finish_reason":null}]}`+"\n\ndata: [DONE]\n\n")})
	anthropic := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "text/event-stream",
		`data: {"type":"message_start","message":{"id":"x","model":"m","role":"assistant","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}`+"\n\n"+
			`data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}`+"\n\n"+
			`data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"city\":\"Par"}}`+"\n\n"+
			`data: {"type":"message_stop"}`+"\n\n")})
	g := proxytest.Start(t, configuration(openai.URL(), anthropic.URL()))
	for _, model := range []string{"gpt", "claude"} {
		r := g.Chat(t, strings.Replace(askStream, `"gpt"`, `"`+model+`"`, 1))
		if !strings.Contains(r.Body, `{\"city\":\"Par`) || !strings.Contains(r.Body, `"code":"upstream_stream_truncated"`) ||
			strings.Contains(r.Body, "[DONE]") || strings.Contains(r.Body, `"finish_reason":"`) {
			t.Errorf("%s: want a truncated stream, got %s", model, r.Body)
		}
	}
}

// covers: S11
func TestFinishWithoutDoneIsComplete(t *testing.T) {
	provider := upstreamtest.New(t, upstreamtest.Script{
		upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(text("Hello"), finish), upstreamtest.LastChunk(),
	})
	g := proxytest.Start(t, configuration(provider.URL(), ""))
	r := g.Chat(t, askStream)
	if !strings.HasSuffix(r.Body, "data: [DONE]\n\n") || content(r.Body) != "Hello" || !strings.Contains(r.Body, `"finish_reason":"stop"`) {
		t.Errorf("got %s", r.Body)
	}
	if strings.Contains(r.Body, `"usage"`) {
		t.Errorf("the stream has usage without include_usage: %s", r.Body)
	}
}

// TestErrorsBeforeFirstByteHaveStatus covers provider failures before the gateway has sent anything to the client.
//
// covers: S14
func TestErrorsBeforeFirstByteHaveStatus(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a gateway for each failure")
	}
	t.Parallel()
	cases := []struct {
		name   string
		steps  []upstreamtest.Step
		status int
		code   string
	}{
		{"silence", []upstreamtest.Step{upstreamtest.AwaitClose()}, 504, "upstream_timeout"},                                                                                                                                     // covers: F34
		{"truncated", []upstreamtest.Step{upstreamtest.Head(200, "Content-Type: application/json", "Content-Length: 100"), upstreamtest.Write(`{"id":"x"`)}, 502, "upstream_stream_truncated"},                                   // covers: F40
		{"HTML", []upstreamtest.Step{upstreamtest.Answer(200, "text/html", "<html>")}, 502, "upstream_bad_answer"},                                                                                                               // covers: F45
		{"empty", []upstreamtest.Step{upstreamtest.Answer(200, "application/json", "")}, 502, "upstream_empty"},                                                                                                                  // covers: F50
		{"redirect", []upstreamtest.Step{upstreamtest.Answer(302, "text/plain", "", "Location: http://127.0.0.1:1/")}, 502, ""},                                                                                                  // covers: F51
		{"bad JSON", []upstreamtest.Step{upstreamtest.Answer(200, "application/json", `{"choices":`)}, 502, "upstream_bad_answer"},                                                                                               // covers: F55
		{"error first in the stream", []upstreamtest.Step{upstreamtest.EventStream(), upstreamtest.Chunk("data: {\"error\":{\"message\":\"busy\",\"type\":\"server_error\",\"code\":null}}\n\n")}, 502, "upstream_stream_error"}, // covers: F59
		// covers: O13
		{"error with status 200", []upstreamtest.Step{upstreamtest.Answer(200, "application/json", `{"error":{"message":"slow","type":"requests","code":"rate_limit_exceeded"}}`)}, 429, "rate_limit_exceeded"},
		{"two lengths", []upstreamtest.Step{upstreamtest.Head(200, "Content-Type: application/json", "Content-Length: 2", "Content-Length: 3"), upstreamtest.Write("{}")}, 502, "upstream_bad_answer"}, // covers: F60
	}
	var scripts []upstreamtest.Script
	for _, c := range cases {
		script := append(upstreamtest.Script{upstreamtest.ReadRequest()}, c.steps...)
		scripts = append(scripts, script, script)
	}
	provider := upstreamtest.New(t, scripts...)
	g := proxytest.Start(t, configuration(provider.URL(), ""))
	for _, c := range cases {
		for _, body := range []string{ask, askStream} {
			t.Run(fmt.Sprintf("%s/streamed %v", c.name, body == askStream), func(t *testing.T) {
				r := g.Chat(t, body)
				if r.Status != c.status || !strings.Contains(r.Body, `"code":"`+c.code) || r.Header.Get("Content-Type") != "application/json" {
					t.Errorf("got %d %s, want %d %s", r.Status, r.Body, c.status, c.code)
				}
				if strings.Contains(r.Body, "127.0.0.1") {
					t.Errorf("the response contains the provider's address: %s", r.Body)
				}
			})
		}
	}
}

func TestFallbackBeforeFirstByte(t *testing.T) {
	const both = `{"model":"both","messages":[{"role":"user","content":"x"}]}`
	fails := func(status int) upstreamtest.Script {
		return upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(status, "application/json", `{"error":{"message":"no","type":"x","code":null}}`)}
	}
	for _, c := range []struct {
		name               string
		openai, anthropic  upstreamtest.Script
		status             int
		provider, attempts string
	}{
		{"the first fails, the second responds", fails(503), upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json",
			`{"id":"m","model":"claude","content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`)}, 200, "anthropic", "2"},
		{"both fail, the fallback responds", fails(500), fails(529), 200, "demo", "3"},
		{"no fallback after a client error", fails(400), fails(500), 400, "openai", "1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := upstreamtest.New(t, c.openai), upstreamtest.New(t, c.anthropic)
			g := proxytest.Start(t, configuration(a.URL(), b.URL()))
			r := g.Chat(t, both)
			if r.Status != c.status || r.Header.Get("X-Gateway-Provider") != c.provider || r.Header.Get("X-Gateway-Attempts") != c.attempts {
				t.Errorf("got %d from %s after %s attempts, want %d from %s after %s: %s", r.Status, r.Header.Get("X-Gateway-Provider"), r.Header.Get("X-Gateway-Attempts"), c.status, c.provider, c.attempts, r.Body)
			}
		})
	}
	t.Run("not after the first byte", func(t *testing.T) {
		a := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(text("Hal"))})
		b := upstreamtest.New(t, fails(500))
		g := proxytest.Start(t, configuration(a.URL(), b.URL()))
		r := g.Chat(t, strings.Replace(both, `}]}`, `}],"stream":true}`, 1))
		if !strings.Contains(r.Body, "upstream_stream_truncated") || len(b.Requests()) != 0 {
			t.Errorf("%d requests to the second provider, want none and a truncated stream: %s", len(b.Requests()), r.Body)
		}
	})
}

func TestRejectsStreamOverHTTP10(t *testing.T) {
	g := proxytest.Start(t, configuration("", ""))
	for body, want := range map[string]string{hello: "HTTP/1.1 200", strings.Replace(hello, "}]}", `}],"stream":true}`, 1): `"code":"http_version"`} {
		c := dial(t, g)
		c.send(fmt.Sprintf("POST /v1/chat/completions HTTP/1.0\r\nHost: gateway\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", proxytest.Key, len(body), body))
		answer, err := io.ReadAll(c.r)
		if err != nil || !strings.Contains(string(answer), want) {
			t.Errorf("got %v: %s, want %s", err, answer, want)
		}
	}
}

func TestOnlyPluginOutputReachesProvider(t *testing.T) {
	provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json",
		`{"id":"x","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}`,
		"Set-Cookie: a=b", "OpenAI-Organization: org", "X-Request-Id: up-7", "X-Ratelimit-Remaining-Requests: 3")})
	g := proxytest.Start(t, configuration(provider.URL(), ""))
	r := g.Do(t, "POST", "/v1/chat/completions?x=y", ask, "Cookie: c=d", "X-Forwarded-For: 10.1.1.1", "OpenAI-Organization: mine",
		"X-Stainless-Lang: go", "User-Agent: curl", "Forwarded: for=1", "Anthropic-Beta: x")
	if r.Status != 200 {
		t.Fatalf("status %d: %s", r.Status, r.Body)
	}
	sent := provider.Requests()[0]
	for _, secret := range []string{proxytest.Key, "10.1.1.1", "mine", "c=d", "Stainless", "curl", "x=y", "Forwarded", "Anthropic"} {
		if strings.Contains(sent.Head, secret) {
			t.Errorf("the gateway sent %q to the provider:\n%s", secret, sent.Head)
		}
	}
	if sent.Path != "/chat/completions" || sent.Header.Get("Authorization") != "Bearer sk-upstream-openai-canary" || !strings.Contains(string(sent.Body), `"model":"gpt-upstream"`) {
		t.Errorf("sent %s %s", sent.Head, sent.Body)
	}
	for _, name := range []string{"Set-Cookie", "Openai-Organization", "X-Ratelimit-Remaining-Requests", "Server"} {
		if v := r.Header.Get(name); v != "" {
			t.Errorf("the client got %s: %s", name, v)
		}
	}
	if r.Header.Get("X-Upstream-Request-Id") != "up-7" || r.Header.Get("X-Gateway-Model") != "gpt" {
		t.Errorf("headers %v", r.Header)
	}
}

// covers: F111
func TestRejectsExpectationBeforeBody(t *testing.T) {
	g := proxytest.Start(t, configuration("", ""))
	request := func(key string, length int) string {
		return fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", key, length)
	}
	for _, c := range []struct {
		name, request string
		want          []string
	}{
		{"no key", request("sk-nobody", len(hello)), []string{"HTTP/1.1 401", `"code":"invalid_api_key"`, "Connection: close"}},
		{"too large", request(proxytest.Key, 2<<20), []string{"HTTP/1.1 413", `"code":"request_too_large"`, "Connection: close"}},
	} {
		client := dial(t, g)
		client.send(c.request)
		answer, err := io.ReadAll(client.r)
		for _, want := range c.want {
			if err != nil || !strings.Contains(string(answer), want) {
				t.Errorf("%s: %v, the response lacks %q:\n%s", c.name, err, want, answer)
			}
		}
		if strings.Contains(string(answer), "100 Continue") {
			t.Errorf("%s: the gateway requested the body:\n%s", c.name, answer)
		}
	}
	client := dial(t, g)
	client.send(request(proxytest.Key, len(hello)))
	client.readUntil("HTTP/1.1 100 Continue\r\n\r\n")
	client.send(hello)
	if answer := client.readUntil("\r\n\r\n"); !strings.HasPrefix(answer, "HTTP/1.1 200") {
		t.Errorf("got %s", answer)
	}
}
