package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// oversizedBodies returns response bodies that exceed a limit of the gateway, by plugin and limit. Each is a failure of
// the provider.
func oversizedBodies() map[string]map[string]string {
	times := func(n int, f func(i int) string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(f(i))
		}
		return b.String()
	}
	const tooMany = abi.MaxKeys + 1
	sse := func(name, data string) string {
		if name != "" {
			name = "event: " + name + "\n"
		}
		return name + "data: " + data + "\n\n"
	}
	blob, nest := strings.Repeat("x", 100<<10), strings.Repeat(`[`, 40<<10)
	claude := func(rest string) string {
		return sse("message_start", `{"type":"message_start","message":{"id":"m","model":"m","role":"assistant","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}`) + rest
	}
	claudeText := func(s string) string {
		return claude(sse("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":`+s+`}}`))
	}
	gemini := func(parts string) string {
		return sse("", `{"candidates":[{"index":0,"content":{"role":"model","parts":[`+parts+`]}}]}`)
	}
	cohere := func(rest string) string {
		return sse("message-start", `{"type":"message-start","id":"m","delta":{"message":{"role":"assistant"}}}`) + rest
	}
	ollama := func(message string) string {
		return `{"model":"m","created_at":"2026-01-01T00:00:00Z","message":{"role":"assistant","content":"",` + message + `},"done":false}` + "\n"
	}
	openai := func(delta string) string {
		return sse("", `{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{`+delta+`},"finish_reason":null}]}`)
	}
	return map[string]map[string]string{
		"anthropic": {
			"tool calls": claude(times(tooMany, func(i int) string {
				return sse("content_block_start", fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":"t%[1]d","name":"f","input":{}}}`, i))
			})),
			"parts of reasoning": claude(times(tooMany, func(i int) string {
				return sse("content_block_delta", fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"thinking_delta","thinking":"a"}}`, i))
			})),
			"event":   claudeText(`"` + blob + `"`),
			"nesting": claudeText(nest),
		},
		"gemini": {
			"tool calls": times(tooMany, func(i int) string { return gemini(`{"functionCall":{"name":"f","args":{}}}`) }),
			"tool calls of an event": gemini(strings.TrimSuffix(times(tooMany, func(i int) string {
				return `{"functionCall":{"name":"f","args":{}}},`
			}), ",")),
			"event":      gemini(`{"text":"` + blob + `"}`),
			"candidates": sse("", fmt.Sprintf(`{"candidates":[{"index":%d,"content":{"role":"model","parts":[{"text":"a"}]}}]}`, abi.MaxChoices)),
			"nesting":    gemini(`{"functionCall":{"name":"f","args":{"a":` + nest),
		},
		"cohere": {
			"tool calls": cohere(times(tooMany, func(i int) string {
				return sse("tool-call-start", fmt.Sprintf(`{"type":"tool-call-start","index":%d,"delta":{"message":{"tool_calls":{"id":"t%[1]d","type":"function","function":{"name":"f","arguments":""}}}}}`, i))
			})),
			"event":   cohere(sse("content-delta", `{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"`+blob+`"}}}}`)),
			"nesting": cohere(sse("content-delta", `{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":`+nest)),
		},
		"ollama": {
			"tool calls": times(tooMany, func(i int) string { return ollama(`"tool_calls":[{"function":{"name":"f","arguments":{}}}]`) }),
			"event":      ollama(`"thinking":"` + blob + `"`),
			"nesting":    ollama(`"tool_calls":` + nest),
		},
		"openai": {
			"tool calls": times(tooMany, func(i int) string {
				return openai(fmt.Sprintf(`"tool_calls":[{"index":%d,"id":"t%[1]d","type":"function","function":{"name":"f","arguments":""}}]`, i))
			}),
			"event":   openai(`"content":"` + blob + `"`),
			"nesting": openai(`"content":` + nest),
		},
	}
}

// TestOversizedResponses sends each body more often than a plugin may fail before its circuit opens.
func TestOversizedResponses(t *testing.T) {
	if testing.Short() {
		t.Skip("sends dozens of oversized responses")
	}
	const failures = 8
	config := quietServer
	var models []string
	for plugin, bodies := range oversizedBodies() {
		for name, body := range bodies {
			model, contentType := plugin+"/"+strings.ReplaceAll(name, " ", "-"), "text/event-stream"
			if plugin == "ollama" {
				contentType = "application/x-ndjson"
			}
			server := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, contentType, body, "Connection: close")})
			id := fmt.Sprintf("%s-%d", plugin, len(models))
			config += fmt.Sprintf("[providers.%s]\nplugin = %q\nbase_url = %q\nmax_event = \"64KiB\"\nauth = { secret = \"sk-upstream-canary\" }\nbreaker = { enabled = false }\n", id, plugin, server.URL())
			config += fmt.Sprintf("[[models]]\nid = %q\nmax_tokens = 1000\ntargets = [{ provider = %q, model = \"m\" }]\n", model, id)
			models = append(models, model)
		}
	}
	g := proxytest.Start(t, config)
	for _, model := range models {
		t.Run(model, func(t *testing.T) {
			for range failures {
				r := g.Chat(t, canaryRequest(model, true))
				if body := string(r.Body); !strings.Contains(body, `"code":"upstream_bad_answer"`) {
					t.Fatalf("status %d, want upstream_bad_answer in:\n%s", r.Status, body[max(0, len(body)-300):])
				}
				line := g.Log.Request(t, r.RequestID())
				if strings.HasSuffix(model, "/event") && !strings.Contains(line["cause"], "max_event") {
					t.Errorf("the logged cause does not name max_event: %s", line["cause"])
				}
			}
		})
	}
}

// TestResponseLargerThanPluginMemory sends a body and an event that are within the gateway's limits, but do not fit
// into the plugin's memory.
func TestResponseLargerThanPluginMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("moves a hundred megabytes")
	}
	const failures = 6
	text := strings.Repeat("x", 9<<20)
	document := `{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"` + text + `"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`
	event := "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"" + text + "\"}}\n\n"
	good := `{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`
	var scripts []upstreamtest.Script
	for _, s := range []struct{ kind, body string }{{"application/json", document}, {"text/event-stream", event}} {
		for range failures {
			scripts = append(scripts, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, s.kind, s.body, "Connection: close")})
		}
	}
	scripts = append(scripts, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", good, "Connection: close")})
	server := upstreamtest.New(t, scripts...)
	g := proxytest.Start(t, quietServer+"[plugins.anthropic]\nmemory = \"8MiB\"\n"+
		"[providers.up]\nplugin = \"anthropic\"\nbase_url = \""+server.URL()+"\"\nmax_event = \"32MiB\"\nauth = { secret = \"sk-upstream-canary\" }\nbreaker = { enabled = false }\n"+
		"[[models]]\nid = \"m\"\nmax_tokens = 1000\ntargets = [{ provider = \"up\", model = \"m\" }]\n")
	for _, stream := range []bool{false, true} {
		for range failures {
			if r := g.Chat(t, canaryRequest("m", stream)); r.Status != 502 || !strings.Contains(r.Body, `"code":"upstream_bad_answer"`) {
				t.Fatalf("stream %v: status %d, want upstream_bad_answer: %.300s", stream, r.Status, r.Body)
			}
		}
	}
	if r := g.Chat(t, canaryRequest("m", false)); r.Status != 200 {
		t.Errorf("valid response after the failures: got %d, want 200: %s", r.Status, r.Body)
	}
}
