package messages_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/messages"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// benchEvents are events in the middle of a stream.
var benchEvents = map[string]func(b *response.Batch){
	"text":      func(b *response.Batch) { b.Text(0, abi.EncodingEscaped, []byte(" token")) },
	"reasoning": func(b *response.Batch) { b.Reasoning(0, abi.ReasoningText, 0, abi.EncodingEscaped, []byte(" token")) },
	"arguments": func(b *response.Batch) { b.ToolArguments(0, 1, abi.EncodingEscaped, []byte(`\"a\",`)) },
}

// benchSetup holds the events that must precede those of benchEvents.
var benchSetup = map[string]script{"arguments": {call(1, "a", "f"), args(1, `{"a":[`)}}

// BenchmarkEvent measures rendering one event of a stream, compared with the same event as a chat completion chunk.
func BenchmarkEvent(b *testing.B) {
	for name, event := range benchEvents {
		for api, w := range map[string]*response.Writer{"messages": newMessageWriter().Writer, "chat": openai.NewWriter()} {
			b.Run(name+"/"+api, func(b *testing.B) {
				var batch response.Batch
				w.Reset(writerOptions(true))
				for _, f := range append(benchSetup[name], event) {
					batch.Reset()
					f(&batch)
					if err := w.Apply(&batch); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportAllocs()
				for b.Loop() {
					if err := w.Apply(&batch); err != nil {
						b.Fatal(err)
					}
					w.Consume()
				}
			})
		}
	}
}

// BenchmarkNativeEvent measures one event of a provider that speaks the Messages API, passed on or rendered. "other"
// has a format without a fast path.
func BenchmarkNativeEvent(b *testing.B) {
	for name, data := range map[string]string{
		"delta": `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" token"}         }`,
		"other": `{"type":"content_block_delta","index":0,"delta":{"text":" token","type":"text_delta"}}`,
		"ping":  pingEvent,
	} {
		for way, pass := range map[string]bool{"passed": true, "rendered": false} {
			b.Run(name+"/"+way, func(b *testing.B) {
				var r messages.Reader
				var batch response.Batch
				w := newMessageWriter()
				w.reset(true, pass)
				r.Reset(pass)
				for _, e := range []string{startEvent, blockEvent, deltaEvent} {
					batch.Reset()
					if err := w.apply(&batch, r.ReadEvent(nil, []byte(e), &batch)); err != nil {
						b.Fatal(err)
					}
				}
				event := []byte(data)
				b.ReportAllocs()
				for b.Loop() {
					batch.Reset()
					if err := r.ReadEvent([]byte("content_block_delta"), event, &batch); err != nil {
						b.Fatal(err)
					}
					if err := w.Apply(&batch); err != nil {
						b.Fatal(err)
					}
					w.Consume()
				}
			})
		}
	}
}

// BenchmarkResponse reads a recorded response of 6 KB and passes it on or renders it.
func BenchmarkResponse(b *testing.B) {
	body, err := os.ReadFile("testdata/responses/cache-counters-t2.resp.json")
	if err != nil {
		b.Fatal(err)
	}
	for way, pass := range map[string]bool{"passed": true, "rendered": false} {
		b.Run(way, func(b *testing.B) {
			var r messages.Reader
			var batch response.Batch
			var dst []byte
			w := newMessageWriter()
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				w.reset(false, pass)
				r.Reset(pass)
				batch.Reset()
				if err := r.ReadResponse(body, &batch); err != nil {
					b.Fatal(err)
				}
				if err := w.Apply(&batch); err != nil {
					b.Fatal(err)
				}
				dst = w.AppendResponse(dst[:0])
			}
		})
	}
}

// BenchmarkStream reads and renders a recorded stream with reasoning, text and a tool call.
func BenchmarkStream(b *testing.B) {
	body, err := os.ReadFile("testdata/responses/stream-advisor.resp.sse")
	if err != nil {
		b.Fatal(err)
	}
	rec := recording{name: "stream", stream: bytes.Clone(body)}
	w := newMessageWriter()
	r := new(messages.Reader)
	b.ReportAllocs()
	for b.Loop() {
		w.reset(true, false)
		rec.replay(b, w.Writer, r, false, cuts["whole"])
	}
}
