//go:build !race

package native_test

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/openai/native"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
)

func TestChunksDoNotAllocate(t *testing.T) {
	cases := map[string]string{
		"text":      textChunk,
		"reasoning": `{"id":"i","model":"m","choices":[{"index":0,"delta":{"content":null,"reasoning_content":"hm"},"logprobs":null,"finish_reason":null}],"usage":null}`,
		"arguments": `{"id":"i","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a"}}]},"finish_reason":null}]}`,
		"filter":    `{"id":"i","model":"m","choices":[{"index":0,"content_filter_results":{"hate":{"filtered":false}},"delta":{"content":"a"},"finish_reason":null}]}`,
		"usage":     `{"id":"i","model":"m","choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,"prompt_tokens_details":{"cached_tokens":1}}}`,
	}
	for name, data := range cases {
		t.Run(name, func(t *testing.T) {
			var r native.Reader
			var b response.Batch
			w := openai.NewWriter()
			r.Reset(native.Options{})
			w.Reset(options(true, true))
			p := []byte(data)
			once := func() {
				b.Reset()
				if err := r.ReadChunk(p, &b); err != nil {
					t.Fatal(err)
				}
				if err := w.Apply(&b); err != nil {
					t.Fatal(err)
				}
				w.Consume()
			}
			b.Reset()
			if err := r.ReadChunk([]byte(delta(`"tool_calls":[{"index":0,"id":"a","function":{"name":"f"}}]`)), &b); err != nil {
				t.Fatal(err)
			}
			if err := w.Apply(&b); err != nil {
				t.Fatal(err)
			}
			once()
			if n := testing.AllocsPerRun(200, once); n != 0 {
				t.Errorf("%v allocations", n)
			}
		})
	}
}
