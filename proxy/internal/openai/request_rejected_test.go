package openai_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
)

// toolCalls returns an assistant message with tool calls with these IDs.
func toolCalls(ids ...string) string {
	calls := make([]string, len(ids))
	for i, id := range ids {
		calls[i] = fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":"f","arguments":"{}"}}`, id)
	}
	return `{"role":"assistant","content":null,"tool_calls":[` + strings.Join(calls, ",") + `]}`
}

// toolResult returns the tool message for a call.
func toolResult(id string) string {
	return fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":"done"}`, id)
}

const (
	userMessage  = `{"role":"user","content":"hello"}`
	functionCall = `{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}}`
	oneTool      = `{"type":"function","function":{"name":"f"}}`
)

func TestParseRejects(t *testing.T) {
	roles := `'system', 'developer', 'user', 'assistant', 'tool', 'function'`
	for _, test := range []struct{ name, body, param, code, message string }{
		// covers: V2
		{"no model", `{"messages":[]}`, "model", "missing_required_parameter", "The required parameter 'model' is missing."},
		{"model of the wrong type", `{"model":5,"messages":[]}`, "model", "invalid_type", "'model' must be a string, not an integer."},
		{"null model", `{"model":null,"messages":[]}`, "model", "invalid_type", "'model' must be a string, not null."},
		{"empty model", `{"model":"","messages":[]}`, "model", "empty_string", "'model' must not be empty."},
		// covers: F117
		{"U+0000 in the model", `{"model":"a\u0000b","messages":[]}`, "model", "invalid_value", "'model' must not contain the character U+0000."},

		// covers: V5
		{"no messages", `{"model":"m"}`, "messages", "missing_required_parameter", "The required parameter 'messages' is missing."},
		{"null messages", `{"model":"m","messages":null}`, "messages", "invalid_type", "'messages' must be an array, not null."},
		{"empty messages", requestWithMessages(), "messages", "empty_array", "'messages' must have at least one element."},
		{"unknown role", requestWithMessages(userMessage, userMessage, `{"role":"wizard","content":"x"}`), "messages[2].role", "invalid_value", "'messages[2].role' is 'wizard', but must be one of " + roles + "."},
		{"role in capitals", requestWithMessages(`{"role":"User","content":"x"}`), "messages[0].role", "invalid_value", "'messages[0].role' is 'User', but must be one of " + roles + "."},
		{"no role", requestWithMessages(`{"content":"x"}`), "messages[0].role", "missing_required_parameter", "The required parameter 'messages[0].role' is missing."},
		{"tool without tool_call_id", requestWithMessages(userMessage, userMessage, toolCalls("a"), `{"role":"tool","content":"x"}`), "messages[3].tool_call_id", "missing_required_parameter", "The required parameter 'messages[3].tool_call_id' is missing."},
		// covers: F125
		{"a long role is truncated in the message", requestWithMessages(`{"role":"` + strings.Repeat("é", 5000) + `"}`), "messages[0].role", "invalid_value", "'messages[0].role' is '" + strings.Repeat("é", 32) + "…', but must be one of " + roles + "."},
		{"a role is escaped in the message", requestWithMessages(`{"role":"a'\"\r\n\u202e\u0000"}`), "messages[0].role", "invalid_value", `'messages[0].role' is 'a\'"\r\n\u202e\x00', but must be one of ` + roles + "."},

		// covers: V6
		{"no call at all", requestWithMessages(userMessage, toolResult("call_x")), "messages[1].tool_call_id", "invalid_value", "'messages[1].tool_call_id' is 'call_x', but the assistant message before it has no tool call with this id."},
		{"no such call", requestWithMessages(toolCalls("a"), toolResult("b")), "messages[1].tool_call_id", "invalid_value", "'messages[1].tool_call_id' is 'b', but the assistant message before it has no tool call with this id."},
		{"call of an earlier turn", requestWithMessages(toolCalls("a"), toolResult("a"), userMessage, toolResult("a")), "messages[3].tool_call_id", "invalid_value", "'messages[3].tool_call_id' is 'a', but the assistant message before it has no tool call with this id."},
		{"answered twice", requestWithMessages(toolCalls("a", "b"), toolResult("a"), toolResult("a")), "messages[2].tool_call_id", "invalid_value", "'messages[2].tool_call_id' is 'a', a tool call that an earlier message has answered."},
		{"never answered", requestWithMessages(userMessage, toolCalls("a", "b"), toolResult("a"), userMessage), "messages[1].tool_calls[1].id", "invalid_value", "The tool call 'b' is not answered: a message with the role 'tool' and this 'tool_call_id' must follow the message that makes it."},
		{"never answered, another call follows", requestWithMessages(toolCalls("a"), toolCalls("b"), toolResult("b")), "messages[0].tool_calls[0].id", "invalid_value", "The tool call 'a' is not answered: a message with the role 'tool' and this 'tool_call_id' must follow the message that makes it."},
		{"never answered at the end", requestWithMessages(userMessage, toolCalls("a")), "messages[1].tool_calls[0].id", "invalid_value", "The tool call 'a' is not answered: a message with the role 'tool' and this 'tool_call_id' must follow the message that makes it."},
		{"duplicate id", requestWithMessages(toolCalls("a", "a"), toolResult("a")), "messages[0].tool_calls[1].id", "invalid_value", "'messages[0].tool_calls[1].id' is 'a', which is the id of another tool call of the same message."},
		{"duplicate id, once escaped", requestWithMessages(`{"role":"assistant","tool_calls":[{"id":"ab","type":"function","function":{"name":"f"}},{"id":"a\u0062","type":"function","function":{"name":"f"}}]}`), "messages[0].tool_calls[1].id", "invalid_value", "'messages[0].tool_calls[1].id' is 'ab', which is the id of another tool call of the same message."},

		// covers: V7
		{"tool_choice without tools", requestWith(`,"tool_choice":"any"`), "tool_choice", "invalid_value", "'tool_choice' is only allowed when there are 'tools'."},
		{"tool_choice with null tools", requestWith(`,"tool_choice":"required","tools":null`), "tool_choice", "invalid_value", "'tool_choice' is only allowed when there are 'tools'."},
		{"unknown tool_choice", requestWith(`,"tool_choice":"some","tools":[` + oneTool + `]`), "tool_choice", "invalid_value", "'tool_choice' is 'some', but must be one of 'none', 'auto', 'required'."},
		{"tool_choice of an unknown tool", requestWith(`,"tool_choice":{"type":"function","function":{"name":"g"}},"tools":[` + oneTool + `]`), "tool_choice.function.name", "invalid_value", "'tool_choice.function.name' is 'g', but no tool has this name."},
		{"tool_choice of a tool of another type", requestWith(`,"tool_choice":{"type":"custom","custom":{"name":"f"}},"tools":[` + oneTool + `]`), "tool_choice.custom.name", "invalid_value", "'tool_choice.custom.name' is 'f', but no tool has this name."},
		{"tool_choice of unknown type", requestWith(`,"tool_choice":{"type":"tool"},"tools":[` + oneTool + `]`), "tool_choice.type", "invalid_value", "'tool_choice.type' is 'tool', but must be one of 'function', 'custom', 'allowed_tools'."},
		{"allowed tools with an unknown mode", requestWith(`,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"x","tools":[]}},"tools":[` + oneTool + `]`), "tool_choice.allowed_tools.mode", "invalid_value", "'tool_choice.allowed_tools.mode' is 'x', but must be one of 'auto', 'required'."},
		{"unknown allowed tool", requestWith(`,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"g"}}]}},"tools":[` + oneTool + `]`), "tool_choice.allowed_tools.tools[0].function.name", "invalid_value", "'tool_choice.allowed_tools.tools[0].function.name' is 'g', but no tool has this name."},
		{"more allowed tools than tools", requestWith(`,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{},{}]}},"tools":[` + oneTool + `]`), "tool_choice.allowed_tools.tools", "array_above_max_length", "'tool_choice.allowed_tools.tools' has 2 elements, but at most 1 are allowed."},
		{"function_call without functions", requestWith(`,"function_call":{"name":"f"}`), "function_call", "invalid_value", "'function_call' is only allowed when there are 'functions'."},
		{"function_call of an unknown function", requestWith(`,"function_call":{"name":"f"},"functions":[{"name":"g"}]`), "function_call.name", "invalid_value", "'function_call.name' is 'f', but no tool has this name."},
		{"function_call required", requestWith(`,"function_call":"required","functions":[{"name":"g"}]`), "function_call", "invalid_value", "'function_call' is 'required', but must be one of 'none', 'auto'."},

		// covers: V8
		{"temperature of the wrong type", requestWith(`,"temperature":"hot"`), "temperature", "invalid_type", "'temperature' must be a number, not a string."},
		{"temperature above", requestWith(`,"temperature":2.1`), "temperature", "decimal_above_max_value", "'temperature' is 2.1, above the maximum of 2."},
		{"temperature below", requestWith(`,"temperature":-0.01`), "temperature", "decimal_below_min_value", "'temperature' is -0.01, below the minimum of 0."},
		{"temperature far above", requestWith(`,"temperature":1e308`), "temperature", "decimal_above_max_value", "'temperature' is 1e308, above the maximum of 2."},
		{"top_p above", requestWith(`,"top_p":1.0001`), "top_p", "decimal_above_max_value", "'top_p' is 1.0001, above the maximum of 1."},
		{"top_p below", requestWith(`,"top_p":-1`), "top_p", "decimal_below_min_value", "'top_p' is -1, below the minimum of 0."},
		{"penalty above", requestWith(`,"presence_penalty":2.5`), "presence_penalty", "decimal_above_max_value", "'presence_penalty' is 2.5, above the maximum of 2."},
		{"penalty below", requestWith(`,"frequency_penalty":-3`), "frequency_penalty", "decimal_below_min_value", "'frequency_penalty' is -3, below the minimum of -2."},
		{"top_logprobs above", requestWith(`,"logprobs":true,"top_logprobs":21`), "top_logprobs", "integer_above_max_value", "'top_logprobs' is 21, above the maximum of 20."},
		{"top_logprobs without logprobs", requestWith(`,"top_logprobs":5`), "top_logprobs", "invalid_value", "'top_logprobs' is only allowed when 'logprobs' is true."},
		{"top_logprobs with logprobs off", requestWith(`,"top_logprobs":0,"logprobs":false`), "top_logprobs", "invalid_value", "'top_logprobs' is only allowed when 'logprobs' is true."},
		{"bias above", requestWith(`,"logit_bias":{"1":100,"2":100.5}`), "logit_bias.2", "decimal_above_max_value", "'logit_bias.2' is 100.5, above the maximum of 100."},
		{"bias with a quoted name", requestWith(`,"logit_bias":{"a b'":-101}`), `logit_bias['a b\'']`, "decimal_below_min_value", `'logit_bias['a b\'']' is -101, below the minimum of -100.`},
		{"metadata with a long name", requestWith(`,"metadata":{"` + strings.Repeat("n", 100) + `":1}`), "metadata['" + strings.Repeat("n", 64) + "…']", "invalid_type", "'metadata['" + strings.Repeat("n", 64) + "…']' must be a string, not an integer."},

		// covers: F118
		{"max_tokens 0", requestWith(`,"max_tokens":0`), "max_tokens", "integer_below_min_value", "'max_tokens' is 0, below the minimum of 1."},
		{"max_tokens -0", requestWith(`,"max_tokens":-0`), "max_tokens", "integer_below_min_value", "'max_tokens' is -0, below the minimum of 1."},
		{"max_tokens -2", requestWith(`,"max_tokens":-2`), "max_tokens", "integer_below_min_value", "'max_tokens' is -2, below the minimum of 1."},
		{"max_tokens 1.5", requestWith(`,"max_tokens":1.5`), "max_tokens", "invalid_type", "'max_tokens' must be an integer, not a decimal number."},
		{"max_tokens 5.0", requestWith(`,"max_tokens":5.0`), "max_tokens", "invalid_type", "'max_tokens' must be an integer, not a decimal number."},
		{"max_tokens 1e18", requestWith(`,"max_tokens":1e18`), "max_tokens", "invalid_type", "'max_tokens' must be an integer, not a decimal number."},
		{"max_tokens as a string", requestWith(`,"max_tokens":"5"`), "max_tokens", "invalid_type", "'max_tokens' must be an integer, not a string."},
		{"max_tokens 10^18", requestWith(`,"max_tokens":1000000000000000000`), "max_tokens", "integer_above_max_value", "'max_tokens' is 1000000000000000000, above the maximum of 2147483647."},
		{"max_tokens of 300 digits", requestWith(`,"max_tokens":` + strings.Repeat("9", 300)), "max_tokens", "integer_above_max_value", "'max_tokens' is " + strings.Repeat("9", 64) + "…, above the maximum of 2147483647."},
		{"max_completion_tokens of minus 300 digits", requestWith(`,"max_completion_tokens":-` + strings.Repeat("9", 300)), "max_completion_tokens", "integer_below_min_value", "'max_completion_tokens' is -" + strings.Repeat("9", 63) + "…, below the minimum of 1."},
		{"seed beyond 64 bits", requestWith(`,"seed":9223372036854775808`), "seed", "integer_above_max_value", "'seed' is 9223372036854775808, above the maximum of 9223372036854775807."},
		// covers: F126
		{"n 1000", requestWith(`,"n":1000`), "n", "integer_above_max_value", "'n' is 1000, above the maximum of 128."},
		{"n 0", requestWith(`,"n":0`), "n", "integer_below_min_value", "'n' is 0, below the minimum of 1."},

		// covers: S6
		{"stream_options without stream", requestWith(`,"stream_options":{"include_usage":true}`), "stream_options", "invalid_value", "'stream_options' is only allowed when 'stream' is true."},
		{"stream_options with stream false", requestWith(`,"stream_options":{},"stream":false`), "stream_options", "invalid_value", "'stream_options' is only allowed when 'stream' is true."},

		{"thinking without a type", requestWith(`,"thinking":{"budget_tokens":5}`), "thinking.type", "missing_required_parameter", "The required parameter 'thinking.type' is missing."},
		{"thinking of an unknown type", requestWith(`,"thinking":{"type":"on"}`), "thinking.type", "invalid_value", "'thinking.type' is 'on', but must be one of 'enabled', 'disabled', 'adaptive'."},
		{"thinking with budget 0", requestWith(`,"thinking":{"type":"enabled","budget_tokens":0}`), "thinking.budget_tokens", "integer_below_min_value", "'thinking.budget_tokens' is 0, below the minimum of 1."},
		// covers: T9
		{"unknown effort", requestWith(`,"reasoning_effort":"ultra"`), "reasoning_effort", "invalid_value", "'reasoning_effort' is 'ultra', but must be one of 'none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'."},
		{"response format without a type", requestWith(`,"response_format":{}`), "response_format.type", "missing_required_parameter", "The required parameter 'response_format.type' is missing."},
		{"response format without a schema", requestWith(`,"response_format":{"type":"json_schema"}`), "response_format.json_schema", "missing_required_parameter", "The required parameter 'response_format.json_schema' is missing."},
		{"tool_choice with empty tools", requestWith(`,"tools":[],"tool_choice":"required"`), "tool_choice", "invalid_value", "'tool_choice' is only allowed when there are 'tools'."},
		{"tool of an unknown type", requestWith(`,"tools":[{"type":"web_search"}]`), "tools[0].type", "invalid_value", "'tools[0].type' is 'web_search', but must be one of 'function', 'custom'."},
		{"tool without a name", requestWith(`,"tools":[{"type":"function","function":{"name":""}}]`), "tools[0].function.name", "empty_string", "'tools[0].function.name' must not be empty."},
		{"tool with a long name", requestWith(`,"tools":[{"type":"function","function":{"name":"` + strings.Repeat("n", 257) + `"}}]`), "tools[0].function.name", "string_above_max_length", "'tools[0].function.name' has 257 bytes, but at most 256 are allowed."},

		{"unknown part", requestWithMessages(userMessage, `{"role":"user","content":[{"type":"text","text":""},{"type":"video","video":{}}]}`), "messages[1].content[1].type", "invalid_value", "'messages[1].content[1].type' is 'video', but must be one of 'text', 'image_url', 'input_audio', 'file', 'video_url'."},
		{"image in a system message", requestWithMessages(`{"role":"system","content":[{"type":"image_url","image_url":{"url":"u"}}]}`), "messages[0].content[0].type", "invalid_value", "'messages[0].content[0].type' is 'image_url', but must be 'text'."},
		{"content without parts", requestWithMessages(`{"role":"user","content":[]}`), "messages[0].content", "missing_required_parameter", "The required parameter 'messages[0].content' is missing."},
		{"null content of a user", requestWithMessages(`{"role":"user","content":null}`), "messages[0].content", "invalid_type", "'messages[0].content' must be a string or an array of content parts, not null."},
		{"is_error of the wrong type", requestWithMessages(toolCalls("a"), `{"role":"tool","tool_call_id":"a","is_error":"yes"}`), "messages[1].is_error", "invalid_type", "'messages[1].is_error' must be a boolean, not a string."},
		{"a video in a tool message", requestWithMessages(toolCalls("a"), `{"role":"tool","tool_call_id":"a","content":[{"type":"video_url","video_url":{"url":"u"}}]}`), "messages[1].content[0].type", "invalid_value", "'messages[1].content[0].type' is 'video_url', but must be one of 'text', 'image_url', 'file'."},
		{"a video without a URL", requestWithMessages(`{"role":"user","content":[{"type":"video_url","video_url":{}}]}`), "messages[0].content[0].video_url.url", "missing_required_parameter", "The required parameter 'messages[0].content[0].video_url.url' is missing."},
		{"a file without data", requestWithMessages(`{"role":"user","content":[{"type":"file","file":{"filename":"f"}}]}`), "messages[0].content[0].file.file_data", "missing_required_parameter", "The required parameter 'messages[0].content[0].file.file_data' is missing."},
		{"a function message without a call", requestWithMessages(userMessage, `{"role":"function","name":"f","content":"x"}`), "messages[1].name", "invalid_value", "'messages[1].name' is 'f', but the assistant message before it has no unanswered function_call of this name."},
		{"a second result of a function call", requestWithMessages(functionCall, `{"role":"function","name":"f"}`, `{"role":"function","name":"f"}`), "messages[2].name", "invalid_value", "'messages[2].name' is 'f', but the assistant message before it has no unanswered function_call of this name."},
		{"the result of another function", requestWithMessages(functionCall, `{"role":"function","name":"g"}`), "messages[1].name", "invalid_value", "'messages[1].name' is 'g', but the assistant message before it has no unanswered function_call of this name."},
		{"a function call without a result", requestWithMessages(functionCall, userMessage), "messages[0].function_call", "invalid_value", "The function_call of 'f' is not answered: a message with the role 'function' and this 'name' must follow the message that makes it."},
		{"tool_calls of a user", requestWithMessages(`{"role":"user","content":"","tool_calls":[{}]}`), "messages[0].tool_calls", "unknown_parameter", "'messages[0].tool_calls' is only allowed in messages with the role 'assistant'."},
		{"a tool call without an id", requestWithMessages(toolCalls("")), "messages[0].tool_calls[0].id", "empty_string", "'messages[0].tool_calls[0].id' must not be empty."},
		{"a tool call of an unknown type", requestWithMessages(`{"role":"assistant","tool_calls":[{"id":"a","type":"x"}]}`), "messages[0].tool_calls[0].type", "invalid_value", "'messages[0].tool_calls[0].type' is 'x', but must be one of 'function', 'custom'."},
	} {
		t.Run(test.name, func(t *testing.T) {
			var r openai.Request
			e := r.Parse([]byte(test.body), clientapi.Limits{})
			if e == nil {
				t.Fatal("the request was accepted")
			}
			want := fmt.Sprintf(`{"error":{"message":%s,"type":"invalid_request_error","param":%s,"code":%q}}`, quoted(t, test.message), quoted(t, test.param), test.code)
			if got := string(clientapi.AppendErrorBody(nil, e)); e.Status != 400 || e.TryNext || got != want {
				t.Errorf("got  %d %s\nwant %s", e.Status, got, want)
			}
		})
	}
}

// quoted returns s as a JSON string, without the escapes for HTML.
func quoted(t *testing.T, s string) string {
	t.Helper()
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func TestParseAcceptsToolResultsInAnyOrder(t *testing.T) {
	ids := []string{"call_a", "b", "c", "d"}
	for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}} {
		messages := []string{userMessage, toolCalls(ids...)}
		for _, i := range order {
			messages = append(messages, toolResult(ids[i]))
		}
		// The next turn may reuse an id.
		messages = append(messages, toolCalls("b"), `{"role":"tool","tool_call_id":"\u0062","content":"x"}`, userMessage)
		var r openai.Request
		if e := r.Parse([]byte(requestWithMessages(messages...)), clientapi.Limits{}); e != nil {
			t.Errorf("V6/order %v: %v", order, e)
		}
	}
}

func TestLimitErrorsNameTheLimit(t *testing.T) {
	many := func(n int, element string) string {
		return "[" + strings.Repeat(element+",", n-1) + element + "]"
	}
	members := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"%d":"1"`, i)
		}
		return "{" + b.String()[1:] + "}"
	}
	calls := make([]string, 129)
	for i := range calls {
		calls[i] = fmt.Sprint("call_", i)
	}
	for _, test := range []struct {
		name, body     string
		limits         clientapi.Limits
		param, message string // empty if the request is accepted
	}{
		// covers: F124
		{"100,000 messages", `{"model":"m","messages":` + many(100_000, userMessage) + `}`, clientapi.Limits{}, "", ""},
		{"100,001 messages", `{"model":"m","messages":` + many(100_001, userMessage) + `}`, clientapi.Limits{}, "messages", "'messages' has 100001 elements, but at most 100000 are allowed."},
		{"configured limit", requestWithMessages(userMessage, userMessage, userMessage), clientapi.Limits{Messages: 2}, "messages", "'messages' has 3 elements, but at most 2 are allowed."},
		{"5 MiB", requestWithMessages(`{"role":"user","content":"` + strings.Repeat("x", 5<<20) + `"}`), clientapi.Limits{}, "", ""},
		{"20 MiB image", requestWithMessages(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.Repeat("A", 20<<20) + `"}}]}`), clientapi.Limits{}, "", ""},
		{"too many values", requestWith(`,"x":` + many(1<<20, "0")), clientapi.Limits{}, "-", "The request body could not be parsed as JSON: the document has more than 1048576 values"},
		// covers: F126
		{"stop of 16", requestWith(`,"stop":` + many(16, `"x"`)), clientapi.Limits{}, "", ""},
		{"stop of 1,000", requestWith(`,"stop":` + many(1000, `"x"`)), clientapi.Limits{}, "stop", "'stop' has 1000 elements, but at most 16 are allowed."},
		{"logit_bias of 100,000", requestWith(`,"logit_bias":` + members(100_000)), clientapi.Limits{}, "logit_bias", "'logit_bias' has 100000 members, but at most 1024 are allowed."},
		{"metadata of 17", requestWith(`,"metadata":` + members(17)), clientapi.Limits{}, "metadata", "'metadata' has 17 members, but at most 16 are allowed."},
		{"1024 tools", requestWith(`,"tools":` + many(1024, oneTool)), clientapi.Limits{}, "", ""},
		{"too many tools", requestWith(`,"tools":` + many(1025, oneTool)), clientapi.Limits{}, "tools", "'tools' has 1025 elements, but at most 1024 are allowed."},
		{"too many tool calls", requestWithMessages(toolCalls(calls...)), clientapi.Limits{}, "messages[0].tool_calls", "'messages[0].tool_calls' has 129 elements, but at most 128 are allowed."},
		{"configured depth", requestWith(`,"x":[[]]`), clientapi.Limits{Depth: 2}, "-", "The request body could not be parsed as JSON: the document is nested deeper than 2 levels"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if testing.Short() && test.param != "-" && len(test.body) > 1<<20 {
				t.Skip("reads megabytes")
			}
			var r openai.Request
			e := r.Parse([]byte(test.body), test.limits)
			switch {
			case test.param == "":
				if e != nil {
					t.Fatal(e)
				}
			case e == nil || e.Status != 400 || !strings.HasPrefix(e.Message, test.message):
				t.Fatalf("got %v, want %s", e, test.message)
			case test.param != "-" && e.Param != test.param:
				t.Errorf("param is %q, want %q", e.Param, test.param)
			}
		})
	}
}

// TestErrorsDoNotQuotePrompt checks that errors quote nothing of the prompt.
func TestErrorsDoNotQuotePrompt(t *testing.T) {
	const secret = "the treasure is under the oak"
	for _, body := range []string{
		`{"model":"m","messages":[{"role":"user","content":"` + secret + `"}],"messages":1}`,
		`{"model":"m","messages":[{"role":"user","content":"` + secret + "\n\"}]}",
		`{"model":"m","messages":"` + secret + `"}`,
		requestWithMessages(`{"role":"user","content":{"text":"` + secret + `"}}`),
		requestWithMessages(`{"role":"user","content":[{"type":"text","text":["` + secret + `"]}]}`),
		requestWithMessages(`{"role":"user","content":["` + secret + `"]}`),
		requestWithMessages(`{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":{"a":"` + secret + `"}}}]}`),
		requestWith(`,"stop":[{"x":"` + secret + `"}]`),
		requestWith(`,"temperature":"` + secret + `"`),
	} {
		var r openai.Request
		e := r.Parse([]byte(body), clientapi.Limits{})
		if e == nil {
			t.Errorf("the request was accepted: %s", body)
			continue
		}
		if strings.Contains(e.Error()+string(clientapi.AppendErrorBody(nil, e)), "treasure") {
			t.Errorf("the error contains the prompt: %v", e)
		}
	}
}

// TestValidationIsLinear validates requests that would take minutes in quadratic time.
func TestValidationIsLinear(t *testing.T) {
	if testing.Short() {
		t.Skip("validates megabytes")
	}
	const maxTime = 20 * time.Second
	ids := make([]string, 128)
	reversed := ""
	for i := range ids {
		ids[i] = fmt.Sprintf("call_%s_%d", strings.Repeat("x", 40), i)
		reversed = "," + toolResult(ids[i]) + reversed
	}
	turns := strings.Repeat(","+toolCalls(ids...)+reversed, 400)
	var members strings.Builder
	for i := range 900 {
		fmt.Fprintf(&members, `"m%d":0,`, i)
	}
	wide := `{"type":"function",` + members.String() + `"function":{"name":"f"}}`
	for name, body := range map[string]string{
		"calls answered in reverse": requestWithMessages(userMessage + turns),
		"allowed tools among wide tools": requestWith(`,"tools":[` + strings.Repeat(wide+",", 500) + oneTool + `],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[` +
			strings.Repeat(oneTool+",", 499) + oneTool + `]}}`),
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			var r openai.Request
			if e := r.Parse([]byte(body), clientapi.Limits{}); e != nil {
				t.Fatal(e)
			}
			if took := time.Since(began); took > maxTime {
				t.Errorf("took %v, want at most %v", took, maxTime)
			}
		})
	}
}
