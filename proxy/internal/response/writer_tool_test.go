package response_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

func tool(s string) string { return delta(`"tool_calls":[{` + s + `}]`) }

func call(index, id, name, args string) string {
	return tool(`"index":` + index + `,"id":"` + id + `","type":"function","function":{"name":"` + name + `","arguments":"` + args + `"}`)
}

func args(index, s string) string {
	return tool(`"index":` + index + `,"function":{"arguments":"` + s + `"}`)
}

// covers: R8 R9 R10
func TestToolCallsInStream(t *testing.T) {
	r := newRun(t, response.Options{Stream: true})
	r.apply(func(b *response.Batch) { b.Reasoning(0, abi.ReasoningText, 0, 0, []byte("hm")) })
	r.apply(text("a"))
	r.apply(func(b *response.Batch) { b.ToolCall(0, 2, []byte("t2"), []byte("f")) })
	r.apply(func(b *response.Batch) { b.ToolArguments(0, 2, abi.EncodingEscaped, nil) })
	r.apply(func(b *response.Batch) { b.ToolArguments(0, 2, abi.EncodingEscaped, []byte(`{\"a\"`)) })
	r.apply(func(b *response.Batch) { b.ToolArguments(0, 2, abi.EncodingEscaped, []byte(`:1}`)) })
	r.apply(func(b *response.Batch) { b.ToolEnd(0, 2) })
	r.apply(func(b *response.Batch) { b.ToolCall(0, 3, []byte("t3"), []byte("g")) })
	r.apply(func(b *response.Batch) { b.ToolEnd(0, 3) })
	r.apply(func(b *response.Batch) { b.Finish(0, abi.FinishToolCalls, nil); b.Done(abi.DoneNow) })
	r.want(
		role,
		delta(`"reasoning_content":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm","index":0}]`),
		content("a"),
		call("0", "t2", "f", ""),
		args("0", `{\"a\"`),
		args("0", `:1}`),
		call("1", "t3", "g", ""),
		args("1", `{}`),
		finish("tool_calls"), done,
	)
}

// covers: G21
func TestToolCallInOneBatchIsOneChunk(t *testing.T) {
	r := newRun(t, response.Options{Stream: true})
	r.apply(func(b *response.Batch) {
		b.ToolCall(0, 0, []byte("a"), []byte("f"))
		b.ToolArguments(0, 0, abi.EncodingJSON, []byte(`{ "x" : [1, 2] }`))
		b.Extra(abi.ScopeTool, 0, 0, []byte("extra_content"), []byte(`{"k": 1}`))
		b.ToolEnd(0, 0)
		b.ToolCall(0, 1, []byte("b"), []byte("g"))
		b.ToolEnd(0, 1)
		b.Finish(0, abi.FinishStop, nil)
		b.Done(abi.DoneNow)
	})
	r.want(roleNull,
		tool(`"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":[1,2]}"},"extra_content":{"k":1}`),
		call("1", "b", "g", "{}"),
		finish("tool_calls"), done)
}

// covers: R11 R12
func TestToolCallsWithoutArguments(t *testing.T) {
	const def = abi.EncodingJSON | abi.EncodingDefault
	cases := []struct {
		name   string
		fill   func(b *response.Batch)
		reason abi.FinishReason
		want   string
	}{
		{"end", func(b *response.Batch) { b.ToolEnd(0, 0) }, abi.FinishToolCalls, "{}"},
		{"empty arguments and end", func(b *response.Batch) { b.ToolArguments(0, 0, 0, nil); b.ToolEnd(0, 0) }, abi.FinishToolCalls, "{}"},
		{"no end", func(b *response.Batch) {}, abi.FinishStop, "{}"},
		{"default and end", func(b *response.Batch) { b.ToolArguments(0, 0, def, []byte(`{"a": 1}`)); b.ToolEnd(0, 0) }, abi.FinishStop, `{\"a\":1}`},
		{"default, no end", func(b *response.Batch) { b.ToolArguments(0, 0, def, []byte(`{"a": 1}`)) }, abi.FinishStop, `{\"a\":1}`},
		{"default and arguments", func(b *response.Batch) {
			b.ToolArguments(0, 0, def, []byte(`{"a": 1}`))
			b.ToolArguments(0, 0, 0, []byte(`{"b":2}`))
			b.ToolEnd(0, 0)
		}, abi.FinishStop, `{\"b\":2}`},
		{"truncated by length", func(b *response.Batch) {}, abi.FinishLength, ""},
		{"truncated by the content filter", func(b *response.Batch) { b.ToolArguments(0, 0, def, []byte(`{"a":1}`)) }, abi.FinishContentFilter, ""},
		{"ended, then truncated by length", func(b *response.Batch) { b.ToolEnd(0, 0) }, abi.FinishLength, "{}"},
		{"partial character", func(b *response.Batch) { b.ToolArguments(0, 0, 0, []byte("\"\xe2")) }, abi.FinishLength, `\"` + "\uFFFD"},
		{"only a partial character", func(b *response.Batch) { b.ToolArguments(0, 0, 0, []byte("\xe2")); b.ToolEnd(0, 0) }, abi.FinishStop, "\uFFFD"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			both(t, func(t *testing.T, r *run) {
				r.apply(func(b *response.Batch) { b.ToolCall(0, 0, []byte("a"), []byte("f")) })
				r.apply(c.fill)
				r.apply(func(b *response.Batch) { b.Finish(0, c.reason, nil); b.Done(abi.DoneNow) })
				if len(r.w.Output()) == 0 {
					want := `"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"` + c.want + `"}}]`
					if got := r.message(); !strings.Contains(got, want) {
						t.Errorf("no %s in %s", want, got)
					}
					return
				}
				var got strings.Builder
				for _, m := range regexp.MustCompile(`"arguments":"((?:[^"\\]|\\.)*)"`).FindAllStringSubmatch(string(r.w.Output()), -1) {
					got.WriteString(m[1])
				}
				if got.String() != c.want {
					t.Errorf("arguments %s, want %s", got.String(), c.want)
				}
			})
		})
	}
}

// covers: O7
func TestStopBecomesToolCalls(t *testing.T) {
	cases := []struct {
		reason abi.FinishReason
		native string
		want   string
	}{
		{abi.FinishStop, "", `"finish_reason":"tool_calls"`},
		{abi.FinishStop, "STOP", `"finish_reason":"tool_calls","native_finish_reason":"STOP"`},
		{abi.FinishLength, "", `"finish_reason":"length"`},
		{abi.FinishContentFilter, "content_filter", `"finish_reason":"content_filter"`},
		{abi.FinishFunctionCall, "", `"finish_reason":"function_call"`},
		{abi.FinishToolCalls, "a\"b", `"finish_reason":"tool_calls","native_finish_reason":"a\"b"`},
	}
	for _, c := range cases {
		both(t, func(t *testing.T, r *run) {
			r.apply(func(b *response.Batch) {
				b.ToolCall(0, 0, []byte("a"), []byte("f"))
				b.ToolEnd(0, 0)
				b.Text(1, 0, []byte("the other choice called nothing"))
				b.Finish(0, c.reason, []byte(c.native))
				b.Finish(1, abi.FinishStop, []byte("stop"))
				b.Done(abi.DoneNow)
			})
			got := string(r.w.Output())
			if got == "" {
				got = r.response()
			}
			if !strings.Contains(got, c.want+"}") || !strings.Contains(got, `"finish_reason":"stop"}`) {
				t.Errorf("no %s in %s", c.want, got)
			}
		})
	}
}

// covers: G19
func TestGeneratedIDsAreStableAndUnique(t *testing.T) {
	ids := func(base string, stream bool) []string {
		r := newRun(t, response.Options{ID: base, Stream: stream})
		r.apply(func(b *response.Batch) {
			b.Start([]byte("the provider's own"), nil, nil)
			for choice := range int32(2) {
				b.ToolCall(choice, 10, nil, []byte("f"))
				b.ToolCall(choice, 20, nil, []byte("f"))
				b.Finish(choice, abi.FinishToolCalls, nil)
			}
			b.Done(abi.DoneNow)
		})
		all := string(r.w.Output())
		if !stream {
			all = r.response()
		}
		return regexp.MustCompile(`call_[a-z2-7]{24}`).FindAllString(all, -1)
	}
	a, b, c := ids("one", true), ids("one", false), ids("two", true)
	if len(a) != 4 || strings.Join(a, " ") != strings.Join(b, " ") {
		t.Errorf("streaming %q, non-streaming %q", a, b)
	}
	seen := map[string]bool{}
	for _, id := range append(a, c...) {
		if seen[id] {
			t.Errorf("ID %s is not unique", id)
		}
		seen[id] = true
	}
}

func TestAliases(t *testing.T) {
	aliases := func(name []byte) []byte {
		if string(name) == "f_1" {
			return []byte("f.1")
		}
		return nil
	}
	for _, stream := range []bool{true, false} {
		r := newRun(t, response.Options{Stream: stream, Aliases: aliases})
		r.apply(func(b *response.Batch) {
			b.ToolCall(0, 0, nil, []byte("f_1"))
			b.ToolCall(0, 1, nil, []byte("f_2"))
			b.Finish(0, abi.FinishToolCalls, nil)
			b.Done(abi.DoneNow)
		})
		got := string(r.w.Output())
		if !stream {
			got = r.response()
		}
		if !strings.Contains(got, `"name":"f.1"`) || !strings.Contains(got, `"name":"f_2"`) {
			t.Errorf("got %s", got)
		}
	}
}

func TestArgumentsWithoutCallAreDropped(t *testing.T) {
	both(t, func(t *testing.T, r *run) {
		if r.w.HasTool(0, 1) || r.w.HasTool(-1, 1) || r.w.HasTool(7, 1) {
			t.Error("HasTool reports a tool call before there is one")
		}
		r.apply(func(b *response.Batch) {
			b.ToolArguments(0, 1, 0, []byte("{}"))
			b.ToolEnd(0, 1)
			b.ToolCall(0, 2, []byte("a"), []byte("f"))
			b.ToolCall(0, 2, []byte("again"), []byte("again"))
			b.ToolEnd(0, 2)
			b.ToolArguments(0, 2, 0, []byte("late"))
			b.ToolEnd(0, 2)
			b.Extra(abi.ScopeTool, 0, 1, []byte("x"), []byte("1"))
		})
		if !r.w.HasTool(0, 2) || r.w.HasTool(0, 1) {
			t.Error("HasTool does not report the only tool call, 2")
		}
		if got := r.w.Dropped(); got != 3 { // arguments of an unknown call, arguments after the end, extra member of an unknown call
			t.Errorf("%d dropped, want 3", got)
		}
		r.apply(stop)
		got := string(r.w.Output())
		if got == "" {
			got = r.response()
		}
		if strings.Contains(got, "late") || strings.Contains(got, "again") || strings.Count(got, `"name":"f"`) != 1 {
			t.Errorf("got %s", got)
		}
	})
}

// TestToolCallWithoutFinishReason has a provider complete the response without a finish reason, for example by "[DONE]"
// or message_stop alone. If the arguments are incomplete, the response is truncated.
func TestToolCallWithoutFinishReason(t *testing.T) {
	const utf8, escaped, def = abi.EncodingUTF8, abi.EncodingEscaped, abi.EncodingJSON | abi.EncodingDefault
	cases := []struct {
		name   string
		pieces []string
		enc    abi.Encoding
		end    bool
		cut    bool // the arguments are incomplete
	}{
		{"complete", []string{`{"city":"Paris"}`}, utf8, false, false},
		{"complete, in pieces", []string{`{"city`, `":"Par`, `is"`, `}`}, utf8, false, false},
		{"complete and ended", []string{`{}`}, utf8, true, false},
		{"a list", []string{`[1,[2]]`}, utf8, false, false},
		{"brackets and quotes in a string", []string{`{"a":"}{[\"`, `\\"`, `}`}, utf8, false, false},
		{"a string", []string{`"a`, `\\\"`, `b"`}, utf8, false, false},
		{"escaped", []string{`{\"a\":\"\\\"}\\\\\"`, `}`}, escaped, false, false},
		{"quotes as \\u", []string{`{\u0022a\u0022:\u0022}`, `\u0022\u007d`}, escaped, false, false},
		{"ended without arguments", nil, utf8, true, false},
		{"ended with a default", []string{`{"a":1}`}, def, true, false},

		{"no arguments", nil, utf8, false, true},
		{"white space", []string{" \n"}, utf8, false, true},
		{"a default, no end", []string{`{"a":1}`}, def, false, true},
		{"in a string", []string{`{"city":"Par`}, utf8, false, true},
		{"after a bracket in a string", []string{`{"city":"Par}`}, utf8, false, true},
		{"after a quote in a string", []string{`{"city":"Par\"}`}, utf8, false, true},
		{"after a backslash", []string{`{"city":"Par\`, `"}`}, utf8, false, true},
		{"before the last bracket", []string{`{"a":{"b":1}`}, utf8, false, true},
		{"before the last bracket, but ended", []string{`{"a":[{"b":1}]`}, utf8, true, true},
		{"in a literal", []string{`tru`}, utf8, false, true},
		{"in a character", []string{"{\"a\":\"\xe2"}, utf8, false, true},
		{"escaped, in a string", []string{`{\"a\":\"\\\"}`}, escaped, false, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			both(t, func(t *testing.T, r *run) {
				r.apply(func(b *response.Batch) { b.ToolCall(0, 0, []byte("a"), []byte("f")) })
				for _, p := range c.pieces {
					r.apply(func(b *response.Batch) { b.ToolArguments(0, 0, c.enc, []byte(p)) })
				}
				if c.end {
					r.apply(func(b *response.Batch) { b.ToolEnd(0, 0) })
				}
				r.apply(func(b *response.Batch) { b.ToolCall(0, 1, []byte("b"), []byte("g")); b.ToolEnd(0, 1) })
				r.apply(func(b *response.Batch) { b.Text(1, utf8, []byte("another choice")); b.Finish(1, abi.FinishStop, nil) })
				r.apply(func(b *response.Batch) { b.Done(abi.DoneNow) })
				failed := r.w.Failed()
				if !c.cut {
					if failed != nil || !r.w.Complete() {
						t.Fatalf("failed with %v, want a complete response", failed)
					}
					return
				}
				if failed == nil || failed.Code != "upstream_stream_truncated" || r.w.Complete() {
					t.Fatalf("failed with %v, want upstream_stream_truncated", failed)
				}
				if out := string(r.w.Output()); strings.Contains(out, `"finish_reason":"`) || strings.Contains(out, "[DONE]") {
					t.Errorf("a choice finished:\n%s", out)
				}
			})
		})
	}
}

func TestRejectsExcessOfProvider(t *testing.T) {
	cases := []struct {
		name string
		fill func(b *response.Batch, key int32)
	}{
		{"tool calls", func(b *response.Batch, key int32) { b.ToolCall(0, key, nil, []byte("f")) }},
		{"parts of reasoning", func(b *response.Batch, key int32) { b.Reasoning(0, abi.ReasoningText, key, 0, []byte("a")) }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			both(t, func(t *testing.T, r *run) {
				r.apply(func(b *response.Batch) {
					for key := range int32(abi.MaxKeys) {
						c.fill(b, key)
					}
				})
				var b response.Batch
				c.fill(&b, abi.MaxKeys)
				var e *apierror.Error
				if err := r.w.Apply(&b); !errors.As(err, &e) || e.Code != "upstream_bad_answer" || !e.TryNext {
					t.Errorf("Apply returned %v, want upstream_bad_answer", err)
				}
			})
		})
	}
}

// TestFunctionCalls checks the response to a client that uses function_call: one call per message, without an id.
func TestFunctionCalls(t *testing.T) {
	fill := func(r *run) {
		r.apply(text("a"))
		r.apply(func(b *response.Batch) { b.ToolCall(0, 2, []byte("t2"), []byte("f")) })
		r.apply(func(b *response.Batch) { b.ToolArguments(0, 2, abi.EncodingEscaped, []byte(`{\"a\"`)) })
		r.apply(func(b *response.Batch) {
			b.ToolArguments(0, 2, abi.EncodingEscaped, []byte(`:1}`))
			b.Extra(abi.ScopeTool, 0, 2, []byte("extra_content"), []byte(`{"k":1}`))
			b.ToolEnd(0, 2)
		})
		r.apply(func(b *response.Batch) {
			b.ToolCall(0, 3, []byte("t3"), []byte("g"))
			b.Extra(abi.ScopeTool, 0, 3, []byte("extra_content"), []byte(`{"k":1}`))
			b.ToolEnd(0, 3)
		})
		r.apply(func(b *response.Batch) { b.Finish(0, abi.FinishToolCalls, nil); b.Done(abi.DoneNow) })
	}
	r := newRun(t, response.Options{Stream: true, FunctionCalls: true})
	fill(r)
	r.want(
		role,
		content("a"),
		delta(`"function_call":{"name":"f","arguments":""}`),
		delta(`"function_call":{"arguments":"{\"a\""}`),
		delta(`"function_call":{"arguments":":1}"}`),
		finish("function_call"), done,
	)
	r = newRun(t, response.Options{FunctionCalls: true})
	fill(r)
	const want = `"message":{"role":"assistant","content":"a","refusal":null,"function_call":{"name":"f","arguments":"{\"a\":1}"}},"logprobs":null,"finish_reason":"function_call"`
	if got := string(r.w.AppendResponse(nil)); !strings.Contains(got, want) {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
