package native_test

import (
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/openai/native"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
)

// textChunk is a chunk as OpenAI sends it.
const textChunk = `{"id":"chatcmpl-DuLdOuviL2tiVxMim6HmX4YMnCorK","object":"chat.completion.chunk","created":1782321902,"model":"gpt-4o-mini-2024-07-18","service_tier":"default",` +
	`"system_fingerprint":"fp_bbc23ca3d7","choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"yS7A7FhhV"}`

// BenchmarkTextChunk measures one chunk with text, from what the provider sent to what the client receives.
func BenchmarkTextChunk(b *testing.B) {
	run := func(b *testing.B, apply bool) {
		var r native.Reader
		var batch response.Batch
		w := openai.NewWriter()
		r.Reset(native.Options{})
		w.Reset(options(true, true))
		data := []byte(textChunk)
		b.ReportAllocs()
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			batch.Reset()
			if err := r.ReadChunk(data, &batch); err != nil {
				b.Fatal(err)
			}
			if !apply {
				continue
			}
			if err := w.Apply(&batch); err != nil {
				b.Fatal(err)
			}
			w.Consume()
		}
	}
	b.Run("read", func(b *testing.B) { run(b, false) })
	b.Run("read and rendered", func(b *testing.B) { run(b, true) })
}

// BenchmarkNonStreamingResponse reads and renders a response of 4 KB.
func BenchmarkNonStreamingResponse(b *testing.B) {
	body := []byte(`{"id":"i","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		strings.Repeat(`A line of text, \"quoted\".\n`, 140) + `","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":20,"completion_tokens":1000,"total_tokens":1020,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0}}}`)
	var r native.Reader
	var batch response.Batch
	w := openai.NewWriter()
	var dst []byte
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		r.Reset(native.Options{})
		w.Reset(options(false, false))
		batch.Reset()
		if err := r.ReadResponse(body, &batch); err != nil {
			b.Fatal(err)
		}
		if err := w.Apply(&batch); err != nil {
			b.Fatal(err)
		}
		dst = w.AppendResponse(dst[:0])
	}
}
