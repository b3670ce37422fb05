package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestSocketHolds continues responses that are not stored, and that only their own socket knows.
func TestSocketHolds(t *testing.T) {
	for _, tt := range []struct {
		name, options string
		wire          *wire
		answer        string
		sent          string // input of the second request to the provider
	}{
		{"native", "options = { api = \"responses\" }\n", openaiWire, "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_up\",\"status\":\"in_progress\",\"output\":[]}}\n\n" +
			"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_up\",\"object\":\"response\",\"status\":\"completed\",\"output\":[{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[]},{\"type\":\"message\",\"id\":\"msg_1\",\"status\":\"completed\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"an answer\",\"annotations\":[]}]}],\"usage\":{\"input_tokens\":3,\"output_tokens\":5,\"total_tokens\":8}}}\n\n",
			`"input":[{"type":"message","role":"user","content":"a question"},{"type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"an answer","annotations":[]}]},{"role":"user","content":"another"}]`},
		{"translated", "", anthropicWire, anthropicWire.stream("an answer"),
			`"messages":[{"role":"user","content":[{"type":"text","text":"a question"}]},{"role":"assistant","content":[{"type":"text","text":"an answer"}]},{"role":"user","content":[{"type":"text","text":"another"}]}]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			provider := answeringProvider(t, upstreamtest.Answer(200, "text/event-stream", tt.answer, "Connection: close"))
			g := proxytest.Start(t, configuration("", "")+tt.wire.providerConfig("one", provider.URL(), tt.options)+modelWithTargets("m", "one/m")+
				"[[keys]]\nname = \"other\"\nsecret = \"sk-other-0123456789\"\nmodels = [\"*\"]\n")
			c := openSocket(t, g, proxytest.Key)
			c.send(`{"type":"response.create","model":"m","store":false,"input":"a question"}`)
			_, first := c.turn()
			if first.Type != "response.completed" {
				t.Fatalf("%+v", first)
			}
			again := `{"type":"response.create","model":"m","store":false,"previous_response_id":"` + first.Response.ID + `","input":[{"role":"user","content":"another"}]}`
			for who, other := range map[string]*socketClient{"another key": openSocket(t, g, "sk-other-0123456789"), "another socket": openSocket(t, g, proxytest.Key)} {
				other.send(again)
				if events, last := other.turn(); last.Status != 400 || last.Error.Code != "previous_response_not_found" || last.Error.Param != "previous_response_id" || len(events) != 1 {
					t.Errorf("%s gets %s", who, events)
				}
			}
			c.send(again)
			if events, last := c.turn(); last.Type != "response.completed" {
				t.Fatalf("%s", events)
			}
			requests := provider.Requests()
			if sent := string(requests[len(requests)-1].Body); len(requests) != 2 || !strings.Contains(sent, tt.sent) || strings.Contains(sent, "previous_response_id") {
				t.Errorf("%d requests; the provider gets %s\nwant %s", len(requests), sent, tt.sent)
			}
		})
	}
}

// TestSocketContinuesStored continues a stored response over another socket of the same key.
func TestSocketContinuesStored(t *testing.T) {
	provider := answeringProvider(t, upstreamtest.Answer(200, "text/event-stream", anthropicWire.stream("an answer"), "Connection: close"))
	g := proxytest.Start(t, anthropicWire.gatewayConfig(provider.URL())+"[[keys]]\nname = \"other\"\nsecret = \"sk-other-0123456789\"\nmodels = [\"*\"]\n")
	c := openSocket(t, g, proxytest.Key)
	c.send(`{"type":"response.create","model":"m","input":"a question"}`)
	_, first := c.turn()
	again := `{"type":"response.create","model":"m","previous_response_id":"` + first.Response.ID + `","input":"another"}`
	other := openSocket(t, g, "sk-other-0123456789")
	other.send(again)
	if events, last := other.turn(); last.Error.Code != "previous_response_not_found" {
		t.Errorf("another key gets %s", events)
	}
	same := openSocket(t, g, proxytest.Key)
	same.send(again)
	if events, last := same.turn(); last.Type != "response.completed" {
		t.Errorf("%s", events)
	}
	if sent := string(provider.Requests()[1].Body); !strings.Contains(sent, "a question") || !strings.Contains(sent, "an answer") {
		t.Errorf("the provider gets %s", sent)
	}
}

// TestSocketWarmUp opens a session without calling the model, and continues it.
func TestSocketWarmUp(t *testing.T) {
	provider := answeringProvider(t, upstreamtest.Answer(200, "text/event-stream", anthropicWire.stream("an answer"), "Connection: close"))
	g := proxytest.Start(t, anthropicWire.gatewayConfig(provider.URL()))
	for _, store := range []string{`,"store":false`, ""} {
		before := len(provider.Requests())
		c := openSocket(t, g, proxytest.Key)
		c.send(`{"type":"response.create","model":"m","generate":false,"instructions":"be brief","input":[{"role":"user","content":"a question"}]` + store + `}`)
		events, warm := c.turn()
		if warm.Type != "response.completed" || warm.Response.Status != "completed" || len(warm.Response.Output) != 0 || len(events) != 3 || !strings.Contains(events[2], `"total_tokens":0`) {
			t.Fatalf("%s", events)
		}
		if n := len(provider.Requests()); n != before {
			t.Errorf("%d requests to the provider, want none", n-before)
		}
		c.send(`{"type":"response.create","model":"m","previous_response_id":"` + warm.Response.ID + `","input":[]` + store + `}`)
		if events, last := c.turn(); last.Type != "response.completed" {
			t.Fatalf("%s", events)
		}
		if sent := string(provider.Requests()[before].Body); !strings.Contains(sent, "a question") || !strings.Contains(sent, "be brief") {
			t.Errorf("the provider gets %s", sent)
		}
	}
	line := g.Log.Await(t, "path", "/v1/responses", "method", "POST")
	if line["status"] != "200" || line["attempts"] != "" && line["attempts"] != "0" {
		t.Errorf("a warm-up is logged as %v", line)
	}
}

// TestSocketMessages checks how messages are rejected. The socket stays open.
func TestSocketMessages(t *testing.T) {
	provider := answeringProvider(t, upstreamtest.Answer(200, "text/event-stream", anthropicWire.stream("an answer"), "Connection: close"))
	g := proxytest.Start(t, anthropicWire.gatewayConfig(provider.URL()))
	all, narrow := openSocket(t, g, proxytest.Key), openSocket(t, g, "sk-narrow-0123456789")
	for _, tt := range []struct {
		name, message string
		status        int
		code, param   string
		lane          string
	}{
		{"not JSON", `{`, 400, "", "", ""},
		{"not an object", `[]`, 400, "invalid_value", "type", ""},
		{"no type", `{"model":"m","input":"x"}`, 400, "invalid_value", "type", ""},
		{"unknown type", `{"type":"response.cancel","stream_id":"a"}`, 400, "invalid_value", "type", "a"},
		{"stream_id is a number", `{"type":"response.create","stream_id":1,"model":"m","input":"x"}`, 400, "invalid_stream_id", "stream_id", ""},
		{"stream_id is empty", `{"type":"response.create","stream_id":"","model":"m","input":"x"}`, 400, "invalid_stream_id", "stream_id", ""},
		{"stream_id has other characters", `{"type":"response.create","stream_id":"a b","model":"m","input":"x"}`, 400, "invalid_stream_id", "stream_id", ""},
		{"stream_id is too long", `{"type":"response.create","stream_id":"` + strings.Repeat("a", 257) + `","model":"m","input":"x"}`, 400, "invalid_stream_id", "stream_id", ""},
		{"generate is a string", `{"type":"response.create","generate":"no","model":"m","input":"x"}`, 400, "invalid_type", "generate", ""},
		{"no model", `{"type":"response.create","input":"x","stream_id":"a"}`, 400, "missing_required_parameter", "model", "a"},
		{"unknown model", `{"type":"response.create","input":"x","model":"nothing"}`, 404, "model_not_found", "", ""},
		{"two models", `{"type":"response.create","input":"x","model":"demo","model":"m"}`, 400, "", "", ""},
		{"model in another case", `{"type":"response.create","input":"x","model":"demo","Model":"m"}`, 400, "unknown_parameter", "Model", ""},
		{"escaped second model", `{"type":"response.create","input":"x","model":"demo","mod\u0065l":"m"}`, 400, "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, c := range []*socketClient{all, narrow} {
				c.t = t
				c.send(tt.message)
				events, e := c.turn()
				if len(events) != 1 || e.Type != "error" || e.Status != tt.status || e.Error.Type != "invalid_request_error" || e.Error.Code != tt.code || e.Error.Param != tt.param || e.StreamID != tt.lane || e.Error.Message == "" {
					t.Errorf("%s", events)
				}
			}
		})
	}
	for _, message := range []string{
		`{"type":"response.create","input":"x","model":"m"}`, `{"type":"response.create","input":"x","model":"m","generate":false}`,
		`{"model":"m","type":"response.create","input":"x","stream":false,"stream_id":"b"}`,
	} {
		narrow.send(message)
		if events, e := narrow.turn(); e.Status != 404 || e.Error.Code != "model_not_found" || len(events) != 1 {
			t.Errorf("a key that may not use the model gets %s", events)
		}
	}
	if n := len(provider.Requests()); n != 0 {
		t.Errorf("%d requests to the provider", n)
	}
	all.send(`{"type":"response.create","input":"x","model":"m","stream":true,"background":false}`)
	if events, last := all.turn(); last.Type != "response.completed" {
		t.Errorf("%s", events)
	}
}

// TestSocketLanes checks that the turns of one lane follow one another, and that those of different lanes run at the
// same time.
func TestSocketLanes(t *testing.T) {
	release := make(chan struct{})
	held := upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(anthropicWire.opening("slow")), upstreamtest.Wait(release), upstreamtest.Chunk(anthropicWire.finish + anthropicWire.done), upstreamtest.LastChunk(), upstreamtest.Close()}
	provider := upstreamtest.New(t, held, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "text/event-stream", anthropicWire.stream("fast"), "Connection: close")})
	g := proxytest.Start(t, anthropicWire.gatewayConfig(provider.URL()))
	c := openSocket(t, g, proxytest.Key)
	create := func(lane, input string) string {
		return fmt.Sprintf(`{"type":"response.create","model":"m","stream_id":%q,"input":%q}`, lane, input)
	}
	c.send(create("slow", "1"))
	for !strings.Contains(c.read(), `"delta":"slow"`) {
	}
	c.send(create("slow", "2"))
	c.send(create("fast", "3"))
	if events, last := c.turn(); last.StreamID != "fast" || last.Type != "response.completed" {
		t.Errorf("%s", events)
	}
	if n := len(provider.Requests()); n != 2 {
		t.Errorf("%d requests to the provider, want 2: the second turn of a lane waits", n)
	}
	for i := range 40 {
		c.send(create("slow", fmt.Sprint("waits ", i)))
	}
	for range 40 - 15 { // one turn waits already
		if events, e := c.turn(); e.Error.Code != "websocket_stream_limit_reached" || e.Status != 429 || e.StreamID != "slow" {
			t.Fatalf("%s", events)
		}
	}
	close(release)
	for range 17 {
		events, last := c.turn()
		if last.StreamID != "slow" || last.Type != "response.completed" {
			t.Fatalf("%s", events)
		}
		for _, event := range events {
			if !strings.HasPrefix(event, `{"stream_id":"slow",`) {
				t.Errorf("an event without its stream_id: %s", event)
			}
		}
	}
	for i := range 30 {
		c.send(create(fmt.Sprint("lane-", i), "x"))
		if events, last := c.turn(); last.Type != "response.completed" {
			t.Fatalf("%s", events)
		}
	}
	c.send(create("one-too-many", "x"))
	if events, e := c.turn(); e.Error.Code != "websocket_stream_limit_reached" {
		t.Errorf("%s", events)
	}
}

// TestSocketDisconnect checks that a turn is cancelled when its client leaves, with and without a close frame.
func TestSocketDisconnect(t *testing.T) {
	for name, leave := range map[string]func(c *socketClient){
		"close frame": func(c *socketClient) { _ = c.conn.Close(1000, "") },
		"no close":    func(c *socketClient) { _ = c.conn.CloseNow() },
	} {
		t.Run(name, func(t *testing.T) {
			provider := answeringProvider(t, upstreamtest.EventStream(), upstreamtest.Chunk(anthropicWire.opening("slow")), upstreamtest.AwaitClose())
			g := proxytest.Start(t, anthropicWire.gatewayConfig(provider.URL()))
			c := openSocket(t, g, proxytest.Key)
			c.send(`{"type":"response.create","model":"m","input":"x"}`)
			for !strings.Contains(c.read(), `"delta":"slow"`) {
			}
			leave(c)
			<-provider.Ended()
			if line := g.Log.Await(t, "path", "/v1/responses", "status", "499"); line["complete"] != "false" || line["code"] != "client_closed_request" || line["stream"] != "true" {
				t.Errorf("logged as %v", line)
			}
		})
	}
}

// TestSocketEnds checks the ends that the gateway decides on.
func TestSocketEnds(t *testing.T) {
	start := func(t *testing.T, settings string, steps ...upstreamtest.Step) (*proxytest.Gateway, *socketClient) {
		g := proxytest.Start(t, anthropicWire.gatewayConfig(answeringProvider(t, steps...).URL())+settings)
		return g, openSocket(t, g, proxytest.Key)
	}
	wantClose := func(t *testing.T, c *socketClient, code int) {
		t.Helper()
		if got, reason := c.closed(); got != code || reason == "" {
			t.Errorf("closed with %d %q, want %d", got, reason, code)
		}
	}
	t.Run("idle", func(t *testing.T) {
		t.Parallel()
		_, c := start(t, "[responses]\nwebsocket_idle = \"1s\"\n")
		wantClose(t, c, 1000)
	})
	t.Run("age", func(t *testing.T) {
		t.Parallel()
		release := make(chan struct{})
		_, c := start(t, "[responses]\nwebsocket_age = \"1s\"\n", upstreamtest.EventStream(), upstreamtest.Chunk(anthropicWire.opening("slow")), upstreamtest.Wait(release), upstreamtest.Chunk(anthropicWire.finish+anthropicWire.done), upstreamtest.LastChunk(), upstreamtest.Close())
		c.send(`{"type":"response.create","model":"m","input":"x"}`)
		for started := time.Now(); time.Since(started) < 1100*time.Millisecond; {
			c.send(`{"type":"response.create","model":"m","stream_id":"b","input":[]}`) // rejected at once
			c.turn()
		}
		c.send(`{"type":"response.create","model":"m","stream_id":"b","input":"y"}`)
		if events, e := c.turn(); e.Error.Code != "websocket_connection_limit_reached" || e.StreamID != "b" {
			t.Errorf("%s", events)
		}
		close(release)
		if events, last := c.turn(); last.Type != "response.completed" {
			t.Errorf("%s", events)
		}
		if events, e := c.turn(); e.Error.Code != "websocket_connection_limit_reached" || e.Status != 400 {
			t.Errorf("%s", events)
		}
		wantClose(t, c, 1000)
	})
	t.Run("shutdown while idle", func(t *testing.T) {
		t.Parallel()
		g, c := start(t, "")
		stopped := make(chan error, 1)
		go func() { stopped <- g.Stop(proxytest.EventTimeout) }()
		wantClose(t, c, 1012)
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	t.Run("shutdown during a turn", func(t *testing.T) {
		t.Parallel()
		release := make(chan struct{})
		g, c := start(t, "", upstreamtest.EventStream(), upstreamtest.Chunk(anthropicWire.opening("slow")), upstreamtest.Wait(release), upstreamtest.Chunk(anthropicWire.finish+anthropicWire.done), upstreamtest.LastChunk(), upstreamtest.Close())
		c.send(`{"type":"response.create","model":"m","input":"x"}`)
		for !strings.Contains(c.read(), `"delta":"slow"`) {
		}
		stopped := make(chan error, 1)
		go func() { stopped <- g.Stop(proxytest.EventTimeout) }()
		for {
			c.send(`{"type":"response.create","model":"m","stream_id":"b","input":[]}`)
			if _, e := c.turn(); e.Error.Code == "gateway_shutdown" && e.Status == 503 {
				break
			}
		}
		close(release)
		if events, last := c.turn(); last.Type != "response.completed" {
			t.Errorf("%s", events)
		}
		wantClose(t, c, 1012)
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	t.Run("shutdown deadline", func(t *testing.T) {
		t.Parallel()
		g, c := start(t, "", upstreamtest.EventStream(), upstreamtest.Chunk(anthropicWire.opening("slow")), upstreamtest.AwaitClose())
		c.send(`{"type":"response.create","model":"m","input":"x"}`)
		for !strings.Contains(c.read(), `"delta":"slow"`) {
		}
		go func() { _ = g.Stop(50 * time.Millisecond) }()
		if events, last := c.turn(); last.Type != "response.failed" || !strings.Contains(events[len(events)-1], "shutting down") {
			t.Errorf("%s", events)
		}
		wantClose(t, c, 1012)
	})
	t.Run("binary message", func(t *testing.T) {
		t.Parallel()
		_, c := start(t, "")
		if err := c.conn.Write(c.ctx, 2, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		wantClose(t, c, 1003)
	})
	t.Run("large message", func(t *testing.T) {
		t.Parallel()
		_, c := start(t, "")
		c.send(`{"type":"response.create","model":"nothing","input":"` + strings.Repeat("x", 1<<20-100) + `"}`)
		if events, e := c.turn(); e.Status != 404 {
			t.Errorf("%s", events)
		}
		_ = c.conn.Write(c.ctx, 1, make([]byte, 1<<20+1)) // fails if the gateway has closed the connection before the end
		wantClose(t, c, 1009)
	})
}

// TestSocketHandshake checks which requests are upgraded.
//
// covers: P1.5
func TestSocketHandshake(t *testing.T) {
	handshake := []string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="}
	g := proxytest.Start(t, configuration("", ""))
	off := proxytest.Start(t, configuration("", "")+"[responses]\nwebsocket = false\n")
	keyless := proxytest.Start(t, "[server]\nauth = \"none\"\n"+openaiWire.providerConfig("one", "http://127.0.0.1:1", "")+modelWithTargets("m", "one/m"))
	for _, tt := range []struct {
		name    string
		gateway *proxytest.Gateway
		method  string
		headers []string
		status  int
		code    string
	}{
		{"no key", g, "GET", []string{"Authorization:"}, 401, "missing_api_key"},
		{"unknown key", g, "GET", []string{"Authorization: Bearer sk-unknown-0123456789"}, 401, "invalid_api_key"},
		{"expired key", g, "GET", []string{"Authorization: Bearer sk-expired-0123456789"}, 401, "invalid_api_key"},
		{"POST", g, "POST", nil, 400, ""},
		{"old version", g, "GET", []string{"Sec-WebSocket-Version: 8"}, 400, "bad_request"},
		{"no key of the handshake", g, "GET", []string{"Sec-WebSocket-Key:"}, 400, "bad_request"},
		{"no Connection: Upgrade", g, "GET", []string{"Connection: keep-alive"}, 400, "bad_request"},
		{"switched off", off, "GET", nil, 426, "websocket_unsupported"},
		{"web page, without keys", keyless, "GET", []string{"Authorization:", "Origin: https://example.com"}, 403, "origin_not_allowed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := tt.gateway.Do(t, tt.method, "/v1/responses", "", append(append([]string(nil), handshake...), tt.headers...)...)
			wantError(t, r, tt.status, "invalid_request_error", tt.code, "")
		})
	}
	c := dial(t, g)
	c.send("GET /v1/responses HTTP/1.1\r\nHost: gateway\r\nX-Request-Id: upgraded\r\nAuthorization: Bearer " + proxytest.Key + "\r\n" + strings.Join(handshake, "\r\n") + "\r\n\r\n")
	if head := c.readUntil("\r\n\r\n"); !strings.HasPrefix(head, "HTTP/1.1 101 ") || !strings.Contains(head, "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n") || !strings.Contains(head, "x-request-id: upgraded\r\n") {
		t.Errorf("%s", head)
	}
	if line := g.Log.Request(t, "upgraded"); line["status"] != "101" || line["method"] != "GET" || line["path"] != "/v1/responses" || line["key"] != "tests" {
		t.Errorf("logged as %v", line)
	}
}
