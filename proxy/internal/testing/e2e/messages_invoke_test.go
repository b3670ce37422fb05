package e2e_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// invokeFrame encodes a message as Bedrock sends it, with a message type and the header that names its event or
// exception.
func invokeFrame(t *testing.T, messageType, header, name, payload string) string {
	t.Helper()
	var hs eventstream.Headers
	hs.Set(":message-type", eventstream.StringValue(messageType))
	hs.Set(header, eventstream.StringValue(name))
	hs.Set(":content-type", eventstream.StringValue("application/json"))
	var b bytes.Buffer
	if err := eventstream.NewEncoder().Encode(&b, eventstream.Message{Headers: hs, Payload: []byte(payload)}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// invokeChunks encodes the events of a model as InvokeModelWithResponseStream sends them.
func invokeChunks(t *testing.T, events ...string) string {
	t.Helper()
	var all strings.Builder
	for i, e := range events {
		payload := fmt.Sprintf(`{"bytes":%q,"p":"%.*s"}`, base64.StdEncoding.EncodeToString([]byte(e)), i%26, "abcdefghijklmnopqrstuvwxyz")
		all.WriteString(invokeFrame(t, "event", ":event-type", "chunk", payload))
	}
	return all.String()
}

const invokeConfig = `
[providers.aws]
plugin        = "anthropic"
base_url      = %q
allow_private = true
auth          = { secret = "sk-upstream", header = "Authorization", prefix = "Bearer " }
options       = { api = "bedrock" }

[[models]]
id      = "m"
targets = [{ provider = "aws", model = "eu.anthropic.claude-x-v1:0" }]
`

var invokeEvents = []string{
	`{"type":"message_start", "message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":1}}}`,
	`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"H\u0069"}}`,
	`{"type":"content_block_stop","index":0}`,
	`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}`,
	`{"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":3}}`,
}

// TestInvokeModelOfBedrock has clients of Messages and of chat completions use a model that Bedrock serves with
// InvokeModel.
func TestInvokeModelOfBedrock(t *testing.T) {
	response := `{"id":"msg_1", "type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"H\u0069"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":5}}`
	script := func(typ, body string) upstreamtest.Script {
		return upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, typ, body, "Connection: close")}
	}
	const eventStream = "application/vnd.amazon.eventstream"
	provider := upstreamtest.New(t,
		script("application/json", response), script(eventStream, invokeChunks(t, invokeEvents...)), script(eventStream, invokeChunks(t, invokeEvents...)))
	g := proxytest.Start(t, fmt.Sprintf(invokeConfig, provider.URL()))

	const members = `"max_tokens": 1000, "messages": [ {"role":"user","content":"\u0078"} ]`
	var want strings.Builder
	for _, e := range invokeEvents {
		var event struct{ Type string }
		if err := json.Unmarshal([]byte(e), &event); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&want, "event: %s\ndata: %s\n\n", event.Type, e)
	}
	r := g.Do(t, "POST", "/v1/messages", `{"model": "m", `+members+`}`, "anthropic-beta: context-1m-2025-08-07, oauth-2025-04-20,unknown-2020-01-01")
	if r.Status != 200 || r.Body != response {
		t.Errorf("status %d, client received\n%s\nwant\n%s", r.Status, r.Body, response)
	}
	r = g.Do(t, "POST", "/v1/messages", `{"model": "m", "stream": true, `+members+`}`)
	if r.Status != 200 || r.Body != want.String() {
		t.Errorf("status %d, client received\n%s\nwant\n%s", r.Status, r.Body, want.String())
	}
	r = g.Do(t, "POST", "/v1/chat/completions", `{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`)
	if r.Status != 200 || !strings.Contains(r.Body, `"content":"H\u0069"`) || !strings.HasSuffix(r.Body, "data: [DONE]\n\n") {
		t.Errorf("status %d, client received\n%s", r.Status, r.Body)
	}
	for i, want := range []struct{ path, body string }{
		{"/model/eu.anthropic.claude-x-v1%3A0/invoke", `{` + members + `,"anthropic_version":"bedrock-2023-05-31","anthropic_beta":["context-1m-2025-08-07"]}`},
		{"/model/eu.anthropic.claude-x-v1%3A0/invoke-with-response-stream", `{` + members + `,"anthropic_version":"bedrock-2023-05-31"}`},
		{"/model/eu.anthropic.claude-x-v1%3A0/invoke-with-response-stream", `{"anthropic_version":"bedrock-2023-05-31","messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"max_tokens":4096}`},
	} {
		sent := provider.Requests()[i]
		if sent.Path != want.path || strings.ReplaceAll(string(sent.Body), "{ ", "{") != want.body {
			t.Errorf("request %d went to %s\n%s\nwant %s\n%s", i, sent.Path, sent.Body, want.path, want.body)
		}
		if sent.Header.Get("anthropic-version") != "" || sent.Header.Get("anthropic-beta") != "" {
			t.Errorf("request %d has headers %v, want no anthropic-version and no anthropic-beta", i, sent.Header)
		}
	}
}

// TestInvokeModelExceptionsFailResponse has Bedrock end a stream with an exception, or too early. Before the first byte
// the client gets an error status, later an incomplete stream.
func TestInvokeModelExceptionsFailResponse(t *testing.T) {
	exception := invokeFrame(t, "exception", ":exception-type", "throttlingException", `{"message":"Too many requests, account 123456789012"}`)
	beginning := invokeChunks(t, invokeEvents[:3]...)
	for _, path := range []string{"/v1/messages", "/v1/chat/completions"} {
		for name, c := range map[string]struct {
			body   string
			status int
		}{
			"before any event":  {exception, 429},
			"within the stream": {beginning + exception, 200},
			"truncated stream":  {beginning, 200},
			"invalid chunk":     {invokeFrame(t, "event", ":event-type", "chunk", `{"bytes":"?"}`), 502},
			"unknown exception": {invokeFrame(t, "exception", ":exception-type", "newException", `{}`), 502},
		} {
			provider := answeringProvider(t, upstreamtest.Answer(200, "application/vnd.amazon.eventstream", c.body, "Connection: close"))
			g := proxytest.Start(t, fmt.Sprintf(invokeConfig, provider.URL()))
			r := g.Do(t, "POST", path, `{"model":"m","max_tokens":10,"stream":true,"messages":[{"role":"user","content":"x"}]}`)
			if r.Status != c.status || strings.Contains(r.Body, "message_stop") || strings.Contains(r.Body, `finish_reason":"`) || !strings.Contains(r.Body, "error") {
				t.Errorf("%s, %s: status %d, want %d: %s", path, name, r.Status, c.status, r.Body)
			}
			if path == "/v1/messages" && strings.Contains(r.Body, "123456789012") {
				t.Errorf("%s, %s: the response contains the account: %s", path, name, r.Body)
			}
		}
	}
}
