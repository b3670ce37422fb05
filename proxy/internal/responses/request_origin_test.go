package responses_test

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/responses"
)

// TestOrigin maps paths in the chat completions request to paths in the client's request.
//
// covers: P8.1
func TestOrigin(t *testing.T) {
	plain := parseRequest(t, `{"model":"m","instructions":"i","max_output_tokens":9,"text":{"format":{"type":"json_schema","name":"n","schema":{}},"verbosity":"low"},"reasoning":{"effort":"low"},"tool_choice":{"type":"function","name":"f"},"tools":[{"type":"web_search"},`+
		oneTool+`,{"type":"namespace","name":"n","tools":[`+emptyTool+`]}],"input":[{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"u"},{"type":"input_file","file_data":"d"}]},`+
		`{"role":"assistant","content":"b"},`+callItem+`,`+hello+`,`+outputItem+`]}`)
	text := parseRequest(t, `{"model":"m","input":"hi"}`)
	expanded := parseRequest(t, `{"model":"m","previous_response_id":"resp_1","input":[`+hello+`]}`)
	expandedText := parseRequest(t, `{"model":"m","previous_response_id":"resp_1","input":"hi"}`)
	for _, r := range []*responses.Request{plain, text, expanded, expandedText} {
		if e := r.Expand("c"); e != nil {
			t.Fatal(e)
		}
		if _, _, e := r.AppendChat(nil); e != nil {
			t.Fatal(e)
		}
	}
	for name, test := range map[string]struct {
		r          *responses.Request
		path, want string
	}{
		"a member":                {plain, "temperature", "temperature"},
		"tokens":                  {plain, "max_tokens", "max_output_tokens"},
		"effort":                  {plain, "reasoning_effort", "reasoning.effort"},
		"schema":                  {plain, "response_format.json_schema.schema.type", "text.format.schema.type"},
		"format":                  {plain, "response_format.type", "text.format.type"},
		"verbosity":               {plain, "verbosity", "text.verbosity"},
		"choice":                  {plain, "tool_choice.function.name", "tool_choice.name"},
		"all messages":            {plain, "messages", "input"},
		"instructions":            {plain, "messages[0].content", "instructions"},
		"a message":               {plain, "messages[1].role", "input[0].role"},
		"a part":                  {plain, "messages[1].content[1].image_url.url", "input[0].content[1].image_url"},
		"a file":                  {plain, "messages[1].content[2].file.file_data", "input[0].content[2].file_data"},
		"an assistant's text":     {plain, "messages[2].content", "input[1].content"},
		"arguments":               {plain, "messages[2].tool_calls[0].function.arguments", "input[2].arguments"},
		"an unknown call":         {plain, "messages[2].tool_calls[7].id", "input[1]"},
		"an output":               {plain, "messages[3].content", "input[4].output"},
		"an output's call":        {plain, "messages[3].tool_call_id", "input[4].call_id"},
		"after the output":        {plain, "messages[4].content", "input[3].content"},
		"a tool":                  {plain, "tools[0].function.parameters.type", "tools[1].parameters.type"},
		"a tool of a namespace":   {plain, "tools[1].function.name", "tools[2].tools[0].name"},
		"no message":              {plain, "messages[99].role", ""},
		"input string":            {text, "messages[0].content", "input"},
		"stored input":            {expanded, "messages[0].content", "previous_response_id"},
		"after stored input":      {expanded, "messages[2].content", "input[0].content"},
		"text after stored input": {expandedText, "messages[2].content", "input"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.r.Origin(test.path); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
