package native_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/openai/native"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
)

// read reads chunks, or a non-streaming response, and returns the writer that they were applied to.
func read(t testing.TB, o native.Options, mo response.Options, chunks ...string) *response.Writer {
	t.Helper()
	var r native.Reader
	var b response.Batch
	w := openai.NewWriter()
	r.Reset(o)
	w.Reset(mo)
	for _, c := range chunks {
		b.Reset()
		var err error
		if strings.Contains(c, `"message"`) && len(chunks) == 1 {
			err = r.ReadResponse([]byte(c), &b)
		} else {
			err = r.ReadChunk([]byte(c), &b)
		}
		if err == nil {
			err = w.Apply(&b)
		}
		var e *apierror.Error
		if errors.As(err, &e) {
			w.Fail(e)
		} else if err != nil {
			t.Fatalf("%v in %s", err, c)
		}
	}
	_ = w.End()
	return w
}

// whole reads chunks for a non-streaming client and returns the response from the value of "choices" on.
func whole(t testing.TB, o native.Options, chunks ...string) string {
	t.Helper()
	w := read(t, o, options(false, false), chunks...)
	if !w.Complete() {
		return "failed: " + w.Failed().Error()
	}
	a := string(w.AppendResponse(nil))
	if !json.Valid([]byte(a)) {
		t.Fatalf("not JSON: %s", a)
	}
	_, rest, _ := strings.Cut(a, `"choices":`)
	return rest
}

// chunk returns a chunk with one choice.
func chunk(choice string) string {
	return `{"id":"i","model":"m","choices":[{"index":0,` + choice + `}]}`
}

// delta returns a chunk with a delta.
func delta(s string) string { return chunk(`"delta":{` + s + `}`) }

const (
	stop = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`

	// estimated stands for any usage that the gateway has estimated.
	estimated = `],"usage":{estimated}}`
)

// choice returns choice 0 of a response.
func choice(message, finish string) string {
	return `[{"index":0,"message":{"role":"assistant",` + message + `},"logprobs":null,"finish_reason":` + finish + `}`
}

func TestProviderVariants(t *testing.T) {
	cases := []struct {
		name   string
		o      native.Options
		chunks []string
		want   string
	}{
		{"prompt filter chunk", native.Options{}, []string{ // covers: O1
			`{"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[{"prompt_index":0}]}`, delta(`"content":"a"`), stop,
		}, choice(`"content":"a","refusal":null`, `"stop"`) + estimated},
		{"no choices", native.Options{}, []string{ // covers: O2
			`{"id":"i","choices":null}`, `{"id":"i"}`, `{"id":"i","choices":{}}`, delta(`"content":"a"`), stop, `{"choices":null,"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`,
		}, choice(`"content":"a","refusal":null`, `"stop"`) + `],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`},
		{"usage in several places", native.Options{}, []string{ // covers: O3
			delta(`"content":"a"`),
			`{"choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":4,"completion_tokens":4}}],"usage":{"prompt_tokens":5,"completion_tokens":5}}`,
			`{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":6}}`, `[DONE]`,
		}, choice(`"content":"a","refusal":null`, `"stop"`) + `],"usage":{"prompt_tokens":5,"completion_tokens":6,"total_tokens":11}}`},
		// covers: O4
		{"reasoning", native.Options{ReasoningFormat: "here"}, []string{
			delta(`"reasoning":"a","content":null`), delta(`"reasoning_content":"b","reasoning":"b"`), delta(`"reasoning_content":"","reasoning":"c"`), stop,
		}, choice(`"content":"","refusal":null,"reasoning_content":"abc","reasoning_details":[{"type":"reasoning.text","text":"abc","format":"here","index":0}]`, `"stop"`) + estimated},
		{"details with the text", native.Options{ReasoningFormat: "here"}, []string{
			delta(`"reasoning":"a","reasoning_details":[{"type":"reasoning.text","text":"a","format":"there","index":2}]`),
			delta(`"reasoning":"b","reasoning_details":[{"type":"reasoning.summary","summary":"b","format":"there","index":3}]`),
			delta(`"reasoning":"c","reasoning_details":[{"type":"reasoning.text","signature":"s","index":2},{"type":"reasoning.encrypted","data":"e","index":4},{"type":"reasoning.new","x":1}]`),
			delta(`"reasoning":null,"reasoning_details":[]`),
			stop,
		}, choice(`"content":"","refusal":null,"reasoning_content":"abc","reasoning_details":[{"type":"reasoning.text","text":"a","signature":"s","format":"there","index":2},`+
			`{"type":"reasoning.summary","summary":"b","format":"there","index":3},{"type":"reasoning.encrypted","data":"e","format":"there","index":4},`+
			`{"type":"reasoning.text","text":"c","format":"there","index":0}]`, `"stop"`) + estimated},
		{"details of a tool call", native.Options{}, []string{
			delta(`"reasoning_details":[{"type":"reasoning.encrypted","data":"e","id":"call_1","index":0},{"type":"reasoning.encrypted","data":"f","id":"call_9","index":5}],` +
				`"tool_calls":[{"index":0,"id":"call_1","function":{"name":"f","arguments":"{}"}}]`),
			stop,
		}, choice(`"content":null,"refusal":null,"reasoning_details":[{"type":"reasoning.encrypted","data":"e","id":"call_1","index":0},{"type":"reasoning.encrypted","data":"f","index":5}],`+
			`"tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{}"}}]`, `"tool_calls"`) + estimated},
		{"thinking blocks", native.Options{}, []string{
			delta(`"reasoning_content":"a","thinking_blocks":[{"type":"thinking","thinking":"a","signature":"s"},{"type":"redacted_thinking","data":"d"}]`), stop,
		}, choice(`"content":"","refusal":null,"reasoning_content":"a","reasoning_details":[{"type":"reasoning.text","text":"a","signature":"s","index":0},{"type":"reasoning.encrypted","data":"d","index":1}]`, `"stop"`) + estimated},
		{"tags are content unless configured", native.Options{}, []string{delta(`"content":"<think>a</think>b"`), stop},
			choice(`"content":"<think>a</think>b","refusal":null`, `"stop"`) + estimated},
		{"no index", native.Options{}, []string{ // covers: O5
			delta(`"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{"}}]`), delta(`"tool_calls":[{"function":{"arguments":"}"}}]`),
			delta(`"tool_calls":[{"id":"b","function":{"name":"g","arguments":"["}}]`), delta(`"tool_calls":[{"id":"a","function":{"arguments":" "}},{"id":"b","function":{"arguments":"]"}}]`), stop,
		}, toolChoice(`{"id":"a","type":"function","function":{"name":"f","arguments":"{} "}}`, `{"id":"b","type":"function","function":{"name":"g","arguments":"[]"}}`)},
		// covers: O6
		{"all index 0, different ids", native.Options{}, []string{
			delta(`"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}},{"index":0,"id":"b","function":{"name":"f","arguments":"{\"x\":2}"}}]`),
			delta(`"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{}"}}]`), stop,
		}, toolChoice(`{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}`, `{"id":"b","type":"function","function":{"name":"f","arguments":"{\"x\":2}"}}`,
			`{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}`)},
		{"the same id in each piece", native.Options{}, []string{
			delta(`"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]`), delta(`"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"}"}}]`), stop,
		}, toolChoice(`{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}`)},
		{"another id in each piece", native.Options{}, []string{
			delta(`"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]`), delta(`"tool_calls":[{"index":0,"id":"zz","function":{"arguments":"}"}}]`), stop,
		}, toolChoice(`{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}`)},
		{"the name after the first piece", native.Options{}, []string{
			delta(`"tool_calls":[{"index":0,"id":"a","type":"function"}]`), delta(`"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]`),
			delta(`"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]`), stop,
		}, toolChoice(`{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}`)},
		{"stop after tool calls", native.Options{}, []string{ // covers: O7
			delta(`"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]`), stop,
		}, toolChoice(`{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}`)},
		{"empty finish reason", native.Options{}, []string{ // covers: O8
			chunk(`"delta":{"content":"a"},"finish_reason":""`), chunk(`"delta":{"content":"b"},"finish_reason":null`), stop,
		}, choice(`"content":"ab","refusal":null`, `"stop"`) + estimated},
		// covers: O9
		{"function_call", native.Options{}, []string{
			delta(`"content":null,"function_call":{"name":"f","arguments":""}`), delta(`"function_call":{"arguments":"{\"a\""}`), delta(`"function_call":{"arguments":":1}"}`),
			chunk(`"delta":{},"finish_reason":"function_call"`),
		}, choice(`"content":"","refusal":null,"function_call":{"name":"f","arguments":"{\"a\":1}"}`, `"function_call"`) + estimated},
		{"eos", native.Options{}, []string{delta(`"content":"a"`), chunk(`"delta":{},"finish_reason":"eos"`)},
			choice(`"content":"a","refusal":null`, `"stop","native_finish_reason":"eos"`) + estimated},
		{"insufficient_system_resource", native.Options{}, []string{delta(`"content":"a"`), chunk(`"delta":{},"finish_reason":"insufficient_system_resource"`)},
			choice(`"content":"a","refusal":null`, `"length","native_finish_reason":"insufficient_system_resource"`) + estimated},
		{"native_finish_reason", native.Options{}, []string{delta(`"content":"a"`), chunk(`"delta":{},"finish_reason":"stop","native_finish_reason":"end_turn"`)},
			choice(`"content":"a","refusal":null`, `"stop","native_finish_reason":"end_turn"`) + estimated},
		{"finish reason error", native.Options{}, []string{delta(`"content":"a"`), chunk(`"delta":{},"finish_reason":"error"`)},
			"failed: 502 server_error upstream_stream_error: The provider ended the response with an error."},
		// covers: O12
		{"error in a stream", native.Options{}, []string{delta(`"content":"a"`), `{"error":{"message":"slow down","type":"rate_limit_error","code":"rate_limit_exceeded"}}`, `[DONE]`},
			`failed: 429 rate_limit_error rate_limit_exceeded: The provider's rate limit has been reached.: upstream status 0, type "rate_limit_error", code "rate_limit_exceeded"`},
		{"error after the finish reason", native.Options{}, []string{delta(`"content":"a"`), chunk(`"delta":{},"finish_reason":"length"`), `{"error":{"code":502,"message":"gone"},"choices":[]}`, `[DONE]`},
			`failed: 502 server_error upstream_stream_error: gone: upstream status 502, type "", code ""`},
		{"error in a choice", native.Options{}, []string{delta(`"content":"a"`), chunk(`"delta":{"content":""},"error":{"code":503,"message":"busy"}`)},
			`failed: 503 server_error overloaded: busy: upstream status 503, type "", code ""`},
		{"error of vLLM", native.Options{}, []string{delta(`"content":"a"`), `{"object":"error","message":"no","type":"BadRequestError","param":null,"code":400}`},
			`failed: 400 invalid_request_error: no: upstream status 400, type "BadRequestError", code ""`},
		{"null and empty errors", native.Options{}, []string{`{"error":null,"choices":[{"index":0,"delta":{"content":"a"},"error":null}]}`, `{"error":{},"choices":[]}`, stop},
			choice(`"content":"a","refusal":null`, `"stop"`) + estimated},
		// covers: O13
		{"error as a non-streaming response", native.Options{}, []string{`{"error":{"message":"no such model","type":"invalid_request_error","code":"model_not_found"},"message":1}`},
			`failed: 404 invalid_request_error model_not_found: The provider does not know this model.: upstream status 0, type "invalid_request_error", code "model_not_found"`},
		{"error as a string", native.Options{}, []string{`{"error":"broken","message":1}`}, `failed: 502 server_error upstream_error: broken: upstream status 0, type "", code ""`},
		// covers: O15
		{"usage of DeepSeek", native.Options{}, []string{delta(`"content":"a"`), stop, `{"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10,"prompt_cache_hit_tokens":4,"prompt_cache_miss_tokens":5}}`},
			choice(`"content":"a","refusal":null`, `"stop"`) + `],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":4}}}`},
		{"arguments as an object", native.Options{}, []string{ // covers: O16
			delta(`"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":{"b": 1.0, "a": "x y"}}},{"index":1,"id":"b","function":{"name":"g","arguments":null}}]`), stop,
		}, toolChoice(`{"id":"a","type":"function","function":{"name":"f","arguments":"{\"b\":1.0,\"a\":\"x y\"}"}}`, `{"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}`)},
		{"content parts", native.Options{}, []string{ // covers: O17
			delta(`"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"a"},"b",{"type":"image_url","image_url":{}},{"text":"c"}]`),
			delta(`"content":{"type":"text","text":"d"}`), delta(`"content":[{"type":"thinking","thinking":"!"}]`), stop,
		}, choice(`"content":"abcd","refusal":null,"reasoning_content":"hm!","reasoning_details":[{"type":"reasoning.text","text":"hm!","index":0}]`, `"stop"`) + estimated},
		// covers: O18
		{"unknown members", native.Options{}, []string{
			`{"id":"i","system_fingerprint":"fp","service_tier":null,"obfuscation":"xx","p":"abc","x_groq":{"usage":{}},"kv":{},"choices":[{"index":0,"stop_reason":null,"token_ids":[1],"p":"x","delta":{"role":"assistant","content":"a","channel":"final","audio":null,"error":1}}]}`,
			`{"id":"i","system_fingerprint":"fp","citations":["u","v"],"choices":[{"index":0,"token_ids":[2],"delta":{"annotations":[{"n":1}]}}]}`,
			`{"id":"i","system_fingerprint":"fp","citations":["u","v","w"],"choices":[{"index":0,"delta":{"annotations":[{"n":2}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"cost":0.5,"nothing":null}}`,
		}, `[{"index":0,"message":{"role":"assistant","content":"a","refusal":null,"channel":"final","annotations":[{"n":1},{"n":2}]},"logprobs":null,"token_ids":[2],"finish_reason":"stop"}],` +
			`"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2,"cost":0.5},"system_fingerprint":"fp","citations":["u","v","w"]}`},
		{"logprobs", native.Options{}, []string{
			chunk(`"delta":{"content":""},"logprobs":{"content":[],"refusal":null}`), chunk(`"delta":{"content":"a"},"logprobs":{"content":[{"token":"a"}],"refusal":null}`),
			chunk(`"delta":{"content":"b"},"logprobs":{"content":[{"token":"b"}],"refusal":null}`), chunk(`"delta":{},"logprobs":null,"finish_reason":"stop"`),
		}, `[{"index":0,"message":{"role":"assistant","content":"ab","refusal":null},"logprobs":{"content":[{"token":"a"},{"token":"b"}],"refusal":null},"finish_reason":"stop"}` + estimated},
		{"audio", native.Options{}, []string{
			delta(`"role":"assistant","content":null,"audio":{"id":"s","transcript":"be"}`), delta(`"audio":{"data":"QQ"}`), delta(`"audio":{"data":"Ug","transcript":"ep"}`), delta(`"audio":{"expires_at":5}`), stop,
		}, choice(`"content":null,"refusal":null,"audio":{"id":"s","transcript":"beep","data":"QQUg","expires_at":5}`, `"stop"`) + estimated},
		// covers: S10
		{"DONE without a finish reason", native.Options{}, []string{delta(`"content":"a"`), ` [DONE] `}, choice(`"content":"a","refusal":null`, `"stop"`) + estimated},
		{"neither DONE nor a finish reason", native.Options{}, []string{delta(`"content":"a"`)}, "failed: 502 server_error upstream_stream_truncated: Upstream closed the stream before it was complete"},
		{"one of two choices unfinished", native.Options{}, []string{stop, `{"choices":[{"index":1,"delta":{"content":"b"}}]}`}, "failed: 502 server_error upstream_stream_truncated: Upstream closed the stream before it was complete"},
		// covers: S11
		{"finish reason without DONE", native.Options{}, []string{delta(`"content":"a"`), stop}, choice(`"content":"a","refusal":null`, `"stop"`) + estimated},
		// covers: S13
		{"empty and unknown events", native.Options{}, []string{``, `  `, delta(`"content":"a"`), `{"ping":1}`, stop}, choice(`"content":"a","refusal":null`, `"stop"`) + `],"usage":{estimated},"ping":1}`},
		// covers: S20
		{"content after the finish reason", native.Options{}, []string{delta(`"content":"a"`), stop, delta(`"content":"b"`), `[DONE]`}, choice(`"content":"a","refusal":null`, `"stop"`) + estimated},
		// covers: S21
		{"a message in a stream", native.Options{}, []string{`{"id":"i","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}`, `[DONE]`},
			choice(`"content":"a","refusal":null`, `"stop"`) + estimated},
		{"a message with deltas", native.Options{}, []string{chunk(`"message":{"content":"ab"},"delta":{"content":"ab"}`), chunk(`"message":{"content":"abc"}`), stop},
			choice(`"content":"ab","refusal":null`, `"stop"`) + estimated},
		{"not JSON", native.Options{}, []string{delta(`"content":"a"`), `{"choices":[`}, "failed: 502 server_error upstream_bad_answer: The provider's response could not be read.: json: unexpected end of the document at byte 12"},
		{"not an object", native.Options{}, []string{`[1]`}, "failed: 502 server_error upstream_bad_answer: The provider's response could not be read.: array instead of an object"},
		{"an index out of range", native.Options{}, []string{`{"choices":[{"index":128,"delta":{}}]}`}, "failed: 502 server_error upstream_bad_answer: The provider's response could not be read.: a choice is not an object, or its index is out of range"},
		{"a choice that is not an object", native.Options{}, []string{`{"choices":[null]}`}, "failed: 502 server_error upstream_bad_answer: The provider's response could not be read.: a choice is not an object, or its index is out of range"},
		{"only DONE", native.Options{}, []string{`[DONE]`}, "failed: 502 server_error upstream_bad_answer: The provider's response has no choices."},
		{"choices without an index", native.Options{}, []string{`{"choices":[{"delta":{"content":"a"}}]}`, `{"choices":[{"finish_reason":"stop"}]}`}, choice(`"content":"a","refusal":null`, `"stop"`) + estimated},
		{"a custom tool", native.Options{}, []string{delta(`"tool_calls":[{"index":0,"id":"a","type":"custom","custom":{"name":"f","input":"print(1)"}}]`), stop},
			toolChoice(`{"id":"a","type":"function","function":{"name":"f","arguments":"print(1)"}}`)},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := blank(whole(t, c.o, c.chunks...)); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
			w := read(t, c.o, options(true, true), c.chunks...)
			if w.Started() {
				checkStream(t, w, true)
			}
		})
	}
}

var estimate = regexp.MustCompile(`"usage":\{[^{}]*"estimated":true\}`)

// blank replaces an estimated usage with the placeholder of estimated.
func blank(s string) string { return estimate.ReplaceAllString(s, `"usage":{estimated}`) }

// toolChoice returns the choices of a response with tool calls, and its usage.
func toolChoice(calls ...string) string {
	return choice(`"content":null,"refusal":null,"tool_calls":[`+strings.Join(calls, ",")+`]`, `"tool_calls"`) + estimated
}

// TestToolCallsInNonStreamingResponse checks that every entry is a separate call.
//
// covers: O5 O6
func TestToolCallsInNonStreamingResponse(t *testing.T) {
	got := whole(t, native.Options{}, `{"choices":[{"index":0,"message":{"content":"","tool_calls":[{"id":"","index":0,"function":{"name":"f","arguments":""}},`+
		`{"id":"","index":0,"function":{"name":"f","arguments":"{}"}},{"id":"x","function":{"name":"f"},"extra_content":{"g":1}},7]},"finish_reason":"stop"}]}`)
	ids := map[string]bool{}
	var a []struct {
		Message struct {
			ToolCalls []struct {
				ID       string
				Function struct{ Name, Arguments string }
				Extra    map[string]int `json:"extra_content"`
			} `json:"tool_calls"`
		}
		FinishReason string `json:"finish_reason"`
	}
	if err := json.NewDecoder(strings.NewReader(got)).Decode(&a); err != nil {
		t.Fatal(err)
	}
	calls := a[0].Message.ToolCalls
	for _, c := range calls {
		ids[c.ID] = true
		if c.Function.Name != "f" || c.Function.Arguments != "{}" {
			t.Errorf("got %+v", c)
		}
	}
	if len(calls) != 3 || len(ids) != 3 || ids[""] || !ids["x"] || calls[2].Extra["g"] != 1 || a[0].FinishReason != "tool_calls" {
		t.Errorf("got %s", got)
	}
}

func TestUsageVariants(t *testing.T) {
	cases := []struct{ name, usage, want string }{
		{"reasoning_tokens included in completion_tokens", `{"prompt_tokens":64,"completion_tokens":89,"total_tokens":153,"completion_tokens_details":{"reasoning_tokens":64}}`,
			`{"prompt_tokens":64,"completion_tokens":89,"total_tokens":153,"completion_tokens_details":{"reasoning_tokens":64}}`},
		{"xAI, reasoning_tokens not included", `{"prompt_tokens":432,"completion_tokens":68,"total_tokens":636,"completion_tokens_details":{"reasoning_tokens":136}}`,
			`{"prompt_tokens":432,"completion_tokens":204,"total_tokens":636,"completion_tokens_details":{"reasoning_tokens":136}}`},
		{"Gemini, total includes more tokens", `{"prompt_tokens":35,"completion_tokens":12,"total_tokens":109}`, `{"prompt_tokens":35,"completion_tokens":74,"total_tokens":109}`},
		{"only a total", `{"prompt_tokens":35,"total_tokens":50}`, `{"prompt_tokens":35,"completion_tokens":15,"total_tokens":50}`},
		{"a total below the sum", `{"prompt_tokens":35,"completion_tokens":12,"total_tokens":1}`, `{"prompt_tokens":35,"completion_tokens":12,"total_tokens":47}`},
		{"input_tokens and output_tokens", `{"input_tokens":3,"output_tokens":4}`, `{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}`},
		{"Moonshot", `{"prompt_tokens":3,"completion_tokens":4,"cached_tokens":2}`, `{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":2}}`},
		{"OpenRouter", `{"prompt_tokens":3,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":1,"cache_write_tokens":2,"audio_tokens":0,"video_tokens":5}}`,
			`{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":1,"cache_creation_tokens":2,"audio_tokens":0,"video_tokens":5}}`},
		{"cache not included in prompt_tokens", `{"prompt_tokens":3,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":100,"cache_creation_tokens":20}}`,
			`{"prompt_tokens":123,"completion_tokens":4,"total_tokens":127,"prompt_tokens_details":{"cached_tokens":100,"cache_creation_tokens":20}}`},
		{"invalid counts", `{"prompt_tokens":-3,"completion_tokens":"4","total_tokens":1.5}`, `{"prompt_tokens":7,"completion_tokens":1,"total_tokens":8,"estimated":true}`},
		{"nulls", `{"prompt_tokens":1,"completion_tokens":2,"prompt_tokens_details":null,"completion_tokens_details":null}`, `{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := whole(t, native.Options{}, delta(`"content":"a"`), stop, `{"choices":[],"usage":`+c.usage+`}`)
			if !strings.HasSuffix(got, `"usage":`+c.want+"}") {
				t.Errorf(" got %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestFinishReasons(t *testing.T) {
	want := map[string]string{
		"stop": "stop", "length": "length", "content_filter": "content_filter", "function_call": "function_call",
		"eos_token": "stop", "stop_sequence": "stop", "max_tokens": "length", "model_length": "length", "abort": "length",
		"SAFETY": "content_filter", "sensitive": "content_filter", "tool_use": "tool_calls", "something new": "stop",
	}
	for reason, finish := range want {
		got := whole(t, native.Options{}, delta(`"content":"a"`), chunk(`"delta":{},"finish_reason":"`+reason+`"`))
		tail := `"finish_reason":"` + finish + `"}`
		if reason != finish {
			tail = `"finish_reason":"` + finish + `","native_finish_reason":"` + reason + `"}`
		}
		if !strings.Contains(got, tail) {
			t.Errorf("%s gives %s", reason, got)
		}
	}
}

// TestCharactersSplitBetweenChunks splits characters in two, as some providers do.
//
// covers: S9
func TestCharactersSplitBetweenChunks(t *testing.T) {
	cases := []struct{ name, first, second, want string }{
		{"surrogate pair", `a\ud83d`, `\ude00b`, `a\ud83d\ude00b`},
		{"two bytes", "a\xc3", "\xa9b", "aéb"},
		{"three bytes, one first", "a\xe2", "\x82\xacb", "a€b"},
		{"three bytes, two first", "a\xe2\x82", "\xacb", "a€b"},
		{"four bytes", "\xf0\x9f", "\x98\x80", "😀"},
		{"high surrogate without a low one", `a\ud83d`, `b`, "a\uFFFDb"},
		{"high surrogate at the end", `a`, `\ud83d`, "a\uFFFD"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			want := choice(`"content":"`+c.want+`","refusal":null`, `"stop"`) + estimated
			if got := blank(whole(t, native.Options{}, delta(`"content":"`+c.first+`"`), delta(`"content":"`+c.second+`"`), stop)); got != want {
				t.Errorf("\n got %s\nwant %s", got, want)
			}
		})
	}
}

// TestLooseJSON reads invalid JSON that is still unambiguous: duplicate names and lone surrogates.
func TestLooseJSON(t *testing.T) {
	got := whole(t, native.Options{},
		`{"id":"i","bad":"\ud83d","good":1,"choices":[{"index":0,"index":0,"delta":{"content":"a","tool_calls":[{"id":"c","function":{"name":"f","arguments":{"x":"\ud83d"}}}]}}]}`,
		stop)
	want := choice(`"content":"a","refusal":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"x\":\"\\ud83d\"}"}}]`, `"tool_calls"`)
	if !strings.HasPrefix(got, want) || strings.Contains(got, "bad") || !strings.HasSuffix(got, `"good":1}`) {
		t.Errorf(" got %s\nwant %s", got, want)
	}
}

// TestThinkTagsSplitAnywhere splits texts with think tags at every position.
func TestThinkTagsSplitAnywhere(t *testing.T) {
	o := native.Options{ThinkTags: true, ReasoningFormat: "tags"}
	texts := []struct{ in, reasoning, content string }{
		{"<think>hm <b> </thin ok</think>\n\nanswer <think>no</think>", "hm <b> </thin ok", "answer <think>no</think>"},
		{"\n <think>\nhm", "hm", ""},
		{"<think></think>x", "", "x"},
		{" plain <think>", "", " plain <think>"},
		{"<thin", "", "<thin"},
		{"<think>a</thi", "a</thi", ""},
		{"  ", "", "  "},
	}
	for _, c := range texts {
		for at := range len(c.in) {
			escaped := func(s string) string {
				p, _ := json.Marshal(s) // escapes < and >, as many providers do
				return `"content":` + string(p)
			}
			got := whole(t, o, delta(escaped(c.in[:at])), delta(escaped(c.in[at:])), stop)
			var v []struct {
				Message struct {
					Content   string
					Reasoning string                          `json:"reasoning_content"`
					Details   []struct{ Text, Format string } `json:"reasoning_details"`
				}
			}
			if err := json.NewDecoder(strings.NewReader(got)).Decode(&v); err != nil {
				t.Fatal(err)
			}
			m := v[0].Message
			if m.Content != c.content || m.Reasoning != c.reasoning || len(m.Details) > 0 && (m.Details[0].Text != c.reasoning || m.Details[0].Format != "tags") {
				t.Errorf("%q cut at %d: %+v", c.in, at, m)
			}
		}
	}
}

func TestParseOptions(t *testing.T) {
	good := map[string]native.Options{
		"":                            {},
		" ":                           {},
		`{}`:                          {},
		`{"reasoning_format":"x"}`:    {ReasoningFormat: "x"},
		`{"think_tags":true,"new":1}`: {ThinkTags: true},
	}
	for in, want := range good {
		if got, err := native.ParseOptions([]byte(in)); err != nil || got != want {
			t.Errorf("%q gives %+v, %v", in, got, err)
		}
	}
	for _, in := range []string{`{`, `[]`, `{"think_tags":1}`, `{"reasoning_format":1}`, `{"reasoning_format":"` + strings.Repeat("x", 300) + `"}`} {
		if got, err := native.ParseOptions([]byte(in)); err == nil {
			t.Errorf("%q gives %+v", in, got)
		}
	}
}

func TestReaderReuse(t *testing.T) {
	var r native.Reader
	var b response.Batch
	w := openai.NewWriter()
	var first string
	for range 2 {
		r.Reset(native.Options{ThinkTags: true, ReasoningFormat: "f"})
		w.Reset(options(true, true))
		for _, c := range []string{
			`{"id":"i","model":"m","tier":"x","citations":["u"],"choices":[{"index":0,"delta":{"content":"<think>a</think>b"}},{"index":1,"delta":{"content":"<th"}}]}`,
			delta(`"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]`), stop, `[DONE]`,
		} {
			b.Reset()
			if err := r.ReadChunk([]byte(c), &b); err != nil {
				t.Fatal(err)
			}
			if err := w.Apply(&b); err != nil {
				t.Fatal(err)
			}
		}
		if first == "" {
			first = string(w.Output())
		} else if got := string(w.Output()); got != first {
			t.Errorf("first\n%s\nthen\n%s", first, got)
		}
	}
}

func TestRejectsHugeResponses(t *testing.T) {
	var calls []string
	for i := range 1100 {
		calls = append(calls, fmt.Sprintf(`{"index":%d,"id":"c%[1]d","function":{"name":"f"}}`, i))
	}
	if got := whole(t, native.Options{}, delta(`"tool_calls":[`+strings.Join(calls, ",")+`]`)); !strings.Contains(got, "upstream_bad_answer") {
		t.Errorf("got %.200s", got)
	}
	deep := strings.Repeat("[", 100) + strings.Repeat("]", 100)
	if got := whole(t, native.Options{}, delta(`"x":`+deep)); !strings.Contains(got, "upstream_bad_answer") {
		t.Errorf("got %.200s", got)
	}
}
