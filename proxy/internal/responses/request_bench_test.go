package responses_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/responses"
)

// agentRequest returns a request of about size bytes like those of a coding agent in the middle of a task.
func agentRequest(size int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"model":"gpt-5.6","stream":true,"store":false,"parallel_tool_calls":false,"include":["reasoning.encrypted_content"],"prompt_cache_key":"0199",` +
		`"reasoning":{"effort":"medium","summary":"auto"},"text":{"verbosity":"low"},"client_metadata":{"x":"y"},"tool_choice":"auto","tools":[`)
	for i := range 12 {
		fmt.Fprintf(&b, `{"type":"function","name":"tool_%d","description":"%s","strict":false,"parameters":{"type":"object","properties":{"command":{"type":"string","description":"The command to run."},"timeout_ms":{"type":"number"}},"required":["command"],"additionalProperties":false}},`,
			i, bytes.Repeat([]byte(`Runs a command and returns its output.\n`), 12))
	}
	b.WriteString(`{"type":"custom","name":"apply_patch","description":"Edits files.","format":{"type":"grammar","syntax":"lark","definition":"start: begin hunk+ end\n"}}],"input":[` +
		`{"type":"message","role":"developer","content":[{"type":"input_text","text":"`)
	b.Write(bytes.Repeat([]byte(`You are a coding agent. Keep going until the task is done.\n`), 150))
	b.WriteString(`"}]},{"type":"message","role":"user","content":[{"type":"input_text","text":"Fix the \"test\"."}]}`)
	for i := 0; b.Len() < size-200; i++ {
		fmt.Fprintf(&b, `,{"type":"reasoning","id":"rs_%d","summary":[{"type":"summary_text","text":"**Looking**"}],"content":null,"encrypted_content":null},`+
			`{"type":"function_call","id":"fc_%d","call_id":"call_%d","name":"tool_1","arguments":"{\"command\":\"cat a.go\"}"},`+
			`{"type":"function_call_output","call_id":"call_%d","output":"%s"}`, i, i, i, i, bytes.Repeat([]byte(`\tif err != nil {\n\t\treturn \"x\", err\n\t}\n`), 40))
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

func BenchmarkRequestParse(b *testing.B) {
	for _, size := range []int{40, 110} {
		body := agentRequest(size << 10)
		b.Run(fmt.Sprintf("%dKB", size), func(b *testing.B) {
			r := responses.NewRequest(sealer, nil)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if e := r.Parse(body, clientapi.Limits{}); e != nil {
					b.Fatal(e)
				}
			}
		})
	}
}

func BenchmarkRequestAppendChat(b *testing.B) {
	for _, size := range []int{40, 110} {
		body := agentRequest(size << 10)
		b.Run(fmt.Sprintf("%dKB", size), func(b *testing.B) {
			r := responses.NewRequest(sealer, nil)
			if e := r.Parse(body, clientapi.Limits{}); e != nil {
				b.Fatal(e)
			}
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			var dst []byte
			for b.Loop() {
				var e error
				if chat, _, err := r.AppendChat(dst[:0]); err != nil {
					e = err
				} else {
					dst = chat
				}
				if e != nil {
					b.Fatal(e)
				}
			}
		})
	}
}
