package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// signer is a provider that signs its reasoning before a tool call, and requires it in the next request.
type signer struct {
	plugin, kind, response string   // kind is the response's content type
	returned               []string // parts of the next request's body
	table                  string   // additional keys of the provider
}

// signers returns one of each kind, by name.
func signers() map[string]signer {
	sse := func(events ...string) (s string) {
		for _, e := range events {
			s += "data: " + e + "\n\n"
		}
		return s
	}
	claudeBack := []string{`{"type":"thinking","thinking":"So, the weather.","signature":"EqQBCg=="}`, `"tool_use","id":"toolu_01"`}
	return map[string]signer{
		"anthropic": {plugin: "anthropic", kind: "application/json", returned: claudeBack,
			response: `{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"thinking","thinking":"So, the weather.","signature":"EqQBCg=="},{"type":"tool_use","id":"toolu_01","name":"weather","input":{"city":"Paris"}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":1}}`},
		"anthropic-stream": {plugin: "anthropic", kind: "text/event-stream", returned: claudeBack, response: sse(
			`{"type":"message_start","message":{"id":"m","model":"m","role":"assistant","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"So, "}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"the weather."}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQBCg=="}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_01","name":"weather","input":{}}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"city\":\"Paris\"}"}}`,
			`{"type":"content_block_stop","index":1}`,
			`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}`,
			`{"type":"message_stop"}`)},
		"bedrock": {plugin: "bedrock", kind: "application/json", table: "options = { family = \"claude\" }\n",
			returned: []string{`{"reasoningContent":{"reasoningText":{"text":"So, the weather.","signature":"EqQBCg=="}}}`, `"toolUseId":"tooluse_01"`},
			response: `{"output":{"message":{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"So, the weather.","signature":"EqQBCg=="}}},{"toolUse":{"toolUseId":"tooluse_01","name":"weather","input":{"city":"Paris"}}}]}},"stopReason":"tool_use","usage":{"inputTokens":1,"outputTokens":1,"totalTokens":2}}`},
		"gemini": {plugin: "gemini", kind: "text/event-stream", returned: []string{`"thoughtSignature":"CiQBEd=="`},
			response: sse(`{"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":"So, the weather.","thought":true},{"functionCall":{"name":"weather","args":{"city":"Paris"}},"thoughtSignature":"CiQBEd=="}]},"finishReason":"STOP"}],"modelVersion":"m"}`)},
		"openrouter": {plugin: "openai", kind: "text/event-stream", table: "preset = \"openrouter\"\n",
			returned: []string{`"type":"reasoning.text"`, `"signature":"EqQBCg=="`},
			response: sse(
				`{"id":"x","model":"m","choices":[{"index":0,"delta":{"role":"assistant","reasoning":"So, the weather.","reasoning_details":[{"type":"reasoning.text","text":"So, the weather.","format":"anthropic-claude-v1","index":0}]},"finish_reason":null}]}`,
				`{"id":"x","model":"m","choices":[{"index":0,"delta":{"reasoning_details":[{"type":"reasoning.text","signature":"EqQBCg==","format":"anthropic-claude-v1","index":0}]},"finish_reason":null}]}`,
				`{"id":"x","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"toolu_01","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Paris\"}"}}]},"finish_reason":"tool_calls"}]}`, `[DONE]`)},
		"compatible": {plugin: "openai", kind: "application/json", returned: []string{`"extra_content":{"google":{"thought_signature":"CiQBEd=="}}`},
			response: `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","extra_content":{"google":{"thought_signature":"CiQBEd=="}},"function":{"name":"weather","arguments":"{\"city\":\"Paris\"}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}`},
	}
}

func (s signer) config(name, url string) string {
	plugin := fmt.Sprintf("plugin = %q\n", s.plugin)
	if strings.HasPrefix(s.table, "preset") {
		plugin = ""
	}
	return fmt.Sprintf("[providers.%s]\n%s%sbase_url = %q\nauth = { secret = \"sk-upstream-canary\" }\n", name, plugin, s.table, url) +
		fmt.Sprintf("[[models]]\nid = %q\nthinking = true\nmax_tokens = 10000\ntargets = [{ provider = %[1]q, model = \"m\" }]\n", name)
}

const secondKey = "[[keys]]\nname = \"other\"\nsecret = \"sk-other-0123456789\"\n"

// agent is a client that runs tools. Like most, it sends back only the text, the reasoning text and the tool calls of a
// response.
type agent struct {
	keepsExtra bool // whether it sends back extra_content of tool calls, like clients with support for Gemini
	model      string
	stream     bool
	messages   []any
}

// request returns the body of the next request.
func (a *agent) request(t *testing.T) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"model": a.model, "stream": a.stream, "messages": a.messages, "thinking": map[string]any{"type": "enabled", "budget_tokens": 2048}, "max_tokens": 8000,
		"tools": []any{map[string]any{"type": "function", "function": map[string]any{"name": "weather", "parameters": map[string]any{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

type agentCall struct {
	Index    *int            `json:"index,omitempty"`
	ID       string          `json:"id"`
	Type     string          `json:"type"`
	Function json.RawMessage `json:"function"`
	Extra    json.RawMessage `json:"extra_content,omitempty"`
}

// addResponse appends a response and the result of its tool call to the messages.
func (a *agent) addResponse(t *testing.T, body string) {
	t.Helper()
	type part struct {
		Content   string
		Reasoning string      `json:"reasoning_content"`
		Calls     []agentCall `json:"tool_calls"`
	}
	var reasoning, content, arguments string
	var call *agentCall
	for _, line := range strings.Split(body, "\n") {
		var v struct {
			Choices []struct{ Delta, Message part }
		}
		if json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &v) != nil || len(v.Choices) == 0 {
			continue
		}
		for _, p := range []part{v.Choices[0].Delta, v.Choices[0].Message} {
			reasoning, content = reasoning+p.Reasoning, content+p.Content
			for i := range p.Calls {
				if call == nil {
					call = &p.Calls[i]
				}
				var f struct{ Arguments string }
				if err := json.Unmarshal(p.Calls[i].Function, &f); err != nil {
					t.Fatal(err)
				}
				arguments += f.Arguments
			}
		}
	}
	if call == nil {
		t.Fatalf("the response has no tool call: %s", body)
	}
	function, _ := json.Marshal(map[string]string{"name": "weather", "arguments": arguments})
	call.Index, call.Function = nil, function
	if !a.keepsExtra {
		call.Extra = nil
	}
	a.messages = append(a.messages,
		map[string]any{"role": "assistant", "content": content, "reasoning_content": reasoning, "tool_calls": []any{call}},
		map[string]any{"role": "tool", "tool_call_id": call.ID, "content": "18 degrees"})
}

// TestThinkingSurvivesToolCalls has agents call a tool twice, and checks that their provider gets its signed reasoning
// back with the results: from memory, also after a reload, or from extra_content at another gateway. Reasoning that was
// remembered for one key is not used for another.
func TestThinkingSurvivesToolCalls(t *testing.T) {
	for _, scenario := range []string{"memory", "reload", "extra_content", "another key"} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			config := proxytest.Keys + secondKey
			providers, agents := map[string]*upstreamtest.Server{}, map[string]*agent{}
			for name, s := range signers() {
				p := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, s.kind, s.response, "Connection: close")})
				config += s.config(name, p.URL())
				providers[name] = p
				agents[name] = &agent{model: name, stream: s.kind == "text/event-stream", keepsExtra: scenario == "extra_content",
					messages: []any{map[string]any{"role": "user", "content": "How is the weather in Paris?"}}}
			}
			g := proxytest.Start(t, config)
			key := proxytest.Key
			for turn := range 3 {
				for name, a := range agents {
					r := g.Do(t, "POST", "/v1/chat/completions", a.request(t), "Authorization: Bearer "+key)
					if r.Status != 200 {
						t.Fatalf("%s: turn %d: status %d: %s", name, turn+1, r.Status, r.Body)
					}
					a.addResponse(t, r.Body)
				}
				switch scenario {
				case "reload":
					if err := g.Reload(t, config+"# changed\n"); err != nil {
						t.Fatal(err)
					}
				case "extra_content":
					if turn == 0 {
						g = proxytest.Start(t, config) // another gateway
					}
				case "another key":
					key = "sk-other-0123456789"
				}
			}
			for name, p := range providers {
				later := p.Requests()[1:]
				if scenario == "another key" {
					later = later[:1] // the third turn has the second response, which belongs to the same key
				}
				for turn, r := range later {
					for _, part := range signers()[name].returned {
						callID := strings.Contains(part, `"id":"`) || strings.Contains(part, `Id":"`) // which every client sends back
						if got, want := strings.Contains(string(r.Body), part), callID || scenario != "another key"; got != want {
							t.Errorf("%s: turn %d: contains %s: %v, want %v, in\n%s", name, turn+2, part, got, want, r.Body)
						}
					}
					if strings.Contains(string(r.Body), "sluice.thinking") {
						t.Errorf("%s: the provider gets the gateway's token: %s", name, r.Body)
					}
				}
			}
		})
	}
}

// TestThinkingTokenStaysWithGateway checks that neither the token of a provider's reasoning nor the reasoning itself is
// sent to another provider.
func TestThinkingTokenStaysWithGateway(t *testing.T) {
	s := signers()["anthropic"]
	claude := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, s.kind, s.response, "Connection: close")})
	gpt := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", shortChatResponse, "Connection: close")})
	g := proxytest.Start(t, configuration(gpt.URL(), claude.URL()))
	a := agent{model: "claude", keepsExtra: true, messages: []any{map[string]any{"role": "user", "content": "How is the weather in Paris?"}}}
	r := g.Chat(t, a.request(t))
	if !strings.Contains(r.Body, `"extra_content":{"google":{"thought_signature":"`) {
		t.Fatalf("the tool call has no token: %s", r.Body)
	}
	a.addResponse(t, r.Body)
	a.model = "gpt"
	body := strings.Replace(a.request(t), `"thinking":{"budget_tokens":2048,"type":"enabled"},`, "", 1)
	if r = g.Chat(t, strings.Replace(body, `"max_tokens":8000`, `"max_tokens":800`, 1)); r.Status != 200 {
		t.Fatalf("status %d: %s", r.Status, r.Body)
	}
	for _, forbidden := range []string{"extra_content", "sluice", "reasoning_details", "EqQBCg"} {
		if got := string(gpt.Requests()[0].Body); strings.Contains(got, forbidden) {
			t.Errorf("the other provider gets %s: %s", forbidden, got)
		}
	}
}
