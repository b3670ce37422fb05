package e2e_test

import (
	"os"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestResponsesUpstream asks a model by the Responses API for clients of every API: a turn that thinks and calls a tool, as it was
// recorded of OpenAI. A client of the API itself gets its events as they came; the others what they mean, with the sealed reasoning
// where they send it back.
func TestResponsesUpstream(t *testing.T) {
	recorded, err := os.ReadFile("../../responses/testdata/recorded/stream-reasoning-summary-tool-t1.resp.sse")
	if err != nil {
		t.Fatal(err)
	}
	const tool = `"description":"d","parameters":{"type":"object","properties":{"location":{"type":"string"}}}`
	for _, c := range []struct {
		path, request string
		sent          string   // the beginning of the input
		want          []string // in the response
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
				t.Errorf("the provider gets %s %s", sent.Path, sent.Body)
			}
			for _, want := range c.want {
				if r.Status != 200 || !strings.Contains(r.Body, want) {
					t.Errorf("status %d, lacks %.200s: %s", r.Status, want, r.Body)
				}
			}
			if line := g.Log.Request(t, r.RequestID()); line["prompt_tokens"] == "0" || line["completion_tokens"] == "0" {
				t.Errorf("accounted as %v", line)
			}
		})
	}
}
