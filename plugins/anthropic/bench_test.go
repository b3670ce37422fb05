package anthropic

import (
	"context"
	"strings"
	"testing"
	"time"

	benchload "github.com/sluice-gateway/sluice/cmd/bench/load"
	"github.com/sluice-gateway/sluice/proxy/plugintest"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Events as the API sends them, with the padding that it puts behind them.
var (
	deltaName     = []byte("content_block_delta")
	textEvent     = []byte(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" casual way to say hi"}          }`)
	toolStart     = []byte(`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_01N2eM4V43kGCDkq2Lw7ChWQ","name":"weather","input":{}}   }`)
	toolEvent     = []byte(`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"on\": \"Flor"}     }`)
	thinkingEvent = []byte(`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":" weather information for"}}`)
)

// spacedEvent is a text event that is not written as the API writes it.
var spacedEvent = []byte(`{"type": "content_block_delta","index":0,"delta":{"type":"text_delta","text":" casual way to say hi"}          }`)

// attempt is one whose request has been sent.
func attempt(tb testing.TB, b *plugintest.Binding) *plugintest.Attempt {
	tb.Helper()
	return attemptOf(tb, b, `{"model":"m","stream":true,"messages":[{"role":"user","content":"Hi"}]}`)
}

func attemptOf(tb testing.TB, b *plugintest.Binding, body string) *plugintest.Attempt {
	tb.Helper()
	a := &plugintest.Attempt{Request: new(plugintest.Request), Writer: plugintest.NewWriter()}
	if err := a.Request.Parse([]byte(body), plugintest.Limits{}); err != nil {
		tb.Fatal(err)
	}
	a.Summary = plugintest.Summary{RequestID: "req_bench", Time: time.Now(), Attempt: 1, Target: "m"}
	a.Summary.Describe(a.Request)
	a.Writer.Reset(plugintest.WriterOptions{Stream: a.Request.Stream, ID: "chatcmpl-bench", Model: "m", Created: 1700000000, Aliases: a.Alias})
	if err := b.Request(context.Background(), a); err != nil {
		tb.Fatal(err)
	}
	a.Fuel = 0
	return a
}

func send(tb testing.TB, b *plugintest.Binding, a *plugintest.Attempt, data []byte) {
	if err := b.Event(context.Background(), a, abi.EventPlain, deltaName, data); err != nil {
		tb.Fatal(err)
	}
	a.Writer.Take()
}

// BenchmarkEvent measures one event of a stream, from the plugin's input to the chunk for the client.
func BenchmarkEvent(b *testing.B) {
	binding := suite.Bind(b, plugintest.Host(b), plugintest.Module)
	for _, kind := range []struct {
		name string
		data []byte
	}{{"text", textEvent}, {"tool", toolEvent}, {"thinking", thinkingEvent}, {"text read member by member", spacedEvent}} {
		b.Run(kind.name, func(b *testing.B) {
			a := attempt(b, binding)
			send(b, binding, a, toolStart)
			a.Fuel = 0
			b.ReportAllocs()
			for b.Loop() {
				send(b, binding, a, kind.data)
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
	turns := make([]string, 64)
	for i := range turns {
		turns[i] = `{"role":"` + []string{"user", "assistant"}[i%2] + `","content":"` + strings.Repeat(`It was \"built\" in three years; the café at its end opened later.\nCompare it with the older one, and say which stone was used where. `, 12) + `"}`
	}
	prose := `{"model":"m","messages":[` + strings.Join(turns, ",") + `]}`
	for _, request := range []struct {
		name string
		body []byte
	}{
		{"make bench", benchRequest(0)}, {"make bench 100KB", benchRequest(100 << 10)},
		{"1KB", conversation(1 << 10)}, {"100KB", conversation(100 << 10)}, {"100KB of text", []byte(text)}, {"100KB of prose", []byte(prose)}, {"1MB of an image", []byte(image)},
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
				a.Summary = plugintest.Summary{RequestID: "req_bench", Time: time.Now(), Attempt: 1, Target: "claude-sonnet-4-5"}
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

// benchRequest is a request as make bench sends it, with a prompt of about n bytes.
func benchRequest(n int) []byte {
	_, body, _ := strings.Cut(string(benchload.Request(&benchload.Job{Prompt: n, Model: "m"})), "\r\n\r\n")
	return []byte(body)
}

// wholeAnswer is a whole answer as make bench gets it: one text with some escapes.
var wholeAnswer = []byte(`{"model":"claude-haiku-4-5-20251001","id":"msg_01KrnBffuzxt8ttHq7iiZe7n","type":"message","role":"assistant","content":[{"type":"text","text":"` +
	strings.Repeat(`The bridge over the river was built in three years, which is less than anyone had \"expected\". It has \n\n**Two arches** of grey stone; the larger one spans forty-two metres – about a third of the valley's width. Visitors cross it on foot from the café to the old mill and back again before dusk falls.`, 2) +
	`"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":61,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,` +
	`"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0},"output_tokens":128,"service_tier":"standard","inference_geo":"not_available"}}`)

// BenchmarkResponse measures provider_response including the response for the client.
func BenchmarkResponse(b *testing.B) {
	binding := suite.Bind(b, plugintest.Host(b), plugintest.Module)
	a := attemptOf(b, binding, `{"model":"m","messages":[{"role":"user","content":"Hi"}]}`)
	b.ReportAllocs()
	for b.Loop() {
		a.Writer.Reset(plugintest.WriterOptions{ID: "chatcmpl-bench", Model: "m", Created: 1700000000, Aliases: a.Alias})
		a.Fuel = 0
		if err := binding.Response(context.Background(), a, 200, wholeAnswer); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(a.Fuel), "fuel/op")
}
