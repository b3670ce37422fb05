package openai

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// recordedResponses is the directory with recorded traffic of clients and providers of the Responses API.
const recordedResponses = "../../proxy/internal/responses/testdata/"

// typed adds differences for messages of the input at these places, which the recorded client wrote without a type.
func typed(differs map[string]string, places ...string) map[string]string {
	all := map[string]string{}
	for _, place := range places {
		all["input["+place+"].type"] = `"message" for absent`
	}
	for path, values := range differs {
		all[path] = values
	}
	return all
}

// TestRecordedResponses replays the recorded conversations of Responses clients with a chat completions client: its
// requests must be translated to the recorded ones, and the message that the client receives is part of the next
// request.
func TestRecordedResponses(t *testing.T) {
	for name, test := range map[string]struct {
		first   string // request of the chat completions client
		target  string
		options string
		results []any
		message string // part of the response
		// The paths at which the requests that are built differ from the recorded ones.
		one, two map[string]string
	}{
		"stream-reasoning-summary-tool": {
			first: `{"model":"m","messages":[{"role":"developer","content":"You are a helpful assistant"},{"role":"user","content":[{"type":"text","text":"What's the weather in Florence, Italy?"}]}],` +
				`"reasoning_effort":"high","tool_choice":"auto","stream":true,` + weather + `}`,
			target: "gpt-5", options: `{"api":"responses","reasoning_summary":"auto"}`, results: []any{"40 C"}, message: `"name":"weather"`,
			one: typed(nil, "0", "1"),
			// The recorded client did not send the reasoning back, so the model reasoned again.
			two: typed(map[string]string{"input": ""}),
		},
		"stream-parallel-tools": {
			first: `{"model":"m","messages":[{"role":"system","content":"You are a helpful assistant. Always use both add and multiply at the same time."},` +
				`{"role":"user","content":[{"type":"text","text":"Add and multiply the number 2 and 3"}]}],"tool_choice":"auto","stream":true,"max_tokens":4000,` + sums + `}`,
			target: "gpt-4o", results: []any{"5", "6"}, message: `"name":"multiply"`,
			one: typed(nil, "0", "1"), two: typed(nil, "0", "1"),
		},
		"tool": {
			first: `{"model":"m","messages":[{"role":"system","content":"You are a helpful assistant"},{"role":"user","content":[{"type":"text","text":"What's the weather in Florence,Italy?"}]}],` +
				`"tool_choice":"auto","max_tokens":4000,` + weather + `}`,
			target: "gpt-4o", results: []any{"40 C"}, message: `"name":"weather"`,
			one: typed(nil, "0", "1"), two: typed(nil, "0", "1"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			options := test.options
			if options == "" {
				options = `{"api":"responses"}`
			}
			suite.EachForm(t, "", func(t *testing.T, b *plugintest.Binding) {
				v := &plugintest.Vector{Target: test.target, Options: []byte(options), Status: 200, Request: []byte(test.first)}
				files, err := filepath.Glob(recordedResponses + "recorded/" + name + "-t1.resp.*")
				if err != nil || len(files) != 1 {
					t.Fatalf("%v, %v", files, err)
				}
				if v.Response, err = os.ReadFile(files[0]); err != nil {
					t.Fatal(err)
				}
				if strings.HasSuffix(files[0], ".sse") {
					v.ContentType = "text/event-stream"
				}
				r := v.Run(b, false)
				plugintest.CheckDifferences(t, r.RequestBody(t), recordedRequest(t, name+"-t1"), test.one)
				if !strings.Contains(r.Response, test.message) {
					t.Errorf("the client receives %s, want %s", r.Response, test.message)
				}
				streamed := v.Run(b, true)
				next := v.FollowUp(t, r.Message(t), test.results...)
				body := next.Run(b, false).RequestBody(t)
				if _, differs := test.two["input"]; differs {
					checkEncryptedTurn(t, body["input"].([]any))
				} else {
					plugintest.CheckDifferences(t, body, recordedRequest(t, name+"-t2"), test.two)
				}
				// A client that assembled the message from a stream sends the same request.
				other := v.FollowUp(t, streamed.Message(t), test.results...).Run(b, false).RequestBody(t)
				plugintest.CheckDifferences(t, other, body, map[string]string{})
			})
		})
	}
}

func recordedRequest(t *testing.T, name string) map[string]any {
	t.Helper()
	p, err := os.ReadFile(recordedResponses + "requests/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return plugintest.Object(t, p)
}

// checkEncryptedTurn checks that a turn with a tool call is sent with its encrypted reasoning before the call.
func checkEncryptedTurn(t *testing.T, input []any) {
	t.Helper()
	var kinds []string
	for _, item := range input {
		item := item.(map[string]any)
		kind := item["type"].(string)
		kinds = append(kinds, kind)
		if kind == "reasoning" && !strings.HasPrefix(item["encrypted_content"].(string), "gAAAA") {
			t.Errorf("unexpected reasoning item %v", item)
		}
	}
	if got := strings.Join(kinds, " "); got != "message message reasoning function_call function_call_output" {
		t.Errorf("input %s", got)
	}
}

// TestErrorsOfResponses checks that an error response in the format of the Responses API is understood.
func TestErrorsOfResponses(t *testing.T) {
	b := suite.Bind(t, plugintest.Native)
	for status, want := range map[int]string{400: `"code":"context_length_exceeded"`, 429: `"code":"rate_limit_exceeded"`} {
		v := plugintest.Vector{Target: "gpt-5.4", Options: []byte(`{"api":"responses"}`), Status: status, Request: []byte(plugintest.Hello), ContentType: "application/json"}
		v.Response = []byte(`{"error":{"message":"Your input exceeds the context window of this model.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}`)
		if status == 429 {
			v.Response = []byte(`{"error":{"message":"Slow down.","type":"requests","param":null,"code":"rate_limit_exceeded"}}`)
		}
		if r := v.Run(b, true); !strings.Contains(r.Response, want) {
			t.Errorf("status %d: %s, want %s", status, r.Response, want)
		}
	}
}
