package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestPreviousResponse continues from a response that the gateway has stored, retrieves it, and deletes it.
//
// covers: P1.3 P2.22 P9.2 P9.3 P9.5 P9.9 P9.10
func TestPreviousResponse(t *testing.T) {
	const other = "Authorization: Bearer sk-other-0123456789"
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprint("stream ", stream), func(t *testing.T) {
			provider := answeringProvider(t, upstreamtest.Answer(200, "application/json", openaiWire.answer("an answer"), "Connection: close"))
			config := openaiWire.gatewayConfig(provider.URL()) + "[[keys]]\nname = \"other\"\nsecret = \"sk-other-0123456789\"\n"
			g := proxytest.Start(t, config)
			ask := func(more string, headers ...string) *proxytest.Reply {
				t.Helper()
				return g.Do(t, "POST", "/v1/responses", fmt.Sprintf(`{"model":"m","input":"a question","stream":%v%s}`, stream, more), headers...)
			}
			id := func(r *proxytest.Reply) string {
				t.Helper()
				_, id, ok := strings.Cut(r.Body, `"id":"resp_`)
				id, _, _ = strings.Cut(id, `"`)
				if r.Status != 200 || !ok || strings.Count(r.Body, `"id":"resp_`+id) != strings.Count(r.Body, `"id":"resp_`) {
					t.Fatalf("status %d, want the same response ID everywhere: %s", r.Status, r.Body)
				}
				return "resp_" + id
			}
			first := id(ask(""))
			if err := g.Reload(t, config+"\n# changed\n"); err != nil {
				t.Fatal(err)
			}
			second := ask(`,"previous_response_id":"` + first + `"`)
			id(second)
			if sent := string(provider.Requests()[1].Body); strings.Count(sent, "a question") != 2 || strings.Count(sent, "an answer") != 1 {
				t.Errorf("the provider gets %s, want both questions and the answer between them", sent)
			}
			for _, r := range []*proxytest.Reply{ask(`,"previous_response_id":"`+first+`"`, other), ask(`,"previous_response_id":"resp_nothing"`)} {
				wantError(t, r, 400, "invalid_request_error", "previous_response_not_found", "previous_response_id")
			}

			stored := g.Do(t, "GET", "/v1/responses/"+first, "")
			var body struct {
				ID     string
				Status string
			}
			if err := json.Unmarshal([]byte(stored.Body), &body); err != nil || body.ID != first || body.Status != "completed" || !strings.Contains(stored.Body, "an answer") {
				t.Errorf("status %d, %v: %s", stored.Status, err, stored.Body)
			}
			if items := g.Do(t, "GET", "/v1/responses/"+first+"/input_items", ""); items.Status != 200 || !strings.Contains(items.Body, "a question") {
				t.Errorf("status %d: %s", items.Status, items.Body)
			}
			wantError(t, g.Do(t, "POST", "/v1/responses/"+first+"/cancel", ""), 400, "invalid_request_error", "", "")
			wantError(t, g.Do(t, "GET", "/v1/responses/"+first, "", other), 404, "invalid_request_error", "", "")
			wantError(t, g.Do(t, "DELETE", "/v1/responses/"+first, "", other), 404, "invalid_request_error", "", "")
			if r := g.Do(t, "DELETE", "/v1/responses/"+first, ""); r.Status != 200 || r.Body != `{"id":"`+first+`","object":"response","deleted":true}` {
				t.Errorf("status %d: %s", r.Status, r.Body)
			}
			r := g.Do(t, "GET", "/v1/responses/"+first, "")
			wantError(t, r, 404, "invalid_request_error", "", "")
			if line := g.Log.Request(t, r.RequestID()); line["path"] != "/v1/responses/{id}" {
				t.Errorf("logged %v, want path /v1/responses/{id}", line)
			}
		})
	}
}

// covers: P9.1
func TestResponsesAreNotStoredWithoutMemory(t *testing.T) {
	provider := answeringProvider(t, upstreamtest.Answer(200, "application/json", openaiWire.answer("an answer"), "Connection: close"))
	g := proxytest.Start(t, openaiWire.gatewayConfig(provider.URL())+"[responses]\nmemory = \"0\"\n")
	r := g.Do(t, "POST", "/v1/responses", `{"model":"m","input":"a question"}`)
	if r.Status != 200 || !strings.Contains(r.Body, `"store":false`) {
		t.Errorf("status %d: %s", r.Status, r.Body)
	}
	_, id, _ := strings.Cut(r.Body, `"id":"`)
	id, _, _ = strings.Cut(id, `"`)
	wantError(t, g.Do(t, "GET", "/v1/responses/"+id, ""), 404, "invalid_request_error", "", "")
	wantError(t, g.Do(t, "POST", "/v1/responses", `{"model":"m","input":"x","previous_response_id":"`+id+`"}`), 400, "invalid_request_error", "previous_response_not_found", "previous_response_id")
}

// covers: P7.7
func TestShowReasoningOption(t *testing.T) {
	answer := strings.Replace(openaiWire.answer("an answer"), `"content":`, `"reasoning_content":"a thought","content":`, 1)
	for _, show := range []bool{true, false} {
		provider := answeringProvider(t, upstreamtest.Answer(200, "application/json", answer, "Connection: close"))
		g := proxytest.Start(t, openaiWire.gatewayConfig(provider.URL())+fmt.Sprintf("[responses]\nshow_reasoning = %t\n", show))
		r := g.Do(t, "POST", "/v1/responses", `{"model":"m","input":"a question"}`)
		if r.Status != 200 || strings.Contains(r.Body, `{"type":"reasoning_text","text":"a thought"}`) != show || strings.Contains(r.Body, "a thought") != show {
			t.Errorf("show_reasoning = %t: status %d: %s", show, r.Status, r.Body)
		}
	}
}

// covers: P1.1 P1.4
func TestResponsesPaths(t *testing.T) {
	g := proxytest.Start(t, configuration("", ""))
	wantError(t, g.Do(t, "GET", "/v1/responses", ""), 405, "invalid_request_error", "method_not_allowed", "")
	for _, path := range []string{"/v1/responses/compact", "/v1/responses/", "/v1/responses/resp_1/other"} {
		wantError(t, g.Do(t, "POST", path, "{}"), 404, "invalid_request_error", "unknown_url", "")
	}
	wantError(t, g.Do(t, "GET", "/v1/responses/resp_1", "", "Authorization:"), 401, "invalid_request_error", "missing_api_key", "")
}

// covers: P1.2
func TestResponsesInputTokens(t *testing.T) {
	g := proxytest.Start(t, configuration("", ""))
	r := g.Do(t, "POST", "/v1/responses/input_tokens", fmt.Sprintf(`{"model":"gpt","input":%q}`, strings.Repeat("A sentence of seven words, in English. ", 100)))
	var n struct {
		Object string
		Tokens int `json:"input_tokens"`
	}
	if err := json.Unmarshal([]byte(r.Body), &n); err != nil || r.Status != 200 || n.Object != "response.input_tokens" || n.Tokens < 900 || n.Tokens > 2000 {
		t.Errorf("status %d, %v: %s", r.Status, err, r.Body)
	}
}

// TestResponsesPassThrough checks that requests to and responses from a provider with the Responses API are passed on
// unchanged, and that a request with previous_response_id goes to the provider of that response.
//
// covers: P2.37 P9.7
func TestResponsesPassThrough(t *testing.T) {
	response := func(id string) string {
		return `{"id":"` + id + `", "object":"response","created_at":1,"status":"completed","error":null,"incomplete_details":null,"instructions":null,"metadata":{},"model":"m","output":[{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"H\u0069","annotations":[],"logprobs":[]}]}],"parallel_tool_calls":true,"temperature":1.0,"tool_choice":"auto","tools":[],"top_p":1.0,"usage":{"input_tokens":3,"input_tokens_details":{"cached_tokens":0},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":8},"of_tomorrow":1.0}`
	}
	first := upstreamtest.New(t,
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(503, "application/json", `{"error":{"message":"busy","type":"x"}}`, "Connection: close")},
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", response("resp_b"), "Connection: close")})
	second := answeringProvider(t, upstreamtest.Answer(200, "application/json", response("resp_a"), "Connection: close"))
	const native = "options = { forms = [\"responses\"] }\n"
	g := proxytest.Start(t, configuration("", "")+openaiWire.providerConfig("first", first.URL(), native)+openaiWire.providerConfig("second", second.URL(), native)+modelWithTargets("m", "first/m", "second/m"))
	const body = `{"model": "m", "input": [ {"role":"user","content":"\u0078"} ], "of_tomorrow": {"b":1.50}}`
	r := g.Do(t, "POST", "/v1/responses", body)
	if r.Status != 200 || r.Body != response("resp_a") || string(second.Requests()[0].Body) != body || second.Requests()[0].Path != "/responses" {
		t.Fatalf("status %d: %s\nsent %s\n%s", r.Status, r.Body, second.Requests()[0].Head, second.Requests()[0].Body)
	}
	if line := g.Log.Request(t, r.RequestID()); line["prompt_tokens"] != "3" || line["completion_tokens"] != "5" {
		t.Errorf("logged %v, want 3 prompt and 5 completion tokens", line)
	}
	r = g.Do(t, "POST", "/v1/responses", strings.Replace(body, "{", `{"previous_response_id":"resp_a",`, 1))
	if r.Status != 200 || r.Header.Get("X-Gateway-Provider") != "second" {
		t.Errorf("status %d from %s, want second: %s", r.Status, r.Header.Get("X-Gateway-Provider"), r.Body)
	}
	r = g.Do(t, "POST", "/v1/responses", body)
	if r.Status != 200 || r.Header.Get("X-Gateway-Provider") != "first" {
		t.Errorf("status %d from %s: %s", r.Status, r.Header.Get("X-Gateway-Provider"), r.Body)
	}
}

// TestResponsesRestoreThinking has a client send back a tool call without its reasoning, which the client did not
// request. The gateway must restore it for the provider.
func TestResponsesRestoreThinking(t *testing.T) {
	const call = `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"thinking","thinking":"hm","signature":"c2lnbmF0dXJl"},{"type":"tool_use","id":"toolu_1","name":"f","input":{}}],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":5}}`
	provider := upstreamtest.New(t,
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", call, "Connection: close")},
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", anthropicWire.answer("good"), "Connection: close")})
	g := proxytest.Start(t, strings.Replace(anthropicWire.gatewayConfig(provider.URL()), "id = \"m\"", "id = \"m\"\nthinking = true", 1))
	const tools = `,"store":false,"reasoning":{"effort":"low"},"tools":[{"type":"function","name":"f","parameters":{"type":"object"}}]}`
	r := g.Do(t, "POST", "/v1/responses", `{"model":"m","input":"x"`+tools)
	if r.Status != 200 || !strings.Contains(r.Body, `"call_id":"toolu_1"`) || strings.Contains(r.Body, "c2lnbmF0dXJl") {
		t.Fatalf("status %d: %s", r.Status, r.Body)
	}
	r = g.Do(t, "POST", "/v1/responses", `{"model":"m","input":[{"role":"user","content":"x"},{"type":"function_call","call_id":"toolu_1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"toolu_1","output":"y"}]`+tools)
	if sent := string(provider.Requests()[1].Body); r.Status != 200 || !strings.Contains(sent, "c2lnbmF0dXJl") {
		t.Errorf("status %d: %s\nsent %s", r.Status, r.Body, sent)
	}
}

// covers: P8.5
func TestResponsesPassErrors(t *testing.T) {
	provider := answeringProvider(t, upstreamtest.Answer(400, "application/json", `{"error":{"message":"Bad input.","type":"invalid_request_error","param":"input[0].content","code":"of_tomorrow"}}`, "Connection: close"))
	g := proxytest.Start(t, configuration("", "")+openaiWire.providerConfig("one", provider.URL(), "options = { forms = [\"responses\"] }")+modelWithTargets("m", "one/m"))
	r := g.Do(t, "POST", "/v1/responses", `{"model":"m","input":[{"role":"user","content":"x"}]}`)
	wantError(t, r, 400, "invalid_request_error", "of_tomorrow", "input[0].content")
}
