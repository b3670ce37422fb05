package responses_test

import (
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/responses"
)

// TestParseRejects checks requests that are rejected for every provider.
func TestParseRejects(t *testing.T) {
	for name, test := range map[string]struct{ members, param, code string }{
		"duplicate member":                        {`,"input":"hi","inp\u0075t":"x"`, "", ""},                                                                                                                           // covers: P2.1
		"input of the wrong type":                 {`,"input":5`, "input", "invalid_type"},                                                                                                                              // covers: P2.4
		"no input":                                {``, "input", "missing_required_parameter"},                                                                                                                          // covers: P2.4
		"input null":                              {`,"input":null`, "input", "missing_required_parameter"},                                                                                                             // covers: P2.4
		"empty input":                             {`,"input":[]`, "input", "empty_array"},                                                                                                                              // covers: P2.4
		"instructions of the wrong type":          {`,"input":"hi","instructions":[{"role":"user","content":"x"}]`, "instructions", "invalid_type"},                                                                     // covers: P2.6
		"max_output_tokens too small":             {`,"input":"hi","max_output_tokens":0`, "max_output_tokens", "integer_below_min_value"},                                                                              // covers: P2.7
		"temperature too large":                   {`,"input":"hi","temperature":3`, "temperature", "decimal_above_max_value"},                                                                                          // covers: P2.8
		"top_logprobs too large":                  {`,"input":"hi","top_logprobs":21`, "top_logprobs", "integer_above_max_value"},                                                                                       // covers: P2.9
		"reasoning of the wrong type":             {`,"input":"hi","reasoning":"high"`, "reasoning", "invalid_type"},                                                                                                    // covers: P2.10
		"effort of the wrong type":                {`,"input":"hi","reasoning":{"effort":1}`, "reasoning.effort", "invalid_type"},                                                                                       // covers: P2.10
		"format without type":                     {`,"input":"hi","text":{"format":{}}`, "text.format.type", "missing_required_parameter"},                                                                             // covers: P2.13
		"schema without name":                     {`,"input":"hi","text":{"format":{"type":"json_schema","schema":{}}}`, "text.format.name", "missing_required_parameter"},                                             // covers: P2.13
		"schema missing":                          {`,"input":"hi","text":{"format":{"type":"json_schema","name":"n"}}`, "text.format.schema", "missing_required_parameter"},                                            // covers: P2.13
		"include of the wrong type":               {`,"input":"hi","include":"x"`, "include", "invalid_type"},                                                                                                           // covers: P2.26
		"metadata value of the wrong type":        {`,"input":"hi","metadata":{"a":1}`, "metadata.a", "invalid_type"},                                                                                                   // covers: P2.30
		"messages":                                {`,"messages":[]`, "messages", "unknown_parameter"},                                                                                                                  // covers: P2.38
		"max_tokens":                              {`,"input":"hi","max_tokens":5`, "max_tokens", "unknown_parameter"},                                                                                                  // covers: P2.38
		"n":                                       {`,"input":"hi","n":1`, "n", "unknown_parameter"},                                                                                                                    // covers: P2.38
		"stop, even null":                         {`,"input":"hi","stop":null`, "stop", "unknown_parameter"},                                                                                                           // covers: P2.38
		"response_format":                         {`,"input":"hi","response_format":{"type":"text"}`, "response_format", "unknown_parameter"},                                                                          // covers: P2.38
		"item without type and role":              {`,"input":[{"content":"x"}]`, "input[0].type", "missing_required_parameter"},                                                                                        // covers: P3.1
		"item of the wrong type":                  {`,"input":["x"]`, "input[0]", "invalid_type"},                                                                                                                       // covers: P3.1
		"role tool":                               {`,"input":[{"role":"tool","content":"x"}]`, "input[0].role", "invalid_value"},                                                                                       // covers: P3.3
		"no content":                              {`,"input":[{"role":"user"}]`, "input[0].content", "missing_required_parameter"},                                                                                     // covers: P3.2
		"content of the wrong type":               {`,"input":[{"role":"user","content":1}]`, "input[0].content", "invalid_type"},                                                                                       // covers: P3.2
		"part without type":                       {`,"input":[{"role":"user","content":[{"text":"x"}]}]`, "input[0].content[0].type", "missing_required_parameter"},                                                    // covers: P3.2
		"part without text":                       {`,"input":[{"role":"user","content":[{"type":"input_text"}]}]`, "input[0].content[0].text", "missing_required_parameter"},                                           // covers: P3.2
		"audio without format":                    {`,"input":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"d"}}]}]`, "input[0].content[0].input_audio.format", "missing_required_parameter"}, // covers: P3.6
		"call without id":                         {`,"input":[{"type":"function_call","id":"fc_1","name":"f","arguments":"{}"}]`, "input[0].call_id", "missing_required_parameter"},                                    // covers: P3.11
		"call without name":                       {`,"input":[{"type":"function_call","call_id":"a","arguments":"{}"}]`, "input[0].name", "missing_required_parameter"},                                                // covers: P3.10
		"arguments of the wrong type":             {`,"input":[{"type":"function_call","call_id":"a","name":"f","arguments":{}}]`, "input[0].arguments", "invalid_type"},                                                // covers: P3.16
		"custom call without input":               {`,"input":[{"type":"custom_tool_call","call_id":"a","name":"x"}]`, "input[0].input", "missing_required_parameter"},                                                  // covers: P3.17
		"output missing":                          {`,"input":[{"type":"function_call_output","call_id":"a"}]`, "input[0].output", "missing_required_parameter"},                                                        // covers: P3.12
		"reference without id":                    {`,"input":[{"type":"item_reference"}]`, "input[0].id", "missing_required_parameter"},                                                                                // covers: P3.22
		"a tool without type":                     {`,"input":"hi","tools":[{"name":"f"}]`, "tools[0].type", "missing_required_parameter"},                                                                              // covers: P4.1
		"function in the chat completions format": {`,"input":"hi","tools":[{"type":"function","function":{"name":"f"}}]`, "tools[0].name", "missing_required_parameter"},                                               // covers: P4.1
		"invalid tool of a namespace":             {`,"input":"hi","tools":[{"type":"namespace","name":"n","tools":[{"type":"function"}]}]`, "tools[0].tools[0].name", "missing_required_parameter"},                    // covers: P4.5
		"invalid tool of an item":                 {`,"input":[{"type":"additional_tools","tools":[{"type":"custom"}]}]`, "input[0].tools[0].name", "missing_required_parameter"},                                       // covers: P3.27
		"tool_choice of the wrong type":           {`,"input":"hi","tool_choice":1`, "tool_choice", "invalid_type"},                                                                                                     // covers: P2.17
	} {
		t.Run(name, func(t *testing.T) {
			r := responses.NewRequest(sealer, stored)
			e := r.Parse([]byte(`{"model":"m"`+test.members+`}`), clientapi.Limits{})
			if e == nil || e.Status != 400 || e.TryNext || e.Kind != apierror.KindInvalidRequest || e.Param != test.param || e.Code != test.code {
				t.Errorf("got %+v", e)
			}
		})
	}
	for name, test := range map[string]struct{ body, param string }{
		"no model":               {`{"input":"hi"}`, "model"}, // covers: P2.2
		"no model, but a prompt": {`{"input":"hi","prompt":{"id":"x"}}`, "model"},
		"empty model":            {`{"input":"hi","model":""}`, "model"},
	} {
		t.Run(name, func(t *testing.T) {
			r := responses.NewRequest(sealer, stored)
			if e := r.Parse([]byte(test.body), clientapi.Limits{}); e == nil || e.Param != test.param {
				t.Errorf("got %+v", e)
			}
		})
	}
	t.Run("the hint names the member of this API", func(t *testing.T) {
		r := responses.NewRequest(sealer, stored)
		e := r.Parse([]byte(`{"model":"m","max_tokens":1,"input":"x"}`), clientapi.Limits{})
		if e == nil || e.Message != "Unknown parameter: 'max_tokens'. In the Responses API, use 'max_output_tokens'." {
			t.Error(e)
		}
	})
}

// TestLimits checks that Parse enforces its limits.
func TestLimits(t *testing.T) {
	for name, test := range map[string]struct {
		members string
		limits  clientapi.Limits
		param   string
	}{
		"items":              {`,"input":[` + hello + `,` + hello + `]`, clientapi.Limits{Messages: 1}, "input"},
		"tools":              {`,"input":"hi","tools":[` + oneTool + `,` + emptyTool + `]`, clientapi.Limits{Tools: 1}, "tools"},
		"tools of namespace": {`,"input":"hi","tools":[{"type":"namespace","name":"n","tools":[` + oneTool + `,` + emptyTool + `]}]`, clientapi.Limits{Tools: 1}, "tools[0].tools"},
		"tools of an item":   {`,"input":[{"type":"additional_tools","tools":[` + oneTool + `,` + emptyTool + `]}]`, clientapi.Limits{Tools: 1}, "input[0].tools"},
		"depth":              {`,"input":"hi","x":[[[[]]]]`, clientapi.Limits{Depth: 3}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := responses.NewRequest(sealer, nil)
			if e := r.Parse([]byte(`{"model":"m"`+test.members+`}`), test.limits); e == nil || e.Param != test.param {
				t.Errorf("got %+v", e)
			}
			if e := r.Parse([]byte(`{"model":"m"`+test.members+`}`), clientapi.Limits{}); e != nil {
				t.Error(e)
			}
		})
	}
}

// TestDescribe checks the facts, which describe the client's document.
func TestDescribe(t *testing.T) {
	for name, test := range map[string]struct {
		members string
		want    clientapi.Facts
		flags   string
	}{
		"a text":   {`,"input":"hi"`, clientapi.Facts{Messages: 1, TextBytes: 2}, ``},
		"a stream": {`,"input":"hi","stream":true,"max_output_tokens":7`, clientapi.Facts{Stream: true, IncludeUsage: true, MaxTokens: 7, Messages: 1, TextBytes: 2}, ``},
		"everything": {`,"instructions":"abc","input":[{"role":"user","content":[{"type":"input_text","text":"de","prompt_cache_breakpoint":{}},{"type":"input_image","image_url":"xxxxxxxxxxxxxxx"},{"type":"input_file","file_data":"x"},{"type":"input_audio","input_audio":{"data":"d","format":"wav"}}]},` +
			`{"type":"reasoning","summary":[]},` + callItem + `,` + outputItem + `],"tools":[` + oneTool + `],"parallel_tool_calls":true,"reasoning":{"effort":"low"},"text":{"format":{"type":"json_object"}},"include":["message.output_text.logprobs"]`,
			clientapi.Facts{Messages: 4, Tools: 1, TextBytes: 3 + 2 + len(`f{}`) + 1 + len(`[`+oneTool+`]`)},
			"tools tool_history reasoning reasoning_history images files audio response_format logprobs parallel_tools cache_control"},
		"a reference": {`,"previous_response_id":"resp_1","input":"x"`, clientapi.Facts{Messages: 3, TextBytes: 3}, ``},
		"hosted":      {`,"input":"hi","tools":[{"type":"web_search"}]`, clientapi.Facts{Messages: 1, Tools: 1, TextBytes: 2 + len(`[{"type":"web_search"}]`)}, `tools`},
	} {
		t.Run(name, func(t *testing.T) {
			r := parseRequest(t, `{"model":"m"`+test.members+`}`)
			if e := r.Expand("c"); e != nil {
				t.Fatal(e)
			}
			got := *r.Describe()
			if flags := strings.Join(got.Flags.Names(), " "); flags != test.flags {
				t.Errorf("flags are %q", flags)
			}
			if got.Model != "m" || got.N != 1 || got.Stream != test.want.Stream || got.IncludeUsage != test.want.IncludeUsage || got.MaxTokens != test.want.MaxTokens ||
				got.Messages != test.want.Messages || got.Tools != test.want.Tools || got.TextBytes != test.want.TextBytes || len(got.Warnings) != 0 {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestFitModel(t *testing.T) {
	r := parseRequest(t, `{"model":"m","max_output_tokens":5000 ,"input":"x","previous_response_id":"resp_1"}`)
	if e := r.Expand("c"); e != nil {
		t.Fatal(e)
	}
	if e := r.FitModel(4096, false, true); e == nil || e.Param != "max_output_tokens" || e.Code != "integer_above_max_value" {
		t.Errorf("strict: %+v", e)
	}
	if e := r.FitModel(0, false, true); e != nil {
		t.Error(e)
	}
	if e := r.FitModel(4096, false, false); e != nil {
		t.Fatal(e)
	}
	chat, _, e := r.AppendChat(nil)
	if e != nil || !strings.Contains(string(chat), `"max_tokens":4096`) {
		t.Errorf("%s, %v", chat, e)
	}
	if _, body := r.Document(); string(body) != `{"model":"m","max_output_tokens":4096 ,"input":"x","previous_response_id":"resp_1"}` {
		t.Errorf("the client's document is %s", body)
	}
	if f := r.Describe(); f.MaxTokens != 4096 || len(f.Warnings) != 1 || f.Warnings[0].Member != "max_output_tokens" {
		t.Errorf("facts are %+v", f)
	}
}

// TestRepairsSurrogates checks that lone surrogates are replaced, also in the document for native providers.
func TestRepairsSurrogates(t *testing.T) {
	r := parseRequest(t, `{"model":"m","input":[{"role":"user","content":"a\ud83d"}]}`)
	if _, body := r.Document(); !strings.Contains(string(body), `a\ufffd`) {
		t.Errorf("%s", body)
	}
	if w := r.Describe().Warnings; len(w) != 1 || w[0].Member != "input[0].content" {
		t.Errorf("warnings are %v", w)
	}
}

// TestDocumentsAreUnchanged checks that a native provider receives the client's bytes.
//
// covers: P2.1 P2.37 P3.28 P4.7
func TestDocumentsAreUnchanged(t *testing.T) {
	for name, body := range recordedRequests(t) {
		r := parseRequest(t, string(body))
		if e := r.FitModel(1<<30, false, false); e != nil {
			t.Fatal(e)
		}
		if doc, got := r.Document(); string(got) != string(body) || doc.Root().Get("model").Text() != r.Describe().Model {
			t.Errorf("%s: %s", name, got)
		}
	}
	r := parseRequest(t, `{"model":"m", "input":[ {"type":"hologram"} ],"tools":[{"type":"teleporter"}],"new":1}`)
	if _, got := r.Document(); string(got) != `{"model":"m", "input":[ {"type":"hologram"} ],"tools":[{"type":"teleporter"}],"new":1}` {
		t.Errorf("%s", got)
	}
}

// TestReuse checks that nothing of a request is left in the next one of the same Request.
func TestReuse(t *testing.T) {
	r := responses.NewRequest(sealer, stored)
	for _, body := range recordedRequests(t) {
		if e := r.Parse(body, clientapi.Limits{}); e != nil {
			t.Fatal(e)
		}
		if e := r.Expand("c"); e != nil {
			t.Fatal(e)
		}
		_, _, _ = r.AppendChat(nil)
	}
	if e := r.Parse([]byte(`{"model":"m","previous_response_id":"resp_1","input":"x"}`), clientapi.Limits{}); e != nil {
		t.Fatal(e)
	}
	if e := r.Expand("c"); e != nil {
		t.Fatal(e)
	}
	if e := r.Parse([]byte(`{"model":"m","input":"hi"}`), clientapi.Limits{}); e != nil {
		t.Fatal(e)
	}
	chat, warnings, e := r.AppendChat(nil)
	if string(chat) != `{"model":"m","messages":[`+hello+`]}` || len(warnings) != 0 || e != nil || len(r.Tools()) != 0 {
		t.Errorf("%s %v %v", chat, warnings, e)
	}
	if f := r.Describe(); f.Tools != 0 || f.Flags != 0 || f.Messages != 1 || f.TextBytes != 2 {
		t.Errorf("facts are %+v", f)
	}
	r.Reset()
	if d, body := r.Document(); body != nil || d.Root().Exists() {
		t.Error("Reset leaves a document")
	}
}
