package openai_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// everyMember is a valid request with every member that the gateway checks.
const everyMember = `{
  "model": "m", "stream": true, "stream_options": {"include_usage": true, "include_obfuscation": false},
  "temperature": 1, "top_p": 0.5, "presence_penalty": -1.5, "frequency_penalty": 2, "n": 2, "seed": -7,
  "max_tokens": 100, "max_completion_tokens": 200,
  "thinking": {"type": "enabled", "budget_tokens": 1024}, "reasoning_effort": "high",
  "response_format": {"type": "json_schema", "json_schema": {"name": "s", "description": "d", "schema": {}, "strict": true}},
  "stop": ["a", "b"], "logit_bias": {"50256": -100}, "logprobs": true, "top_logprobs": 20,
  "metadata": {"k": "v"}, "modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "wav"},
  "parallel_tool_calls": false, "store": false, "prediction": {}, "web_search_options": {},
  "user": "u", "safety_identifier": "i", "prompt_cache_key": "k", "prompt_cache_retention": "24h", "service_tier": "auto", "verbosity": "low",
  "tools": [
    {"type": "function", "cache_control": {}, "function": {"name": "f", "description": "d", "parameters": {}, "strict": false}},
    {"type": "custom", "custom": {"name": "c", "description": "d", "format": {}}}],
  "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]}},
  "functions": [{"name": "g", "description": "d", "parameters": {}}], "function_call": {"name": "g"},
  "messages": [
    {"role": "developer", "content": "text", "name": "n", "cache_control": {"type": "ephemeral"}},
    {"role": "user", "content": [
      {"type": "text", "text": "t", "cache_control": {}}, {"type": "image_url", "image_url": {"url": "u", "detail": "low"}},
      {"type": "input_audio", "input_audio": {"data": "d", "format": "wav"}}, {"type": "file", "file": {"file_data": "d", "file_id": "i", "filename": "n"}}]},
    {"role": "assistant", "content": [{"type": "text", "text": "t"}, {"type": "refusal", "refusal": "r"}], "refusal": "r", "audio": {"id": "a"},
      "reasoning_content": "r", "reasoning_details": [{}], "thinking_blocks": [{}], "function_call": {"name": "g", "arguments": ""},
      "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}, {"id": "2", "type": "custom", "custom": {"name": "c", "input": "x"}}]},
    {"role": "tool", "tool_call_id": "1", "content": "t"},
    {"role": "tool", "tool_call_id": "2", "content": [{"type": "text", "text": "t"}]},
    {"role": "function", "name": "g", "content": "t"}]
}`

// schema has a line for each member with its JSON pointer and its allowed kinds: s string, i integer, d decimal number,
// b boolean, o object, a array. "?" marks an optional member, which may also be null; "~" one that is optional but
// needed by another member of the request; "!" a required one.
const schema = `
/model s!
/messages a!
/stream b~
/stream_options o?
/stream_options/include_usage b?
/stream_options/include_obfuscation b?
/temperature di?
/top_p di?
/presence_penalty di?
/frequency_penalty di?
/n i?
/seed i?
/max_tokens i?
/max_completion_tokens i?
/thinking o?
/thinking/type s!
/thinking/budget_tokens i?
/reasoning_effort s?
/response_format o?
/response_format/type s!
/response_format/json_schema o!
/response_format/json_schema/name s!
/response_format/json_schema/description s?
/response_format/json_schema/schema o?
/response_format/json_schema/strict b?
/stop sa?
/stop/1 s
/logit_bias o?
/logit_bias/50256 di
/logprobs b~
/top_logprobs i?
/metadata o?
/metadata/k s
/modalities a?
/modalities/0 s
/audio o?
/parallel_tool_calls b?
/store b?
/prediction o?
/web_search_options o?
/user s?
/safety_identifier s?
/prompt_cache_key s?
/prompt_cache_retention s?
/service_tier s?
/verbosity s?
/tools a~
/tools/0 o
/tools/0/type s!
/tools/0/cache_control o?
/tools/0/function o!
/tools/0/function/name s!
/tools/0/function/description s?
/tools/0/function/parameters o?
/tools/0/function/strict b?
/tools/1/custom o!
/tools/1/custom/name s!
/tools/1/custom/description s?
/tools/1/custom/format o?
/tool_choice so?
/tool_choice/type s!
/tool_choice/allowed_tools o!
/tool_choice/allowed_tools/mode s!
/tool_choice/allowed_tools/tools a!
/tool_choice/allowed_tools/tools/0 o
/tool_choice/allowed_tools/tools/0/type s!
/tool_choice/allowed_tools/tools/0/function o!
/tool_choice/allowed_tools/tools/0/function/name s!
/functions a~
/functions/0 o
/functions/0/name s!
/functions/0/description s?
/functions/0/parameters o?
/function_call so?
/function_call/name s!
/messages/0 o
/messages/0/role s!
/messages/0/content sa!
/messages/0/name s?
/messages/0/cache_control o?
/messages/1/content sa!
/messages/1/content/0 o
/messages/1/content/0/type s!
/messages/1/content/0/text s!
/messages/1/content/0/cache_control o?
/messages/1/content/1/image_url so!
/messages/1/content/1/image_url/url s!
/messages/1/content/1/image_url/detail s?
/messages/1/content/2/input_audio o!
/messages/1/content/2/input_audio/data s!
/messages/1/content/2/input_audio/format s!
/messages/1/content/3/file o!
/messages/1/content/3/file/file_data s?
/messages/1/content/3/file/file_id s?
/messages/1/content/3/file/filename s?
/messages/2/content/1/refusal s!
/messages/2/refusal s?
/messages/2/audio o?
/messages/2/reasoning_content s?
/messages/2/reasoning_details a?
/messages/2/reasoning_details/0 o
/messages/2/thinking_blocks a?
/messages/2/thinking_blocks/0 o
/messages/2/function_call o~
/messages/2/function_call/name s!
/messages/2/function_call/arguments s?
/messages/2/tool_calls a~
/messages/2/tool_calls/0 o
/messages/2/tool_calls/0/id s!
/messages/2/tool_calls/0/type s!
/messages/2/tool_calls/0/function o!
/messages/2/tool_calls/0/function/name s!
/messages/2/tool_calls/0/function/arguments s?
/messages/2/tool_calls/1/custom o!
/messages/2/tool_calls/1/custom/name s!
/messages/2/tool_calls/1/custom/input s!
/messages/3/tool_call_id s!
/messages/3/content sa?
/messages/5/name s!
`

// valuesOfKinds has a value of every kind, and its description in error messages.
var valuesOfKinds = []struct{ kind, value, description string }{
	{"s", `"x"`, "a string"}, {"i", `1`, "an integer"}, {"d", `1.5`, "a decimal number"}, {"b", `true`, "a boolean"},
	{"o", `{}`, "an object"}, {"a", `[]`, "an array"}, {"null", `null`, "null"},
}

// formatParam converts a JSON pointer to the Param of an error.
func formatParam(pointer string) string {
	var b strings.Builder
	for token := range strings.SplitSeq(pointer[1:], "/") {
		switch {
		case len(token) == 1 && token[0] >= '0' && token[0] <= '9':
			b.WriteString("[" + token + "]")
		case b.Len() > 0:
			b.WriteString("." + token)
		default:
			b.WriteString(token)
		}
	}
	return b.String()
}

// edited returns everyMember after an edit.
func edited(t *testing.T, edit func(e *jsondoc.Edits) abi.Status) []byte {
	t.Helper()
	var d jsondoc.Doc
	if err := d.Parse([]byte(everyMember), jsondoc.Limits{}); err != nil {
		t.Fatal(err)
	}
	var e jsondoc.Edits
	e.Reset(&d)
	if edit(&e) != abi.StatusOK {
		t.Fatal("the request does not have the member")
	}
	out, err := e.Apply(nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestMemberTypes parses requests in which a member has a value of the wrong kind or is missing.
//
// covers: F119
func TestMemberTypes(t *testing.T) {
	var r openai.Request
	if e := r.Parse([]byte(everyMember), clientapi.Limits{}); e != nil {
		t.Fatal(e)
	}
	for line := range strings.SplitSeq(strings.TrimSpace(schema), "\n") {
		pointer, kinds, _ := strings.Cut(line, " ")
		param := formatParam(pointer)
		for _, w := range valuesOfKinds {
			if strings.Contains(kinds, w.kind) {
				continue
			}
			body := edited(t, func(e *jsondoc.Edits) abi.Status { return e.Set([]byte(pointer), []byte(w.value)) })
			e := r.Parse(body, clientapi.Limits{})
			if w.kind == "null" && strings.ContainsAny(kinds, "?~") {
				if strings.Contains(kinds, "?") && e != nil {
					t.Errorf("%s: null was rejected: %v", param, e)
				}
				continue
			}
			if e == nil || e.Status != 400 || e.Kind != apierror.KindInvalidRequest || e.Code != "invalid_type" || e.Param != param {
				t.Errorf("%s: %s gives %v", param, w.value, e)
				continue
			}
			if want := fmt.Sprintf("'%s' must be ", param); !strings.HasPrefix(e.Message, want) || !strings.HasSuffix(e.Message, ", not "+w.description+".") {
				t.Errorf("%s: the message for %s is %q", param, w.value, e.Message)
			}
		}
		if !strings.ContainsAny(kinds, "?!") {
			continue
		}
		body := edited(t, func(e *jsondoc.Edits) abi.Status { return e.Delete([]byte(pointer)) })
		e := r.Parse(body, clientapi.Limits{})
		switch {
		case strings.Contains(kinds, "?"):
			if e != nil {
				t.Errorf("%s: the request without it was rejected: %v", param, e)
			}
		case e == nil || e.Status != 400 || e.Code != "missing_required_parameter" || e.Param != param:
			t.Errorf("%s: the request without it gives %v", param, e)
		}
	}
}

// TestSchemaTableIsComplete checks that no member is missing from the table, which would leave it untested.
//
// covers: F119
func TestSchemaTableIsComplete(t *testing.T) {
	var d jsondoc.Doc
	if err := d.Parse([]byte(everyMember), jsondoc.Limits{}); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for line := range strings.SplitSeq(strings.TrimSpace(schema), "\n") {
		pointer, _, _ := strings.Cut(line, " ")
		tokens := strings.Split(pointer, "/")
		known[tokens[len(tokens)-1]] = true
	}
	var walk func(v jsondoc.Value)
	walk = func(v jsondoc.Value) {
		for c := v.First(); c.Exists(); c = c.Next() {
			name := c.Name().Text()
			if c.Name().Exists() && !known[name] && name != "voice" {
				t.Errorf("no line for %q", name)
			}
			if name != "metadata" && name != "audio" && name != "cache_control" {
				walk(c)
			}
		}
	}
	walk(d.Root())
}
