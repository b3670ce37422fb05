package plugin_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// covers: C57
func TestEventsReachTheWriter(t *testing.T) {
	bound := bindNative(t, native{event: func(h abi.Host, kind abi.EventKind, name, data []byte) int32 {
		switch string(name) {
		case "start":
			h.Start(b("a1"), b("big"), b("f"))
		case "text":
			h.Text(0, abi.EncodingEscaped, data)
		case "tool":
			h.ToolCall(0, 3, b("c1"), b("f"))
			want(t, "arguments", h.ToolArguments(0, 3, abi.EncodingUTF8, data), abi.StatusOK)
			want(t, "arguments without a call", h.ToolArguments(0, 4, abi.EncodingUTF8, data), abi.StatusAbsent)
		case "more":
			want(t, "arguments of an earlier call", h.ToolArguments(0, 3, abi.EncodingUTF8, data), abi.StatusOK)
			h.ToolEnd(0, 3)
		case "end":
			h.Usage(abi.UsagePrompt, 3)
			h.Usage(abi.UsageCompletion, 4)
			h.Finish(0, abi.FinishStop, b("end_turn"))
			h.Done(abi.DoneNow)
		}
		return 0
	}}, plugin.BindingConfig{})
	a := newAttempt(t, body)
	for _, e := range [][2]string{{"start", ""}, {"text", `h\u00e4`}, {"tool", `{"a"`}, {"more", `:1}`}, {"end", ""}} {
		if err := bound.Event(t.Context(), a, abi.EventPlain, b(e[0]), b(e[1])); err != nil {
			t.Fatalf("%s: %v", e[0], err)
		}
	}
	for _, part := range []string{`"id":"a1"`, `"model":"big"`, `"content":"h\u00e4"`, `"arguments":"{\"a\""`, `"arguments":":1}"`, `"finish_reason":"tool_calls"`, "[DONE]"} {
		if !strings.Contains(output(a), part) {
			t.Errorf("the output does not contain %s:\n%s", part, output(a))
		}
	}
}

// covers: C58
func TestResponseViolatesContract(t *testing.T) {
	tests := []struct {
		name   string
		event  func(h abi.Host)
		kind   plugin.CallErrorKind
		reason string
	}{
		{"choice", func(h abi.Host) { h.Text(abi.MaxChoices, 0, b("x")) }, plugin.KindProtocol, "text: choice out of range"},
		{"negative choice", func(h abi.Host) { h.Finish(-1, 0, nil) }, plugin.KindProtocol, "finish: choice out of range"},
		{"negative usage", func(h abi.Host) { h.Usage(abi.UsagePrompt, -1) }, plugin.KindProtocol, "usage: token count out of range"},
		{"absurd usage", func(h abi.Host) { h.Usage(abi.UsagePrompt, 1<<62) }, plugin.KindProtocol, "usage: token count out of range"},
		// covers: F95
		{"id with a line feed", func(h abi.Host) { h.Start(b("a\nb"), nil, nil) }, plugin.KindProtocol, "start: the id contains a control"},
		{"model that is not UTF-8", func(h abi.Host) { h.Start(nil, b("\xc3"), nil) }, plugin.KindProtocol, "start: the model is not UTF-8"},
		{"tool name with NUL", func(h abi.Host) { h.ToolCall(0, 0, nil, b("a\x00")) }, plugin.KindProtocol, "tool_call: the tool's name contains"},
		{"long id", func(h abi.Host) { h.ToolCall(0, 0, make([]byte, 257), b("a")) }, plugin.KindProtocol, "tool_call: the id is longer"},
		{"text that breaks the frame", func(h abi.Host) { h.Text(0, abi.EncodingEscaped, b("a\"b")) }, plugin.KindProtocol, "not valid inside a JSON string"},
		// covers: F93
		{"text without end", func(h abi.Host) {
			for range 200 {
				h.Text(0, 0, make([]byte, 1<<10))
			}
		}, plugin.KindOutput, "text: more than 65560 bytes, the limit for an input of 3"},
		{"empty events without end", func(h abi.Host) {
			for range 1 << 20 {
				h.ToolEnd(0, 0)
			}
		}, plugin.KindOutput, "tool_end: more than 65560 bytes, the limit for an input of 3"},
		{"import of the request phase", func(h abi.Host) { h.RequestPath(b("/v1")) }, plugin.KindProtocol, "request_path: not allowed"},
		{"the first error counts", func(h abi.Host) { h.ToolEnd(-1, 0); h.Text(-1, 0, nil) }, plugin.KindProtocol, "tool_end: choice out of range"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bound := bindNative(t, native{event: func(h abi.Host, _ abi.EventKind, _, data []byte) int32 {
				h.Text(0, 0, b("text before the error"))
				want(t, "state", h.StateSet(b("new")), abi.StatusOK)
				if string(data) == "bad" {
					tt.event(h)
				}
				return 0
			}}, plugin.BindingConfig{})
			a := newAttempt(t, body)
			e := wantCallError(t, bound.Event(t.Context(), a, abi.EventPlain, nil, b("bad")), tt.kind)
			if !strings.Contains(e.Error(), tt.reason) {
				t.Errorf("error %q, want it to contain %q", e, tt.reason)
			}
			if output(a) != "" || len(a.State()) != 0 {
				t.Errorf("the failed call changed the attempt: output %q, state %q", output(a), a.State())
			}
			if err := bound.Event(t.Context(), a, abi.EventPlain, nil, b("good")); err != nil {
				t.Errorf("the next call: %v", err)
			}
		})
	}
}

// covers: C34
func TestFailedCallHasNoEffect(t *testing.T) {
	fail := map[string]func() int32{
		"status": func() int32 { return 7 },
		"panic":  func() int32 { panic("prompt text") },
	}
	for name, end := range fail {
		t.Run(name, func(t *testing.T) {
			bound := bindNative(t, native{event: func(h abi.Host, _ abi.EventKind, _, data []byte) int32 {
				if string(data) == "set" {
					h.StateSet(b("first"))
					return 0
				}
				state := make([]byte, 10)
				want(t, "state", string(state[:h.StateGet(state)]), "first")
				h.StateSet(b("second"))
				want(t, "own state", string(state[:h.StateGet(state)]), "second")
				h.Text(0, 0, b("lost"))
				h.Unknown(b("thing"))
				h.Fail(abi.FailServer, nil, nil, nil, -1)
				return end()
			}}, plugin.BindingConfig{})
			a := newAttempt(t, body)
			if err := bound.Event(t.Context(), a, abi.EventPlain, nil, b("set")); err != nil {
				t.Fatal(err)
			}
			err := bound.Event(t.Context(), a, abi.EventPlain, nil, nil)
			var e *plugin.CallError
			if !errors.As(err, &e) {
				t.Fatalf("error %v, want a CallError", err)
			}
			if string(a.State()) != "first" || output(a) != "" || a.Unknown != 0 || a.Writer.Failed() != nil {
				t.Errorf("state %q, output %q, unknown %d, failed %v", a.State(), output(a), a.Unknown, a.Writer.Failed())
			}
		})
	}
}

// covers: C38
func TestState(t *testing.T) {
	bound := bindNative(t, native{
		request: func(h abi.Host, _ []byte) int32 {
			want(t, "state at the start", h.StateGet(nil), 0)
			h.RequestPath(b("/v1"))
			h.StateSet(b("of the request"))
			return 0
		},
		response: func(h abi.Host, _ int32, _ []byte) int32 {
			var short [2]byte
			want(t, "length", h.StateGet(short[:]), 14)
			want(t, "truncated state", string(short[:]), "of")
			want(t, "too large", h.StateSet(make([]byte, abi.MaxState+1)), abi.StatusTooLarge)
			want(t, "largest", h.StateSet(make([]byte, abi.MaxState)), abi.StatusOK)
			return 0
		},
	}, plugin.BindingConfig{Paths: []string{"/v1"}})
	a := newAttempt(t, body)
	request := a.Request
	for range 2 {
		a.Request = request
		if err := bound.Request(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		a.Release()
		if err := bound.Response(t.Context(), a, 200, nil); err != nil {
			t.Fatal(err)
		}
		want(t, "length of the committed state", len(a.State()), abi.MaxState)
	}
}

// covers: C65
func TestFailInResponse(t *testing.T) {
	bound := bindNative(t, native{event: func(h abi.Host, _ abi.EventKind, _, data []byte) int32 {
		h.Text(0, 0, data)
		if string(data) == "last" {
			h.Fail(abi.FailOverloaded, nil, nil, nil, abi.RetryAfterUnknown)
		}
		return 0
	}}, plugin.BindingConfig{})
	a := newAttempt(t, body)
	if err := bound.Event(t.Context(), a, abi.EventPlain, nil, b("first")); err != nil {
		t.Fatal(err)
	}
	err := bound.Event(t.Context(), a, abi.EventPlain, nil, b("last"))
	var e *apierror.Error
	if !errors.As(err, &e) || e.Code != "overloaded" || e.RetryAfter != 0 {
		t.Fatalf("error %v, want overloaded", err)
	}
	if !strings.Contains(output(a), `"content":"last"`) || !strings.Contains(output(a), `data: {"error":`) {
		t.Errorf("output %s", output(a))
	}
}

// covers: C59
func TestExtra(t *testing.T) {
	bound := bindNative(t, native{event: func(h abi.Host, _ abi.EventKind, _, _ []byte) int32 {
		want(t, "member", h.Extra(abi.ScopeAnswer, 99999, 0, b("system_fingerprint"), b(`"f"`)), abi.StatusOK)
		want(t, "reserved", h.Extra(abi.ScopeAnswer, 0, 0, b("error"), b(`1`)), abi.StatusRefused)
		want(t, "reserved in a message", h.Extra(abi.ScopeMessage, 0, 0, b("content"), b(`1`)), abi.StatusRefused)
		want(t, "not JSON", h.Extra(abi.ScopeChoice, 0, 0, b("x"), b(`{`)), abi.StatusRefused)
		want(t, "unknown scope", h.Extra(abi.Scopes, 0, 0, b("x"), b(`1`)), abi.StatusUnknown)
		want(t, "long", h.Extra(abi.ScopeChoice, 0, 0, make([]byte, 257), b(`1`)), abi.StatusTooLarge)
		h.Text(0, 0, b("x"))
		return 0
	}}, plugin.BindingConfig{})
	a := newAttempt(t, body)
	if err := bound.Event(t.Context(), a, abi.EventPlain, nil, nil); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(output(a), `"system_fingerprint":"f"`) {
		t.Errorf("output %s", output(a))
	}
}

// covers: C60
func TestTextLength(t *testing.T) {
	pieces := []struct {
		encoding abi.Encoding
		text     string
		points   int64
	}{
		{abi.EncodingUTF8, "h\u00e4\U0001F600", 3},
		{abi.EncodingEscaped, `\u00e4\ud83d\ude00\"\\x` + "\u00e4", 6},
		{abi.EncodingJSON, `{ "\u00e4" : "ä" }`, 14},
		{abi.EncodingUTF8, "", 0},
	}
	bound := bindNative(t, native{event: func(h abi.Host, _ abi.EventKind, name, _ []byte) int32 {
		sum := h.TextLength(0)
		want(t, "other choice", h.TextLength(5), 0)
		for _, p := range pieces {
			h.Text(0, p.encoding, b(p.text))
			sum += p.points
			want(t, fmt.Sprintf("length after %q", p.text), h.TextLength(0), sum)
		}
		return 0
	}}, plugin.BindingConfig{})
	a := newAttempt(t, body)
	for n := int64(1); n <= 2; n++ {
		if err := bound.Event(t.Context(), a, abi.EventPlain, nil, nil); err != nil {
			t.Fatal(err)
		}
		want(t, "applied", a.Writer.TextLength(0), n*23)
	}
}

// covers: C63
func TestResponseHeader(t *testing.T) {
	headers := map[string]string{"x-request-id": "r1", "set-cookie": "s", "location": "/", "www-authenticate": "Basic", "x-echo": "key sk-secret!"}
	read := func(h abi.Host, name string) string {
		dst := make([]byte, 100)
		n := h.ResponseHeader(b(name), dst)
		if n < 0 {
			return fmt.Sprint(n)
		}
		return string(dst[:n])
	}
	bound := bindNative(t, native{response: func(h abi.Host, _ int32, _ []byte) int32 {
		want(t, "a header", read(h, "X-Request-ID"), "r1")
		want(t, "absent", read(h, "x-other"), "-1")
		want(t, "redacted", read(h, "x-echo"), "key ***!")
		for _, never := range []string{"Set-Cookie", "location", "WWW-Authenticate"} {
			want(t, never, read(h, never), "-2")
		}
		return 0
	}}, plugin.BindingConfig{Redact: redact})
	a := newAttempt(t, body)
	a.ResponseHeader = func(name []byte) []byte {
		if v, ok := headers[string(name)]; ok {
			return b(v)
		}
		return nil
	}
	if err := bound.Response(t.Context(), a, 200, nil); err != nil {
		t.Fatal(err)
	}
}

// covers: C75
func TestErrorBodiesAreRedacted(t *testing.T) {
	var got []string
	bound := bindNative(t, native{
		response: func(_ abi.Host, _ int32, in []byte) int32 { got = append(got, string(in)); return 0 },
		event: func(_ abi.Host, _ abi.EventKind, _, in []byte) int32 {
			got = append(got, string(in))
			return 0
		},
		list:   func(abi.Host, []byte) int32 { return 0 },
		models: func(_ abi.Host, _ int32, in []byte) int32 { got = append(got, string(in)); return 0 },
	}, plugin.BindingConfig{Redact: redact})
	a := newAttempt(t, body)
	text := b("bad key sk-secret")
	for _, err := range []error{
		bound.Response(t.Context(), a, 401, text),
		bound.Event(t.Context(), a, abi.EventException, nil, text),
		second(bound.Models(t.Context(), 500, nil, text)),
		bound.Response(t.Context(), a, 200, text),
		bound.Event(t.Context(), a, abi.EventPlain, nil, text),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	hidden := "bad key ***"
	if diff := cmp.Diff([]string{hidden, hidden, hidden, string(text), string(text)}, got); diff != "" {
		t.Error(diff)
	}
}

func second[T any](_ T, err error) error { return err }

// covers: C75
func TestNativeReasonsAreRedacted(t *testing.T) {
	bound := bindNative(t, native{event: func(h abi.Host, _ abi.EventKind, _, _ []byte) int32 {
		h.Text(0, 0, b("x"))
		h.Finish(0, abi.FinishStop, b("why sk-secret"))
		h.Done(abi.DoneNow)
		return 0
	}}, plugin.BindingConfig{Redact: redact})
	a := newAttempt(t, body)
	if err := bound.Event(t.Context(), a, abi.EventPlain, nil, nil); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(output(a), "sk-secret") || !strings.Contains(output(a), "why ***") {
		t.Errorf("output %s", output(a))
	}
}

// Events after done(0) are dropped in the same call as they are in later ones, but the tokens have been used.
func TestEventsAfterDoneAreDropped(t *testing.T) {
	var log bytes.Buffer
	p := loadNative(t, newHost(t, plugin.Options{Log: textLog(&log)}), native{event: func(h abi.Host, _ abi.EventKind, _, _ []byte) int32 {
		h.Done(abi.DoneAtEnd) // does not complete the response
		h.Text(0, 0, b("Hello"))
		h.Usage(abi.UsageCompletion, 1)
		h.Done(abi.DoneNow)
		h.Text(0, 0, b("again"))
		h.Usage(abi.UsagePrompt, 3)
		h.Usage(abi.UsageCompletion, 4)
		h.Done(abi.DoneNow)
		return 0
	}})
	bound := bind(t, p, plugin.BindingConfig{})
	a := newAttempt(t, body)
	for range 2 {
		if err := bound.Event(t.Context(), a, abi.EventPlain, nil, nil); err != nil {
			t.Fatal(err)
		}
		if got := output(a); strings.Count(got, "Hello") != 1 || strings.Contains(got, "again") {
			t.Errorf("got output %s, want only Hello", got)
		}
		if u := a.Writer.Accounted(); u.Prompt != 3 || u.Completion != 4 {
			t.Errorf("got usage %+v, want 3 and 4 tokens", u)
		}
	}
	if diff := cmp.Diff([]string{
		"provider_event: token counts after done(0) count, but only in the same call: report them before it",
		"provider_event: everything after done(0) except token counts is dropped: call done last",
	}, a.Mistakes); diff != "" {
		t.Error(diff)
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `msg="plugin output lost"`) || !strings.Contains(got, "call done last") {
		t.Errorf("log:\n%s\nwant one line about lost output", got)
	}
}

// The status of an import that a plugin ignores is reported to its author, unless the call fails anyway.
func TestIgnoredStatuses(t *testing.T) {
	for name, tt := range map[string]struct {
		plugin native
		want   []string
	}{
		"second path refused": {native{request: func(h abi.Host, _ []byte) int32 { h.RequestPath(b("/v1")); h.RequestPath(b("/v2")); return 0 }}, []string{
			`provider_request: the status of request_path was ignored: the path is not used: path "/v2": not allowed: the provider has paths = ["/v1"]`,
		}},
		"first path refused": {native{request: func(h abi.Host, _ []byte) int32 { h.RequestPath(b("/v2")); h.RequestPath(b("/v1")); return 0 }}, nil},
		"member of a missing object, and no header": {native{request: func(h abi.Host, _ []byte) int32 {
			h.RequestPath(b("/v1"))
			h.BodySet(b("/a/b"), b("1"))
			h.RequestHeader(b("x-own"), b("1"))
			return 0
		}}, []string{
			"provider_request: the status of body_set was ignored: nothing was set: the client's body has no such path, or the value is not JSON",
			`provider_request: the status of request_header was ignored: the header is not sent: header "x-own": not allowed: the provider has headers = []`,
		}},
		"missing member deleted": {native{request: func(h abi.Host, _ []byte) int32 { h.RequestPath(b("/v1")); h.BodyDelete(b("/a")); return 0 }}, nil},
		"reported":               {native{request: func(h abi.Host, _ []byte) int32 { h.RequestPath(b("/v2")); h.Fail(0, nil, nil, nil, -1); return 0 }}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAttempt(t, body)
			bindNative(t, tt.plugin, plugin.BindingConfig{Paths: []string{"/v1"}}).Request(t.Context(), a)
			if diff := cmp.Diff(tt.want, a.Mistakes); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestIgnoredHTTPStatus(t *testing.T) {
	bound := bindNative(t, native{response: func(h abi.Host, _ int32, body []byte) int32 {
		if len(body) > 0 {
			h.Fail(abi.FailRateLimit, nil, nil, body, -1)
		}
		return 0
	}}, plugin.BindingConfig{})
	for body, want := range map[string][]string{
		"":        {"provider_response: the plugin reports no failure for status 429: call fail, with the message in the body"},
		"Slower.": nil,
	} {
		a := newAttempt(t, `{"model":"m","messages":[{"role":"user","content":"x"}]}`)
		bound.Response(t.Context(), a, 429, b(body))
		if diff := cmp.Diff(want, a.Mistakes); diff != "" {
			t.Errorf("body %q: %s", body, diff)
		}
	}
}

// covers: C64
func TestUnknownIsCountedAndLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	h := newHost(t, plugin.Options{Log: textLog(&log)})
	p := loadNative(t, h, native{event: func(h abi.Host, _ abi.EventKind, name, _ []byte) int32 {
		h.Unknown(name)
		return 0
	}})
	bound := bind(t, p, plugin.BindingConfig{Redact: redact})
	a := newAttempt(t, body)
	for _, name := range []string{"ping", "ping", "a\nsk-secret", "ping"} {
		if err := bound.Event(t.Context(), a, abi.EventPlain, b(name), nil); err != nil {
			t.Fatal(err)
		}
	}
	want(t, "unknown elements of the attempt", a.Unknown, 4)
	want(t, "unknown elements of the plugin", p.Stats().Unknown, 4)
	if n := strings.Count(log.String(), "what=ping"); n != 1 {
		t.Errorf("ping is logged %d times, want once:\n%s", n, &log)
	}
	if !strings.Contains(log.String(), `what=a?***`) {
		t.Errorf("log:\n%s", &log)
	}
}

// covers: C30
func TestOptionalExports(t *testing.T) {
	bound := bindNative(t, native{}, plugin.BindingConfig{})
	a := newAttempt(t, body)
	e := wantCallError(t, bound.Event(t.Context(), a, abi.EventPlain, nil, nil), plugin.KindProtocol)
	if !strings.Contains(e.Error(), "provider_event: protocol error: the plugin does not export it") {
		t.Error(e)
	}
	if err := bound.End(t.Context(), a); err != nil {
		t.Errorf("provider_end is optional: %v", err)
	}
	if out, err := bound.List(t.Context(), nil); err != nil || out.Path != "" {
		t.Errorf("provider_list is optional: %+v, %v", out, err)
	}
}
