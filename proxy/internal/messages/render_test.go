package messages_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// script is the events of a response. Each element adds one batch.
type script []func(b *response.Batch)

func start(id, model, format string) func(b *response.Batch) {
	return func(b *response.Batch) { b.Start([]byte(id), []byte(model), []byte(format)) }
}

func text(s string) func(b *response.Batch) {
	return func(b *response.Batch) { b.Text(0, abi.EncodingUTF8, []byte(s)) }
}

func refusal(s string) func(b *response.Batch) {
	return func(b *response.Batch) { b.Refusal(0, abi.EncodingUTF8, []byte(s)) }
}

func reasoning(part abi.ReasoningPart, key int32, s string) func(b *response.Batch) {
	return func(b *response.Batch) { b.Reasoning(0, part, key, abi.EncodingUTF8, []byte(s)) }
}

func call(key int32, id, name string) func(b *response.Batch) {
	return func(b *response.Batch) { b.ToolCall(0, key, []byte(id), []byte(name)) }
}

func args(key int32, s string) func(b *response.Batch) {
	return func(b *response.Batch) { b.ToolArguments(0, key, abi.EncodingUTF8, []byte(s)) }
}

func endCall(key int32) func(b *response.Batch) {
	return func(b *response.Batch) { b.ToolEnd(0, key) }
}

func extra(scope abi.Scope, name, json string) func(b *response.Batch) {
	return func(b *response.Batch) { b.Extra(scope, 0, 0, []byte(name), []byte(json)) }
}

func usage(kind abi.UsageKind, n int64) func(b *response.Batch) {
	return func(b *response.Batch) { b.Usage(kind, n) }
}

func finish(reason abi.FinishReason, native string) func(b *response.Batch) {
	return func(b *response.Batch) { b.Finish(0, reason, []byte(native)) }
}

func done(b *response.Batch) { b.Done(abi.DoneNow) }

// inOneBatch adds several events to one batch.
func inOneBatch(events ...func(b *response.Batch)) func(b *response.Batch) {
	return func(b *response.Batch) {
		for _, f := range events {
			f(b)
		}
	}
}

// play applies a script and ends the response.
func (s script) play(t testing.TB, w messageWriter) {
	t.Helper()
	var b response.Batch
	for _, f := range s {
		b.Reset()
		f(&b)
		if err := w.apply(&b, nil); err != nil {
			t.Fatal(err)
		}
	}
	_ = w.End()
}

// summarizeStream formats a stream with one line per event. Signatures are opened.
func summarizeStream(t testing.TB, stream []byte) string {
	t.Helper()
	var b strings.Builder
	for _, f := range frames(t, stream) {
		d := &f.data
		switch f.name {
		case "message_start":
			fmt.Fprintf(&b, "start %s\n", tokens(d.Message.Usage))
		case "content_block_start":
			fmt.Fprintf(&b, "%d %s", d.Index, d.ContentBlock["type"])
			for _, member := range []string{"id", "name", "input", "data"} {
				if v, ok := d.ContentBlock[member]; ok {
					fmt.Fprintf(&b, " %v", v)
				}
			}
			b.WriteByte('\n')
		case "content_block_delta":
			fmt.Fprintf(&b, "%d ", d.Index)
			for _, member := range []string{"text", "thinking", "partial_json"} {
				if v, ok := d.Delta[member]; ok {
					fmt.Fprintf(&b, "+%s\n", v)
				}
			}
			if s, ok := d.Delta["signature"].(string); ok {
				fmt.Fprintf(&b, "signature %s\n", describeSignature(s))
			}
		case "content_block_stop":
			fmt.Fprintf(&b, "%d stop\n", d.Index)
		case "message_delta":
			fmt.Fprintf(&b, "%v %v %s\n", d.Delta["stop_reason"], d.Delta["stop_sequence"], tokens(d.Usage))
		case "error":
			fmt.Fprintf(&b, "error %v: %v\n", d.Error["type"], d.Error["message"])
		default:
			fmt.Fprintf(&b, "%s\n", f.name)
		}
	}
	return b.String()
}

func tokens(u map[string]any) string {
	return fmt.Sprint(u["input_tokens"], " in ", u["cache_creation_input_tokens"], " written ", u["cache_read_input_tokens"], " read ", u["output_tokens"], " out")
}

// describeSignature formats the contents of a signature.
func describeSignature(signature string) string {
	s, ok := sealer.Open([]byte(signature))
	if !ok {
		return "of the provider: " + signature
	}
	part := [...]string{"text", "signature", "encrypted", "summary", "encrypted of a call"}[s.Part]
	return strings.TrimSpace(fmt.Sprintf("%s %s %s %s", s.Format, part, s.Data, s.CallID))
}

const (
	startLine = "start 7 in 0 written 0 read 0 out\n"
	usageEnd  = "3 in 0 written 0 read 5 out\nmessage_stop\n"
)

// usageAndStop ends a response, with the usage in usageEnd.
var usageAndStop = inOneBatch(usage(abi.UsagePrompt, 3), usage(abi.UsageCompletion, 5), finish(abi.FinishStop, ""), done)

var responseTests = []struct {
	name   string
	events script
	stream string
}{
	// covers: M5.3 M7.1 M7.2 M7.3 M7.4 M7.5 M7.13
	{"text", script{text("Hel"), text("lo"), usageAndStop},
		startLine + "0 text\n0 +Hel\n0 +lo\n0 stop\nend_turn <nil> " + usageEnd},
	// covers: M5.11
	{"empty response", script{text(""), usageAndStop}, "start 3 in 0 written 0 read 5 out\nend_turn <nil> " + usageEnd},
	// covers: M7.3
	{"usage at the start", script{inOneBatch(usage(abi.UsagePrompt, 3), usage(abi.UsageCompletion, 1)), text("a"), usageAndStop},
		"start 3 in 0 written 0 read 1 out\n0 text\n0 +a\n0 stop\nend_turn <nil> " + usageEnd},
	// covers: M6.8
	{"estimated usage", script{text("twelve bytes"), done},
		startLine + "0 text\n0 +twelve bytes\n0 stop\nend_turn <nil> 7 in 0 written 0 read 3 out\nmessage_stop\n"},
	// covers: M6.5 M6.6
	{"usage of caches", script{text("a"), inOneBatch(usage(abi.UsagePrompt, 100), usage(abi.UsageCached, 60), usage(abi.UsageCacheWrite, 30)), usageAndStop, done},
		startLine + "0 text\n0 +a\n0 stop\nend_turn <nil> 0 in 30 written 60 read 5 out\nmessage_stop\n"},
	// covers: M5.4 M7.6 M7.7 M7.8
	{"reasoning without a signature", script{start("", "", "deepseek"), reasoning(abi.ReasoningText, 0, "hm"), reasoning(abi.ReasoningText, 0, "m"), text("a"), usageAndStop},
		startLine + "0 thinking\n0 +hm\n0 +m\n0 signature deepseek text\n0 stop\n1 text\n1 +a\n1 stop\nend_turn <nil> " + usageEnd},
	// covers: M5.4
	{"reasoning of an unknown origin", script{reasoning(abi.ReasoningSummary, 0, "hm"), usageAndStop},
		startLine + "0 thinking\n0 +hm\n0 signature summary\n0 stop\nend_turn <nil> " + usageEnd},
	// covers: M5.10
	{"only reasoning, signed by Anthropic", script{start("", "", "anthropic-claude-v1"), reasoning(abi.ReasoningText, 0, "hm"),
		reasoning(abi.ReasoningSignature, 0, "Eu"), reasoning(abi.ReasoningSignature, 0, "YF"), usageAndStop},
		startLine + "0 thinking\n0 +hm\n0 signature of the provider: EuYF\n0 stop\nend_turn <nil> " + usageEnd},
	{"reasoning of Anthropic, truncated before its signature", script{start("", "", "anthropic-claude-v1"), reasoning(abi.ReasoningText, 0, "hm"),
		finish(abi.FinishLength, ""), usageAndStop},
		startLine + "0 thinking\n0 +hm\n0 signature anthropic-claude-v1 text\n0 stop\nmax_tokens <nil> " + usageEnd},
	{"redacted reasoning of Anthropic", script{start("", "", "anthropic-claude-v1"), reasoning(abi.ReasoningEncrypted, 0, "En"), reasoning(abi.ReasoningEncrypted, 0, "cr"), text("a"), usageAndStop},
		startLine + "0 redacted_thinking Encr\n0 stop\n1 text\n1 +a\n1 stop\nend_turn <nil> " + usageEnd},
	{"two redacted blocks of Anthropic", script{start("", "", "anthropic-claude-v1"), reasoning(abi.ReasoningEncrypted, 0, "En"), reasoning(abi.ReasoningEncrypted, 1, "cr"), usageAndStop},
		startLine + "0 redacted_thinking En\n0 stop\n1 redacted_thinking cr\n1 stop\nend_turn <nil> " + usageEnd},
	// covers: M5.5
	{"encrypted reasoning with a summary", script{start("", "", "openai-responses-v1"), reasoning(abi.ReasoningSummary, 0, "hm"), reasoning(abi.ReasoningEncrypted, 0, "gAA"),
		reasoning(abi.ReasoningEncrypted, 0, "AAB"), text("a"), usageAndStop},
		startLine + "0 thinking\n0 +hm\n0 signature openai-responses-v1 encrypted gAAAAB\n0 stop\n1 text\n1 +a\n1 stop\nend_turn <nil> " + usageEnd},
	// covers: M5.5
	{"encrypted reasoning alone", script{start("", "", "xai-responses-v1"), reasoning(abi.ReasoningEncrypted, 0, "gAAAAB"), text("a"), usageAndStop},
		startLine + "0 thinking\n0 signature xai-responses-v1 encrypted gAAAAB\n0 stop\n1 text\n1 +a\n1 stop\nend_turn <nil> " + usageEnd},
	// covers: M7.6
	{"reasoning blocks with different keys", script{reasoning(abi.ReasoningText, 0, "a"), reasoning(abi.ReasoningText, 1, "b"), reasoning(abi.ReasoningSignature, 1, "s"), reasoning(abi.ReasoningSignature, 0, "late"), usageAndStop},
		startLine + "0 thinking\n0 +a\n0 signature text\n0 stop\n1 thinking\n1 +b\n1 signature signature s\n1 stop\n2 thinking\n2 signature signature late\n2 stop\nend_turn <nil> " + usageEnd},
	// covers: M7.9
	{"signature after the start of the text", script{start("", "", "anthropic-claude-v1"), reasoning(abi.ReasoningText, 0, "hm"), text("a"), reasoning(abi.ReasoningSignature, 0, "EuYF"), text("b"), usageAndStop},
		startLine + "0 thinking\n0 +hm\n0 signature anthropic-claude-v1 text\n0 stop\n1 text\n1 +a\n1 stop\n2 thinking\n2 signature of the provider: EuYF\n2 stop\n3 text\n3 +b\n3 stop\nend_turn <nil> " + usageEnd},
	// covers: M5.6
	{"signature of a call", script{start("", "", "google-gemini-v1"), inOneBatch(call(3, "call-1", "f"), args(3, `{"a":1}`), endCall(3), reasoning(abi.ReasoningToolEncrypted, 3, "Ci"), reasoning(abi.ReasoningToolEncrypted, 3, "QB")), usageAndStop},
		startLine + "0 thinking\n0 signature google-gemini-v1 encrypted of a call CiQB call-1\n0 stop\n1 tool_use call-1 f map[]\n1 +{\"a\":1}\n1 stop\ntool_use <nil> " + usageEnd},
	// covers: M5.6
	{"signature before the end of its call", script{start("", "", "google-gemini-v1"), call(3, "call-1", "f"), reasoning(abi.ReasoningToolEncrypted, 3, "Ci"), args(3, `{}`), usageAndStop},
		startLine + "0 thinking\n0 signature google-gemini-v1 encrypted of a call Ci call-1\n0 stop\n1 tool_use call-1 f map[]\n1 stop\ntool_use <nil> " + usageEnd},
	{"signature within the arguments of its call", script{start("", "", "google-gemini-v1"), call(3, "call-1", "f"), args(3, `{"a"`), reasoning(abi.ReasoningToolEncrypted, 3, "Ci"), args(3, `:1}`), usageAndStop},
		startLine + "0 tool_use call-1 f map[]\n0 +{\"a\"\n0 +:1}\n0 stop\n1 thinking\n1 signature google-gemini-v1 encrypted of a call Ci call-1\n1 stop\ntool_use <nil> " + usageEnd},
	// covers: M5.6
	{"signature before the start of its call", script{reasoning(abi.ReasoningToolEncrypted, 3, "Ci"), call(3, "call-1", "f"), usageAndStop},
		startLine + "0 thinking\n0 signature encrypted of a call Ci call-1\n0 stop\n1 tool_use call-1 f map[]\n1 stop\ntool_use <nil> " + usageEnd},
	// covers: M5.7 M6.2 M7.10
	{"call in pieces", script{call(0, "toolu_1", "f"), args(0, `{"a"`), args(0, `:"\n`), args(0, `\\"}`), usageAndStop},
		startLine + "0 tool_use toolu_1 f map[]\n0 +{\"a\"\n0 +:\"\\n\n0 +\\\\\"}\n0 stop\ntool_use <nil> " + usageEnd},
	// covers: M7.10
	{"call without arguments", script{call(0, "toolu_1", "f"), endCall(0), text("a"), usageAndStop},
		startLine + "0 tool_use toolu_1 f map[]\n0 stop\n1 text\n1 +a\n1 stop\ntool_use <nil> " + usageEnd},
	// covers: M5.7
	{"call with an ID that the API does not accept", script{call(0, "functions.f:0", "f"), call(1, "", "g"), usageAndStop},
		startLine + "0 tool_use toolu_2265jxrsriro3vqq7fkiwt2b f map[]\n0 stop\n1 tool_use call_eewgre7ztrpxt7ya5r5qmseg g map[]\n1 stop\ntool_use <nil> " + usageEnd},
	// covers: M7.11
	{"interleaved calls", script{call(0, "a", "f"), args(0, `{"x":`), call(1, "b", "g"), args(1, `{"y":`), args(0, `1`), args(1, `2}`), args(0, `}`), usageAndStop},
		startLine + "0 tool_use a f map[]\n0 +{\"x\":\n0 +1\n0 +}\n0 stop\n1 tool_use b g map[]\n1 +{\"y\":2}\n1 stop\ntool_use <nil> " + usageEnd},
	// covers: M7.12
	{"text after a call, with white space after the arguments", script{inOneBatch(call(0, "a", "f"), args(0, `{"x":1}`), text("t")), args(0, " \n"), text("u"), usageAndStop},
		startLine + "0 tool_use a f map[]\n0 +{\"x\":1}\n0 stop\n1 text\n1 +t\n1 +u\n1 stop\ntool_use <nil> " + usageEnd},
	{"text before the end of a call", script{call(0, "a", "f"), args(0, `{"x":`), text("t"), args(0, `1}`), text("u"), reasoning(abi.ReasoningText, 0, "h"), usageAndStop},
		startLine + "0 tool_use a f map[]\n0 +{\"x\":\n0 +1}\n0 stop\n1 text\n1 +t\n1 +u\n1 stop\n2 thinking\n2 +h\n2 signature text\n2 stop\ntool_use <nil> " + usageEnd},
	{"truncated calls and a text", script{call(0, "a", "f"), args(0, `{"x":`), call(1, "b", "g"), text("a"), args(1, `{`), call(2, "c", "h"), endCall(2), finish(abi.FinishLength, ""), usageAndStop},
		startLine + "0 tool_use a f map[]\n0 +{\"x\":\n0 stop\n1 tool_use b g map[]\n1 +{\n1 stop\n2 text\n2 +a\n2 stop\n3 tool_use c h map[]\n3 stop\nmax_tokens <nil> " + usageEnd},
	{"truncated call", script{text("a"), call(0, "a", "f"), args(0, `{"x":`), finish(abi.FinishLength, ""), usageAndStop},
		startLine + "0 text\n0 +a\n0 stop\n1 tool_use a f map[]\n1 +{\"x\":\n1 stop\nmax_tokens <nil> " + usageEnd},
	// covers: M5.9
	{"refusal", script{text("a"), refusal("I can"), refusal("not"), usageAndStop},
		startLine + "0 text\n0 +a\n0 stop\n1 text\n1 +I can\n1 +not\n1 stop\nrefusal <nil> " + usageEnd},
	// covers: M5.12
	{"members of other APIs", script{text("a"), extra(abi.ScopeMessage, "annotations", `[{"type":"url_citation"}]`), extra(abi.ScopeAnswer, "system_fingerprint", `"f"`), usageAndStop},
		startLine + "0 text\n0 +a\n0 stop\nend_turn <nil> " + usageEnd},
	// covers: M6.3
	{"stop sequence", script{text("a"), extra(abi.ScopeChoice, "stop_sequence", `"END"`), usageAndStop},
		startLine + "0 text\n0 +a\n0 stop\nstop_sequence END " + usageEnd},
	// covers: M6.3
	{"unknown stop sequence", script{text("a"), extra(abi.ScopeChoice, "stop_sequence", `null`), usageAndStop},
		startLine + "0 text\n0 +a\n0 stop\nend_turn <nil> " + usageEnd},
	// covers: M5.13
	{"second choice", script{text("a"), func(b *response.Batch) { b.Text(1, abi.EncodingUTF8, []byte("other")) }, text("b"), usageAndStop},
		startLine + "0 text\n0 +a\n0 +b\n0 stop\nend_turn <nil> " + usageEnd},
	// covers: M7.15
	{"truncated stream", script{text("a")}, startLine + "0 text\n0 +a\nerror api_error: Upstream closed the stream before it was complete\n"},
	// covers: M7.16
	{"rate limit in the middle", script{text("a"), func(b *response.Batch) { b.Fail(apierror.Fail(abi.FailRateLimit, "", "", "")) }, text("b"), usageAndStop},
		startLine + "0 text\n0 +a\nerror rate_limit_error: The provider's rate limit has been reached.\n"},
	// covers: M7.16
	{"overload in the middle", script{reasoning(abi.ReasoningText, 0, "a"), func(b *response.Batch) { b.Fail(apierror.Fail(abi.FailOverloaded, "", "", "")) }},
		startLine + "0 thinking\n0 +a\nerror overloaded_error: The provider is overloaded.\n"},
	// covers: M7.17
	{"failure before content", script{inOneBatch(start("msg_1", "m", ""), text(""), func(b *response.Batch) { b.Fail(apierror.Fail(abi.FailRateLimit, "", "", "")) })}, ""},
	// covers: M5.8
	{"arguments that are not JSON", script{text("a"), call(0, "a", "f"), args(0, `{"x":`), args(0, `}`), text("b"), usageAndStop},
		startLine + "0 text\n0 +a\n0 stop\n1 tool_use a f map[]\n1 +{\"x\":\nerror api_error: The model made a tool call that cannot be used.\n"},
	// covers: M5.8
	{"arguments that are not an object", script{inOneBatch(call(0, "a", "f"), args(0, `[1]`)), usageAndStop}, ""},
	{"arguments after their end", script{call(0, "a", "f"), args(0, `{}`), text("t"), args(0, " \n"), args(0, `{"x":1}`), usageAndStop},
		startLine + "0 tool_use a f map[]\n0 stop\n1 text\n1 +t\nerror api_error: The model made a tool call that cannot be used.\n"},
	// covers: M5.8
	{"incomplete arguments", script{inOneBatch(call(0, "a", "f"), args(0, `{"x":`)), finish(abi.FinishToolCalls, ""), done},
		startLine + "0 tool_use a f map[]\n0 +{\"x\":\nerror api_error: The model made a tool call that cannot be used.\n"},
	// covers: M7.14
	{"finish reason without an end", script{text("a"), finish(abi.FinishStop, "")}, startLine + "0 text\n0 +a\nerror api_error: Upstream closed the stream before it was complete\n"},
}

// TestResponses renders responses as streams and non-streaming. The official client must read the same message from
// both.
//
// covers: M7.19 M7.24
func TestResponses(t *testing.T) {
	for _, tt := range responseTests {
		t.Run(tt.name, func(t *testing.T) {
			w := newMessageWriter()
			w.reset(true, false)
			tt.events.play(t, w)
			if got := summarizeStream(t, w.Output()); got != tt.stream {
				t.Errorf("got\n%swant\n%s", got, tt.stream)
			}
			checkFrames(t, w.Writer)
			m, err := sdkMessage(t, w.Output())
			failed := w.Failed()
			if (err != nil) != (failed != nil && w.Started()) {
				t.Errorf("the client's error is %v, the gateway's %v", err, failed)
			}
			whole := newMessageWriter()
			whole.reset(false, false)
			tt.events.play(t, whole)
			if whole.Started() || whole.Complete() != w.Complete() || (whole.Failed() == nil) != (failed == nil) {
				t.Fatalf("complete %t, failed %v; the stream %t, %v", whole.Complete(), whole.Failed(), w.Complete(), failed)
			}
			if !whole.Complete() {
				return
			}
			body := whole.AppendResponse(nil)
			for _, member := range []string{`"id":"msg_own"`, `"type":"message"`, `"role":"assistant"`, `"model":"asked"`, `"content":[`, `"stop_reason":"`, `"stop_sequence":`, `"usage":{`} { // covers: M5.1
				if !strings.Contains(string(body), member) {
					t.Errorf("no %s in %s", member, body)
				}
			}
			if got, want := summarize(t, m), summarize(t, sdkResponse(t, body)); got != want {
				t.Errorf("accumulated\n%swant\n%s", got, want)
			}
		})
	}
}

func TestMessageIDs(t *testing.T) {
	for _, tt := range []struct{ provider, own, want string }{ // covers: M5.2
		{"msg_01", "msg_own", "msg_01"},
		{"chatcmpl-1", "msg_own", "msg_own"},
		{"", "msg_own", "msg_own"},
		{"resp_1", "other", "msg_other"},
	} {
		w := newMessageWriter()
		o := writerOptions(false)
		o.ID = tt.own
		w.Reset(o)
		script{start(tt.provider, "m", ""), text("a"), done}.play(t, w)
		if m := sdkResponse(t, w.AppendResponse(nil)); m.ID != tt.want || m.Model != "m" {
			t.Errorf("%+v: got %s of %s", tt, m.ID, m.Model)
		}
	}
}

func TestStopReasons(t *testing.T) {
	for _, tt := range []struct { // covers: M6.1 M6.4
		reason abi.FinishReason
		native string
		want   string
	}{
		{abi.FinishStop, "", "end_turn"},
		{abi.FinishStop, "eos", "end_turn"},
		{abi.FinishLength, "", "max_tokens"},
		{abi.FinishLength, "model_length", "max_tokens"},
		{abi.FinishLength, "model_context_window_exceeded", "model_context_window_exceeded"},
		{abi.FinishContentFilter, "", "refusal"},
		{abi.FinishContentFilter, "refusal", "refusal"},
		{abi.FinishStop, "pause_turn", "pause_turn"},
		{abi.FinishStop, "compaction", "compaction"},
		{abi.FinishToolCalls, "", "end_turn"}, // the response has no call
		{abi.FinishFunctionCall, "", "end_turn"},
	} {
		w := newMessageWriter()
		w.reset(false, false)
		script{text("a"), finish(tt.reason, tt.native), done}.play(t, w)
		if m := sdkResponse(t, w.AppendResponse(nil)); string(m.StopReason) != tt.want {
			t.Errorf("%d %s: got %s, want %s", tt.reason, tt.native, m.StopReason, tt.want)
		}
	}
}

func TestThinkingTokens(t *testing.T) {
	w := newMessageWriter() // covers: M6.7
	w.reset(false, false)
	script{text("a"), inOneBatch(usage(abi.UsageCompletion, 10), usage(abi.UsageReasoningBeside, 30)), done}.play(t, w)
	if u := sdkResponse(t, w.AppendResponse(nil)).Usage; u.OutputTokens != 40 || u.OutputTokensDetails.ThinkingTokens != 30 {
		t.Errorf("got %+v", u)
	}
}

// TestErrorEvent checks that the error event of a stream contains the request ID.
func TestErrorEvent(t *testing.T) {
	w := newMessageWriter() // covers: M7.15
	w.reset(true, false)
	script{text("a")}.play(t, w)
	if !strings.HasSuffix(string(w.Output()), `event: error`+"\n"+`data: {"type":"error","error":{"type":"api_error","message":"Upstream closed the stream before it was complete"},"request_id":"req-1"}`+"\n\n") {
		t.Errorf("got %s", w.Output())
	}
}

// TestInvalidFirstCallAllowsRetry checks that another target can be tried if the response starts with an invalid tool
// call.
func TestInvalidFirstCallAllowsRetry(t *testing.T) {
	for _, stream := range []bool{true, false} { // covers: M5.8
		w := newMessageWriter()
		w.reset(stream, false)
		var b response.Batch
		inOneBatch(call(0, "a", "f"), args(0, `"x"`), finish(abi.FinishToolCalls, ""), done)(&b)
		err := w.Apply(&b)
		if e := w.Failed(); err != nil || e == nil || e.Status != 502 || !e.TryNext || w.Started() {
			t.Errorf("stream %t: %v, failed %v, started %t", stream, err, e, w.Started())
		}
	}
}
