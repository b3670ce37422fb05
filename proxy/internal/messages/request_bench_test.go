package messages_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/messages"
)

// agentRequest returns a request of about size bytes like those of a coding agent: a long system prompt, 16 tools, a
// conversation of tool uses and results, and the members that Claude Code sends.
func agentRequest(size int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"model":"claude-sonnet-4-5","max_tokens":32000,"stream":true,"metadata":{"user_id":"user_1"},"thinking":{"type":"adaptive","display":"omitted"},` +
		`"output_config":{"effort":"high"},"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1"},{"type":"text","text":"`)
	b.WriteString(strings.Repeat(`You are an agent.\n\nUse the tools as \"documented\" – and `+"`only`"+` so.\n - Be brief.\n`, size/500))
	b.WriteString(`","cache_control":{"type":"ephemeral"}}],"tools":[`)
	for i := range 16 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"Tool%d","description":"%s","input_schema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"path":{"type":"string","description":"The path"},"lines":{"type":"array","items":{"type":"integer","minimum":0}}},"required":["path"],"additionalProperties":false}}`,
			i, strings.Repeat(`Reads a file.\nUsage:\n- It must exist.\n`, size/1400))
	}
	b.WriteString(`],"messages":[{"role":"user","content":[{"type":"text","text":"Fix the bug.","cache_control":{"type":"ephemeral"}}]}`)
	for i := 0; b.Len() < size-900; i++ {
		fmt.Fprintf(&b, `,{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"%s"},{"type":"text","text":"I look."},{"type":"tool_use","id":"toolu_%d","name":"Tool%d","input":{"path":"/src/main.go","lines":[1,200]}}]},`+
			`{"role":"user","content":[{"tool_use_id":"toolu_%d","type":"tool_result","content":"%s","is_error":false}]}`,
			strings.Repeat("EqQBCkYIBxgC", 20), i, i%16, i, strings.Repeat(`     1→\tif err != nil {\n     2→\t\treturn fmt.Errorf(\"open: %w\", err)\n`, 30))
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

const agentSize = 110 << 10

func BenchmarkRequestParse(b *testing.B) {
	body := agentRequest(agentSize)
	r := messages.NewRequest(nil)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if e := r.Parse(body, clientapi.Limits{}); e != nil {
			b.Fatal(e)
		}
	}
}

func BenchmarkAppendChat(b *testing.B) {
	body := agentRequest(agentSize)
	r := messages.NewRequest(nil)
	if e := r.Parse(body, clientapi.Limits{}); e != nil {
		b.Fatal(e)
	}
	var chat []byte
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		var e error
		if text, _, rejected := r.AppendChat(chat[:0]); rejected != nil {
			e = rejected
		} else {
			chat = text
		}
		if e != nil {
			b.Fatal(e)
		}
	}
}

// BenchmarkCopy measures copying the request, the lower bound for AppendChat.
func BenchmarkCopy(b *testing.B) {
	body := agentRequest(agentSize)
	to := make([]byte, 0, len(body))
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		to = append(to[:0], body...)
	}
}
