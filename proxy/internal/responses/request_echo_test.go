package responses_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEcho checks the members of a request that its response repeats.
//
// covers: P5.2
func TestEcho(t *testing.T) {
	const rest = `"background":false,"max_tool_calls":null,"prompt_cache_key":null,"safety_identifier":null,"service_tier":"default","top_logprobs":0,"user":null,`
	for name, test := range map[string]struct {
		members, want, instructions, tools string
		store                              bool
	}{
		"defaults": {``, rest + `"max_output_tokens":null,"metadata":{},"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"store":false,"temperature":1,"text":{"format":{"type":"text"},"verbosity":"medium"},"tool_choice":"auto","top_p":1,"truncation":"disabled"`, `null`, `[]`, false},
		"set by the client": {`,"instructions":"i","tools":[ {"type":"web_search"} ],"max_output_tokens":5,"metadata":{"a": "b"},"parallel_tool_calls":false,"previous_response_id":"resp_9","reasoning":{"effort":"low","summary":"auto"},"temperature":0.5,"text":{"format":{"type":"json_object"},"verbosity":"low"},"tool_choice":"none","top_p":0.1,"truncation":"auto"`,
			rest + `"max_output_tokens":5,"metadata":{"a":"b"},"parallel_tool_calls":false,"previous_response_id":"resp_9","reasoning":{"effort":"low","summary":"auto"},"store":true,"temperature":0.5,"text":{"format":{"type":"json_object"},"verbosity":"low"},"tool_choice":"none","top_p":0.1,"truncation":"auto"`, `"i"`, `[{"type":"web_search"}]`, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := parseRequest(t, `{"model":"m","input":"x"`+test.members+`}`)
			var got, want map[string]any
			if err := json.Unmarshal([]byte("{"+string(r.AppendEcho(nil, test.store))+"}"), &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte("{"+test.want+"}"), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if i, l := string(r.AppendInstructions(nil)), string(r.AppendTools(nil)); i != test.instructions || l != test.tools {
				t.Errorf("instructions %s, tools %s", i, l)
			}
		})
	}
}

// TestWants checks which output the client requests.
func TestWants(t *testing.T) {
	for name, test := range map[string]struct {
		members                          string
		seals, summary, logprobs, stores bool
	}{
		"defaults":         {``, false, false, false, true},                                                         // covers: P2.21
		"seals":            {`,"include":["reasoning.encrypted_content"],"store":false`, true, false, false, false}, // covers: P2.21 P2.26
		"summary":          {`,"reasoning":{"summary":"detailed"}`, false, true, false, true},                       // covers: P2.11
		"generate_summary": {`,"reasoning":{"generate_summary":"concise"}`, false, true, false, true},               // covers: P2.11
		"logprobs":         {`,"include":["message.output_text.logprobs"],"store":true`, false, false, true, true},  // covers: P2.9
		"null":             {`,"include":null,"reasoning":{"summary":null},"store":null`, false, false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := parseRequest(t, `{"model":"m","input":"x"`+test.members+`}`)
			if r.WantsSeals() != test.seals || r.WantsSummary() != test.summary || r.WantsLogprobs() != test.logprobs || r.Stores() != test.stores {
				t.Errorf("seals %v, summary %v, logprobs %v, stores %v", r.WantsSeals(), r.WantsSummary(), r.WantsLogprobs(), r.Stores())
			}
		})
	}
}

// TestTools lists the tools whose names or types differ in the chat completions request.
//
// covers: P4.4 P4.5
func TestTools(t *testing.T) {
	r := parseRequest(t, `{"model":"m","tools":[`+oneTool+`,{"type":"custom","name":"x"},{"type":"namespace","name":"n","tools":[`+oneTool+`,{"type":"custom","name":"y"}]}],`+
		`"input":[{"type":"additional_tools","tools":[{"type":"custom","name":"z"}]}]}`)
	var got []string
	for _, tool := range r.Tools() {
		name := string(tool.Called) + "=" + string(tool.Namespace) + "/" + string(tool.Name)
		if tool.Custom {
			name += " custom"
		}
		got = append(got, name)
	}
	if diff := cmp.Diff([]string{"x=/x custom", "n__f=n/f", "n__y=n/y custom", "z=/z custom"}, got); diff != "" {
		t.Error(diff)
	}
}
