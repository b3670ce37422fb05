package messages_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/messages"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
)

// TestNativeFailures reads error responses of providers that speak the Messages API.
func TestNativeFailures(t *testing.T) {
	typed := func(typ, message string) string {
		p, err := json.Marshal(map[string]any{"type": "error", "error": map[string]string{"type": typ, "message": message}, "request_id": "req_1"})
		if err != nil {
			t.Fatal(err)
		}
		return string(p)
	}
	const odd = "messages.0.content.1.thinking: each thinking block must contain \"thinking\" & <b>é\u2028\n  more"
	threadError := func(typ, code string) string {
		return strings.Replace(typed(typ, odd), `"error":{`, `"error":{"details":{"error_code":"`+code+`"},`, 1)
	}
	for _, tt := range []struct {
		name    string
		status  int
		body    string
		want    int
		code    string
		message string // "" means a message of the gateway
		tryNext bool
	}{
		// covers: M8.3
		{"message is unchanged", 400, typed("invalid_request_error", odd), 400, "", odd, false},
		// covers: M8.3
		{"long prompt", 400, typed("invalid_request_error", "prompt is too long: 3333404 tokens > 200000 maximum"), 400, "context_length_exceeded", "prompt is too long: 3333404 tokens > 200000 maximum", false},
		// covers: M8.3
		{"long output", 400, typed("invalid_request_error", "input length and `max_tokens` exceed context limit: 150000 + 128000 > 200000, decrease input length or `max_tokens` and try again"),
			400, "context_length_exceeded", "input length and `max_tokens` exceed context limit: 150000 + 128000 > 200000, decrease input length or `max_tokens` and try again", false},
		{"content policy", 400, typed("invalid_request_error", "Output blocked by content filtering policy"), 400, "content_policy_violation", "Output blocked by content filtering policy", false},
		{"too large", 413, typed("request_too_large", "Request exceeds the maximum size"), 413, "request_too_large", "Request exceeds the maximum size", false},
		// covers: M8.8
		{"operator's key", 401, typed("authentication_error", "invalid x-api-key"), 502, "upstream_auth_failed", "", true},
		// covers: M8.8
		{"operator's permission", 403, typed("permission_error", "org acme may not"), 502, "upstream_auth_failed", "", true},
		// covers: M8.8
		{"operator's billing", 400, typed("invalid_request_error", "Your credit balance is too low to access the Anthropic API."), 502, "upstream_billing", "", true},
		{"operator's rate limit", 429, typed("rate_limit_error", "This request would exceed the limit of organization acme"), 429, "rate_limit_exceeded", "", true},
		{"unknown model", 404, typed("not_found_error", "model: claude-nope"), 404, "model_not_found", "model: claude-nope", true},
		{"unknown endpoint", 404, typed("not_found_error", "Not Found"), 502, "upstream_not_found", "The provider has no such endpoint.", true},
		{"unknown thread", 404, threadError("not_found_error", "thread_not_found"), 404, "thread_not_found", odd, false},
		{"continued thread", 400, threadError("invalid_request_error", "thread_already_continued"), 400, "thread_already_continued", odd, false},
		{"unsupported by threads", 400, threadError("invalid_request_error", "thread_unsupported_request"), 400, "thread_unsupported_request", odd, false},
		{"other details", 400, threadError("invalid_request_error", "organization_on_hold"), 400, "", odd, false},
		{"other details of a 404", 404, threadError("not_found_error", "file_expired"), 502, "upstream_not_found", "The provider has no such endpoint.", true},
		{"overloaded", 529, typed("overloaded_error", "Overloaded"), 503, "overloaded", "Overloaded", true},
		{"server error", 500, typed("api_error", "Internal server error"), 502, "upstream_error", "Internal server error", true},
		{"timeout", 504, typed("timeout_error", "Timed out"), 504, "upstream_timeout", "Timed out", true},
		{"unknown type", 400, typed("novel_error", "x"), 400, "", "x", false},
		{"format of a cloud", 400, `{"message":"The provided model identifier is invalid."}`, 400, "", "The provided model identifier is invalid.", false},
		{"error of a cloud", 429, `{"error":{"code":429,"message":"Quota exceeded for project acme","status":"RESOURCE_EXHAUSTED"}}`, 429, "rate_limit_exceeded", "", true},
		{"HTML page of a proxy", 502, `<html>Bad gateway of acme</html>`, 502, "upstream_error", "", true},
		{"empty body", 503, ``, 503, "overloaded", "", true},
		{"unexpected document", 400, `{"error":[1]}`, 400, "", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body := []byte(tt.body)
			e := messages.Failure(tt.status, body)
			clear(body) // the error must not retain it
			if e.Status != tt.want || e.Code != tt.code || e.TryNext != tt.tryNext || e.UpstreamStatus != tt.status || e.Param != "" || e.Cause == nil {
				t.Errorf("got %+v", e)
			}
			if tt.message != "" && e.Message != tt.message || tt.message == "" && (strings.Contains(e.Message, "acme") || e.Message == "") {
				t.Errorf("message %q", e.Message)
			}
			if strings.Contains(e.Cause.Error(), "acme") {
				t.Errorf("cause %q reveals the operator", e.Cause)
			}
			// The client of the API receives the same message.
			var got struct{ Error struct{ Message string } }
			if err := json.Unmarshal(messages.AppendError(nil, e, ""), &got); err != nil || tt.message != "" && got.Error.Message != tt.message {
				t.Errorf("the client receives %q, %v", got.Error.Message, err)
			}
		})
	}
}

// TestRecordedNativeFailures reads recorded error responses, as bodies and as events of a stream.
func TestRecordedNativeFailures(t *testing.T) {
	want := map[string]string{
		"error-400-too-long": "400 context_length_exceeded", "older-error-400": "400 context_length_exceeded",
		"error-401": "502 upstream_auth_failed", "older-error-401": "502 upstream_auth_failed",
		"error-404": "404 model_not_found", "older-error-404": "404 model_not_found",
	}
	for _, rec := range recordings(t, nativeRecordings) {
		if !rec.failed() {
			continue
		}
		t.Run(rec.name, func(t *testing.T) {
			_, status, _ := strings.Cut(rec.name, "error-")
			var code int
			if err := json.Unmarshal([]byte(status[:3]), &code); err != nil {
				t.Fatal(err)
			}
			var r messages.Reader
			var b response.Batch
			if err := r.ReadEvent([]byte("error"), rec.body, &b); err != nil {
				t.Fatal(err)
			}
			var whole response.Batch
			if err := r.ReadResponse(rec.body, &whole); err != nil {
				t.Fatal(err)
			}
			for _, e := range []*apierror.Error{messages.Failure(code, rec.body), b.Failure(), whole.Failure()} {
				if e == nil {
					t.Fatal("no failure")
				}
				if got := strconv.Itoa(e.Status) + " " + e.Code; got != want[strings.TrimPrefix(rec.name, "responses/")] {
					t.Errorf("got %s", got)
				}
			}
		})
	}
}

func TestUnreadableResponses(t *testing.T) {
	for name, body := range map[string]string{
		"invalid JSON": `nope`, "two documents": `{}{}`, "array": `[]`, "no content": `{"type":"message"}`, "text for content": `{"type":"message","content":"x"}`,
		"too deep": strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200),
	} {
		var r messages.Reader
		var b response.Batch
		if err := r.ReadResponse([]byte(body), &b); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if err := r.ReadEvent([]byte("content_block_delta"), []byte(body), &b); err == nil && !strings.Contains(name, "content") {
			t.Errorf("%s: accepted as an event", name)
		}
	}
	var r messages.Reader
	var b response.Batch
	if err := r.ReadEvent(nil, []byte(`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":""}}`), &b); err != nil || b.Failure() == nil || b.Failure().Code != "upstream_invalid_tool_call" {
		t.Errorf("a call without a name: %v, %v", err, b.Failure())
	}
}

// TestDeltasInAnyFormat reads a delta in the exact format of the API, which has a fast path, and in others.
func TestDeltasInAnyFormat(t *testing.T) {
	const want = `a "quoted\" é`
	for _, data := range []string{
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a \"quoted\\\" \u00e9"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a \"quoted\\\" é"}     }`,
		`{"type":"content_block_delta","index":0,"delta":{"text":"a \"quoted\\\" é","type":"text_delta"}}`,
		`{ "type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a \"quoted\\\" é"}, "more": {}}` + "\n",
		`{"index":0,"delta":{"type":"text_delta","text":"a \"quoted\\\" é","n":1},"type":"content_block_delta"}`,
	} {
		for _, pass := range []bool{false, true} {
			w := newMessageWriter()
			w.reset(true, pass)
			var r messages.Reader
			var b response.Batch
			r.Reset(pass)
			for _, e := range []string{startEvent, blockEvent, data, endOfBlock, endEvent, stopEvent} {
				b.Reset()
				if err := w.apply(&b, r.ReadEvent(nil, []byte(e), &b)); err != nil {
					t.Fatal(err)
				}
			}
			if m, err := sdkMessage(t, w.Output()); err != nil || m.Content[0].Text != want {
				t.Errorf("passed %t: %s: %v, %v", pass, data, m.Content, err)
			}
			if points := w.TextLength(0); points != 13 {
				t.Errorf("%s: text length %d, want 13", data, points)
			}
		}
	}
}

// FuzzReader reads arbitrary data of a provider, an event per line or a non-streaming response, for streaming and
// non-streaming clients, and passed on unchanged. The client receives complete frames of valid JSON, exactly one end,
// and the same content in each case.
func FuzzReader(f *testing.F) {
	for _, rec := range recordings(f, nativeRecordings) {
		if rec.body != nil && len(rec.body) < 2000 {
			f.Add(rec.body, true)
		}
		var lines [][]byte
		for line := range bytes.Lines(rec.stream) {
			if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
				lines = append(lines, bytes.TrimSpace(data))
			}
		}
		if n := len(lines); n > 8 {
			lines = append(lines[:4:4], lines[n-4:]...)
		}
		if len(lines) > 0 {
			f.Add(bytes.Join(lines, []byte("\n")), false)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, whole bool) {
		if len(data) > 1<<16 {
			return
		}
		checkReader(t, data, whole)
	})
}

// checkReader does the checks of FuzzReader. If whole is set, data is a non-streaming response.
func checkReader(t testing.TB, data []byte, whole bool) {
	t.Helper()
	lines := [][]byte{data}
	if !whole {
		lines = bytes.Split(data, []byte("\n"))
	}
	play := func(stream, pass bool) messageWriter {
		var r messages.Reader
		var b response.Batch
		w := newMessageWriter()
		w.reset(stream, pass)
		r.Reset(pass)
		for _, line := range lines {
			before := bytes.Clone(line)
			b.Reset()
			var err error
			if whole {
				err = r.ReadResponse(line, &b)
			} else {
				err = r.ReadEvent([]byte("x"), line, &b)
			}
			if !bytes.Equal(before, line) {
				t.Fatal("the reader has changed the data")
			}
			clear(line) // the reader and the batch must not retain it
			if err := w.apply(&b, err); err != nil {
				t.Fatal(err)
			}
			copy(line, before)
		}
		_ = w.End()
		return w
	}
	streamed, nonStreaming := play(true, false), play(false, false)
	if streamed.Complete() != nonStreaming.Complete() || streamed.Complete() == (streamed.Failed() != nil) {
		t.Fatalf("streamed: complete %v, failed %v; non-streaming: %v, %v", streamed.Complete(), streamed.Failed(), nonStreaming.Complete(), nonStreaming.Failed())
	}
	checkFrames(t, streamed.Writer)
	if nonStreaming.Complete() {
		body := nonStreaming.AppendResponse(nil)
		if !json.Valid(body) {
			t.Fatalf("not JSON: %s", body)
		}
		m, err := sdkMessage(t, streamed.Output())
		if got, want := summarize(t, m), summarize(t, sdkResponse(t, body)); err != nil || got != want {
			t.Fatalf("%v, accumulated\n%s\nwant\n%s", err, got, want)
		}
	}
	passed := play(!whole, true)
	if whole {
		if passed.Complete() && !bytes.Equal(passed.AppendResponse(nil), data) {
			t.Fatalf("passed on as %s", passed.AppendResponse(nil))
		}
		return
	}
	for i, f := range bytes.Split(bytes.TrimSuffix(passed.Output(), []byte("\n\n")), []byte("\n\n")) {
		if _, data, ok := bytes.Cut(f, []byte("\ndata: ")); len(passed.Output()) > 0 && (!ok || bytes.ContainsAny(data, "\r\n") || !json.Valid(data)) {
			t.Fatalf("frame %d is %q", i, f)
		}
	}
	if passed.Complete() == (passed.Failed() != nil) {
		t.Fatalf("passed: complete %v, failed %v", passed.Complete(), passed.Failed())
	}
}

// TestGoldenStreams compares a few rendered responses with golden files.
func TestGoldenStreams(t *testing.T) {
	for _, name := range []string{"stream-thinking-adaptive", "stream-parallel-tools", "stream-stop-sequence", "thinking-tool-t1", "redacted-thinking-t1", "answer-refusal"} {
		paths, err := filepath.Glob("testdata/responses/" + name + ".*")
		if err != nil || len(paths) != 1 {
			t.Fatal(paths, err)
		}
		compareRendered(t, &recordings(t, paths[0])[0], new(messages.Reader))
	}
}

// compareRendered renders a recording, streaming and non-streaming, and compares the output with its golden file.
func compareRendered(t *testing.T, rec *recording, r *messages.Reader) {
	t.Helper()
	stream, whole := newMessageWriter(), newMessageWriter()
	stream.reset(true, false)
	rec.replay(t, stream.Writer, r, false, cuts["whole"])
	whole.reset(false, false)
	rec.replay(t, whole.Writer, r, false, cuts["whole"])
	got := append(append(stream.Output(), whole.AppendResponse(nil)...), '\n')
	file := filepath.Join("testdata", "rendered", filepath.Base(rec.name)+".txt")
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; got:\n%s", file, got)
	}
}

// TestInvalidText has a provider whose stop sequence and service tier are no valid text, which must not fail the response.
func TestInvalidText(t *testing.T) {
	for _, text := range []string{`\ud800`, "\xff", `\ude00`} {
		checkReader(t, []byte(`{"type":"message_start","message":{"id":"m","model":"m","usage":{"input_tokens":1,"output_tokens":1,"service_tier":"`+text+`"}}}`+"\n"+
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Hi"}}`+"\n"+`{"type":"content_block_stop","index":0}`+"\n"+
			`{"type":"message_delta","delta":{"stop_reason":"stop_sequence","stop_sequence":"`+text+`"},"usage":{"output_tokens":1}}`+"\n"+`{"type":"message_stop"}`), false)
	}
}
