package e2e_test

import (
	"os"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestResponsesUpstream sends requests of every client API to a provider with the Responses API, which responds with a
// recorded turn of OpenAI with reasoning and a tool call. A client of the Responses API gets the events unchanged. For
// the others they are translated, and the sealed reasoning is in a member that clients send back.
func TestResponsesUpstream(t *testing.T) {
	recorded, err := os.ReadFile("../../responses/testdata/recorded/stream-reasoning-summary-tool-t1.resp.sse")
	if err != nil {
		t.Fatal(err)
	}
	const tool = `"description":"d","parameters":{"type":"object","properties":{"location":{"type":"string"}}}`
	for _, c := range []struct {
		path, request string
		sent          string   // start of the provider's request
		want          []string // parts of the client's response
	}{
		{"/v1/chat/completions", `{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"weather",` + tool + `}}]}`,
			`{"model":"gpt-5","tools":[{"type":"function","name":"weather","description":"d","parameters":{"type":"object","properties":{"location":{"type":"string"}}},"strict":false}],"input":[{"type":"message","role":"user","content":"x"}],"store":false,"include":["reasoning.encrypted_content"],`,
			[]string{`"reasoning_content":"`, `"type":"reasoning.encrypted","data":"gAAAA`, `"format":"openai-responses-v1"`, `"name":"weather"`, `"finish_reason":"tool_calls"`, "data: [DONE]"}},
		{"/v1/messages", `{"model":"m","stream":true,"max_tokens":100,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"weather","description":"d","input_schema":{"type":"object","properties":{"location":{"type":"string"}}}}]}`,
			`{"model":"gpt-5","tools":[{"type":"function","name":"weather","description":"d","parameters":{"type":"object","properties":{"location":{"type":"string"}}},"strict":false}],"input":[{"type":"message","role":"user","content":"x"}],"store":false,"include":["reasoning.encrypted_content"],`,
			[]string{`"type":"thinking_delta"`, `"type":"signature_delta","signature":"`, `"type":"tool_use"`, `"name":"weather"`, `"stop_reason":"tool_use"`, "event: message_stop"}},
		{"/v1/responses", `{"model": "m","stream":true,"input":"x","tools":[{"type":"function","name":"weather",` + tool + `}]}`,
			`{"model": "gpt-5","stream":true,"input":"x",`, []string{strings.TrimSpace(string(recorded))}},
	} {
		t.Run(c.path, func(t *testing.T) {
			provider := answeringProvider(t, upstreamtest.Answer(200, "text/event-stream", string(recorded), "Connection: close"))
			g := proxytest.Start(t, configuration("", "")+openaiWire.providerConfig("one", provider.URL(), "options = { api = \"responses\" }\n")+modelWithTargets("m", "one/gpt-5"))
			r := g.Do(t, "POST", c.path, c.request)
			sent := provider.Requests()[0]
			if sent.Path != "/responses" || !strings.HasPrefix(string(sent.Body), c.sent) {
				t.Errorf("the provider gets %s %s, want %s", sent.Path, sent.Body, c.sent)
			}
			for _, want := range c.want {
				if r.Status != 200 || !strings.Contains(r.Body, want) {
					t.Errorf("status %d, lacks %.200s: %s", r.Status, want, r.Body)
				}
			}
			if line := g.Log.Request(t, r.RequestID()); line["prompt_tokens"] == "0" || line["completion_tokens"] == "0" {
				t.Errorf("logged %v, want prompt and completion tokens", line)
			}
		})
	}
}
