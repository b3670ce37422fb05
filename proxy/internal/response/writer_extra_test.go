package response_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

func extra(b *response.Batch, scope abi.Scope, name, value string) {
	b.Extra(scope, 0, 0, []byte(name), []byte(value))
}

func TestExtraJoinsPreviousChunk(t *testing.T) {
	r := newRun(t, response.Options{Stream: true})
	r.apply(func(b *response.Batch) {
		extra(b, abi.ScopeChoice, "early", "0") // goes into the choice's next chunk, because it has no previous one
		b.Text(0, 0, []byte("a"))
		b.Text(1, 0, []byte("b"))
		b.Usage(abi.UsagePrompt, 1)
		extra(b, abi.ScopeChoice, "logprobs", `{ "content" : [ 1 ] }`)
		extra(b, abi.ScopeMessage, "annotations", `[ {"x": 1} ]`)
		b.Text(0, 0, []byte("c"))
		b.Extra(abi.ScopeChoice, 1, 0, []byte("logprobs"), []byte(`{"content":[2]}`))
		extra(b, abi.ScopeChoice, "last", `"d\u00e9"`)
		extra(b, abi.ScopeChoice, "last", `"wins"`)
	})
	r.want(
		role,
		`[{"index":0,"delta":{"content":"a","annotations":[{"x":1}]},"finish_reason":null,"early":0,"logprobs":{"content":[1]}}]`,
		`[{"index":1,"delta":{"role":"assistant","content":""},"finish_reason":null}]`,
		`[{"index":1,"delta":{"content":"b"},"finish_reason":null,"logprobs":{"content":[2]}}]`,
		`[{"index":0,"delta":{"content":"c"},"finish_reason":null,"last":"wins"}]`,
	)
}

func TestExtraWithoutPreviousEvent(t *testing.T) {
	r := newRun(t, response.Options{Stream: true})
	r.apply(func(b *response.Batch) {
		b.Text(0, 0, nil)
		extra(b, abi.ScopeChoice, "filter", `{"a":1}`)
	})
	r.want() // extra members of a choice do not open it
	r.apply(func(b *response.Batch) { extra(b, abi.ScopeMessage, "audio", `{"id":"s1"}`) })
	r.apply(func(b *response.Batch) { extra(b, abi.ScopeMessage, "audio", `{"data":"AA"}`) })
	r.apply(func(b *response.Batch) { extra(b, abi.ScopeChoice, "filter", `{"a":2}`) })
	r.apply(func(b *response.Batch) {
		extra(b, abi.ScopeMessage, "audio", `{"data":"BB"}`)
		b.Finish(0, abi.FinishStop, nil)
		extra(b, abi.ScopeChoice, "stop_reason", `7`)
		b.Done(abi.DoneAtEnd)
	})
	r.apply(func(b *response.Batch) { extra(b, abi.ScopeChoice, "late", `true`) })
	if err := r.w.End(); err != nil {
		t.Fatal(err)
	}
	r.want(
		roleNull,
		`[{"index":0,"delta":{"audio":{"id":"s1"}},"finish_reason":null,"filter":{"a":1}}]`,
		delta(`"audio":{"data":"AA"}`),
		`[{"index":0,"delta":{},"finish_reason":null,"filter":{"a":2}}]`,
		delta(`"audio":{"data":"BB"}`),
		`[{"index":0,"delta":{},"finish_reason":"stop","stop_reason":7,"late":true}]`,
		done,
	)
}

func TestExtraOfResponse(t *testing.T) {
	r := newRun(t, response.Options{Stream: true, IncludeUsage: true})
	const head = `{"id":"chatcmpl-own","object":"chat.completion.chunk","created":1700000000,"model":"asked",`
	r.apply(func(b *response.Batch) {
		b.Text(0, 0, []byte("a"))
		extra(b, abi.ScopeAnswer, "citations", `["x"]`)
		extra(b, abi.ScopeAnswer, "fingerprint", `"fp"`)
	})
	r.apply(text("b"))
	r.apply(func(b *response.Batch) {
		extra(b, abi.ScopeAnswer, "citations", `["y"]`)
		extra(b, abi.ScopeAnswer, "citations", `["z"]`)
		extra(b, abi.ScopeAnswer, "fingerprint", `"fp2"`)
		extra(b, abi.ScopeAnswer, "system_fingerprint", `"fp3"`)
		extra(b, abi.ScopeAnswer, "system_fingerprint", `{"not":"one"}`)
		extra(b, abi.ScopeUsage, "cost", `0.10`)
		b.Usage(abi.UsagePrompt, 1)
		b.Usage(abi.UsageCompletion, 1)
		stop(b)
	})
	want := []string{
		head + `"fingerprint":"fp","system_fingerprint":null,"choices":` + role + `,"citations":["x"],"usage":null}`,
		head + `"fingerprint":"fp","system_fingerprint":null,"choices":` + content("a") + `,"usage":null}`,
		head + `"fingerprint":"fp","system_fingerprint":null,"choices":` + content("b") + `,"usage":null}`,
		head + `"fingerprint":"fp2","system_fingerprint":"fp3","choices":` + finish("stop") + `,"citations":["y","z"],"usage":null}`,
		head + `"fingerprint":"fp2","system_fingerprint":"fp3","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2,"cost":0.10}}`,
		done,
	}
	for i, got := range r.frames() {
		if got != want[i] {
			t.Errorf("frame %d:\n got %s\nwant %s", i, got, want[i])
		}
	}
}

func TestExtraChangesFromScalarToList(t *testing.T) {
	for name, member := range map[string]string{"x": `"x":`, "x\"\n": `"x\"\n":`} {
		r := newRun(t, response.Options{Stream: true})
		for _, v := range []string{`"a"`, `["b"]`, `"c"`} {
			r.apply(func(b *response.Batch) { extra(b, abi.ScopeAnswer, name, v) })
			r.apply(text("t"))
		}
		var got []string
		for _, f := range r.frames() {
			got = append(got, fmt.Sprint(strings.Count(f, member)))
		}
		if s := strings.Join(got, ""); s != "1111" { // role and text, text, text
			t.Errorf("%s is %s times in the frames %q, want once in each", member, s, r.frames())
		}
	}
}

func TestExtrasInNonStreamingResponse(t *testing.T) {
	r := newRun(t, response.Options{})
	r.apply(func(b *response.Batch) {
		b.ToolCall(0, 2, []byte("c"), []byte("f"))
		extra(b, abi.ScopeChoice, "logprobs", `{"content":[{"t":1}],"refusal":null}`)
		extra(b, abi.ScopeMessage, "annotations", `[1]`)
		extra(b, abi.ScopeMessage, "images", `["i"]`)
		extra(b, abi.ScopeMessage, "audio", `{"id":"a","data":"QQ","transcript":"be"}`)
		extra(b, abi.ScopeMessage, "plain", `[1]`)
		extra(b, abi.ScopeAnswer, "citations", `["u"]`)
		extra(b, abi.ScopeAnswer, "service_tier", `"default"`)
		b.Extra(abi.ScopeTool, 0, 2, []byte("extra_content"), []byte(`{"g":1}`))
	})
	r.apply(func(b *response.Batch) {
		extra(b, abi.ScopeChoice, "logprobs", `{"content":[],"refusal":[5]}`)
		extra(b, abi.ScopeChoice, "logprobs", `{"content":[{"t":2},{"t":3}],"refusal":null,"other":"x"}`)
		extra(b, abi.ScopeChoice, "logprobs", `null`)
		extra(b, abi.ScopeMessage, "annotations", `[2,3]`)
		extra(b, abi.ScopeMessage, "annotations", `null`)
		extra(b, abi.ScopeMessage, "audio", `{"data":"Ug==","transcript":"ep","expires_at":9}`)
		extra(b, abi.ScopeMessage, "plain", `[2]`)
		extra(b, abi.ScopeMessage, "function_call", `{"name":"old","arguments":"{\"a\""}`)
		extra(b, abi.ScopeMessage, "function_call", `{"arguments":":1}"}`)
		extra(b, abi.ScopeAnswer, "citations", `[]`)
		extra(b, abi.ScopeAnswer, "citations", `["v"]`)
		extra(b, abi.ScopeUsage, "cost", `1`)
		extra(b, abi.ScopeUsage, "cost", `2`)
		extra(b, abi.ScopeUsage, "prompt_tokens_details.image_tokens", `3`)
		extra(b, abi.ScopeUsage, "completion_tokens_details.text_tokens", `4`)
		b.Usage(abi.UsagePrompt, 5)
		b.Usage(abi.UsageCompletion, 6)
		b.Usage(abi.UsageReasoning, 1)
		stop(b)
	})
	const want = `{"id":"chatcmpl-own","object":"chat.completion","created":1700000000,"model":"asked","system_fingerprint":null,"choices":[{"index":0,"message":` +
		`{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"g":1}}],` +
		`"annotations":[1,2,3],"images":["i"],"audio":{"id":"a","data":"QQUg==","transcript":"beep","expires_at":9},"plain":[2],` +
		`"function_call":{"name":"old","arguments":"{\"a\":1}"}},` +
		`"logprobs":{"content":[{"t":1},{"t":2},{"t":3}],"refusal":[5],"other":"x"},"finish_reason":"tool_calls"}],` +
		`"usage":{"prompt_tokens":5,"completion_tokens":6,"total_tokens":11,"prompt_tokens_details":{"image_tokens":3},` +
		`"completion_tokens_details":{"reasoning_tokens":1,"text_tokens":4},"cost":2},` +
		`"citations":["u","v"],"service_tier":"default"}`
	if got := r.response(); got != want {
		t.Errorf(" got %s\nwant %s", got, want)
	}
}

func TestRejectsReservedMembers(t *testing.T) {
	everywhere := []string{"error", "choices", "usage", "delta", "message", "finish_reason", "native_finish_reason"}
	own := map[abi.Scope][]string{
		abi.ScopeAnswer:  {"id", "object", "created", "model"},
		abi.ScopeChoice:  {"index"},
		abi.ScopeMessage: {"role", "content", "refusal", "tool_calls", "reasoning_content", "reasoning_details"},
		abi.ScopeTool:    {"index", "id", "type", "function"},
		abi.ScopeUsage: {"prompt_tokens", "completion_tokens", "total_tokens", "estimated", "prompt_tokens_details", "completion_tokens_details",
			"prompt_tokens_details.cached_tokens", "prompt_tokens_details.", "completion_tokens_details.reasoning_tokens"},
	}
	for scope, names := range own {
		for _, name := range append(names, everywhere...) {
			both(t, func(t *testing.T, r *run) {
				if err := r.reject(func(b *response.Batch) { extra(b, scope, name, "null") }); err == nil || strings.Contains(err.Error(), name) {
					t.Errorf("scope %d, member %s: error %v, want one that does not quote the name", scope, name, err)
				}
			})
		}
	}
	both(t, func(t *testing.T, r *run) {
		r.apply(func(b *response.Batch) {
			b.Text(0, 0, []byte("a"))
			extra(b, abi.ScopeAnswer, "index", "1")
			extra(b, abi.ScopeAnswer, "a\"b\n", `{"error":{}}`)
			stop(b)
		})
		got := string(r.w.Output())
		if got == "" {
			got = r.response()
		} else {
			r.frames()
		}
		if !strings.Contains(got, `"a\"b\n":{"error":{}}`) {
			t.Errorf("got %s", got)
		}
	})
}

func TestExtrasAreBounded(t *testing.T) {
	both(t, func(t *testing.T, r *run) {
		r.apply(func(b *response.Batch) {
			b.Text(0, 0, []byte("a"))
			for i := range 1000 {
				extra(b, abi.ScopeChoice, fmt.Sprint("n", i), "1")
			}
			stop(b)
		})
		got := string(r.w.Output())
		if got == "" {
			got = r.response()
		}
		if n := strings.Count(got, `"n`); n > 200 || r.w.Dropped() == 0 {
			t.Errorf("%d members written, want at most 200; %d dropped", n, r.w.Dropped())
		}
	})
}
