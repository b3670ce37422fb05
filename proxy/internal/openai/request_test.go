package openai_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
)

// summary holds the facts of a parsed Request.
type summary struct {
	Model                string
	Stream, IncludeUsage bool
	N                    int
	MaxTokens            int64
	Thinking             clientapi.Thinking
	Flags                string
	Messages, Tools      int
	TextBytes            int
}

func summarize(r *openai.Request) summary {
	return summary{r.Model, r.Stream, r.IncludeUsage, r.N, r.MaxTokens, r.Thinking, strings.Join(r.Flags.Names(), " "), r.Messages, r.Tools, r.TextBytes}
}

// requestWith returns a request with additional members.
func requestWith(members string) string {
	return `{"model":"m","messages":[{"role":"user","content":"hello"}]` + members + `}`
}

// requestWithMessages returns a request with these messages.
func requestWithMessages(messages ...string) string {
	return `{"model":"m","messages":[` + strings.Join(messages, ",") + `]}`
}

func TestParseRequests(t *testing.T) {
	for _, test := range []struct {
		name, body string
		want       summary
	}{
		{"only required members", requestWith(``), summary{Model: "m", N: 1, Messages: 1, TextBytes: 5}},
		{"escaped names and values", `{"m\u006fdel":"a\/b","messages":[{"r\u006fle":"\u0075ser","content":"h\u0069"}]}`, summary{Model: "a/b", N: 1, Messages: 1, TextBytes: 7}},
		{"a seed beyond 2^53", requestWith(`,"seed":9007199254740993`), summary{Model: "m", N: 1, Messages: 1, TextBytes: 5}}, // covers: V14
		// covers: S5
		{"stream_options without include_usage", requestWith(`,"stream":true,"stream_options":{}`), summary{Model: "m", Stream: true, N: 1, Messages: 1, TextBytes: 5}},
		// covers: S4
		{"include_usage", requestWith(`,"stream":true,"stream_options":{"include_usage":true}`), summary{Model: "m", Stream: true, IncludeUsage: true, N: 1, Messages: 1, TextBytes: 5}},
		// covers: A2
		{"max_completion_tokens overrides max_tokens", requestWith(`,"max_completion_tokens":7,"max_tokens":5`), summary{Model: "m", N: 1, MaxTokens: 7, Messages: 1, TextBytes: 5}},
		{"bounds", requestWith(`,"temperature":2,"top_p":1.0,"n":128,"max_tokens":1,"presence_penalty":-2`), summary{Model: "m", N: 128, MaxTokens: 1, Messages: 1, TextBytes: 5}},
		{"other bounds", requestWith(`,"temperature":0,"top_p":0,"frequency_penalty":2.0,"top_logprobs":0,"logprobs":true`),
			summary{Model: "m", N: 1, Messages: 1, TextBytes: 5, Flags: "logprobs"}},
		{"thinking", requestWith(`,"thinking":{"type":"enabled","budget_tokens":2048}`),
			summary{Model: "m", N: 1, Messages: 1, TextBytes: 5, Flags: "thinking", Thinking: clientapi.Thinking{Mode: clientapi.ThinkingEnabled, BudgetTokens: 2048}}},
		{"thinking without a budget", requestWith(`,"thinking":{"type":"enabled"}`),
			summary{Model: "m", N: 1, Messages: 1, TextBytes: 5, Flags: "thinking", Thinking: clientapi.Thinking{Mode: clientapi.ThinkingEnabled}}},
		{"adaptive thinking", requestWith(`,"thinking":{"type":"adaptive"}`),
			summary{Model: "m", N: 1, Messages: 1, TextBytes: 5, Flags: "thinking", Thinking: clientapi.Thinking{Mode: clientapi.ThinkingAdaptive}}},
		{"no thinking", requestWith(`,"thinking":{"type":"disabled"}`),
			summary{Model: "m", N: 1, Messages: 1, TextBytes: 5, Thinking: clientapi.Thinking{Mode: clientapi.ThinkingDisabled}}},
		// covers: F120
		{"unknown members", requestWith(`,"top_k":5,"extra_body":{"a":[1]},"messages2":0`), summary{Model: "m", N: 1, Messages: 1, TextBytes: 5}},
		{"unknown members everywhere", requestWithMessages(`{"role":"user","x":1,"content":[{"type":"text","text":"abc","x":{}}]}`), summary{Model: "m", N: 1, Messages: 1, TextBytes: 3}},
		{"null optional members", requestWith(`,"temperature":null,"n":null,"stop":null,"tools":null,"tool_choice":null,"stream":null,"stream_options":null,"thinking":null,"metadata":null,"logit_bias":null,"reasoning_effort":null,"response_format":null,"max_tokens":null`),
			summary{Model: "m", N: 1, Messages: 1, TextBytes: 5}},
		{"text as a response format", requestWith(`,"response_format":{"type":"text"}`), summary{Model: "m", N: 1, Messages: 1, TextBytes: 5}},
		{"json_object as a response format", requestWith(`,"response_format":{"type":"json_object"}`), summary{Model: "m", N: 1, Messages: 1, TextBytes: 5, Flags: "response_format"}},
		{"stop", requestWith(`,"stop":"x","metadata":{},"logit_bias":{},"modalities":["text"]`), summary{Model: "m", N: 1, Messages: 1, TextBytes: 5}},
		{"no stop sequences", requestWith(`,"stop":[]`), summary{Model: "m", N: 1, Messages: 1, TextBytes: 5}},
		{"a prefilled response", requestWithMessages(`{"role":"system","content":"ab"}`, `{"role":"user","content":"cd"}`, `{"role":"assistant","content":""}`), summary{Model: "m", N: 1, Messages: 3, TextBytes: 4}},
		{"an image", requestWithMessages(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}`), summary{Model: "m", N: 1, Messages: 1, Flags: "images"}},
		{"a file", requestWithMessages(`{"role":"user","content":[{"type":"file","file":{"file_id":"f"}}]}`), summary{Model: "m", N: 1, Messages: 1, Flags: "files"}},
		{"audio", requestWithMessages(`{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"AA","format":"mp3"}}]}`), summary{Model: "m", N: 1, Messages: 1, Flags: "audio"}},
		{"audio of an earlier response", requestWithMessages(`{"role":"assistant","audio":{"id":"a"}}`), summary{Model: "m", N: 1, Messages: 1, Flags: "audio"}},
		{"reasoning of an earlier turn", requestWithMessages(`{"role":"assistant","content":"a","reasoning_content":"thought","reasoning_details":[{"type":"reasoning.text","text":"thought"}]}`),
			summary{Model: "m", N: 1, Messages: 1, TextBytes: 1 + 44, Flags: "reasoning_history"}},
		// covers: A11
		{"only reasoning", requestWithMessages(`{"role":"assistant","thinking_blocks":[]}`), summary{Model: "m", N: 1, Messages: 1, TextBytes: 2, Flags: "reasoning_history"}},
		{"a refusal", requestWithMessages(`{"role":"assistant","content":null,"refusal":"no"}`), summary{Model: "m", N: 1, Messages: 1, TextBytes: 2}},
		// covers: A7
		{"no arguments", requestWithMessages(`{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f"}}]}`, `{"role":"tool","tool_call_id":"1","content":""}`),
			summary{Model: "m", N: 1, Messages: 2, TextBytes: 1 + 2, Flags: "tool_history"}},
		{"older functions", requestWith(`,"functions":[{"name":"f"}],"function_call":"auto"`), summary{Model: "m", N: 1, Messages: 1, Tools: 1, TextBytes: 5 + 45, Flags: "tools"}},
		{"the result of an older function", requestWithMessages(`{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}}`, `{"role":"function","name":"f","content":null}`),
			summary{Model: "m", N: 1, Messages: 2, TextBytes: 3, Flags: "tool_history"}},
		{"everything", everyMember, summary{Model: "m", Stream: true, IncludeUsage: true, N: 2, MaxTokens: 200, Messages: 6, Tools: 3, TextBytes: 319,
			Thinking: clientapi.Thinking{Mode: clientapi.ThinkingEnabled, BudgetTokens: 1024},
			Flags:    "tools tool_history thinking reasoning reasoning_history images files audio response_format logprobs parallel_tools cache_control"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var r openai.Request
			if e := r.Parse([]byte(test.body), clientapi.Limits{}); e != nil {
				t.Fatal(e)
			}
			if diff := cmp.Diff(test.want, summarize(&r)); diff != "" {
				t.Error(diff)
			}
			if r.Doc.Size() != len(r.Body) || !r.Rewritten() && string(r.Body) != test.body {
				t.Error("Body differs from the argument of Parse")
			}
		})
	}
}

// TestParseRecordedRequests parses requests of real clients that providers have accepted.
func TestParseRecordedRequests(t *testing.T) {
	want := map[string]summary{
		"openai-image":              {Model: "gpt-5", N: 1, MaxTokens: 4000, Messages: 2, TextBytes: 65, Flags: "images"},
		"openai-parallel-tools-t2":  {Model: "gpt-4o-mini", N: 1, MaxTokens: 4000, Messages: 5, Tools: 2, TextBytes: 725, Flags: "tools tool_history"},
		"openai-stream-json-schema": {Model: "gpt-4o-mini", Stream: true, IncludeUsage: true, N: 1, MaxTokens: 4000, Messages: 1, TextBytes: 371, Flags: "response_format"},
		"openai-stream-plain":       {Model: "gpt-4o-mini", Stream: true, IncludeUsage: true, N: 1, MaxTokens: 4000, Messages: 2, TextBytes: 47},
		"openai-stream-tool-t2":     {Model: "gpt-4o-mini", Stream: true, IncludeUsage: true, N: 1, MaxTokens: 4000, Messages: 4, Tools: 1, TextBytes: 353, Flags: "tools tool_history"},
		"deepseek-reasoning-t2":     {Model: "deepseek-reasoner", N: 1, Messages: 3, TextBytes: 139, Flags: "reasoning reasoning_history"},
	}
	files, err := filepath.Glob("testdata/requests/*.json")
	if err != nil || len(files) != len(want) {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			body, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var r openai.Request
			if e := r.Parse(body, clientapi.Limits{}); e != nil {
				t.Fatal(e)
			}
			if diff := cmp.Diff(want[name], summarize(&r)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseRejectsNonRequests(t *testing.T) {
	for name, test := range map[string]struct{ body, code, message string }{
		// covers: F114
		"empty body":       {``, ``, "The request body could not be parsed as JSON: the document is empty (at byte 0)."},
		"null":             {`null`, `invalid_type`, "The request body must be a JSON object, not null."},
		"array":            {`[]`, `invalid_type`, "The request body must be a JSON object, not an array."},
		"string":           {`"x"`, `invalid_type`, "The request body must be a JSON object, not a string."},
		"trailing garbage": {requestWith(``) + `x`, ``, "The request body could not be parsed as JSON: there is data after the document (at byte 60)."},
		"two documents":    {requestWith(``) + requestWith(``), ``, "The request body could not be parsed as JSON: there is data after the document (at byte 60)."},
		// covers: V1
		"not JSON": {`model=gpt`, ``, "The request body could not be parsed as JSON: expected a value (at byte 0)."},
		// covers: V13 F115
		"deep nesting": {requestWith(`,"x":` + strings.Repeat("[", 10_000)), ``, "The request body could not be parsed as JSON: the document is nested deeper than 128 levels (at byte 191)."},
		// covers: V13 F116
		"duplicate model": {requestWith(`,"model":"n"`), ``, "The request body could not be parsed as JSON: a member name appears twice in one object (at byte 60)."},
		"duplicate model, once escaped": {requestWith(`,"m\u006fdel":"n"`), ``, // covers: F116
			"The request body could not be parsed as JSON: a member name appears twice in one object (at byte 60)."},
		// covers: F117
		"invalid UTF-8": {requestWith(",\"user\":\"\xff\""), ``, "The request body could not be parsed as JSON: invalid UTF-8 (at byte 68)."},
		// covers: F118
		"a number like 1e999": {requestWith(`,"seed":1e999`), ``, "The request body could not be parsed as JSON: a number is too large (at byte 67)."},
		"NaN":                 {requestWith(`,"temperature":NaN`), ``, "The request body could not be parsed as JSON: expected a value (at byte 74)."},
		"a number of 1 MB": {requestWith(`,"seed":` + strings.Repeat("7", 1<<20)), ``,
			"The request body could not be parsed as JSON: a number is too large (at byte 67)."},
	} {
		t.Run(name, func(t *testing.T) {
			var r openai.Request
			e := r.Parse([]byte(test.body), clientapi.Limits{})
			if e == nil || e.Status != 400 || e.Kind != apierror.KindInvalidRequest || e.Param != "" || e.Code != test.code || e.Message != test.message {
				t.Fatalf("got %v, want code %q and %q", e, test.code, test.message)
			}
			var syntax *jsondoc.SyntaxError
			if errors.As(e, &syntax) != (test.code == "") {
				t.Errorf("the cause is %v", e.Cause)
			}
		})
	}
}

func TestRequestReuse(t *testing.T) {
	var r openai.Request
	if e := r.Parse([]byte(everyMember), clientapi.Limits{}); e != nil {
		t.Fatal(e)
	}
	if e := r.Parse([]byte(`{"model":5}`), clientapi.Limits{}); e == nil || e.Param != "model" {
		t.Fatal(e)
	}
	if e := r.Parse([]byte(requestWith(``)), clientapi.Limits{}); e != nil {
		t.Fatal(e)
	}
	if diff := cmp.Diff(summary{Model: "m", N: 1, Messages: 1, TextBytes: 5}, summarize(&r)); diff != "" {
		t.Errorf("Parse keeps state of an earlier request: %s", diff)
	}
	r.Reset()
	if r.Body != nil || r.Model != "" || r.Doc.Root().Exists() {
		t.Error("Reset keeps state")
	}
}

// TestModelIsCopied checks that the model's name does not refer to the body.
func TestModelIsCopied(t *testing.T) {
	body := []byte(requestWith(``))
	var r openai.Request
	if e := r.Parse(body, clientapi.Limits{}); e != nil {
		t.Fatal(e)
	}
	clear(body)
	if r.Model != "m" {
		t.Errorf("the model is %q", r.Model)
	}
}

// TestFitModelStrict checks that FitModel with strict rejects requests instead of changing them.
func TestFitModelStrict(t *testing.T) {
	for name, test := range map[string]struct {
		members   string
		maxTokens int64
		thinking  bool
		param     string
		code      string
		message   string
	}{
		"unknown maximum":                        {members: `,"max_tokens":1000000`},
		"at the limit":                           {members: `,"max_tokens":4096`, maxTokens: 4096},
		"no max_tokens":                          {maxTokens: 4096},
		"over the limit":                         {`,"max_tokens":4097`, 4096, false, "max_tokens", "integer_above_max_value", "'max_tokens' is 4097, but the model generates at most 4096 tokens."},
		"max_completion_tokens over the limit":   {`,"max_tokens":1,"max_completion_tokens":5000`, 4096, false, "max_completion_tokens", "integer_above_max_value", "'max_completion_tokens' is 5000, but the model generates at most 4096 tokens."},
		"max_completion_tokens within the limit": {members: `,"max_tokens":5000,"max_completion_tokens":1`, maxTokens: 4096},
		"thinking":                               {members: `,"thinking":{"type":"enabled","budget_tokens":1}`, thinking: true},
		"thinking not supported":                 {`,"thinking":{"type":"enabled","budget_tokens":1}`, 0, false, "thinking", "unsupported_parameter", "'thinking' is not supported by this model."},
		"adaptive not supported":                 {`,"thinking":{"type":"adaptive"}`, 0, false, "thinking", "unsupported_parameter", "'thinking' is not supported by this model."},
		"thinking disabled":                      {members: `,"thinking":{"type":"disabled"}`},
	} {
		t.Run(name, func(t *testing.T) {
			var r openai.Request
			if e := r.Parse([]byte(requestWith(test.members)), clientapi.Limits{}); e != nil {
				t.Fatal(e)
			}
			e := r.FitModel(test.maxTokens, test.thinking, true)
			switch {
			case test.param == "":
				if e != nil {
					t.Error(e)
				}
			case e == nil || e.Status != 400 || e.Param != test.param || e.Code != test.code || e.Message != test.message:
				t.Errorf("got %v", e)
			}
		})
	}
}

func TestFlags(t *testing.T) {
	f := clientapi.FlagTools | clientapi.FlagCacheControl
	if got := f.Names(); !slices.Equal(got, []string{"tools", "cache_control"}) || clientapi.Flags(0).Names() != nil {
		t.Errorf("names are %v", got)
	}
	if !f.Has(clientapi.FlagTools) || f.Has(clientapi.FlagTools|clientapi.FlagImages) || !f.Has(0) {
		t.Error("Has is wrong")
	}
}
