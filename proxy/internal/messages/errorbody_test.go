package messages_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/messages"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// covers: M8.1 M2.2
func TestErrorBody(t *testing.T) {
	e := apierror.Invalid("invalid_type", "messages.3.content.0.type", "Input should be a \"valid\" string\n")
	e.Provider, e.UpstreamStatus = "p", 400
	const want = `{"type":"error","error":{"type":"invalid_request_error","message":"messages.3.content.0.type: Input should be a \"valid\" string\n"},"request_id":"req_1"}`
	if got := string(messages.AppendError(nil, e, "req_1")); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	e = apierror.Fail(abi.FailModelNotFound, "", "", "No such model.")
	if got := string(messages.AppendError(nil, e, "")); got != `{"type":"error","error":{"type":"not_found_error","message":"model: No such model."}}` {
		t.Errorf("got %s", got)
	}
	e = apierror.Invalid("thread_already_continued", "", "Too late.")
	if got := string(messages.AppendError(nil, e, "")); got != `{"type":"error","error":{"type":"invalid_request_error","message":"Too late.","details":{"error_code":"thread_already_continued"}}}` {
		t.Errorf("got %s", got)
	}
	e = apierror.Invalid("", "", "No.")
	if got := string(messages.AppendError([]byte("x"), e, "")); got != `x{"type":"error","error":{"type":"invalid_request_error","message":"No."}}` {
		t.Errorf("got %s", got)
	}
}

// covers: M8.2
func TestErrorTypesAndStatuses(t *testing.T) {
	for _, c := range []struct {
		status, want int
		typ          string
	}{
		{400, 400, "invalid_request_error"},
		{401, 401, "authentication_error"},
		{402, 502, "api_error"},
		{403, 403, "permission_error"},
		{404, 404, "not_found_error"},
		{405, 405, "invalid_request_error"},
		{408, 408, "timeout_error"},
		{409, 409, "invalid_request_error"},
		{413, 413, "request_too_large"},
		{415, 415, "invalid_request_error"},
		{429, 429, "rate_limit_error"},
		{431, 431, "invalid_request_error"},
		{500, 500, "api_error"},
		{502, 502, "api_error"},
		{503, 529, "overloaded_error"},
		{504, 504, "timeout_error"},
	} {
		e := &apierror.Error{Status: c.status, Message: "m"}
		if got := messages.Status(e); got != c.want {
			t.Errorf("%d: status %d, want %d", c.status, got, c.want)
		}
		if got := string(messages.AppendError(nil, e, "r")); got != `{"type":"error","error":{"type":"`+c.typ+`","message":"m"},"request_id":"r"}` {
			t.Errorf("%d: %s", c.status, got)
		}
	}
	for kind := range abi.FailKind(abi.FailKinds) {
		e := apierror.Fail(kind, "", "", "")
		status, body := messages.Status(e), string(messages.AppendError(nil, e, "r"))
		if (status == 529) != strings.Contains(body, `"overloaded_error"`) || (status == 502) != strings.Contains(body, `"api_error"`) {
			t.Errorf("%d: %s", status, body)
		}
	}
}

// TestContextTooLong checks that the errors of all providers for a conversation that is too long get the wording that
// Claude Code parses for the numbers.
func TestContextTooLong(t *testing.T) {
	const (
		known   = "prompt is too long: 210000 tokens > 200000 maximum"
		output  = "input length and `max_tokens` exceed context limit: 150000 + 128000 > 200000, decrease input length or `max_tokens` and try again"
		unknown = "prompt is too long"
	)
	for _, c := range []struct{ name, message, want string }{
		// covers: M8.3 M8.4
		{"Anthropic", known, known},
		// covers: M8.3 M8.5
		{"Anthropic with output", output, output},
		// covers: M8.4
		{"OpenAI", "This model's maximum context length is 200000 tokens. However, your messages resulted in 210000 tokens. Please reduce the length of the messages.", known},
		{"DeepSeek", "This model's maximum context length is 200000 tokens. However, you requested 210000 tokens (210000 in the messages, 0 in the completion). Please reduce the length of the messages or completion.", known},
		// covers: M8.5
		{"DeepSeek with output", "This model's maximum context length is 200000 tokens. However, you requested 278000 tokens (150000 in the messages, 128000 in the completion). Please reduce the length of the messages or completion.", output},
		// covers: M8.4
		{"OpenRouter", "This endpoint's maximum context length is 200000 tokens. However, you requested about 210000 tokens (210000 of text input). Please reduce the length of either one", known},
		// covers: M8.5
		{"OpenRouter with output", "This endpoint's maximum context length is 200000 tokens. However, you requested about 278000 tokens (150000 of text input, 128000 in the output). Please reduce the length of either one", output},
		{"vLLM", "'max_tokens' or 'max_completion_tokens' is too large: 128000. This model's maximum context length is 200000 tokens and your request has 150000 input tokens (128000 > 200000 - 150000).", output},
		// covers: M8.4
		{"xAI", "This model's maximum prompt length is 200000 but the request contains 210000 tokens.", known},
		{"Gemini", "The input token count (210000) exceeds the maximum number of tokens allowed (200000).", known},
		{"Gemini without brackets", "The input token count 210000 exceeds the maximum number of tokens allowed 200,000.", known},
		{"Mistral", "Prompt contains 210000 tokens and 0 draft tokens, too large for model with 200000 maximum context length", known},
		{"Cohere", "too many tokens: total number of tokens in the prompt cannot exceed 200000 - received 210000. Try using a shorter prompt.", known},
		// covers: M8.5
		{"Together", "`inputs` tokens + `max_new_tokens` must be <= 200000. Given: 150000 `inputs` tokens and 128000 `max_new_tokens`", output},
		// covers: M8.4
		{"llama.cpp", "request (210000 tokens) exceeds the available context size (200000 tokens), try increasing it", known},
		{"Fireworks", "The prompt is too long: 210000, model maximum context length: 200000", known},
		// covers: M8.6
		{"Responses", "Your input exceeds the context window of this model. Please adjust your input and try again.", unknown},
		{"Bedrock", "Input is too long for requested model.", unknown},
		{"no message", "", unknown},
		{"implausible numbers", "This model's maximum context length is 200000 tokens. However, your messages resulted in 100 tokens.", unknown},
	} {
		e := apierror.Fail(abi.FailContextLength, "", "messages", c.message)
		var body struct {
			Error struct{ Type, Message string }
		}
		if err := json.Unmarshal(messages.AppendError(nil, e, "r"), &body); err != nil {
			t.Fatal(err)
		}
		if body.Error.Message != c.want || body.Error.Type != "invalid_request_error" || messages.Status(e) != 400 {
			t.Errorf("%s: %+v, want %s", c.name, body, c.want)
		}
	}
	// Other errors with the same words keep their message.
	e := apierror.Fail(abi.FailInvalidRequest, "", "messages", "The maximum context length is 5.")
	if got := string(messages.AppendError(nil, e, "")); !strings.Contains(got, `"messages: The maximum context length is 5."`) {
		t.Error(got)
	}
}
