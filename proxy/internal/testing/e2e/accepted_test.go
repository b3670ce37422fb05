package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestRequestsAreNormalized sends requests as clients write them, and checks the request that the provider receives and
// the warnings that the client receives.
func TestRequestsAreNormalized(t *testing.T) {
	if testing.Short() {
		t.Skip("sends every request in many spellings")
	}
	const (
		user = `{"role":"user","content":"Hi"}`
		call = `{"id":"call_a","type":"function","function":{"name":"f","arguments":"{}"}}`
	)
	answer := upstreamtest.Answer(200, "application/json", nonStreamingResponse)
	provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.Loop(upstreamtest.ReadRequest(), answer)})
	g := proxytest.Start(t, configuration(provider.URL(), ""))
	for name, test := range map[string]struct{ request, sent, warning string }{
		"a tool result without content": {
			`"messages":[` + user + `,{"role":"assistant","tool_calls":[` + call + `]},{"role":"tool","tool_call_id":"call_a"}]`,
			`"messages":[` + user + `,{"role":"assistant","tool_calls":[` + call + `],"content":""},{"role":"tool","tool_call_id":"call_a","content":""}]`, "",
		},
		"empty lists":         {`"messages":[` + user + `],"tools":[],"tool_choice":"auto","functions":[]`, `"messages":[` + user + `]`, ""},
		"a large limit":       {`"messages":[` + user + `],"max_tokens":32000`, `"messages":[` + user + `],"max_tokens":4096 `, "clamped max_tokens"},
		"no limit":            {`"messages":[` + user + `],"max_tokens":-1`, `"messages":[` + user + `]`, ""},
		"unpaired surrogate":  {`"messages":[{"role":"user","content":"x\ud83d"}]`, `"messages":[{"role":"user","content":"x\ufffd"}]`, "changed messages[0].content"},
		"truncated arguments": {`"messages":[{"role":"assistant","content":"","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"a"}}]},{"role":"tool","tool_call_id":"a","content":"x"}]`, `"arguments":"{\"a"}`, ""},
		"several at once": {`"max_completion_tokens":5000,"messages":[{"role":"assistant"},{"role":"user","content":"\ud83d"}]`,
			`"max_completion_tokens":4096,"messages":[{"role":"assistant","content":""},{"role":"user","content":"\ufffd"}]`, "changed messages[1].content, clamped max_completion_tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			got := g.Chat(t, `{"model":"gpt",`+test.request+`}`)
			if got.Status != 200 || got.Header.Get("x-gateway-warning") != test.warning {
				t.Errorf("status %d, warning %q, want 200, %q: %s", got.Status, got.Header.Get("x-gateway-warning"), test.warning, got.Body)
			}
			requests := provider.Requests()
			if body := string(requests[len(requests)-1].Body); !strings.Contains(body, test.sent) {
				t.Errorf("sent %s, which does not contain %s", body, test.sent)
			}
		})
	}

	strict := proxytest.Start(t, strings.Replace(configuration(provider.URL(), ""), "[server]", "[server]\nstrict = true", 1))
	got := strict.Chat(t, `{"model":"gpt","messages":[`+user+`],"max_tokens":32000}`)
	if want := "'max_tokens' is 32000, but the model generates at most 4096 tokens."; got.Status != 400 || !strings.Contains(got.Body, want) {
		t.Errorf("strict: %d %s", got.Status, got.Body)
	}
}

// TestLegacyFunctions checks that a client may use functions instead of tools, with a provider of the OpenAI API and
// with one of another API.
func TestLegacyFunctions(t *testing.T) {
	const request = `{"model":%q,"stream":%v,"messages":[{"role":"user","content":"Hi"},
		{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"1"}],
		"functions":[{"name":"f","parameters":{"type":"object","properties":{}}}],"function_call":{"name":"f"}}`
	const (
		openaiWhole = `{"id":"a","object":"chat.completion","created":1,"model":"there","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`
		claudeWhole = `{"id":"a","type":"message","role":"assistant","model":"there","content":[{"type":"tool_use","id":"c","name":"f","input":{"a":1}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":1}}`
	)
	loop := func(body string) *upstreamtest.Server {
		return upstreamtest.New(t, upstreamtest.Script{upstreamtest.Loop(upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", body))})
	}
	openai, anthropic := loop(openaiWhole), loop(claudeWhole)
	g := proxytest.Start(t, configuration(openai.URL(), anthropic.URL()))
	for model, provider := range map[string]*upstreamtest.Server{"gpt": openai, "claude": anthropic} {
		t.Run(model, func(t *testing.T) {
			got := g.Chat(t, fmt.Sprintf(request, model, false))
			const want = `"function_call":{"name":"f","arguments":"{\"a\":1}"}},"logprobs":null,"finish_reason":"function_call"`
			if got.Status != 200 || !strings.Contains(got.Body, want) || strings.Contains(got.Body, "tool_calls") {
				t.Errorf("%d %s", got.Status, got.Body)
			}
			sent := string(provider.Requests()[0].Body)
			if strings.Contains(sent, "function_call") || strings.Contains(sent, "functions") || !strings.Contains(sent, `"tools":[`) || !strings.Contains(sent, `"call_1"`) {
				t.Errorf("functions are not sent as tools: %s", sent)
			}

			got = g.Chat(t, fmt.Sprintf(request, model, true))
			var arguments strings.Builder
			name, reason := "", ""
			for line := range strings.Lines(got.Body) {
				var chunk struct {
					Choices []struct {
						Delta struct {
							FunctionCall struct{ Name, Arguments string } `json:"function_call"`
						}
						FinishReason string `json:"finish_reason"`
					}
				}
				data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
				if !ok || data == "[DONE]" {
					continue
				}
				if err := json.Unmarshal([]byte(data), &chunk); err != nil {
					t.Fatal(err)
				}
				for _, c := range chunk.Choices {
					name += c.Delta.FunctionCall.Name
					arguments.WriteString(c.Delta.FunctionCall.Arguments)
					reason += c.FinishReason
				}
			}
			if name != "f" || arguments.String() != `{"a":1}` || reason != "function_call" || strings.Contains(got.Body, "tool_calls") {
				t.Errorf("the stream calls %s(%s) and ends with %s:\n%s", name, arguments.String(), reason, got.Body)
			}
		})
	}
}
