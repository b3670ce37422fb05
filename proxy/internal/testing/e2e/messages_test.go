package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

const askMessages = `{"model":"m","max_tokens":1000,"messages":[{"role":"user","content":"x"}]}`

// openaiWire and anthropicWire are the dialects that most tests use.
var openaiWire, anthropicWire = wires[0], wires[1]

// TestMessagesPassToAnthropic checks that requests to a provider of Messages and its responses are passed on byte for
// byte, apart from headers and line ends that the gateway changes.
//
// covers: M1.1 M1.6 M1.7 M1.10 M5.14 M7.20
func TestMessagesPassToAnthropic(t *testing.T) {
	const request = `{"model": "m",  "max_tokens": 1000, "messages": [ {"role":"user","content":[{"type":"text","text":"\u0078"}]} ], "new_member": {"b":1.50,"a":[]}}`
	stream := "event: message_start\r\ndata: {\"type\":\"message_start\", \"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\r\n\r\n" +
		"event: ping\ndata: {\"type\": \"ping\"}\n\n" +
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n" +
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"H\\u0069\"}}\n\n" +
		"event: new_event\ndata: {\"type\":\"new_event\",\"x\":1.0}\n\n" +
		"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n" +
		"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":5}}\n\n" +
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	message := `{"id":"msg_1", "type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"H\u0069"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":5,"new_event":1.0}}`
	provider := upstreamtest.New(t,
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", message, "Connection: close")},
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "text/event-stream", stream, "Connection: close")})
	g := proxytest.Start(t, anthropicWire.gatewayConfig(provider.URL()))
	for i, want := range []string{message, strings.ReplaceAll(stream, "\r\n", "\n")} {
		body := request
		if i == 1 {
			body = strings.Replace(request, "{", `{"stream": true, `, 1)
		}
		r := g.Do(t, "POST", "/v1/messages?beta=true", body, "anthropic-version: 2030-01-01", "x-app: cli", "anthropic-beta: one-2025-01-01, two-2025-01-01,one-2025-01-01")
		if r.Status != 200 || r.Body != want {
			t.Errorf("status %d, client received\n%s\nwant\n%s", r.Status, r.Body, want)
		}
		sent := provider.Requests()[i]
		if string(sent.Body) != body {
			t.Errorf("provider received\n%s\nwant\n%s", sent.Body, body)
		}
		for name, want := range map[string]string{"anthropic-beta": "one-2025-01-01,two-2025-01-01", "anthropic-version": "2023-06-01", "x-app": ""} {
			if got := strings.ReplaceAll(strings.Join(sent.Header.Values(name), ","), " ", ""); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		line := g.Log.Request(t, r.RequestID())
		if line["prompt_tokens"] != "3" || line["completion_tokens"] != "5" || line["complete"] != "true" {
			t.Errorf("logged as %v", line)
		}
	}
}

// TestMessagesErrorsNameClientsPath has a provider of chat completions reject a member of the translated request. The
// client's error must name the member of its own request.
//
// covers: M3.29
func TestMessagesErrorsNameClientsPath(t *testing.T) {
	provider := answeringProvider(t, upstreamtest.Answer(400, "application/json", `{"error":{"message":"'messages[1].content' is bad","type":"invalid_request_error","param":"messages[1].content","code":"invalid_value"}}`, "Connection: close"))
	g := proxytest.Start(t, openaiWire.gatewayConfig(provider.URL()))
	r := g.Do(t, "POST", "/v1/messages", `{"model":"m","max_tokens":10,"system":"s","messages":[{"role":"user","content":"x"}]}`)
	if r.Status != 400 || strings.Contains(r.Body, "messages[1]") || !strings.Contains(r.Body, "messages.0") {
		t.Errorf("status %d: %s", r.Status, r.Body)
	}
}

// TestMessagesWithServerTools sends a tool that only providers of Messages can run. Other targets are skipped, and
// without a suitable target the error names the tool.
//
// covers: M4.6 M8.11
func TestMessagesWithServerTools(t *testing.T) {
	const body = `{"model":"m","max_tokens":10,"tools":[{"type":"web_search_20250305","name":"web_search"}],"messages":[{"role":"user","content":"x"}]}`
	busy := answeringProvider(t, upstreamtest.Answer(503, "application/json", `{"error":{"message":"busy","type":"x"}}`, "Connection: close"))
	good := answeringProvider(t, upstreamtest.Answer(200, "application/json", anthropicWire.answer("good"), "Connection: close"))
	t.Run("no suitable target", func(t *testing.T) {
		g := proxytest.Start(t, openaiWire.gatewayConfig(busy.URL()))
		r := g.Do(t, "POST", "/v1/messages", body)
		line := g.Log.Request(t, r.RequestID())
		if r.Status != 400 || !strings.Contains(r.Body, "tools.0") || !strings.Contains(line["cause"], "one") || len(busy.Requests()) != 0 {
			t.Errorf("status %d: %s, logged as %v", r.Status, r.Body, line)
		}
	})
	t.Run("last target is suitable", func(t *testing.T) {
		g := proxytest.Start(t, configuration("", "")+openaiWire.providerConfig("a", busy.URL(), "")+openaiWire.providerConfig("b", busy.URL(), "")+anthropicWire.providerConfig("c", good.URL(), "")+modelWithTargets("m", "a/m", "b/m", "c/m"))
		r := g.Do(t, "POST", "/v1/messages", body)
		if r.Status != 200 || r.Header.Get("X-Gateway-Provider") != "c" || r.Header.Get("X-Gateway-Attempts") != "3" {
			t.Errorf("status %d, headers %v: %s", r.Status, r.Header, r.Body)
		}
		if warning := r.Header.Get("X-Gateway-Warning"); warning != "" {
			t.Errorf("warning %q for a request that was passed on unchanged", warning)
		}
	})
}

// covers: M9.1 M9.4 M9.5 M9.6
func TestMessagesCountTokens(t *testing.T) {
	provider := upstreamtest.New(t)
	g := proxytest.Start(t, openaiWire.gatewayConfig(provider.URL())+"[[keys]]\nname = \"one\"\nsecret = \"sk-one-0123456789\"\nlimits = { requests_per_minute = 3, tokens_per_minute = 1 }\n")
	count := func(body string) int {
		t.Helper()
		r := g.Do(t, "POST", "/v1/messages/count_tokens?beta=true", body, "Authorization:", "x-api-key: sk-one-0123456789")
		var n struct {
			Tokens int `json:"input_tokens"`
		}
		if err := json.Unmarshal([]byte(r.Body), &n); err != nil || r.Status != 200 || n.Tokens == 0 || r.Header.Get("X-Gateway-Warning") != "estimated input_tokens" {
			t.Errorf("status %d, %v: %s", r.Status, err, r.Body)
		}
		if line := g.Log.Request(t, r.RequestID()); line["path"] != "/v1/messages/count_tokens" || line["status"] != "200" || line["model"] != "m" {
			t.Errorf("logged as %v", line)
		}
		return n.Tokens
	}
	prose := strings.Repeat("A sentence of seven words, in English. ", 100) // about 900 tokens
	plain := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}]}`, prose)
	tools := strings.Replace(plain, "{", `{"tools":[{"name":"f","description":"`+strings.Repeat("words ", 100)+`","input_schema":{"type":"object"}}],`, 1)
	image := strings.Replace(plain, `"content":"`, `"content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}},{"type":"text","text":"`, 1)
	image = strings.Replace(image, `"}]}`, `"}]}]}`, 1)
	n := count(plain)
	if n < 900 || n > 2000 {
		t.Errorf("%d tokens, want about 900", n)
	}
	if more := count(tools) - n; more < 100 {
		t.Errorf("%d more tokens for a tool of 100 words", more)
	}
	if more := count(image) - n; more < 1600 {
		t.Errorf("%d more tokens for an image", more)
	}
	r := g.Do(t, "POST", "/v1/messages/count_tokens", plain, "Authorization:", "x-api-key: sk-one-0123456789")
	if r.Status != 429 {
		t.Errorf("status %d above the limit of requests, want 429: %s", r.Status, r.Body)
	}
	r = g.Do(t, "POST", "/v1/messages/count_tokens", `{"model":"m","messages":[]}`)
	if r.Status != 400 || !strings.Contains(r.Body, `"type":"invalid_request_error"`) {
		t.Errorf("status %d without messages: %s", r.Status, r.Body)
	}
}

// covers: M1.13 P1.6
func TestModelsOfOtherAPIs(t *testing.T) {
	g := proxytest.Start(t, configuration("", ""))
	var list struct {
		Data []struct {
			Type, ID    string
			DisplayName string `json:"display_name"`
			CreatedAt   string `json:"created_at"`
		}
		HasMore *bool  `json:"has_more"`
		FirstID string `json:"first_id"`
		LastID  string `json:"last_id"`
	}
	headers := []string{"anthropic-version: 2023-06-01", "Authorization:", "x-api-key: " + proxytest.Key}
	r := g.Do(t, "GET", "/v1/models?limit=1000", "", headers...)
	if err := json.Unmarshal([]byte(r.Body), &list); err != nil || r.Status != 200 || list.HasMore == nil || *list.HasMore || len(list.Data) != 5 {
		t.Fatalf("status %d, %v: %s", r.Status, err, r.Body)
	}
	first := list.Data[0]
	if first.Type != "model" || first.ID != list.FirstID || list.Data[4].ID != list.LastID {
		t.Errorf("first model, first_id or last_id is wrong: %s", r.Body)
	}
	r = g.Do(t, "GET", "/v1/models/demo", "", headers...)
	if want := `{"type":"model","id":"demo","display_name":"Demo","created_at":"2026-01-01T00:00:00Z"}`; r.Body != want {
		t.Errorf("got %s\nwant %s", r.Body, want)
	}
	messages := ingresses[1]
	messages.wantError(t, g, g.Do(t, "GET", "/v1/models/nothing", "", headers...), 404, "model_not_found")
	messages.wantError(t, g, g.Do(t, "GET", "/v1/models", "", "anthropic-version: 2023-06-01", "Authorization:"), 401, "missing_api_key")
	if r := g.Do(t, "GET", "/v1/models", "", "Authorization:", "x-api-key: "+proxytest.Key); r.Status != 401 {
		t.Errorf("status %d for x-api-key without anthropic-version, want 401", r.Status)
	}

	var codex struct {
		Data, Models []any
	}
	r = g.Do(t, "GET", "/v1/models?client_version=0.169.0", "")
	if err := json.Unmarshal([]byte(r.Body), &codex); err != nil || r.Status != 200 || len(codex.Data) != 5 || codex.Models == nil {
		t.Errorf("status %d, %v: %s", r.Status, err, r.Body)
	}
}

// covers: M1.14
func TestMessagesUnknownPaths(t *testing.T) {
	g := proxytest.Start(t, configuration("", ""))
	for _, path := range []string{"/v1/messages/batches", "/v1/messages/", "/v1/messages/sk-secret-0123456789"} {
		r := g.Do(t, "POST", path, "{}")
		message := ingresses[1].wantError(t, g, r, 404, "unknown_url")
		if strings.Contains(message, "secret") || !strings.Contains(message, "POST /v1/messages") {
			t.Errorf("%s: message %q", path, message)
		}
	}
	if r := g.Do(t, "GET", "/v1/messages", ""); r.Status != 405 || r.Header.Get("Allow") != "POST" || !strings.Contains(r.Body, `"type":"error"`) {
		t.Errorf("status %d, headers %v: %s", r.Status, r.Header, r.Body)
	}
}

// TestKeysInBetaHeaderAreDropped checks that a credential in anthropic-beta is neither forwarded nor logged.
func TestKeysInBetaHeaderAreDropped(t *testing.T) {
	provider := answeringProvider(t, upstreamtest.Answer(200, "application/json", anthropicWire.answer("good"), "Connection: close"))
	g := proxytest.Start(t, anthropicWire.gatewayConfig(provider.URL()))
	r := g.Do(t, "POST", "/v1/messages", askMessages, "anthropic-beta: "+proxytest.Key+",good-2025-01-01,sk-upstream-one-canary,"+strings.Repeat("x", 200))
	sent := provider.Requests()[0].Header.Get("anthropic-beta")
	if r.Status != 200 || sent != "good-2025-01-01" || strings.Contains(fmt.Sprint(r.Header)+g.Log.String(), proxytest.Key) {
		t.Errorf("status %d, sent %q, headers %v", r.Status, sent, r.Header)
	}
}

// TestMessagesContextTooLong has a provider of chat completions reject a conversation that is too long. Clients get the
// message of the Messages API, because they parse it to shorten the conversation.
//
// covers: M8.4 M8.5 M8.6
func TestMessagesContextTooLong(t *testing.T) {
	for _, c := range []struct{ message, want string }{
		{"This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens. Please reduce the length of the messages.", "prompt is too long: 130000 tokens > 128000 maximum"},
		{"This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (5000 in the messages, 4000 in the completion). Please reduce the length of the messages or completion.", "input length and `max_tokens` exceed context limit: 5000 + 4000 > 8192, decrease input length or `max_tokens` and try again"},
		{"Too long.", "prompt is too long"},
	} {
		provider := answeringProvider(t, upstreamtest.Answer(400, "application/json", fmt.Sprintf(`{"error":{"message":%q,"type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, c.message), "Connection: close"))
		g := proxytest.Start(t, openaiWire.gatewayConfig(provider.URL()))
		r := g.Do(t, "POST", "/v1/messages", askMessages)
		if message := ingresses[1].wantError(t, g, r, 400, "context_length_exceeded"); message != c.want {
			t.Errorf("message %q, want %q", message, c.want)
		}
	}
}

// TestMessagesModelWithSuffix configures a model whose name begins with another's. Neither must be used for the other.
//
// covers: M2.3
func TestMessagesModelWithSuffix(t *testing.T) {
	provider := answeringProvider(t, upstreamtest.Answer(200, "application/json", anthropicWire.answer("good"), "Connection: close"))
	g := proxytest.Start(t, anthropicWire.gatewayConfig(provider.URL())+modelWithTargets("m[1m]", "one/long"))
	for name, want := range map[string]int{"m": 200, "m[1m]": 200, "m[2m]": 404} {
		if r := g.Do(t, "POST", "/v1/messages", strings.Replace(askMessages, `"m"`, `"`+name+`"`, 1)); r.Status != want {
			t.Errorf("%s: status %d: %s", name, r.Status, r.Body)
		}
	}
	if sent := string(provider.Requests()[0].Body) + string(provider.Requests()[1].Body); strings.Count(sent, `"model":"long"`) != 1 {
		t.Errorf("want one request for the model long, sent %s", sent)
	}
}
