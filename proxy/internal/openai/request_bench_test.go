package openai_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
)

// buildConversation returns a request of about size bytes, like those of a client with tools.
func buildConversation(size int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"model":"gpt-4o-mini","temperature":0.7,"top_p":0.9,"max_tokens":1024,"stream":true,"stream_options":{"include_usage":true},` +
		`"tools":[{"type":"function","function":{"name":"weather","description":"Tells the weather","strict":false,` +
		`"parameters":{"type":"object","properties":{"place":{"type":"string"}},"required":["place"]}}}],"tool_choice":"auto",` +
		`"messages":[{"role":"system","content":"You are a helpful assistant."},{"role":"user","content":"How is the weather in Oslo?"},` +
		`{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"place\":\"Oslo\"}"}}]},` +
		`{"role":"tool","tool_call_id":"call_1","content":"rain"}`)
	for i := 0; b.Len() < size-150; i++ {
		role := [...]string{"assistant", "user"}[i%2]
		fmt.Fprintf(&b, `,{"role":%q,"content":"%s"}`, role, bytes.Repeat([]byte(`It rains, as it mostly does.\n`), 4))
	}
	b.WriteString(`,{"role":"user","content":[{"type":"text","text":"And today?"}]}]}`)
	return b.Bytes()
}

func BenchmarkRequestParse(b *testing.B) {
	for _, size := range []int{1 << 10, 100 << 10, 1 << 20} {
		body := buildConversation(size)
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			var r openai.Request
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if e := r.Parse(body, clientapi.Limits{}); e != nil {
					b.Fatal(e)
				}
			}
		})
		b.Run(fmt.Sprintf("%dKB/encoding-json-valid", size>>10), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if !json.Valid(body) {
					b.Fatal("invalid JSON")
				}
			}
		})
	}
}
