package e2e_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// callSigners are providers that sign a tool call, and the place where each requires the signature in the next request.
var callSigners = map[string]struct {
	plugin, kind, response string
	returned               *regexp.Regexp
}{
	"call": {"gemini", "text/event-stream", `data: {"candidates":[{"index":0,"content":{"role":"model","parts":[{"functionCall":{"id":"weather.1:0","name":"weather","args":{"city":"Paris"}},"thoughtSignature":"CiQBEd=="}]},"finishReason":"STOP"}],"modelVersion":"m"}` + "\n\n",
		regexp.MustCompile(`"args":\{"city":"Paris"\}\},"thoughtSignature":"CiQBEd=="`)},
	"call in pieces": {"gemini", "text/event-stream", `data: {"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"weather","willContinue":true},"thoughtSignature":"CiQBEd=="}]}}],"modelVersion":"m"}` + "\n\n" +
		`data: {"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"partialArgs":[{"jsonPath":"$.city","stringValue":"Paris"}],"willContinue":true}}]}}]}` + "\n\n" +
		`data: {"candidates":[{"content":{"role":"model","parts":[{"functionCall":{}}]},"finishReason":"STOP"}]}` + "\n\n",
		regexp.MustCompile(`"args":\{"city":"Paris"\}\},"thoughtSignature":"CiQBEd=="`)},
	"second of two calls": {"gemini", "text/event-stream", `data: {"candidates":[{"index":0,"content":{"role":"model","parts":[{"functionCall":{"name":"weather","args":{"city":"Rome"}}},{"functionCall":{"name":"weather","args":{"city":"Paris"}},"thoughtSignature":"CiQBEd=="}]},"finishReason":"STOP"}],"modelVersion":"m"}` + "\n\n",
		regexp.MustCompile(`"args":\{"city":"Rome"\}\}\},.*"args":\{"city":"Paris"\}\},"thoughtSignature":"CiQBEd=="`)},
	"extra_content of a call": {"openai", "text/event-stream", `data: {"id":"x","model":"m","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"weather.1:0","type":"function","extra_content":{"google":{"thought_signature":"CiQBEd=="}},"function":{"name":"weather","arguments":""}}]}}]}` + "\n\n" +
		`data: {"id":"x","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"city\":\"Paris\"}"}}]},"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n",
		regexp.MustCompile(`"tool_calls":\[\{"extra_content":\{"google":\{"thought_signature":"CiQBEd=="\}\},"id"`)},
	// Like the recording gemini/openai-compat-tool-no-id.
	"extra_content of a message": {"openai", "application/json", `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","extra_content":{"google":{"thought":true,"thought_signature":"CiQBEd=="}},"tool_calls":[{"id":"","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Paris\"}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}`,
		regexp.MustCompile(`\{"extra_content":\{"google":\{"thought":true,"thought_signature":"CiQBEd=="\}\},"role":"assistant"`)},
}

// toolClients are clients of the APIs other than chat completions. next returns the request that follows a response: if
// drops is set, without the reasoning that has no text.
var toolClients = map[string]struct {
	path, first string
	next        func(t *testing.T, body string, drops bool) string
}{
	"messages":  {"/v1/messages", `{"model":"m","max_tokens":900,"stream":true,` + messagesTools + `,"messages":[{"role":"user","content":"x"}]}`, nextMessages},
	"responses": {"/v1/responses", `{"model":"m","stream":true,"store":false,"include":["reasoning.encrypted_content"],` + responsesTools + `,"input":[{"role":"user","content":"x"}]}`, nextResponses},
	"gemini":    {"/v1beta/models/m:generateContent", `{` + geminiTools + `,"contents":[{"role":"user","parts":[{"text":"x"}]}]}`, nextGemini},
}

const (
	messagesTools  = `"tools":[{"name":"weather","input_schema":{"type":"object"}}]`
	responsesTools = `"tools":[{"type":"function","name":"weather","parameters":{"type":"object"}}]`
	geminiTools    = `"tools":[{"functionDeclarations":[{"name":"weather","parameters":{"type":"OBJECT"}}]}]`
)

// nextMessages accumulates a stream with the official client.
func nextMessages(t *testing.T, body string, drops bool) string {
	var m anthropic.Message
	events, err := streamEvents(body)
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range events {
		var ev anthropic.MessageStreamEventUnion
		if err := json.Unmarshal([]byte(data), &ev); err != nil {
			t.Fatal(err)
		}
		if err := m.Accumulate(ev); err != nil {
			t.Fatal(err)
		}
	}
	var blocks []anthropic.ContentBlockParamUnion
	results := ""
	for _, b := range m.Content {
		if !drops || b.Type != "thinking" || b.Thinking != "" {
			blocks = append(blocks, b.ToParam())
		}
		if b.Type == "tool_use" {
			results += fmt.Sprintf(`,{"type":"tool_result","tool_use_id":%q,"content":"ok"}`, b.ID)
		}
	}
	content, _ := json.Marshal(blocks)
	return fmt.Sprintf(`{"model":"m","max_tokens":900,%s,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":%s},{"role":"user","content":[%s]}]}`, messagesTools, content, strings.TrimPrefix(results, ","))
}

func nextResponses(t *testing.T, body string, drops bool) string {
	events, err := streamEvents(body)
	if err != nil {
		t.Fatal(err)
	}
	var last struct {
		Response struct{ Output []json.RawMessage }
	}
	if err := json.Unmarshal([]byte(events[len(events)-1]), &last); err != nil {
		t.Fatal(err)
	}
	input := []string{`{"role":"user","content":"x"}`}
	var results []string
	for _, raw := range last.Response.Output {
		var item struct {
			Type   string
			CallID string `json:"call_id"`
		}
		if err := json.Unmarshal(raw, &item); err != nil {
			t.Fatal(err)
		}
		if !drops || item.Type != "reasoning" {
			input = append(input, string(raw))
		}
		if item.Type == "function_call" {
			results = append(results, fmt.Sprintf(`{"type":"function_call_output","call_id":%q,"output":"ok"}`, item.CallID))
		}
	}
	return fmt.Sprintf(`{"model":"m","store":false,%s,"input":[%s]}`, responsesTools, strings.Join(append(input, results...), ","))
}

func nextGemini(t *testing.T, body string, drops bool) string {
	var v struct {
		Candidates []struct {
			Content struct{ Parts []map[string]any }
		}
	}
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatal(err)
	}
	var results []map[string]any
	parts := v.Candidates[0].Content.Parts
	for _, p := range parts {
		if drops {
			delete(p, "thoughtSignature")
		}
		if call, ok := p["functionCall"].(map[string]any); ok {
			results = append(results, map[string]any{"functionResponse": map[string]any{"id": call["id"], "name": call["name"], "response": map[string]any{"output": "ok"}}})
		}
	}
	model, _ := json.Marshal(parts)
	user, _ := json.Marshal(results)
	return fmt.Sprintf(`{%s,"contents":[{"role":"user","parts":[{"text":"x"}]},{"role":"model","parts":%s},{"role":"user","parts":%s}]}`, geminiTools, model, user)
}

// TestSignaturesOfCallsReturn has clients of each API return a tool call with its result. The provider must get its
// signature back where it was: from what another gateway has sent, or from the memory of the gateway if the client drops
// reasoning without a text. Neither another key nor another provider gets it.
func TestSignaturesOfCallsReturn(t *testing.T) {
	const key = "[server]\nreasoning_key = \"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\"\n"
	for signer, s := range callSigners {
		for api, client := range toolClients {
			if api == "gemini" && s.plugin == "gemini" {
				continue // the responses are passed on
			}
			t.Run(signer+"/"+api, func(t *testing.T) {
				t.Parallel()
				script := upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, s.kind, s.response, "Connection: close")}
				provider := upstreamtest.New(t, script)
				config := func(name string) string {
					return key + proxytest.Keys + secondKey + fmt.Sprintf("[providers.%s]\nplugin = %q\nbase_url = %q\nauth = { secret = \"sk-upstream-canary\" }\n[[models]]\nid = \"m\"\ntargets = [{ provider = %[1]q, model = \"m\" }]\n", name, s.plugin, provider.URL())
				}
				first, second, elsewhere := proxytest.Start(t, config("p")), proxytest.Start(t, config("p")), proxytest.Start(t, config("q"))
				r := first.Do(t, "POST", client.path, client.first)
				if r.Status != 200 {
					t.Fatalf("status %d: %s", r.Status, r.Body)
				}
				for i, c := range []struct {
					name    string
					gateway *proxytest.Gateway
					drops   bool
					key     string
					want    bool
				}{
					{"another gateway", second, false, proxytest.Key, true},
					{"a client that drops it", first, true, proxytest.Key, true},
					{"another key", first, true, "sk-other-0123456789", false},
				} {
					next := client.next(t, r.Body, c.drops)
					if r := c.gateway.Do(t, "POST", client.path, next, "Authorization: Bearer "+c.key); r.Status != 200 {
						t.Fatalf("%s: status %d: %s\n%s", c.name, r.Status, r.Body, next)
					}
					sent := string(provider.Requests()[i+1].Body)
					if s.returned.MatchString(sent) != c.want || strings.Contains(sent, "sluice") || strings.Count(sent, "CiQB") > 1 {
						t.Errorf("%s: the provider got %s\nthe client sent %s", c.name, sent, next)
					}
				}
				if s.plugin == "openai" {
					elsewhere.Do(t, "POST", client.path, client.next(t, r.Body, false))
					if sent := string(provider.Requests()[4].Body); strings.Contains(sent, "CiQB") {
						t.Errorf("another provider got %s", sent)
					}
				}
			})
		}
	}
}
