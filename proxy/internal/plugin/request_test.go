package plugin_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

func b(s string) []byte { return []byte(s) }

// want reports an error if got is not what was wanted. name says what it is.
func want[T comparable](t *testing.T, name string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", name, got, want)
	}
}

// covers: C49
func TestRequestBodies(t *testing.T) {
	tests := []struct {
		name    string
		request func(h abi.Host)
		want    string
	}{
		{"the client's own", func(abi.Host) {}, body},
		{"edited", func(h abi.Host) {
			want(t, "set", h.BodySet(b("/model"), b(`"other"`)), abi.StatusOK)
			want(t, "delete", h.BodyDelete(b("/temperature")), abi.StatusOK)
			want(t, "delete absent", h.BodyDelete(b("/nothing")), abi.StatusAbsent)
			want(t, "rename", h.BodyRename(b("/messages/*/content"), b("text")), abi.StatusOK)
			want(t, "replace", h.BodyReplace(b("/messages/*/role"), b(`"user"`), b(`"human"`)), abi.StatusOK)
		}, `{"model":"other","messages":[{"role":"human","text":"hi \u00e4"}]}`},
		{"written", func(h abi.Host) {
			h.RequestWrite(b(`{"prompt":`))
			i := strings.Index(body, `"hi`)
			h.RequestCopy(int32(i), int32(strings.Index(body, `}]`)-i))
			h.RequestWrite(b(`}`))
		}, `{"prompt":"hi \u00e4"}`},
		{"written empty", func(h abi.Host) { h.RequestWrite(nil) }, ""},
		{"written in parts", func(h abi.Host) {
			h.RequestWrite(b(`{`))
			h.RequestPart(2)
			h.RequestWrite(b(`"messages":[`))
			h.RequestPart(1)
			h.RequestPart(2)
			h.RequestCopy(int32(strings.Index(body, `"hi`)), 4)
			h.RequestPart(1)
			h.RequestWrite(b(`"tools":[],`))
			h.RequestPart(7)
			h.RequestWrite(b(`}`))
			h.RequestPart(2)
			h.RequestWrite(b(`"]`))
			h.RequestPart(0)
			h.RequestWrite(b(` `))
		}, `{ "tools":[],"messages":["hi "]}`},
		{"written in parts from the first to the last", func(h abi.Host) {
			h.RequestPart(0)
			h.RequestWrite(b(`[1`))
			h.RequestPart(3)
			h.RequestWrite(b(`]`))
		}, `[1]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bound := bindNative(t, native{request: func(h abi.Host, _ []byte) int32 {
				want(t, "path", h.RequestPath(b("/v1/chat")), abi.StatusOK)
				tt.request(h)
				return 0
			}}, plugin.BindingConfig{Paths: []string{"/v1/chat"}})
			a := newAttempt(t, body)
			// A second attempt, which reuses the memory, must have the same result.
			for range 2 {
				if err := bound.Request(t.Context(), a); err != nil {
					t.Fatal(err)
				}
				if got := string(a.Out.Body); got != tt.want {
					t.Errorf("body\n%s\nwant\n%s", got, tt.want)
				}
			}
		})
	}
}

// covers: C43
func TestBodyGet(t *testing.T) {
	bound := bindNative(t, native{request: func(h abi.Host, _ []byte) int32 {
		for path, value := range map[string]string{
			"":                    body,
			"/model":              `"m"`,
			"/messages/0/content": `"hi \u00e4"`,
			"/temperature":        `0.5`,
			"/messages/0":         `{"role":"user","content":"hi \u00e4"}`,
		} {
			dst := make([]byte, len(value))
			want(t, "length of "+path, h.BodyGet(b(path), dst), int32(len(value)))
			want(t, path, string(dst), value)
		}
		want(t, "absent", h.BodyGet(b("/messages/1"), nil), int32(abi.StatusAbsent))
		want(t, "no pointer", h.BodyGet(b("model"), nil), int32(abi.StatusAbsent))

		short := []byte("....")
		want(t, "length of more than fits", h.BodyGet(b("/model"), short[:2]), 3)
		want(t, "truncated value", string(short), `"m..`)

		for path, n := range map[string]int32{
			"": 3, "/messages": 1, "/messages/0": 2, "/model": int32(abi.StatusRefused), "/messages/1": int32(abi.StatusAbsent), "model": int32(abi.StatusAbsent),
		} {
			want(t, "number of values in "+path, h.BodyCount(b(path)), n)
		}
		return 1
	}}, plugin.BindingConfig{})
	wantCallError(t, bound.Request(t.Context(), newAttempt(t, body)), plugin.KindStatus)
}

// covers: C79
func TestBodyIndex(t *testing.T) {
	long, escaped := strings.Repeat("x", 70), strings.Repeat("\\n", 40)
	text := `{"model":"m","messages":[{"role":"user","content":"` + long + `"},{"role":"user","content":"` + escaped + `"}],"` + long + `":1}`
	bound := bindNative(t, native{request: func(h abi.Host, _ []byte) int32 {
		var values []string
		for size, n := range map[int32]int{-5: 6, 0: 6, 64: 6, 83: 4, 84: 4, 1000: 0} {
			list := make([]byte, 100)
			want(t, fmt.Sprint("length for ", size), h.BodyIndex(size, list), int32(8*n))
			values = nil
			for ; n > 0; n, list = n-1, list[8:] {
				end := binary.LittleEndian.Uint32(list[4:])
				value := text[binary.LittleEndian.Uint32(list) : end&^(1<<31)]
				want(t, "escaped: "+value, end>>31 != 0, value[0] == '"' && strings.Contains(value, `\n`))
				if size == 64 {
					values = append(values, value[:5])
				}
			}
			if size == 64 {
				want(t, "values", strings.Join(values, " "), `{"mod [{"ro {"rol "xxxx {"rol "\n\n`)
			}
		}
		short := make([]byte, 12)
		want(t, "length of more than fits", h.BodyIndex(64, short[:8]), 48)
		want(t, "after the capacity", binary.LittleEndian.Uint32(short[8:]), 0)
		return 1
	}}, plugin.BindingConfig{})
	wantCallError(t, bound.Request(t.Context(), newAttempt(t, text)), plugin.KindStatus)
}

// A plugin that fails because of a refused path is told which one, even if it has set another before.
func TestRefusedSecondPath(t *testing.T) {
	bound := bindNative(t, native{request: func(h abi.Host, _ []byte) int32 {
		h.RequestPath(b("/v1"))
		h.RequestPath(b("/v2"))
		return 1
	}}, plugin.BindingConfig{Paths: []string{"/v1"}})
	e := wantCallError(t, bound.Request(t.Context(), newAttempt(t, body)), plugin.KindProtocol)
	if want := `status 1: path "/v2": not allowed: the provider has paths = ["/v1"]`; !strings.Contains(e.Error(), want) {
		t.Errorf("error %q, want it to contain %q", e, want)
	}
}

// covers: C39
func TestRequestViolatesContract(t *testing.T) {
	long := bytes.Repeat([]byte("x"), abi.MaxName+1)
	tests := []struct {
		name    string
		request func(h abi.Host)
		kind    plugin.CallErrorKind
		reason  string
	}{
		{"neither request nor answer", func(abi.Host) {}, plugin.KindProtocol, "neither a request nor a response"},
		{"refused path", func(h abi.Host) { h.RequestPath(b("/v2")) }, plugin.KindProtocol, `path "/v2": not allowed: the provider has paths = ["/v1"]`},
		{"both", func(h abi.Host) {
			h.RequestPath(b("/v1"))
			h.Text(0, abi.EncodingUTF8, b("x"))
			h.Done(abi.DoneNow)
		}, plugin.KindProtocol, "both a request and a response"},
		{"answer without done", func(h abi.Host) { h.Text(0, abi.EncodingUTF8, b("x")) }, plugin.KindProtocol, "without done"},
		{"write after edit", func(h abi.Host) { h.BodyDelete(b("/model")); h.RequestWrite(b("x")) }, plugin.KindProtocol, "request_write: body both edited and written"},
		{"edit after write", func(h abi.Host) { h.RequestCopy(0, 1); h.BodyDelete(b("/model")) }, plugin.KindProtocol, "body_delete: body both edited and written"},
		{"copy beyond the end", func(h abi.Host) { h.RequestCopy(1, int32(len(body))) }, plugin.KindProtocol, "outside of the client's body"},
		{"copy before the start", func(h abi.Host) { h.RequestCopy(-1, 1) }, plugin.KindProtocol, "outside of the client's body"},
		{"copy of a negative length", func(h abi.Host) { h.RequestCopy(1, -1) }, plugin.KindProtocol, "outside of the client's body"},
		{"part below the first", func(h abi.Host) { h.RequestPart(-1) }, plugin.KindProtocol, "request_part: invalid part of the body"},
		{"part beyond the last", func(h abi.Host) { h.RequestPart(abi.MaxParts) }, plugin.KindProtocol, "request_part: invalid part of the body"},
		{"part after edit", func(h abi.Host) { h.BodyDelete(b("/model")); h.RequestPart(1) }, plugin.KindProtocol, "request_part: body both edited and written"},
		{"parts without end", func(h abi.Host) {
			for range 10000 {
				h.RequestPart(1)
			}
		}, plugin.KindOutput, " bytes, the limit for an input of "},
		{"copy with overflow", func(h abi.Host) { h.RequestCopy(1<<31-1, 1<<31-1) }, plugin.KindProtocol, "outside of the client's body"},
		// covers: F93
		{"copies without end", func(h abi.Host) {
			for range 3 {
				h.RequestCopy(0, int32(len(body)))
			}
		}, plugin.KindOutput, "copied too often"},
		{"writes without end", func(h abi.Host) {
			for range 1000 {
				h.RequestWrite(make([]byte, 1<<10))
			}
		}, plugin.KindOutput, " bytes, the limit for an input of "},
		// covers: F95
		{"line feed in a header", func(h abi.Host) { h.RequestHeader(b("x-ok"), b("a\r\nhost: b")) }, plugin.KindProtocol, "invalid header value"},
		{"NUL in a header", func(h abi.Host) { h.RequestHeader(b("x-ok"), b("a\x00")) }, plugin.KindProtocol, "invalid header value"},
		{"a header's name", func(h abi.Host) { h.RequestHeader(b("x-ok: y\r\nz"), b("a")) }, plugin.KindProtocol, "invalid header name"},
		{"a tool's name", func(h abi.Host) { h.ToolAlias(b("a"), b("\xff")) }, plugin.KindProtocol, "not UTF-8"},
		{"an empty alias", func(h abi.Host) { h.ToolAlias(nil, b("x")) }, plugin.KindProtocol, "empty name"},
		{"import of another phase", func(h abi.Host) { h.Candidate(0) }, plugin.KindProtocol, "candidate: not allowed in this call"},
		{"header of an answer", func(h abi.Host) { h.ResponseHeader(b("x"), nil) }, plugin.KindProtocol, "response_header: not allowed"},
		{"a name that is too long", func(h abi.Host) { h.Start(nil, long, nil) }, plugin.KindProtocol, "start: the model is longer"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bound := bindNative(t, native{request: func(h abi.Host, _ []byte) int32 {
				tt.request(h)
				return 0
			}}, plugin.BindingConfig{Paths: []string{"/v1"}, Headers: []string{"X-Ok"}})
			a := newAttempt(t, body)
			err := bound.Request(t.Context(), a)
			e := wantCallError(t, err, tt.kind)
			if !strings.Contains(e.Error(), tt.reason) {
				t.Errorf("error %q, want it to contain %q", e, tt.reason)
			}
			if e.Plugin != "native" || e.Binding != "binding" || e.Call != abi.ExportRequest {
				t.Errorf("the error names plugin %q, binding %q and call %q", e.Plugin, e.Binding, e.Call)
			}
			if a.Out.Path != "" || a.Out.Body != nil || output(a) != "" {
				t.Errorf("the failed call changed the attempt: request %+v, output %q", a.Out, output(a))
			}
		})
	}
}

// TestFailureAfterRejection covers plugins written with the SDK, which return a failure if the host rejects something.
// Only the host knows the reason.
func TestFailureAfterRejection(t *testing.T) {
	tests := []struct {
		name    string
		request func(h abi.Host)
		kind    plugin.CallErrorKind
		text    string
	}{
		{"a path", func(h abi.Host) { h.RequestPath(b("/v2")) }, plugin.KindProtocol, `protocol error: status 1: path "/v2": not allowed: the provider has paths = ["/v1"]`},
		{"a header", func(h abi.Host) { h.RequestPath(b("/v1")); h.RequestHeader(b("x-no"), b("a")) }, plugin.KindProtocol, `protocol error: status 1: header "x-no": not allowed: the provider has headers = ["x-ok"]`},
		{"a path, and then another one", func(h abi.Host) { h.RequestPath(b("/v2")); h.RequestPath(b("/v1")) }, plugin.KindStatus, "failed: status 1, and the plugin logged no error"},
		{"nothing", func(abi.Host) {}, plugin.KindStatus, "failed: status 1, and the plugin logged no error"},
	}
	request := tests[0].request
	bound := bindNative(t, native{request: func(h abi.Host, _ []byte) int32 { request(h); return 1 }},
		plugin.BindingConfig{Paths: []string{"/v1"}, Headers: []string{"X-Ok"}})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			request = tt.request
			e := wantCallError(t, bound.Request(t.Context(), newAttempt(t, body)), tt.kind)
			want(t, "error", e.Error(), "plugin native: binding binding: provider_request: "+tt.text)
		})
	}
}

// covers: C47
func TestRequestHeaders(t *testing.T) {
	tests := []struct {
		name, value string
		want        abi.Status
	}{
		{"anthropic-version", "2023-06-01", abi.StatusOK},
		{"Anthropic-Beta", "first", abi.StatusOK},
		{"anthropic-beta", "a, b\tc", abi.StatusOK},
		{"x-other", "1", abi.StatusRefused},
		{"authorization", "Bearer x", abi.StatusRefused},
		{"Host", "evil", abi.StatusRefused},
		{"x-amz-date", "1", abi.StatusRefused},
		{"x-forwarded-for", "1", abi.StatusRefused},
		{"x-api-key", "1", abi.StatusRefused},
		{"anthropic-beta", strings.Repeat("x", 5000), abi.StatusTooLarge},
		{strings.Repeat("x", abi.MaxName+1), "1", abi.StatusTooLarge},
	}
	bound := bindNative(t, native{request: func(h abi.Host, _ []byte) int32 {
		h.RequestPath(b("/v1"))
		for _, tt := range tests {
			want(t, tt.name, h.RequestHeader(b(tt.name), b(tt.value)), tt.want)
		}
		return 0
	}}, plugin.BindingConfig{Paths: []string{"/v1"}, Headers: []string{"anthropic-version", "Anthropic-Beta"}, CredentialHeader: "x-api-key"})
	a := newAttempt(t, body)
	if err := bound.Request(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	got := []plugin.Header{{Name: "anthropic-version", Value: "2023-06-01"}, {Name: "anthropic-beta", Value: "a, b\tc"}}
	if diff := cmp.Diff(got, a.Out.Headers); diff != "" {
		t.Error(diff)
	}
}

// covers: C47
func TestBindRejectsReservedHeaders(t *testing.T) {
	p := loadNative(t, newHost(t, plugin.Options{}), native{})
	for _, name := range []string{"authorization", "Host", "cookie", "content-length", "Transfer-Encoding", "connection", "te", "accept-encoding", "x-amz-security-token", "X-Forwarded-For", "proxy-authorization", "x-goog-api-key", "bad name", ""} {
		_, err := p.Bind(t.Context(), plugin.BindingConfig{Name: "b", Headers: []string{name}, CredentialHeader: "X-Goog-Api-Key"})
		if err == nil || !strings.Contains(err.Error(), "plugin native: binding b: header") {
			t.Errorf("header %q: error %v", name, err)
		}
	}
	for _, path := range []string{"", "v1", "/v1?x=1", "/v1//x", "/../x", "/v 1", "/v\u00e4", "/"} {
		if _, err := p.Bind(t.Context(), plugin.BindingConfig{Name: "b", Paths: []string{path}}); err == nil {
			t.Errorf("accepted path %q", path)
		}
	}
	if _, err := p.Bind(t.Context(), plugin.BindingConfig{Name: "b", Settings: b(`[1]`)}); err == nil {
		t.Error("accepted settings that are not an object")
	}
}

// covers: C52
func TestAnswerDeclaresFraming(t *testing.T) {
	bound := bindNative(t, native{request: func(h abi.Host, _ []byte) int32 {
		h.RequestPath(b("/v1"))
		want(t, "an unknown framing", h.Answer(17, abi.DialectTranslated, nil), abi.StatusUnknown)
		want(t, "an unknown dialect", h.Answer(abi.FramingSSE, 17, nil), abi.StatusUnknown)
		want(t, "long options", h.Answer(abi.FramingSSE, abi.DialectOpenAI, make([]byte, 5000)), abi.StatusTooLarge)
		want(t, "sse", h.Answer(abi.FramingSSE, abi.DialectOpenAI, b(`{"reasoning_format":"deepseek"}`)), abi.StatusOK)
		return 0
	}}, plugin.BindingConfig{Paths: []string{"/v1"}})
	a := newAttempt(t, body)
	if err := bound.Request(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	want(t, "framing", a.Framing, abi.FramingSSE)
	want(t, "dialect", a.Dialect, abi.DialectOpenAI)
	want(t, "options", a.DialectOptions.ReasoningFormat, "deepseek")
	want(t, "answered", a.Answered, false)
}

// covers: C52
func TestDialectsOfTheHost(t *testing.T) {
	for _, d := range []abi.Dialect{abi.DialectTranslated, abi.DialectOpenAI, abi.DialectMessages, abi.DialectResponses, abi.DialectGemini} {
		bound := bindNative(t, native{request: func(h abi.Host, _ []byte) int32 {
			h.RequestPath(b("/v1"))
			want(t, "known", h.Answer(abi.FramingSSE, d, nil), abi.StatusOK)
			for _, unknown := range []abi.Dialect{-1, 5, 1 << 30} {
				want(t, "unknown", h.Answer(abi.FramingNDJSON, unknown, nil), abi.StatusUnknown)
			}
			return 0
		}}, plugin.BindingConfig{Paths: []string{"/v1"}})
		a := newAttempt(t, body)
		if err := bound.Request(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		want(t, "dialect", a.Dialect, d)
		want(t, "framing", a.Framing, abi.FramingSSE)
	}
}

// covers: C55
func TestWarningsAreCollected(t *testing.T) {
	bound := bindNative(t, native{request: func(h abi.Host, _ []byte) int32 {
		h.RequestPath(b("/v1"))
		h.Warn(abi.WarnDropped, b("logit_bias"))
		h.Warn(abi.WarnDropped, b("logit_bias"))
		h.Warn(abi.WarnClamped, b("temperature"))
		h.Warn(abi.WarnChanged, b("a\r\nx: sk-secret \u00e4"))
		for i := range 1000 {
			h.Warn(abi.WarnDropped, bytes.Repeat([]byte("x"), 1+i%300))
		}
		return 0
	}}, plugin.BindingConfig{Paths: []string{"/v1"}, Redact: redact})
	a := newAttempt(t, body)
	if err := bound.Request(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	first := []plugin.Warning{{abi.WarnDropped, "logit_bias"}, {abi.WarnClamped, "temperature"}, {abi.WarnChanged, "a??x: *** ??"}}
	if diff := cmp.Diff(first, a.Warnings[:3]); diff != "" {
		t.Error(diff)
	}
	if len(a.Warnings) != 64 {
		t.Errorf("%d warnings, want 64, the maximum", len(a.Warnings))
	}
}

// redact removes the only configured credential.
func redact(p []byte) []byte { return bytes.ReplaceAll(p, []byte("sk-secret"), []byte("***")) }

// covers: C54
func TestToolAliasesAreResolved(t *testing.T) {
	bound := bindNative(t, native{
		request: func(h abi.Host, _ []byte) int32 {
			h.RequestPath(b("/v1"))
			want(t, "alias", h.ToolAlias(b("t_1"), b("weather/now")), abi.StatusOK)
			want(t, "long", h.ToolAlias(b("t_2"), make([]byte, abi.MaxName+1)), abi.StatusTooLarge)
			return 0
		},
		event: func(h abi.Host, _ abi.EventKind, _, data []byte) int32 {
			h.ToolCall(0, 0, b("id"), data)
			return 0
		},
	}, plugin.BindingConfig{Paths: []string{"/v1"}})
	for alias, name := range map[string]string{"t_1": "weather/now", "t_2": "t_2"} {
		a := newAttempt(t, body)
		if err := bound.Request(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		if err := bound.Event(t.Context(), a, abi.EventPlain, nil, b(alias)); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(output(a), `"name":"`+name+`"`) {
			t.Errorf("alias %s: %s", alias, output(a))
		}
	}
}

// covers: C56
func TestPluginRespondsItself(t *testing.T) {
	bound := bindNative(t, native{request: func(h abi.Host, _ []byte) int32 {
		h.Start(b("own"), b("demo"), nil)
		h.Text(0, abi.EncodingUTF8, b("hello"))
		h.Finish(0, abi.FinishStop, nil)
		h.Done(abi.DoneNow)
		return 0
	}}, plugin.BindingConfig{})
	a := newAttempt(t, body)
	if err := bound.Request(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if !a.Answered || !a.Writer.Complete() || !strings.Contains(output(a), `"content":"hello"`) {
		t.Errorf("answered %t, complete %t, output %s", a.Answered, a.Writer.Complete(), output(a))
	}
}

// covers: C65
func TestFailInRequest(t *testing.T) {
	bound := bindNative(t, native{request: func(h abi.Host, _ []byte) int32 {
		h.RequestPath(b("/v1"))
		h.Fail(abi.FailUnsupported, b("no_audio"), b("messages[0]"), b("No audio, sk-secret, \xff."), 1500)
		return 0
	}}, plugin.BindingConfig{Paths: []string{"/v1"}, Redact: redact})
	a := newAttempt(t, body)
	err := bound.Request(t.Context(), a)
	var e *apierror.Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v, want a *apierror.Error", err)
	}
	want(t, "status", e.Status, 400)
	want(t, "code", e.Code, "no_audio")
	want(t, "param", e.Param, "messages[0]")
	want(t, "message", e.Message, "No audio, ***, \uFFFD.")
	want(t, "retry after", e.RetryAfter.Milliseconds(), 1500)
	want(t, "try next", e.TryNext, true)

	// Retry-After is capped.
	forever := bindNative(t, native{request: func(h abi.Host, _ []byte) int32 {
		h.Fail(abi.FailRateLimit, nil, nil, nil, 1<<31-1)
		return 0
	}}, plugin.BindingConfig{})
	if err := forever.Request(t.Context(), a); !errors.As(err, &e) {
		t.Fatalf("error %v, want a *apierror.Error", err)
	}
	want(t, "retry after", e.RetryAfter.Hours(), 1)
	want(t, "path", a.Out.Path, "")
}

// covers: C42
func TestSummary(t *testing.T) {
	var got string
	bound := bindNative(t, native{request: func(h abi.Host, in []byte) int32 {
		got = string(in)
		return 1
	}}, plugin.BindingConfig{})
	a := newAttempt(t, `{"model":"a\"b","messages":[{"role":"user","content":"x"}],"stream":true,"stream_options":{"include_usage":true},"tools":[{"type":"function","function":{"name":"f"}}],"thinking":{"type":"enabled","budget_tokens":2048}}`)
	a.Summary.RequestID, a.Summary.Attempt, a.Summary.Random = "req-1", 2, 0xabc
	a.Summary.Time = unixMilli(1_700_000_000_123)
	a.Summary.Target, a.Summary.MaxTokens, a.Summary.DefaultMaxTokens = "up/m", 64000, 4096
	a.Summary.Options = b(`{"x":[1]}`)
	a.Summary.Form, a.Summary.ClientForm, a.Summary.Betas = "messages", "messages", []string{"a-1", `b"2`}
	a.Summary.Tags = []string{"pii", "x"}
	wantCallError(t, bound.Request(t.Context(), a), plugin.KindStatus)
	const full = `{"request_id":"req-1","time":1700000000123,"attempt":2,"random":"0000000000000abc","stream":true,"include_usage":true,"model":"a\"b","target":"up/m","limits":{"max_tokens":64000,"default_max_tokens":4096},"flags":["tools","thinking"],"form":"messages","client_form":"messages","betas":["a-1","b\"2"],"tags":["pii","x"],"body":218,"options":{"x":[1]}}`
	if got != full {
		t.Errorf("summary\n%s\nwant\n%s", got, full)
	}

	a = newAttempt(t, body)
	a.Summary.Time = unixMilli(0)
	wantCallError(t, bound.Request(t.Context(), a), plugin.KindStatus)
	const empty = `{"request_id":"","time":0,"attempt":0,"random":"0000000000000000","stream":false,"include_usage":false,"model":"m","target":"","limits":{"max_tokens":0,"default_max_tokens":0},"flags":[],"form":"chat","client_form":"chat","betas":[],"tags":[],"body":82,"options":{}}`
	if got != empty {
		t.Errorf("summary\n%s\nwant\n%s", got, empty)
	}
}

func TestAttemptsReuseMemoryOnly(t *testing.T) {
	bound := bindNative(t, native{
		request: func(h abi.Host, _ []byte) int32 {
			want(t, "state when the attempt begins", h.StateGet(make([]byte, 10)), 0)
			h.RequestPath(b("/v1"))
			h.RequestHeader(b("x-a"), b("1"))
			h.RequestWrite(b(`"own"`))
			h.ToolAlias(b("x"), b("y"))
			h.Warn(abi.WarnDropped, b("m"))
			h.StateSet(b("kept"))
			return 0
		},
	}, plugin.BindingConfig{Paths: []string{"/v1"}, Headers: []string{"x-a"}})
	a := newAttempt(t, body)
	request, writer := a.Request, a.Writer
	for range 2 {
		a.Request, a.Writer = request, writer
		if err := bound.Request(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		if string(a.Alias(b("x"))) != "y" || string(a.State()) != "kept" || string(a.Out.Body) != `"own"` {
			t.Errorf("alias %q, state %q, body %q", a.Alias(b("x")), a.State(), a.Out.Body)
		}
		a.Reset()
		if a.Out.Path != "" || len(a.Out.Headers) != 0 || a.Out.Body != nil || len(a.Warnings) != 0 || a.Request.Doc != nil || string(a.Alias(b("x"))) != "x" || len(a.State()) != 0 || a.Fuel != 0 {
			t.Errorf("after Reset: %+v", a)
		}
	}
	if !slices.Equal(a.State(), nil) {
		t.Error("Reset did not clear the state")
	}
}
