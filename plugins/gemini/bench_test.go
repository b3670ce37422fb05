package gemini

import (
	"context"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// frame is an event with these parts, as the API writes it.
func frame(parts string) []byte {
	return []byte(`{"candidates": [{"content": {"parts": [` + parts + `],"role": "model"},"index": 0}],"usageMetadata": {"promptTokenCount": 44,` +
		`"candidatesTokenCount": 44,"totalTokenCount": 990,"promptTokensDetails": [{"modality": "TEXT","tokenCount": 44}],"thoughtsTokenCount": 902,` +
		`"serviceTier": "standard"},"modelVersion": "gemini-3-flash-preview","responseId": "eb-FapqKAZ36nsEP49ya-As"}`)
}

var streamEvents = map[string][]byte{
	"text":    frame(`{"text": "logical paradox**—a question where any answer it provides (Yes or No) would"}`),
	"thought": frame(`{"text": "I'm wrestling with the conundrum of the magic mirror. The core rule is intriguing:","thought": true}`),
	"pieces":  frame(`{"functionCall": {"partialArgs": [{"jsonPath": "$.text","stringValue": "more of it","willContinue": true}],"willContinue": true}}`),
}

var callStart = frame(`{"functionCall": {"name": "say","willContinue": true}}`)

// attempt is one whose request has been sent, and whose answer has begun a call.
func attempt(tb testing.TB, b *plugintest.Binding) *plugintest.Attempt {
	tb.Helper()
	a := &plugintest.Attempt{Request: new(plugintest.Request), Writer: plugintest.NewWriter()}
	if err := a.Request.Parse([]byte(`{"model":"m","stream":true,"messages":[{"role":"user","content":"Hi"}]}`), plugintest.Limits{}); err != nil {
		tb.Fatal(err)
	}
	a.Summary = plugintest.Summary{RequestID: "req_bench", Attempt: 1, Target: "m"}
	a.Summary.Describe(a.Request)
	a.Writer.Reset(plugintest.WriterOptions{Stream: true, ID: "chatcmpl-bench", Model: "m", Created: 1700000000, Aliases: a.Alias})
	if err := b.Request(context.Background(), a); err != nil {
		tb.Fatal(err)
	}
	send(tb, b, a, callStart)
	a.Fuel = 0
	return a
}

func send(tb testing.TB, b *plugintest.Binding, a *plugintest.Attempt, data []byte) {
	if err := b.Event(context.Background(), a, abi.EventPlain, nil, data); err != nil {
		tb.Fatal(err)
	}
	a.Writer.Take()
}

// BenchmarkEvent measures one event of a stream, from the plugin's input to the chunk for the client.
func BenchmarkEvent(b *testing.B) {
	binding := suite.Bind(b, plugintest.Host(b), plugintest.Module)
	for name, data := range streamEvents {
		b.Run(name, func(b *testing.B) {
			a := attempt(b, binding)
			b.ReportAllocs()
			for b.Loop() {
				send(b, binding, a, data)
			}
			b.ReportMetric(float64(a.Fuel)/float64(b.N), "fuel/op")
		})
	}
}

// conversation is a request of about n bytes.
func conversation(n int) []byte {
	const turns = `{"role":"user","content":"The quick brown fox jumps over the lazy dog, and then?"},` +
		`{"role":"assistant","content":"It jumps back.","tool_calls":[{"id":"call_1","type":"function","function":{"name":"jump","arguments":"{\"over\":\"dog\"}"},` +
		`"extra_content":{"google":{"thought_signature":"c2lnbmF0dXJl"}}}]},{"role":"tool","tool_call_id":"call_1","content":"It has jumped over the dog once more."},`
	return []byte(`{"model":"m","stream":true,"messages":[{"role":"system","content":"You tell stories."},` + strings.Repeat(turns, max(n/len(turns), 1)) +
		`{"role":"user","content":"Go on"}],"tools":[{"type":"function","function":{"name":"jump","parameters":{"type":"object","properties":{"over":{"type":"string"}}}}}]}`)
}

// BenchmarkRequest measures provider_request alone: the client's body has been parsed and validated.
func BenchmarkRequest(b *testing.B) {
	binding := suite.Bind(b, plugintest.Host(b), plugintest.Module)
	image := `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.Repeat("iVBORw0K", 1<<17) + `"}}]}]}`
	for _, request := range []struct {
		name string
		body []byte
	}{{"1KB", conversation(1 << 10)}, {"100KB", conversation(100 << 10)}, {"1MB of an image", []byte(image)}} {
		b.Run(request.name, func(b *testing.B) {
			var (
				r      plugintest.Request
				writer = plugintest.NewWriter()
				a      plugintest.Attempt
			)
			if err := r.Parse(request.body, plugintest.Limits{}); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(request.body)))
			b.ReportAllocs()
			for b.Loop() {
				a.Reset()
				a.Request, a.Writer = &r, writer
				a.Summary = plugintest.Summary{RequestID: "req_bench", Attempt: 1, Target: "gemini-3-pro-preview"}
				a.Summary.Describe(&r)
				if err := binding.Request(context.Background(), &a); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(a.Fuel), "fuel/op")
		})
	}
}
