package cohere

import (
	"context"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Events as the API sends them.
var (
	toolStart    = []byte(`{"type":"tool-call-start","index":0,"delta":{"message":{"tool_calls":{"id":"weather_vvavrb8p34fk","type":"function","function":{"name":"weather","arguments":""}}}}}`)
	streamEvents = map[string][]byte{
		"text":     []byte(`{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":" counting from"}}}}`),
		"thinking": []byte(`{"type":"content-delta","index":0,"delta":{"message":{"content":{"thinking":" document"}}}}`),
		"plan":     []byte(`{"type":"tool-plan-delta","delta":{"message":{"tool_plan":" weather"}}}`),
		"tool":     []byte(`{"type":"tool-call-delta","index":0,"delta":{"message":{"tool_calls":{"function":{"arguments":"latitude"}}}}}`),
	}
)

// attempt is one whose request has been sent.
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
			send(b, binding, a, toolStart)
			a.Fuel = 0
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
		`{"role":"assistant","content":"It jumps back.","tool_calls":[{"id":"call_1","type":"function","function":{"name":"jump","arguments":"{\"over\":\"dog\"}"}}]},` +
		`{"role":"tool","tool_call_id":"call_1","content":"It has jumped over the dog once more."},`
	return []byte(`{"model":"m","stream":true,"messages":[{"role":"system","content":"You tell stories."},` + strings.Repeat(turns, max(n/len(turns), 1)) +
		`{"role":"user","content":"Go on"}],"tools":[{"type":"function","function":{"name":"jump","parameters":{"type":"object","properties":{"over":{"type":"string"}}}}}]}`)
}

// BenchmarkRequest measures provider_request alone: the client's body has been parsed and validated.
func BenchmarkRequest(b *testing.B) {
	binding := suite.Bind(b, plugintest.Host(b), plugintest.Module)
	image := `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.Repeat("iVBORw0K", 1<<17) + `"}}]}]}`
	text := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("The quick brown fox. ", 5000) + `"}]}`
	for _, request := range []struct {
		name string
		body []byte
	}{
		{"1KB", conversation(1 << 10)}, {"100KB", conversation(100 << 10)}, {"100KB of text", []byte(text)}, {"1MB of an image", []byte(image)},
	} {
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
			var fuel int64
			for b.Loop() {
				a.Reset()
				a.Request, a.Writer = &r, writer
				a.Summary = plugintest.Summary{RequestID: "req_bench", Attempt: 1, Target: "m"}
				a.Summary.Describe(&r)
				if err := binding.Request(context.Background(), &a); err != nil {
					b.Fatal(err)
				}
				fuel = a.Fuel
			}
			b.ReportMetric(float64(fuel), "fuel/op")
		})
	}
}
