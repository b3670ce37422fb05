package response_test

import (
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// BenchmarkWriterTextChunk measures one text event, from the batch to the frame.
func BenchmarkWriterTextChunk(b *testing.B) {
	texts := map[string]struct {
		enc abi.Encoding
		s   string
	}{
		"escaped": {abi.EncodingEscaped, ` of the token\n`},
		"utf8":    {abi.EncodingUTF8, " of the token\n"},
		"chinese": {abi.EncodingEscaped, "今天天气很好"},
	}
	for name, c := range texts {
		b.Run(name, func(b *testing.B) {
			r := newRun(b, response.Options{Stream: true, IncludeUsage: true})
			p := []byte(c.s)
			b.ReportAllocs()
			for b.Loop() {
				r.b.Reset()
				r.b.Text(0, c.enc, p)
				if err := r.w.Apply(&r.b); err != nil {
					b.Fatal(err)
				}
				r.w.Consume()
			}
		})
	}
}

// BenchmarkWriterArgumentsChunk measures one piece of a tool call's arguments.
func BenchmarkWriterArgumentsChunk(b *testing.B) {
	r := newRun(b, response.Options{Stream: true})
	r.apply(func(b *response.Batch) { b.ToolCall(0, 1, []byte("call_1"), []byte("f")) })
	p := []byte(`\"location\": `)
	b.ReportAllocs()
	for b.Loop() {
		r.b.Reset()
		r.b.ToolArguments(0, 1, abi.EncodingEscaped, p)
		if err := r.w.Apply(&r.b); err != nil {
			b.Fatal(err)
		}
		r.w.Consume()
	}
}

// BenchmarkWriterResponse measures a non-streaming response of 4 KB.
func BenchmarkWriterResponse(b *testing.B) {
	w := openai.NewWriter()
	var batch response.Batch
	s := []byte(strings.Repeat(`A line of text, \"quoted\".\n`, 140))
	dst := make([]byte, 0, 1<<13)
	b.ReportAllocs()
	b.SetBytes(int64(len(s)))
	for b.Loop() {
		w.Reset(response.Options{ID: "own", Model: "asked", Created: 1})
		batch.Reset()
		batch.Start([]byte("id"), []byte("m"), nil)
		batch.Text(0, abi.EncodingEscaped, s)
		batch.Usage(abi.UsagePrompt, 20)
		batch.Usage(abi.UsageCompletion, 1000)
		batch.Finish(0, abi.FinishStop, nil)
		batch.Done(abi.DoneNow)
		if err := w.Apply(&batch); err != nil {
			b.Fatal(err)
		}
		dst = w.AppendResponse(dst[:0])
	}
}
