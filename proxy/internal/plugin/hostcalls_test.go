package plugin_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// script decodes bytes chosen by a fuzzer into a sequence of calls of imports.
type script struct{ rest []byte }

func (s *script) byte() byte {
	if len(s.rest) == 0 {
		return 0
	}
	v := s.rest[0]
	s.rest = s.rest[1:]
	return v
}

// number returns a number that is mostly small.
func (s *script) number() int32 {
	switch v := s.byte(); {
	case v < 200:
		return int32(v % 20)
	case v < 210:
		return -int32(v % 20)
	default:
		var wide [4]byte
		for i := range wide {
			wide[i] = s.byte()
		}
		return int32(binary.LittleEndian.Uint32(wide[:]))
	}
}

func (s *script) bytes() []byte {
	n := min(int(s.byte()), len(s.rest))
	p := s.rest[:n]
	s.rest = s.rest[n:]
	return p
}

// run makes the calls, whether the phase allows them or not.
func (s *script) run(h abi.Host) {
	dst := make([]byte, 16)
	for len(s.rest) > 0 {
		switch s.byte() % 48 {
		case 0:
			h.Log(abi.LogLevel(s.number()), s.bytes())
		case 1:
			h.Fail(abi.FailKind(s.number()), s.bytes(), s.bytes(), s.bytes(), s.number())
		case 2:
			h.BodyGet(s.bytes(), dst)
		case 3:
			h.BodySet(s.bytes(), s.bytes())
		case 4:
			h.BodyDelete(s.bytes())
		case 5:
			h.BodyRename(s.bytes(), s.bytes())
		case 6:
			h.BodyReplace(s.bytes(), s.bytes(), s.bytes())
		case 7:
			h.RequestPath(s.bytes())
		case 8:
			h.RequestHeader(s.bytes(), s.bytes())
		case 9:
			h.RequestWrite(s.bytes())
		case 10:
			h.RequestCopy(s.number(), s.number())
		case 11:
			h.ToolAlias(s.bytes(), s.bytes())
		case 12:
			h.Answer(abi.Framing(s.number()), abi.Dialect(s.number()), s.bytes())
		case 13:
			h.Warn(abi.WarnKind(s.number()), s.bytes())
		case 14:
			h.ResponseHeader(s.bytes(), dst)
		case 15:
			h.StateGet(dst)
		case 16:
			h.StateSet(s.bytes())
		case 17:
			h.Start(s.bytes(), s.bytes(), s.bytes())
		case 18, 19:
			h.Text(s.number(), abi.Encoding(s.number()), s.bytes())
		case 20:
			h.Refusal(s.number(), abi.Encoding(s.number()), s.bytes())
		case 21:
			h.Reasoning(s.number(), abi.ReasoningPart(s.number()), s.number(), abi.Encoding(s.number()), s.bytes())
		case 22:
			h.ToolCall(s.number(), s.number(), s.bytes(), s.bytes())
		case 23:
			h.ToolArguments(s.number(), s.number(), abi.Encoding(s.number()), s.bytes())
		case 24:
			h.ToolEnd(s.number(), s.number())
		case 25:
			h.Extra(abi.Scope(s.number()), s.number(), s.number(), s.bytes(), s.bytes())
		case 26:
			h.TextLength(s.number())
		case 27:
			h.Usage(abi.UsageKind(s.number()), int64(s.number()))
		case 28:
			h.Finish(s.number(), abi.FinishReason(s.number()), s.bytes())
		case 29:
			h.Done(s.number())
		case 30:
			h.OpenAIEvent(s.bytes())
		case 31:
			h.Unknown(s.bytes())
		case 32:
			h.Model(s.bytes())
		case 33:
			h.More(s.bytes())
		case 34:
			h.Candidate(s.number())
		case 35:
			h.HostMinor()
		case 36:
			h.InputGet(s.bytes(), dst)
		case 37:
			h.InputCount(s.bytes())
		case 38:
			h.InputText(s.bytes(), dst)
		case 39:
			h.RequestString(s.bytes())
		case 40:
			h.Tag(s.bytes())
		case 41:
			h.Replace(s.number(), s.number(), s.bytes())
		case 42:
			h.Hold(s.number())
		case 43:
			h.RequestPart(s.number() % abi.MaxParts)
		case 44:
			h.BodyIndex(s.number(), dst)
		case 45:
			h.NextRequest(abi.Method(s.number()), s.bytes(), s.bytes(), s.number())
		case 46:
			h.CancelRequest(abi.Method(s.number()), s.bytes(), s.bytes())
		case 47:
			h.BodyCount(s.bytes())
		}
	}
}

// FuzzHostCalls calls arbitrary imports in a request and in an event. A call that fails changes nothing, and a call
// that succeeds leaves valid frames, a valid upstream request and valid warnings.
//
// covers: C34
func FuzzHostCalls(f *testing.F) {
	f.Add([]byte("\x07\x03/v1\x12\x00\x00\x05hello"), []byte("\x12\x00\x01\x05h\\u00e\x1d\x00"))
	f.Add([]byte("\x07\x03/v1\x03\x06/model\x03\"x\"\x04\x0c/temperature"), []byte("\x16\x00\x01\x02id\x01f\x17\x00\x01\x00\x02{}\x1c\x00\x02\x00"))
	f.Add([]byte("\x07\x03/v1\x09\x02{}\x0a\x00\x05"), []byte("\x19\x00\x00\x00\x01x\x01[\x1b\x00\x05"))
	f.Add([]byte("\x11\x01a\x01b\x00\x12\x00\x00\x01x\x1d\x00"), []byte("\x1e\x2a{\"choices\":[{\"delta\":{\"content\":\"x\"}}]}  "))
	f.Add([]byte("\x01\x02\x00\x00\x03bad\x00"), []byte("\x01\x0f\x00\x00\x00\xff"))
	f.Add([]byte("\x07\x03/v1\x27\x04a\"\n\xc3\x26\x06/model\x24\x00\x25\x06/flags"), []byte("\x25\x00\x24\x02/a"))
	h := newFixedClockHost(f)
	f.Fuzz(func(t *testing.T, request, event []byte) {
		g, err := h.LoadNative("native", func(host abi.Host) plugin.Guest {
			return &native{
				host:    host,
				request: func(h abi.Host, _ []byte) int32 { (&script{request}).run(h); return 0 },
				event:   func(h abi.Host, _ abi.EventKind, _, _ []byte) int32 { (&script{event}).run(h); return 0 },
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		bound := bind(t, g.Plugin("native"), plugin.BindingConfig{Paths: []string{"/v1", "/v1/*"}, Headers: []string{"x-a"}})
		a := newAttempt(t, body)
		if err := bound.Request(t.Context(), a); err == nil {
			checkRequest(t, a)
		} else {
			checkError(t, err)
			if a.Out.Path != "" || len(a.Warnings) > 0 || len(a.State()) > 0 {
				t.Fatalf("the failed call changed the attempt: %+v", a)
			}
		}
		checkFrames(t, output(a))

		before, state := output(a), a.State()
		if err := bound.Event(t.Context(), a, abi.EventPlain, nil, nil); err != nil {
			checkError(t, err)
			var e *plugin.CallError
			if errors.As(err, &e) && (output(a) != before || !bytes.Equal(a.State(), state)) {
				t.Fatalf("the failed call changed the attempt: output %q, state %q", output(a), a.State())
			}
		}
		checkFrames(t, output(a))
	})
}

func checkError(t *testing.T, err error) {
	t.Helper()
	var call *plugin.CallError
	var failed *apierror.Error
	if !errors.As(err, &call) && !errors.As(err, &failed) {
		t.Fatalf("error %v, want a CallError or an apierror.Error", err)
	}
}

// checkRequest checks an attempt after a successful request call.
func checkRequest(t *testing.T, a *plugin.Attempt) {
	t.Helper()
	if !a.Answered && !strings.HasPrefix(a.Out.Path, "/v1") {
		t.Fatalf("path %q", a.Out.Path)
	}
	if !a.Answered && len(a.Out.Body) > 0 && !json.Valid(a.Out.Body) {
		t.Fatalf("body %q", a.Out.Body)
	}
	for _, h := range a.Out.Headers {
		if h.Name != "x-a" || strings.ContainsAny(h.Value, "\r\n\x00") {
			t.Fatalf("header %q", h)
		}
	}
	for _, w := range a.Warnings {
		if strings.ContainsFunc(w.Member, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("warning %q", w.Member)
		}
	}
}

// checkFrames checks that the output of a stream consists of frames with one line of JSON each.
func checkFrames(t *testing.T, frames string) {
	t.Helper()
	for frame := range strings.SplitSeq(strings.TrimSuffix(frames, "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(frame, "data: ")
		if frames != "" && (!ok || data != "[DONE]" && !json.Valid([]byte(data)) || strings.Contains(data, "\n")) {
			t.Fatalf("frame %q in %q", frame, frames)
		}
	}
}

// covers: C61
func TestOpenAIEvent(t *testing.T) {
	bound := bindNative(t, native{
		request: func(h abi.Host, _ []byte) int32 {
			h.RequestPath(b("/v1"))
			want(t, "bad options", h.Answer(abi.FramingSSE, abi.DialectTranslated, b(`[]`)), abi.StatusRefused)
			want(t, "options", h.Answer(abi.FramingSSE, abi.DialectTranslated, b(`{"think_tags":true}`)), abi.StatusOK)
			return 0
		},
		event: func(h abi.Host, _ abi.EventKind, name, data []byte) int32 {
			status := abi.StatusOK
			if len(name) > 0 {
				status = abi.StatusRefused
			}
			want(t, string(data), h.OpenAIEvent(data), status)
			if len(name) == 0 && bytes.Contains(data, b("tool_calls")) {
				want(t, "arguments of a call in the dialect", h.ToolArguments(0, 0, 0, b("}")), abi.StatusOK)
			}
			h.Text(0, 0, b("|"))
			return 0
		},
	}, plugin.BindingConfig{Paths: []string{"/v1"}, Redact: redact})
	a := newAttempt(t, body)
	if err := bound.Request(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	for _, e := range [][2]string{
		{"", `{"id":"c1","model":"up","choices":[{"index":0,"delta":{"content":"<think>why</think>so"}}]}`},
		{"bad", `{"choices":[{"index":0,"delta":`},
		{"bad", `[1]`},
		{"", `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t","function":{"name":"f","arguments":"{"}}]}}]}`},
	} {
		if err := bound.Event(t.Context(), a, abi.EventPlain, b(e[0]), b(e[1])); err != nil {
			t.Fatal(err)
		}
	}
	for _, part := range []string{`"id":"c1"`, `"reasoning_content":"why"`, `"content":"so"`, `"name":"f"`} {
		if !strings.Contains(output(a), part) {
			t.Errorf("the output does not contain %s:\n%s", part, output(a))
		}
	}
	if n := strings.Count(output(a), `"content":"|"`); n != 4 {
		t.Errorf("%d texts of the plugin itself, want 4:\n%s", n, output(a))
	}
	err := bound.Event(t.Context(), a, abi.EventPlain, nil, b(`{"error":{"message":"bad key sk-secret","type":"server_error","code":null}}`))
	var failed *apierror.Error
	if !errors.As(err, &failed) || strings.Contains(failed.Message, "sk-secret") || !strings.Contains(failed.Message, "***") {
		t.Errorf("error %v", err)
	}
	if strings.Contains(output(a), "sk-secret") {
		t.Errorf("output %s", output(a))
	}
}
