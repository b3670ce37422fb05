package responses_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/responses"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// step adds the events of one batch.
type step func(b *response.Batch)

func text(s string) step { return func(b *response.Batch) { b.Text(0, abi.EncodingUTF8, []byte(s)) } }

func refusal(s string) step {
	return func(b *response.Batch) { b.Refusal(0, abi.EncodingUTF8, []byte(s)) }
}

func reasoning(part abi.ReasoningPart, key int32, s string) step {
	return func(b *response.Batch) { b.Reasoning(0, part, key, abi.EncodingUTF8, []byte(s)) }
}

func call(key int32, id, name string) step {
	return func(b *response.Batch) { b.ToolCall(0, key, []byte(id), []byte(name)) }
}

func args(key int32, s string) step {
	return func(b *response.Batch) { b.ToolArguments(0, key, abi.EncodingUTF8, []byte(s)) }
}

func endCall(key int32) step { return func(b *response.Batch) { b.ToolEnd(0, key) } }

func member(scope abi.Scope, name, value string) step {
	return func(b *response.Batch) { b.Extra(scope, 0, 0, []byte(name), []byte(value)) }
}

// inOneBatch joins steps into one.
func inOneBatch(steps ...step) step {
	return func(b *response.Batch) {
		for _, s := range steps {
			s(b)
		}
	}
}

func start(format string) step {
	return func(b *response.Batch) { b.Start([]byte("chatcmpl-1"), []byte("up-model"), []byte(format)) }
}

func finish(reason abi.FinishReason) step {
	return func(b *response.Batch) {
		b.Usage(abi.UsagePrompt, 11)
		b.Usage(abi.UsageCompletion, 22)
		b.Finish(0, reason, nil)
		b.Done(abi.DoneNow)
	}
}

func fail(e *apierror.Error) step { return func(b *response.Batch) { b.Fail(e) } }

// play applies steps, each as a batch, and returns what the client receives.
func (h *harness) play(stream bool, steps []step) []byte {
	h.t.Helper()
	h.begin(stream, false)
	for _, s := range steps {
		s(&h.b)
		h.apply(nil)
	}
	return h.finish(stream)
}

const (
	customTools = `"tools":[{"type":"custom","name":"exec"},{"type":"namespace","name":"fs","tools":[{"type":"function","name":"read","parameters":{"type":"object"}},{"type":"custom","name":"write"}]},` +
		`{"type":"function","name":"plain","parameters":{ "type" : "object" }}]`
	wantsSeals   = `"include":["reasoning.encrypted_content"]`
	wantsSummary = `"reasoning":{"effort":"high","summary":"auto"}`
	claude       = "anthropic-claude-v1"
)

var rendered = []struct {
	name    string
	request string
	show    bool // Options.ShowReasoning
	steps   []step
}{
	// covers: P5.20 P6.2 P7.2
	{"text", ``, false, []step{start(""), text("Hello, \"wor"), text("ld\"\n"), finish(abi.FinishStop)}},
	// covers: P5.20 P7.18
	{"nothing", ``, false, []step{text(""), finish(abi.FinishStop)}},
	// covers: P2.30 P5.1 P5.2 P5.3
	{"echo", `"instructions":"Be\nbrief.","metadata":{ "a" : "b" },"max_output_tokens":99,"parallel_tool_calls":false,"temperature":0.5,"top_p":0.25,
		"text":{"format":{"type":"json_object"},"verbosity":"low"},"tool_choice":"required","truncation":"disabled","user":"u","store":false,` + wantsSummary + `,` + customTools,
		false, []step{text("{}"), finish(abi.FinishStop)}},
	// covers: P2.26 P5.12 P7.6 P7.8 P7.10
	{"reasoning-shown", wantsSeals + `,` + wantsSummary, false, []step{
		start(claude), reasoning(abi.ReasoningText, 0, "Let me "), reasoning(abi.ReasoningText, 0, "see."), reasoning(abi.ReasoningSignature, 0, "c2ln"),
		text("So."), call(2, "toolu_1", "look"), args(2, `{"a":`), args(2, `1}`), endCall(2), finish(abi.FinishToolCalls)}},
	// covers: P2.11
	{"reasoning-hidden", wantsSeals, false, []step{
		start(claude), reasoning(abi.ReasoningText, 0, "Secret."), reasoning(abi.ReasoningSignature, 0, "c2ln"), reasoning(abi.ReasoningEncrypted, 1, "cmVk"), text("So."), finish(abi.FinishStop)}},
	// covers: P2.11 P2.26
	{"reasoning-not-asked", ``, false, []step{
		start(claude), reasoning(abi.ReasoningText, 0, "Secret."), reasoning(abi.ReasoningSignature, 0, "c2ln"), text("So."), finish(abi.FinishStop)}},
	// covers: P7.18
	{"reasoning-only-sealed", ``, false, []step{start(claude), reasoning(abi.ReasoningEncrypted, 0, "cmVk"), text("So."), finish(abi.FinishStop)}},
	// covers: P7.7
	{"reasoning-content", ``, true, []step{reasoning(abi.ReasoningText, 0, "Hm"), reasoning(abi.ReasoningText, 0, "m."), text("So."), finish(abi.FinishStop)}},
	// covers: P5.14 P2.26
	{"reasoning-of-call", wantsSeals, false, []step{
		start("google-gemini-v1"), inOneBatch(call(1, "function.look:0", "look"), args(1, `{"a":1}`), endCall(1), reasoning(abi.ReasoningToolEncrypted, 1, "c2ln")), finish(abi.FinishToolCalls)}},
	// covers: P7.12
	{"interleaved-reasoning", wantsSummary, false, []step{
		text("One."), reasoning(abi.ReasoningText, 0, "Hm."), text("Two."), reasoning(abi.ReasoningText, 1, "Oh."), reasoning(abi.ReasoningSummary, 1, "Sum."), finish(abi.FinishStop)}},
	// covers: P7.9 P4.5
	{"custom-tool", customTools, false, []step{
		call(0, "call_1", "exec"), args(0, `{"in`), args(0, `put": "a\`), args(0, `n\"b\"\ud83d`), args(0, `\ude00"}`), endCall(0),
		call(1, "call_2", "fs__write"), args(1, `{"input":"x"}`), call(2, "call_3", "fs__read"), args(2, `{"input":"y"}`), finish(abi.FinishToolCalls)}},
	// covers: P5.11 P7.11
	{"interleaved-calls", ``, false, []step{
		call(0, "call_1", "a"), call(1, "call_2", "b"), args(1, `{"x":2}`), args(0, `{"x":`), endCall(1), args(0, `1}`), endCall(0), call(2, "call_3", "c"), finish(abi.FinishToolCalls)}},
	// covers: P5.6 P5.7 P7.16
	{"length", ``, false, []step{text("It was a dark and"), finish(abi.FinishLength)}},
	// covers: P7.17
	{"length-in-arguments", ``, false, []step{text("So."), call(0, "call_1", "a"), args(0, `{"x":`), finish(abi.FinishLength)}},
	// covers: P5.7
	{"content-filter", ``, false, []step{text("It"), finish(abi.FinishContentFilter)}},
	// covers: P5.18 P7.15
	{"refusal", ``, false, []step{refusal("I can"), refusal("not."), finish(abi.FinishStop)}},
	// covers: P2.9 P5.17 P7.4 P7.14
	{"annotations", `"include":["message.output_text.logprobs"],"top_logprobs":1`, false, []step{
		inOneBatch(text("A"), member(abi.ScopeChoice, "logprobs", `{"content":[{"token":"A","logprob":-0.1,"bytes":[65],"top_logprobs":[]}],"refusal":null}`)),
		inOneBatch(text("B"), member(abi.ScopeMessage, "annotations", `[{"type":"url_citation","url_citation":{"url":"https://a.example","title":"T","start_index":0,"end_index":2}}]`)),
		member(abi.ScopeMessage, "annotations", `[{"type":"file_citation","file_id":"f","index":1,"filename":"n"}]`), finish(abi.FinishStop)}},
	// covers: P6.6 P6.7 P6.9 P5.8
	{"failed", ``, false, []step{text("It"), call(0, "call_1", "a"), fail(&apierror.Error{
		Status: 429, Kind: apierror.KindRateLimit, Code: "rate_limit_exceeded", Message: "Slow down.", RetryAfter: 1500 * time.Millisecond})}},
}

// TestRendered compares streams and non-streaming responses with golden files, and what the SDK reads from both.
func TestRendered(t *testing.T) {
	for _, c := range rendered {
		t.Run(c.name, func(t *testing.T) {
			o := testOptions
			o.ShowReasoning = c.show
			h := newHarness(t, o, c.request)
			stream := h.play(true, c.steps)
			streamed := readStream(t, stream)
			out := append([]byte(nil), stream...)
			if whole := h.play(false, c.steps); h.w.Complete() {
				out = append(append(out, "=== whole\n"...), indent(t, whole)...)
				if a, b := summarize(streamed), summarize(readWhole(t, whole)); !reflect.DeepEqual(a, b) {
					t.Errorf("streamed %+v\nwhole    %+v", a, b)
				}
			}
			compareGolden(t, filepath.Join("testdata/rendered", c.name+".txt"), out)
		})
	}
}

// indent formats JSON for golden files.
func indent(t testing.TB, p []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, p, "", "  "); err != nil {
		t.Fatalf("%v in %s", err, p)
	}
	return append(out.Bytes(), '\n')
}

// covers: P6.6 P6.13 P5.8 P8.2 P8.3
func TestFailureCodesAreThoseOfTheAPI(t *testing.T) {
	h := newHarness(t, testOptions, "")
	for _, c := range []struct {
		kind abi.FailKind
		code string
	}{
		{abi.FailRateLimit, "rate_limit_exceeded"}, {abi.FailQuota, "insufficient_quota"}, {abi.FailContextLength, "context_length_exceeded"},
		{abi.FailContentPolicy, "invalid_prompt"}, {abi.FailServer, "server_error"}, {abi.FailOverloaded, "server_error"},
	} {
		r := readStream(t, h.play(true, []step{text("a"), fail(apierror.Fail(c.kind, "", "", ""))}))
		if string(r.Status) != "failed" || string(r.Error.Code) != c.code || r.Error.Message == "" {
			t.Errorf("kind %d: %+v", c.kind, r.Error)
		}
	}
}

// An open stream holds one copy of its text and the members that it repeats of the request.
//
// covers: P7.20 P5.3
func TestHeldMemory(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	h := newHarness(t, testOptions, `"instructions":"`+long+`","store":false`)
	h.begin(true, false)
	if n := h.w.Held(); n < 10_000 || n > 12_000 {
		t.Errorf("%d bytes before the first event", n)
	}
	for range 100 {
		h.b.Text(0, abi.EncodingUTF8, []byte(long))
		h.apply(nil)
		h.w.Consume()
	}
	if n := h.w.Held(); n < 1_000_000 || n > 1_002_000 {
		t.Errorf("%d bytes for a text of 1,000,000", n)
	}
}

// covers: P8.5
func TestNativeErrorsAreUnchanged(t *testing.T) {
	api := responses.API(testOptions)
	seen := 0
	for _, rec := range recordings(t) {
		if rec.status == 400 && rec.body != nil {
			seen++
			e := api.Failure(400, rec.body)
			var own struct {
				Error struct{ Message, Code, Param string }
			}
			_ = json.Unmarshal(rec.body, &own)
			if e.Code == "model_not_found" {
				continue // the gateway has its own message, because another target may have the model
			}
			if e.Status != 400 || own.Error.Message != "" && (e.Message != own.Error.Message || e.Code != own.Error.Code || e.Param != own.Error.Param) {
				t.Errorf("%s: %+v, want %+v", rec.name, e, own)
			}
			if body := api.AppendError(nil, e, "req"); !strings.Contains(string(body), `"error":{"message":`) {
				t.Errorf("%s: %s", rec.name, body)
			}
		}
	}
	if seen < 3 {
		t.Errorf("only %d errors", seen)
	}
}

// IDs are derived from the ID of the response, and unique within it.
//
// covers: P5.4 P5.13
func TestIDs(t *testing.T) {
	h := newHarness(t, testOptions, "")
	steps := []step{reasoning(abi.ReasoningText, 0, "a"), text("b"), finish(abi.FinishStop)}
	first, second := readWhole(t, h.play(false, steps)), readWhole(t, h.play(false, steps))
	if first.ID != second.ID || first.Output[0].ID != second.Output[0].ID {
		t.Error("the IDs of equal responses differ")
	}
	if len(first.ID) != len("resp_")+48 || !strings.HasPrefix(first.ID, "resp_") {
		t.Errorf("invalid ID %q", first.ID)
	}
	ids := map[string]bool{first.ID[5:]: true}
	for _, it := range first.Output {
		ids[it.ID[strings.Index(it.ID, "_")+1:]] = true
	}
	if len(ids) != len(first.Output)+1 {
		t.Errorf("IDs are not unique: %v", ids)
	}
}
