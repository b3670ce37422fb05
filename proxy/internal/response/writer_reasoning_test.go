package response_test

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// thinking adds a response with all kinds of reasoning parts, interleaved with a tool call.
func thinking(b *response.Batch) {
	b.Start(nil, nil, []byte("anthropic-claude-v1"))
	b.Reasoning(0, abi.ReasoningText, 0, abi.EncodingEscaped, []byte(`one\n`))
	b.Reasoning(0, abi.ReasoningText, 0, abi.EncodingEscaped, nil)
	b.Reasoning(0, abi.ReasoningText, 0, abi.EncodingEscaped, []byte(`two`))
	b.Reasoning(0, abi.ReasoningSignature, 0, abi.EncodingEscaped, []byte(`c2ln`))
	b.Reasoning(0, abi.ReasoningEncrypted, 1, abi.EncodingEscaped, []byte(`ZGF0YQ==`))
	b.ToolCall(0, 3, []byte("call_3"), []byte("f"))
	b.Reasoning(0, abi.ReasoningToolEncrypted, 3, abi.EncodingUTF8, []byte("c2ln3"))
	b.ToolEnd(0, 3)
	b.Reasoning(0, abi.ReasoningSignature, 4, abi.EncodingEscaped, []byte(`b25seQ`))
	b.Reasoning(0, abi.ReasoningSummary, 7, abi.EncodingUTF8, []byte("in short"))
	b.Start(nil, nil, []byte("too late"))
	b.Finish(0, abi.FinishStop, nil)
	b.Done(abi.DoneNow)
}

// covers: T11 T12 T13 T14 T18
func TestReasoningInStream(t *testing.T) {
	r := newRun(t, response.Options{Stream: true})
	r.apply(thinking)
	const origin = `"format":"anthropic-claude-v1","index":`
	r.want(
		role,
		delta(`"reasoning_content":"one\n","reasoning_details":[{"type":"reasoning.text","text":"one\n",`+origin+`0}]`),
		delta(`"reasoning_content":"two","reasoning_details":[{"type":"reasoning.text","text":"two",`+origin+`0}]`),
		delta(`"reasoning_details":[{"type":"reasoning.text","signature":"c2ln",`+origin+`0}]`),
		delta(`"reasoning_details":[{"type":"reasoning.encrypted","data":"ZGF0YQ==",`+origin+`1}]`),
		call("0", "call_3", "f", ""),
		delta(`"reasoning_details":[{"type":"reasoning.encrypted","data":"c2ln3","id":"call_3",`+origin+`3}]`),
		args("0", "{}"),
		delta(`"reasoning_details":[{"type":"reasoning.text","signature":"b25seQ",`+origin+`4}]`),
		delta(`"reasoning_content":"in short","reasoning_details":[{"type":"reasoning.summary","summary":"in short",`+origin+`7}]`),
		finish("tool_calls"), done,
	)
}

// covers: T10 T13 T18
func TestReasoningInNonStreamingResponse(t *testing.T) {
	r := newRun(t, response.Options{})
	r.apply(thinking)
	const origin = `"format":"anthropic-claude-v1","index":`
	const want = `{"role":"assistant","content":null,"refusal":null,"reasoning_content":"one\ntwoin short","reasoning_details":[` +
		`{"type":"reasoning.text","text":"one\ntwo","signature":"c2ln",` + origin + `0},` +
		`{"type":"reasoning.encrypted","data":"ZGF0YQ==",` + origin + `1},` +
		`{"type":"reasoning.encrypted","data":"c2ln3","id":"call_3",` + origin + `3},` +
		`{"type":"reasoning.text","text":"","signature":"b25seQ",` + origin + `4},` +
		`{"type":"reasoning.summary","summary":"in short",` + origin + `7}` +
		`],"tool_calls":[{"id":"call_3","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	if got := r.message(); got != want {
		t.Errorf(" got %s\nwant %s", got, want)
	}
}

// covers: T14
func TestSignatureWithoutText(t *testing.T) {
	r := newRun(t, response.Options{Stream: true})
	r.apply(func(b *response.Batch) {
		b.Reasoning(0, abi.ReasoningText, 0, 0, nil)
		b.Reasoning(0, abi.ReasoningSignature, 0, 0, []byte("s"))
		b.Done(abi.DoneNow)
	})
	r.want(role, delta(`"reasoning_details":[{"type":"reasoning.text","signature":"s","index":0}]`), finish("stop"), done)
}

func TestReasoningOfUnknownToolCall(t *testing.T) {
	both(t, func(t *testing.T, r *run) {
		r.apply(func(b *response.Batch) {
			b.Reasoning(0, abi.ReasoningToolEncrypted, 8, 0, []byte("d"))
			b.Done(abi.DoneNow)
		})
		if len(r.w.Output()) > 0 {
			r.want(role, delta(`"reasoning_details":[{"type":"reasoning.encrypted","data":"d","index":8}]`), finish("stop"), done)
		} else if got, want := r.message(), `{"role":"assistant","content":"","refusal":null,"reasoning_details":[{"type":"reasoning.encrypted","data":"d","index":8}]}`; got != want {
			t.Errorf("got message %s, want %s", got, want)
		}
	})
}
