//go:build !race

package response_test

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

func TestEventsDoNotAllocate(t *testing.T) {
	cases := []struct {
		name string
		fill func(b *response.Batch)
	}{
		{"text in UTF-8", func(b *response.Batch) { b.Text(0, abi.EncodingUTF8, []byte("some \"text\" é")) }},
		{"escaped text", func(b *response.Batch) { b.Text(0, abi.EncodingEscaped, []byte(`some \"text\" \u00e9 é`)) }},
		{"text split within a character", func(b *response.Batch) {
			b.Text(0, abi.EncodingUTF8, []byte("a\xe2\x82"))
			b.Text(0, abi.EncodingUTF8, []byte("\xac"))
		}},
		{"reasoning", func(b *response.Batch) { b.Reasoning(0, abi.ReasoningText, 3, abi.EncodingEscaped, []byte(`hm\n`)) }},
		{"arguments", func(b *response.Batch) { b.ToolArguments(0, 1, abi.EncodingEscaped, []byte(`{\"a\":`)) }},
		{"arguments as a JSON value", func(b *response.Batch) { b.ToolArguments(0, 1, abi.EncodingJSON, []byte(`{"a": [1, 2]}`)) }},
		{"text with an extra member", func(b *response.Batch) {
			b.Text(0, abi.EncodingUTF8, []byte("a"))
			b.Extra(abi.ScopeChoice, 0, 0, []byte("filter"), []byte(`{"hate": false}`))
			b.Extra(abi.ScopeAnswer, 0, 0, []byte("fingerprint"), []byte(`"fp"`))
		}},
		{"usage", func(b *response.Batch) { b.Usage(abi.UsageCompletion, 4) }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := newRun(t, response.Options{Stream: true, IncludeUsage: true})
			r.apply(func(b *response.Batch) {
				b.Text(0, abi.EncodingUTF8, []byte("begin"))
				b.ToolCall(0, 1, nil, []byte("f"))
			})
			once := func() {
				r.b.Reset()
				c.fill(&r.b)
				if err := r.w.Apply(&r.b); err != nil {
					t.Fatal(err)
				}
				r.w.Consume()
			}
			once()
			if n := testing.AllocsPerRun(200, once); n != 0 {
				t.Errorf("%v allocations", n)
			}
		})
	}
}

// TestReusedWriterDoesNotAllocate writes a response with all kinds of events repeatedly.
func TestReusedWriterDoesNotAllocate(t *testing.T) {
	for _, stream := range []bool{true, false} {
		w := openai.NewWriter()
		var b response.Batch
		dst := make([]byte, 0, 1<<16)
		once := func() {
			w.Reset(response.Options{Stream: stream, IncludeUsage: true, ID: "own", Model: "asked", Created: 1})
			b.Reset()
			b.Start([]byte("id"), []byte("m"), []byte("f"))
			b.Reasoning(0, abi.ReasoningText, 0, 0, []byte("hm"))
			b.Reasoning(0, abi.ReasoningSignature, 0, 0, []byte("s"))
			b.Text(0, 0, []byte("some text"))
			b.ToolCall(0, 1, []byte("c"), []byte("f"))
			b.ToolArguments(0, 1, 0, []byte("{}"))
			b.ToolEnd(0, 1)
			b.Usage(abi.UsagePrompt, 1)
			b.Finish(0, abi.FinishStop, []byte("native"))
			b.Done(abi.DoneNow)
			if err := w.Apply(&b); err != nil {
				t.Fatal(err)
			}
			dst = w.AppendResponse(dst[:0])
			w.Consume()
		}
		once()
		if n := testing.AllocsPerRun(200, once); n != 0 {
			t.Errorf("streamed %v: %v allocations", stream, n)
		}
	}
}
