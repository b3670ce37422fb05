package plugin_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// contract returns the text of sdk/abi/README.md with each run of white space replaced by a space.
func contract(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../../sdk/abi/README.md")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(page)), " ")
}

// streamed returns the output and the error of a stream in which a plugin reports events in one call.
func streamed(t *testing.T, report func(h abi.Host)) (string, error) {
	t.Helper()
	bound := bindNative(t, native{event: func(h abi.Host, _ abi.EventKind, _, _ []byte) int32 { report(h); return 0 }}, plugin.BindingConfig{})
	a := newAttempt(t, body)
	err := bound.Event(t.Context(), a, abi.EventPlain, nil, nil)
	return output(a), err
}

// requested returns the status of an import that a plugin calls in provider_request.
func requested(t *testing.T, request func(h abi.Host) abi.Status) (status abi.Status) {
	t.Helper()
	bound := bindNative(t, native{request: func(h abi.Host, _ []byte) int32 { status = request(h); h.RequestPath(b("/v1")); return 0 }},
		plugin.BindingConfig{Paths: []string{"/v1"}})
	if err := bound.Request(t.Context(), newAttempt(t, body)); err != nil {
		t.Fatal(err)
	}
	return status
}

// TestSentencesOfTheContract tests what the contract says about unusual behaviour of a plugin, and checks that
// sdk/abi/README.md contains each of the sentences.
func TestSentencesOfTheContract(t *testing.T) {
	page := contract(t)
	reports := func(report func(h abi.Host), parts map[string]int) func(t *testing.T) {
		return func(t *testing.T) {
			out, err := streamed(t, report)
			if err != nil {
				t.Fatal(err)
			}
			for part, n := range parts {
				if got := strings.Count(out, part); got != n {
					t.Errorf("the output contains %q %d times, want %d:\n%s", part, got, n, out)
				}
			}
		}
	}
	begin := func(h abi.Host) {
		h.ToolCall(0, 1, b("id1"), b("first"))
		h.ToolArguments(0, 1, 0, b(`{}`))
	}
	tests := []struct {
		name, sentence string
		test           func(t *testing.T)
	}{
		// covers: C1
		{"text that is not UTF-8", "Invalid UTF-8 and unpaired surrogates become U+FFFD in the response.", reports(func(h abi.Host) {
			h.Text(0, abi.EncodingUTF8, b("a\xffb"))
			h.Text(0, abi.EncodingEscaped, b(`c\ud800d`))
		}, map[string]int{"a\uFFFDb": 1, "c\uFFFDd": 1})},
		// covers: C2
		{"text cut within a character", "So may one with encoding 0, within a UTF-8 sequence.", reports(func(h abi.Host) {
			h.Text(0, abi.EncodingUTF8, b("\xc3"))
			h.Text(0, abi.EncodingUTF8, b("\xa4"))
		}, map[string]int{"ä": 1, "\uFFFD": 0})},
		// covers: C3
		{"text that breaks its string", "A quote, a control character or an unknown escape sequence in a text with encoding 1 is a protocol error.", func(t *testing.T) {
			for _, text := range []string{`a"b`, "a\nb", `a\qb`, `a\`} {
				_, err := streamed(t, func(h abi.Host) { h.Text(0, abi.EncodingEscaped, b(text)); h.Text(0, abi.EncodingEscaped, b("x")) })
				wantCallError(t, err, plugin.KindProtocol)
			}
		}},
		// covers: C4
		{"content after a finish", "text, refusals, reasoning, tool calls and arguments of a choice after its `finish`", reports(func(h abi.Host) {
			begin(h)
			h.Finish(0, abi.FinishStop, nil)
			h.Text(0, 0, b("late"))
			h.Refusal(0, 0, b("late"))
			h.Reasoning(0, 0, 0, 0, b("late"))
			h.ToolCall(0, 2, b("late"), b("late"))
			h.ToolArguments(0, 1, 0, b(`late`))
			h.Text(1, 0, b("another choice"))
			h.Done(abi.DoneNow)
		}, map[string]int{"late": 0, "another choice": 1, "[DONE]": 1, `"finish_reason":"tool_calls"`: 1})},
		// covers: C5
		{"arguments after the end of a call", "arguments of a tool call after its `tool_end`, and everything after `done(0)`.", reports(func(h abi.Host) {
			begin(h)
			h.ToolEnd(0, 1)
			h.ToolArguments(0, 1, 0, b(`late`))
			h.Done(abi.DoneNow)
		}, map[string]int{"late": 0, "[DONE]": 1})},
		// covers: C6
		{"calls after the end", "Late events are dropped without failing the call:", func(t *testing.T) {
			bound := bindNative(t, native{event: func(h abi.Host, _ abi.EventKind, _, data []byte) int32 {
				h.Text(0, 0, data)
				h.Done(abi.DoneNow)
				return 0
			}}, plugin.BindingConfig{})
			a := newAttempt(t, body)
			for _, data := range []string{"first", "late"} {
				if err := bound.Event(t.Context(), a, abi.EventPlain, nil, b(data)); err != nil {
					t.Fatal(err)
				}
			}
			if out := output(a); !strings.Contains(out, "first") || strings.Contains(out, "late") || strings.Count(out, "[DONE]") != 1 {
				t.Errorf("output %s", out)
			}
		}},
		// covers: C7
		{"twice the same", "the first `start` of a response, the first `finish` of a choice, the first `tool_call` of a key.", reports(func(h abi.Host) {
			h.Start(b("one"), b("m1"), nil)
			h.Start(b("two"), b("m2"), nil)
			h.ToolCall(0, 1, b("id1"), b("first"))
			h.ToolCall(0, 1, b("id2"), b("second"))
			h.ToolArguments(0, 1, 0, b(`{}`))
			h.Finish(0, abi.FinishLength, b("why1"))
			h.Finish(0, abi.FinishStop, b("why2"))
			h.Done(abi.DoneNow)
		}, map[string]int{`"id":"two"`: 0, `"model":"m2"`: 0, `"second"`: 0, `"first"`: 1, `"finish_reason":"length"`: 1, "why2": 0})},
		// covers: C8
		{"two failures", "If a call calls `fail` twice, the second counts.", func(t *testing.T) {
			_, err := streamed(t, func(h abi.Host) {
				h.Fail(abi.FailAuth, nil, nil, nil, -1)
				h.Fail(abi.FailRateLimit, nil, nil, nil, -1)
			})
			if e, ok := errors.AsType[*apierror.Error](err); !ok || e.Status != 429 {
				t.Errorf("error %v", err)
			}
		}},
		// covers: C9
		{"codes", "Codes of the API consist of `a-z`, `0-9` and `_`; the host passes on others as they are.", func(t *testing.T) {
			_, err := streamed(t, func(h abi.Host) { h.Fail(abi.FailServer, b("Model.Overloaded"), nil, nil, -1) })
			if e, ok := errors.AsType[*apierror.Error](err); !ok || e.Code != "Model.Overloaded" {
				t.Errorf("error %v", err)
			}
			for kind := range abi.FailKind(abi.FailKinds) {
				if code := apierror.Fail(kind, "", "", "").Code; strings.Trim(code, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
					t.Errorf("the code of kind %d is %q", kind, code)
				}
			}
		}},
		// covers: C10
		{"query", "The query is not matched against `paths`.", func(t *testing.T) {
			want(t, "status", requested(t, func(h abi.Host) abi.Status { return h.RequestPath(b("/v1?a=/v2&b")) }), abi.StatusOK)
		}},
		// covers: C11
		{"last slash", "A slash at the end is an empty segment.", func(t *testing.T) {
			for _, p := range []string{"/v1/", "/v1%2f", "/v1//", "/"} {
				want(t, p, requested(t, func(h abi.Host) abi.Status { return h.RequestPath(b(p)) }), abi.StatusRefused)
			}
		}},
		// covers: C12
		{"start function", "A start function runs before `_initialize`, with 1,048,576 units of [fuel](#fuel), and may do what `_initialize` may do.", func(t *testing.T) {
			build := func(turns int32) []byte {
				m := newModule("log")
				m.base()
				m.Global(w.I32, true, i32(0))
				m.Start(m.Func(nil, nil, types("i"), i32(1), i32(0), i32(0), m.call("log"),
					i32(turns), w.LocalSet(0), w.Loop(w.Void, w.LocalGet(0), i32(1), w.I32Sub, w.LocalSet(0), w.LocalGet(0), w.BrIf(0)),
					i32(7), w.GlobalSet(0)))
				// _initialize traps unless the start function has run.
				m.ExportFunc(abi.ExportInitialize, nil, nil, nil, w.GlobalGet(0), w.I32Eqz, w.If(w.Void, w.Unreachable))
				return m.provider(i32(0)).Bytes()
			}
			h := newHost(t, plugin.Options{})
			load(t, h, plugin.Spec{Wasm: build(900_000)})
			if _, err := h.Load(t.Context(), []plugin.Spec{{Name: "test", Wasm: build(1_100_000)}}); err == nil {
				t.Error("loaded a plugin whose start function exceeds its budget")
			}
		}},
		// covers: C13
		{"options of the dialect", "the host ignores others. The status is -2 if `options` is not such an object.", func(t *testing.T) {
			for options, status := range map[string]abi.Status{
				``: abi.StatusOK, `{}`: abi.StatusOK, `{"reasoning_format":"x","think_tags":true,"later":1}`: abi.StatusOK,
				`{"reasoning_format":1}`: abi.StatusRefused, `{"think_tags":"yes"}`: abi.StatusRefused, `[]`: abi.StatusRefused, `{`: abi.StatusRefused,
			} {
				want(t, options, requested(t, func(h abi.Host) abi.Status { return h.Answer(abi.FramingSSE, abi.DialectOpenAI, b(options)) }), status)
			}
		}},
		// covers: C14
		{"reserved names", "`extra` rejects names that belong to the host.", func(t *testing.T) {
			everywhere := []string{"error", "choices", "usage", "delta", "message", "finish_reason", "native_finish_reason"}
			reserved := map[abi.Scope][]string{
				abi.ScopeAnswer: {"id", "object", "created", "model"}, abi.ScopeChoice: {"index"},
				abi.ScopeMessage: {"role", "content", "refusal", "tool_calls", "reasoning_content", "reasoning_details"},
				abi.ScopeTool:    {"index", "id", "type", "function"},
				abi.ScopeUsage:   {"prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details", "completion_tokens_details"},
			}
			_, err := streamed(t, func(h abi.Host) {
				begin(h)
				for scope := range abi.Scope(abi.Scopes) {
					for _, name := range append(everywhere, reserved[scope]...) {
						want(t, name, h.Extra(scope, 0, 1, b(name), b("1")), abi.StatusRefused)
					}
					for _, name := range []string{"own", "prompt_tokens_details.own"} {
						want(t, name, h.Extra(scope, 0, 1, b(name), b("1")), abi.StatusOK)
					}
				}
			})
			if err != nil {
				t.Error(err)
			}
		}},
		// TestRouterOrdersTargets in proxy/internal/routing tests the order, and isolation_test.go the isolation modes.
		{"order of candidates", "The host moves those that are not `healthy` to the end, and otherwise keeps the order.", nil},
		// covers: C16
		{"isolation of a key", "`key` separates clients, but not the requests of one client: a plugin can leak one request into another of the same key. Only `call` prevents that.", func(t *testing.T) {
			for isolation, remembers := range map[plugin.Isolation]bool{plugin.PerKey: true, plugin.PerCall: false} {
				m := newModule("text").base()
				m.Global(w.I32, true, i32(0))
				m.provider(
					w.GlobalGet(0), w.If(w.Void, m.text(i32(keepAt), i32(8))), // set by an earlier call
					i32(1), w.GlobalSet(0),
					i32(0))
				m.Data(keepAt, b("remember"))
				bound := bind(t, load(t, newHost(t, plugin.Options{Instances: 1}), plugin.Spec{Wasm: m.Bytes(), Isolation: isolation}), plugin.BindingConfig{})
				a := newAttempt(t, body)
				for range 2 {
					if err := bound.Event(t.Context(), a, abi.EventPlain, nil, nil); err != nil {
						t.Fatal(err)
					}
				}
				if got := strings.Contains(output(a), "remember"); got != remembers {
					t.Errorf("%v: the second call remembers the first: %v", isolation, got)
				}
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if !strings.Contains(page, tt.sentence) {
				t.Errorf("sdk/abi/README.md does not contain %q", tt.sentence)
			}
			if tt.test != nil {
				tt.test(t)
			}
		})
	}
}

// TestSummaryOfTheContract checks that the example of the summary in sdk/abi/README.md has exactly the members of
// Summary.
//
// covers: C42
func TestSummaryOfTheContract(t *testing.T) {
	_, rest, _ := strings.Cut(contract(t), "### The summary")
	_, rest, _ = strings.Cut(rest, "```json ")
	example, _, _ := strings.Cut(rest, " ```")
	var shown, written map[string]any
	if err := json.Unmarshal([]byte(example), &shown); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal((&plugin.Summary{}).Append(nil), &written); err != nil {
		t.Fatal(err)
	}
	for name := range written {
		if _, ok := shown[name]; !ok && name != "key" {
			t.Errorf("the summary in the README lacks %s", name)
		}
		delete(shown, name)
	}
	for name := range shown {
		t.Errorf("the summary in the README has %s, but Summary does not", name)
	}
}
