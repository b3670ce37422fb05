package messages_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/messages"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
)

// TestNativeFailures reads error responses of providers that speak Messages.
func TestNativeFailures(t *testing.T) {
	typed := func(typ, message string) string {
		p, err := json.Marshal(map[string]any{"type": "error", "error": map[string]string{"type": typ, "message": message}, "request_id": "req_1"})
		if err != nil {
			t.Fatal(err)
		}
		return string(p)
	}
	const odd = "messages.0.content.1.thinking: each thinking block must contain \"thinking\" & <b>é\u2028\n  more"
	for _, tt := range []struct {
		name    string
		status  int
		body    string
		want    int
		code    string
		message string // "" is the gateway's own
		next    bool
	}{
		// covers: M8.3
		{"message byte for byte", 400, typed("invalid_request_error", odd), 400, "", odd, false},
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
		{"operator's bill", 400, typed("invalid_request_error", "Your credit balance is too low to access the Anthropic API."), 502, "upstream_billing", "", true},
		{"operator's limit", 429, typed("rate_limit_error", "This request would exceed the limit of organization acme"), 429, "rate_limit_exceeded", "", true},
		{"model", 404, typed("not_found_error", "model: claude-nope"), 404, "model_not_found", "model: claude-nope", true},
		{"address", 404, typed("not_found_error", "Not Found"), 502, "upstream_not_found", "The provider has no such endpoint.", true},
		{"overload", 529, typed("overloaded_error", "Overloaded"), 503, "overloaded", "Overloaded", true},
		{"fault", 500, typed("api_error", "Internal server error"), 502, "upstream_error", "Internal server error", true},
		{"timeout", 504, typed("timeout_error", "Timed out"), 504, "upstream_timeout", "Timed out", true},
		{"unknown type", 400, typed("novel_error", "x"), 400, "", "x", false},
		{"cloud's own form", 400, `{"message":"The provided model identifier is invalid."}`, 400, "", "The provided model identifier is invalid.", false},
		{"cloud's own error", 429, `{"error":{"code":429,"message":"Quota exceeded for project acme","status":"RESOURCE_EXHAUSTED"}}`, 429, "rate_limit_exceeded", "", true},
		{"page of a proxy", 502, `<html>Bad gateway of acme</html>`, 502, "upstream_error", "", true},
		{"nothing", 503, ``, 503, "overloaded", "", true},
		{"odd document", 400, `{"error":[1]}`, 400, "", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body := []byte(tt.body)
			e := messages.Failure(tt.status, body)
			clear(body) // it must not be kept
			if e.Status != tt.want || e.Code != tt.code || e.TryNext != tt.next || e.UpstreamStatus != tt.status || e.Param != "" || e.Cause == nil {
				t.Errorf("got %+v", e)
			}
			if tt.message != "" && e.Message != tt.message || tt.message == "" && (strings.Contains(e.Message, "acme") || e.Message == "") {
				t.Errorf("message %q", e.Message)
			}
			if strings.Contains(e.Cause.Error(), "acme") {
				t.Errorf("the log sees %q", e.Cause)
			}
			// What a client of the API gets of it has the same message.
			var got struct{ Error struct{ Message string } }
			if err := json.Unmarshal(messages.AppendError(nil, e, ""), &got); err != nil || tt.message != "" && got.Error.Message != tt.message {
				t.Errorf("the client gets %q, %v", got.Error.Message, err)
			}
		})
	}
}

// TestRecordedNativeFailures reads recorded error responses, and the same in the middle of a stream.
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
				words, _ := json.Marshal(e.Status)
				if got := string(words) + " " + e.Code; got != want[strings.TrimPrefix(rec.name, "responses/")] {
					t.Errorf("got %s", got)
				}
			}
		})
	}
}

func TestUnreadableResponses(t *testing.T) {
	for name, body := range map[string]string{
		"no JSON": `nope`, "two values": `{}{}`, "array": `[]`, "no content": `{"type":"message"}`, "text for content": `{"type":"message","content":"x"}`,
		"too deep": strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200),
	} {
		var r messages.Reader
		var b response.Batch
		if err := r.ReadResponse([]byte(body), &b); err == nil {
			t.Errorf("%s: read", name)
		}
		if err := r.ReadEvent([]byte("content_block_delta"), []byte(body), &b); err == nil && !strings.Contains(name, "content") {
			t.Errorf("%s: read as an event", name)
		}
	}
	var r messages.Reader
	var b response.Batch
	if err := r.ReadEvent(nil, []byte(`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":""}}`), &b); err != nil || b.Failure() == nil || b.Failure().Code != "upstream_invalid_tool_call" {
		t.Errorf("a call without a name: %v, %v", err, b.Failure())
	}
}

// TestDeltasOfAnyForm reads the same delta in the form that the API sends and in others.
func TestDeltasOfAnyForm(t *testing.T) {
	const want = `a "quoted\" é`
	for _, data := range []string{
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a \"quoted\\\" \u00e9"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a \"quoted\\\" é"}     }`,
		`{"type":"content_block_delta","index":0,"delta":{"text":"a \"quoted\\\" é","type":"text_delta"}}`,
		`{ "type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a \"quoted\\\" é"}, "more": {}}` + "\n",
		`{"index":0,"delta":{"type":"text_delta","text":"a \"quoted\\\" é","n":1},"type":"content_block_delta"}`,
	} {
		for _, pass := range []bool{false, true} {
			w := newWritten()
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
				t.Errorf("%s: %d characters accounted", data, points)
			}
		}
	}
}

// FuzzReader reads what a provider might send, an event in each line or one response, for streaming and other clients, passed on
// and not: the client gets whole frames that are JSON, one end, and the same content each way.
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
	f.Fuzz(func(t *testing.T, data []byte, answer bool) {
		if len(data) > 1<<16 {
			return
		}
		checkReader(t, data, answer)
	})
}

func checkReader(t testing.TB, data []byte, answer bool) {
	t.Helper()
	lines := [][]byte{data}
	if !answer {
		lines = bytes.Split(data, []byte("\n"))
	}
	play := func(stream, pass bool) written {
		var r messages.Reader
		var b response.Batch
		w := newWritten()
		w.reset(stream, pass)
		r.Reset(pass)
		for _, line := range lines {
			before := bytes.Clone(line)
			b.Reset()
			var err error
			if answer {
				err = r.ReadResponse(line, &b)
			} else {
				err = r.ReadEvent([]byte("x"), line, &b)
			}
			if !bytes.Equal(before, line) {
				t.Fatal("the data has been written to")
			}
			clear(line) // neither the reader nor the batch may hold on to it
			if err := w.apply(&b, err); err != nil {
				t.Fatal(err)
			}
			copy(line, before)
		}
		_ = w.End()
		return w
	}
	streamed, whole := play(true, false), play(false, false)
	if streamed.Complete() != whole.Complete() || streamed.Complete() == (streamed.Failed() != nil) {
		t.Fatalf("streamed: complete %v, failed %v; whole: %v, %v", streamed.Complete(), streamed.Failed(), whole.Complete(), whole.Failed())
	}
	checkFrames(t, streamed.Writer)
	if whole.Complete() {
		body := whole.AppendResponse(nil)
		if !json.Valid(body) {
			t.Fatalf("not JSON: %s", body)
		}
		m, err := sdkMessage(t, streamed.Output())
		if got, want := facts(t, m), facts(t, sdkResponse(t, body)); err != nil || got != want {
			t.Fatalf("%v, accumulated\n%s\nwant\n%s", err, got, want)
		}
	}
	passed := play(!answer, true)
	if answer {
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

// TestGoldenStreams compares a few responses with files that were read by eye.
func TestGoldenStreams(t *testing.T) {
	for _, name := range []string{"stream-thinking-adaptive", "stream-parallel-tools", "stream-stop-sequence", "thinking-tool-t1", "redacted-thinking-t1", "answer-refusal"} {
		paths, err := filepath.Glob("testdata/responses/" + name + ".*")
		if err != nil || len(paths) != 1 {
			t.Fatal(paths, err)
		}
		compareRendered(t, &recordings(t, paths[0])[0], new(messages.Reader))
	}
}

func compareRendered(t *testing.T, rec *recording, r *messages.Reader) {
	t.Helper()
	stream, whole := newWritten(), newWritten()
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
