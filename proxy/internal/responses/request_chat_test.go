package responses_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi/clientapitest"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Messages and tools of many test cases.
const (
	hello      = `{"role":"user","content":"hi"}`
	callItem   = `{"type":"function_call","id":"fc_1","call_id":"a","name":"f","arguments":"{}","status":null}`
	outputItem = `{"type":"function_call_output","call_id":"a","output":"1"}`
	chatCall   = `{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}`
	chatTool   = `{"role":"tool","tool_call_id":"a","content":"1"}`
	oneTool    = `{"type":"function","name":"f","parameters":{"type":"object"}}`
	chatOne    = `{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}`
	emptyTool  = `{"type":"function","name":"g","parameters":null}`
	chatEmpty  = `{"type":"function","function":{"name":"g","parameters":{"type":"object","properties":{}}}}`
)

// seal returns the encrypted_content of an item.
func seal(pieces ...thinking.Sealed) string {
	var tokens []string
	for _, p := range pieces {
		tokens = append(tokens, string(sealer.Append(nil, p)))
	}
	return strings.Join(tokens, ",")
}

// TestLower compares lowered requests, without the model and the final message hello, with the expected ones.
func TestLower(t *testing.T) {
	signed := seal(thinking.Sealed{Format: "anthropic-claude-v1", Part: abi.ReasoningSignature, Data: []byte("sig")})
	whole := seal(thinking.Sealed{Format: "anthropic-claude-v1", Part: abi.ReasoningText, Data: []byte(`think \"hard\"`)},
		thinking.Sealed{Format: "anthropic-claude-v1", Part: abi.ReasoningSignature, Data: []byte("sig")})
	for name, test := range map[string]struct {
		members  string // members of the request, or items of its input if it starts with {
		want     string // members after the messages, or messages before hello if it starts with {
		warnings string
	}{
		"a text":               {`,"input":"hi"`, ``, ``},                                                                                                                                                                                                                                                                                                                                                                             // covers: P2.3
		"instructions":         {`,"instructions":"be \u00e4","input":"hi"`, `{"role":"system","content":"be \u00e4"}`, ``},                                                                                                                                                                                                                                                                                                           // covers: P2.5
		"null members":         {`,"instructions":null,"tools":null,"reasoning":null,"text":null,"tool_choice":null,"input":"hi"`, ``, ``},                                                                                                                                                                                                                                                                                            // covers: P2.6
		"sampling":             {`,"input":"hi","max_output_tokens":5,"temperature":0.5,"top_p":1`, `,"max_tokens":5,"temperature":0.5,"top_p":1`, ``},                                                                                                                                                                                                                                                                                // covers: P2.7 P2.8
		"a stream":             {`,"input":"hi","stream":true,"stream_options":{"include_obfuscation":true}`, `stream`, ``},                                                                                                                                                                                                                                                                                                           // covers: P2.35
		"logprobs":             {`,"input":"hi","top_logprobs":2,"include":["message.output_text.logprobs"]`, `,"logprobs":true,"top_logprobs":2`, ``},                                                                                                                                                                                                                                                                                // covers: P2.9
		"logprobs not shown":   {`,"input":"hi","top_logprobs":2`, ``, ``},                                                                                                                                                                                                                                                                                                                                                            // covers: P2.9
		"effort":               {`,"input":"hi","reasoning":{"effort":"low","summary":"auto"}`, `,"reasoning_effort":"low"`, ``},                                                                                                                                                                                                                                                                                                      // covers: P2.10 P2.11
		"unknown reasoning":    {`,"input":"hi","reasoning":{"context":"all_turns","mode":"x"}`, ``, `0 reasoning.context 0 reasoning.mode`},                                                                                                                                                                                                                                                                                          // covers: P2.12
		"format text":          {`,"input":"hi","text":{"format":{"type":"text"}}`, ``, ``},                                                                                                                                                                                                                                                                                                                                           // covers: P2.13
		"format object":        {`,"input":"hi","text":{"format":{"type":"json_object"}}`, `,"response_format":{"type":"json_object"}`, ``},                                                                                                                                                                                                                                                                                           // covers: P2.13
		"format schema":        {`,"input":"hi","text":{"format":{"type":"json_schema","strict":true,"name":"n","description":null,"schema":{"type":"object"}}}`, `,"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"object"}}}`, ``},                                                                                                                                                // covers: P2.13
		"verbosity":            {`,"input":"hi","text":{"verbosity":"low"}`, `,"verbosity":"low"`, ``},                                                                                                                                                                                                                                                                                                                                // covers: P2.14
		"parallel calls":       {`,"input":"hi","parallel_tool_calls":true,"tools":[` + oneTool + `]`, `,"tools":[` + chatOne + `]`, ``},                                                                                                                                                                                                                                                                                              // covers: P2.15
		"no parallel calls":    {`,"input":"hi","parallel_tool_calls":false,"tools":[` + oneTool + `]`, `,"tools":[` + chatOne + `],"parallel_tool_calls":false`, ``},                                                                                                                                                                                                                                                                 // covers: P2.15
		"parallel, no tools":   {`,"input":"hi","parallel_tool_calls":false,"tools":[]`, ``, ``},                                                                                                                                                                                                                                                                                                                                      // covers: P2.15
		"choice":               {`,"input":"hi","tool_choice":"required","tools":[` + oneTool + `]`, `,"tools":[` + chatOne + `],"tool_choice":"required"`, ``},                                                                                                                                                                                                                                                                       // covers: P2.17
		"choice without tools": {`,"input":"hi","tool_choice":"auto"`, ``, ``},                                                                                                                                                                                                                                                                                                                                                        // covers: P2.17
		"choice of a function": {`,"input":"hi","tool_choice":{"type":"function","name":"f"},"tools":[` + oneTool + `]`, `,"tools":[` + chatOne + `],"tool_choice":{"type":"function","function":{"name":"f"}}`, ``},                                                                                                                                                                                                                  // covers: P2.18
		"choice in namespace":  {`,"input":"hi","tool_choice":{"type":"custom","name":"x"},"tools":[{"type":"namespace","name":"n","tools":[{"type":"custom","name":"x"}]}]`, `,"tools":[{"type":"function","function":{"name":"n__x","parameters":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}}}],"tool_choice":{"type":"function","function":{"name":"n__x"}}`, ``}, // covers: P2.18 P4.5
		"allowed tools":        {`,"input":"hi","tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"f"}]},"tools":[` + emptyTool + `,{"type":"mcp"},` + oneTool + `]`, `,"tools":[` + chatOne + `],"tool_choice":"required"`, ``},                                                                                                                                                             // covers: P2.19
		"dropped silently":     {`,"input":"hi","max_tool_calls":1,"include":["web_search_call.results"],"metadata":{"a":"b"},"client_metadata":{"x":1},"prompt_cache_retention":"24h","prompt_cache_options":{"mode":"explicit"},"store":true,"truncation":"disabled"`, ``, ``},                                                                                                                                                      // covers: P2.16 P2.27 P2.30 P2.32 P2.39
		"dropped":              {`,"input":"hi","truncation":"auto","context_management":[{"type":"compaction"}],"moderation":{},"access_programs":[],"new":1,"other":null`, ``, `0 truncation 0 context_management 0 moderation 0 access_programs 0 new`},                                                                                                                                                                            // covers: P2.28 P2.29 P2.36 P2.37
		"client identifiers":   {`,"input":"hi","prompt_cache_key":"k","safety_identifier":"s","user":"u","service_tier":"flex"`, `,"user":"u","safety_identifier":"s","service_tier":"flex","prompt_cache_key":"k"`, ``},                                                                                                                                                                                                             // covers: P2.31 P2.33 P2.34

		"a breakpoint":            {`{"role":"user","content":[{"type":"input_text","text":"a","prompt_cache_breakpoint":{"mode":"explicit"}}]}`, `{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]}`, ``},                                                                                                           // covers: P2.32
		"roles":                   {`{"role":"developer","content":"a"},{"type":"message","role":"system","content":[{"type":"input_text","text":"b"}]}`, `{"role":"developer","content":"a"},{"role":"system","content":"b"}`, ``},                                                                                                                            // covers: P3.3
		"parts":                   {`{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"\n"}]}`, `{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"\n"}]}`, ``},                                                                                                                                // covers: P3.1 P3.2
		"no parts":                {`{"role":"user","content":[]}`, `{"role":"user","content":""}`, ``},                                                                                                                                                                                                                                                        // covers: P3.2
		"an image":                {`{"role":"user","content":[{"type":"input_image","detail":"original","image_url":"u"},{"type":"input_image","image_url":"v","file_id":null,"detail":"low"}]}`, `{"role":"user","content":[{"type":"image_url","image_url":{"url":"u","detail":"high"}},{"type":"image_url","image_url":{"url":"v","detail":"low"}}]}`, ``}, // covers: P3.4
		"a file":                  {`{"role":"user","content":[{"type":"input_file","filename":"n","file_data":"d"}]}`, `{"role":"user","content":[{"type":"file","file":{"file_data":"d","filename":"n"}}]}`, ``},                                                                                                                                             // covers: P3.5
		"audio":                   {`{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"d","format":"wav"}}]}`, `{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"d","format":"wav"}}]}`, ``},                                                                                                                        // covers: P3.6
		"an assistant":            {`{"type":"message","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"a","annotations":[],"logprobs":[]},{"type":"output_text","text":"b"}]}`, `{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, ``},                                                 // covers: P3.7 P3.8
		"an assistant's text":     {`{"role":"assistant","content":"a"}`, `{"role":"assistant","content":"a"}`, ``},                                                                                                                                                                                                                                            // covers: P3.8
		"empty assistant message": {`{"role":"assistant","content":""},{"role":"assistant","content":[]}`, ``, ``},                                                                                                                                                                                                                                             // covers: P3.24
		"a refusal":               {`{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]}`, `{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]}`, ``},                                                                                                                                                                            // covers: P3.9
		"a call":                  {callItem + `,` + outputItem, `{"role":"assistant","content":null,"tool_calls":[` + chatCall + `]},` + chatTool, ``},                                                                                                                                                                                                        // covers: P3.10 P3.11 P3.29
		// covers: P3.10
		"consecutive calls": {`{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"t"}]},{"role":"assistant","content":"a"},` + callItem + `,{"type":"function_call","call_id":"b","name":"g","arguments":""},{"type":"function_call_output","call_id":"b","output":"2"},` + outputItem,
			`{"role":"assistant","content":"a","reasoning_content":"t","tool_calls":[` + chatCall + `,{"id":"b","type":"function","function":{"name":"g","arguments":""}}]},` + chatTool + `,{"role":"tool","tool_call_id":"b","content":"2"}`, ``},
		"between call and output": {callItem + `,` + hello + `,{"role":"developer","content":"d"},` + outputItem, `{"role":"assistant","content":null,"tool_calls":[` + chatCall + `]},` + chatTool + `,` + hello + `,{"role":"developer","content":"d"}`, ``},                                                                                                               // covers: P3.14
		"reused call ID":          {callItem + `,` + outputItem + `,` + callItem + `,{"type":"function_call_output","call_id":"\u0061","output":"2"}`, `{"role":"assistant","content":null,"tool_calls":[` + chatCall + `]},` + chatTool + `,{"role":"assistant","content":null,"tool_calls":[` + chatCall + `]},{"role":"tool","tool_call_id":"\u0061","content":"2"}`, ``}, // covers: P3.13
		"outputs of parts":        {callItem + `,{"type":"function_call_output","call_id":"a","output":[{"type":"input_text","text":"1"},{"type":"input_text","text":"2"}]}`, `{"role":"assistant","content":null,"tool_calls":[` + chatCall + `]},{"role":"tool","tool_call_id":"a","content":[{"type":"text","text":"1"},{"type":"text","text":"2"}]}`, ``},                // covers: P3.12
		// covers: P3.12
		"media in an output": {callItem + `,{"type":"function_call_output","call_id":"a","output":[{"type":"input_text","text":"1"},{"type":"input_image","image_url":"u","prompt_cache_breakpoint":{}}]}`,
			`{"role":"assistant","content":null,"tool_calls":[` + chatCall + `]},{"role":"tool","tool_call_id":"a","content":[{"type":"text","text":"1"},{"type":"text","text":"[image]"}]},` +
				`{"role":"user","content":[{"type":"image_url","image_url":{"url":"u"},"cache_control":{"type":"ephemeral"}}]}`, ``},
		// covers: P3.12
		"media in two outputs": {callItem + `,{"type":"custom_tool_call","call_id":"b","name":"x","input":""},` + hello + `,{"type":"function_call_output","call_id":"a","output":[{"type":"input_image","image_url":"u"}]},` +
			`{"type":"custom_tool_call_output","call_id":"b","output":[{"type":"input_file","file_data":"d"}]},` + callItem + `,` + outputItem,
			`{"role":"assistant","content":null,"tool_calls":[` + chatCall + `,{"id":"b","type":"function","function":{"name":"x","arguments":"{\"input\":\"\"}"}}]},` +
				`{"role":"tool","tool_call_id":"a","content":"[image]"},{"role":"tool","tool_call_id":"b","content":"[file]"},` +
				`{"role":"user","content":[{"type":"image_url","image_url":{"url":"u"}},{"type":"file","file":{"file_data":"d"}}]},` + hello +
				`,{"role":"assistant","content":null,"tool_calls":[` + chatCall + `]},` + chatTool, ``},
		"arguments not JSON": {`{"type":"function_call","call_id":"a","name":"f","arguments":"{\"x"},` + outputItem, `{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x"}}]},` + chatTool, ``}, // covers: P3.16
		// covers: P3.17
		"a custom call": {`{"type":"custom_tool_call","call_id":"a","name":"x","input":"*** \"a\"\n\u00e4"},{"type":"custom_tool_call_output","call_id":"a","output":[{"type":"input_text","text":"1"}]}`,
			`{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"x","arguments":"{\"input\":\"*** \\\"a\\\"\\n\\u00e4\"}"}}]},` + chatTool, ``},
		"a call in a namespace": {`{"type":"function_call","call_id":"a","namespace":"n","name":"f","arguments":"{}"},` + outputItem, `{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"n__f","arguments":"{}"}}]},` + chatTool, ``}, // covers: P4.5
		// covers: P3.25
		"calls of a shell": {`{"type":"local_shell_call","id":"lsh","call_id":"a","action":{"type":"exec","command":["ls"],"env":{}}},{"type":"local_shell_call_output","id":"a","output":"1"},` +
			`{"type":"shell_call","call_id":"b","action":{"commands":["ls"]}},{"type":"shell_call_output","call_id":"b","output":[{"stdout":"x"}]},` +
			`{"type":"apply_patch_call","call_id":"c","operation":{"type":"delete_file","path":"p"}},{"type":"apply_patch_call_output","call_id":"c","status":"completed"},` +
			`{"type":"apply_patch_call","call_id":"d","operation":{}},{"type":"apply_patch_call_output","call_id":"d","status":"failed","output":"no such file"}`,
			`{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"local_shell","arguments":"{\"type\":\"exec\",\"command\":[\"ls\"],\"env\":{}}"}}]},` + chatTool +
				`,{"role":"assistant","content":null,"tool_calls":[{"id":"b","type":"function","function":{"name":"shell","arguments":"{\"commands\":[\"ls\"]}"}}]},{"role":"tool","tool_call_id":"b","content":"[{\"stdout\":\"x\"}]"}` +
				`,{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"apply_patch","arguments":"{\"type\":\"delete_file\",\"path\":\"p\"}"}}]},{"role":"tool","tool_call_id":"c","content":"completed"}` +
				`,{"role":"assistant","content":null,"tool_calls":[{"id":"d","type":"function","function":{"name":"apply_patch","arguments":"{}"}}]},{"role":"tool","tool_call_id":"d","is_error":true,"content":"no such file"}`, ``},

		// covers: P3.18
		"shown reasoning": {`{"type":"reasoning","summary":[{"type":"summary_text","text":"a"},{"type":"summary_text","text":"b"}],"encrypted_content":"` + signed + `"},{"role":"assistant","content":"c"}`,
			`{"role":"assistant","content":"c","reasoning_details":[{"type":"reasoning.text","text":"ab","signature":"sig","format":"anthropic-claude-v1","index":0}]}`, ``},
		// covers: P3.18 P2.26
		"hidden reasoning": {`{"type":"reasoning","summary":[],"encrypted_content":"` + whole + `"},{"role":"assistant","content":"c"}`,
			`{"role":"assistant","content":"c","reasoning_details":[{"type":"reasoning.text","text":"think \"hard\"","signature":"sig","format":"anthropic-claude-v1","index":0}]}`, ``},
		// covers: P3.18
		"reasoning of two blocks": {`{"type":"reasoning","summary":[],"encrypted_content":"` + whole + `"},{"type":"reasoning","summary":[],"encrypted_content":"` + seal(thinking.Sealed{Format: "f", Part: abi.ReasoningEncrypted, Data: []byte("x")}) + `"},{"role":"assistant","content":"c"}`,
			`{"role":"assistant","content":"c","reasoning_details":[{"type":"reasoning.text","text":"think \"hard\"","signature":"sig","format":"anthropic-claude-v1","index":0},{"type":"reasoning.encrypted","data":"x","format":"f","index":1}]}`, ``},
		// covers: P3.18
		"reasoning of a call": {`{"type":"reasoning","summary":[],"encrypted_content":"` + seal(thinking.Sealed{Format: "google-gemini-v1", Part: abi.ReasoningToolEncrypted, CallID: "a", Data: []byte("x")}) + `"},` + callItem + `,` + outputItem,
			`{"role":"assistant","content":null,"reasoning_details":[{"type":"reasoning.encrypted","data":"x","id":"a","format":"google-gemini-v1","index":0}],"tool_calls":[` + chatCall + `]},` + chatTool, ``},
		// covers: P3.18
		"summary of encrypted reasoning": {`{"type":"reasoning","summary":[{"type":"summary_text","text":"s"}],"encrypted_content":"` + seal(thinking.Sealed{Part: abi.ReasoningEncrypted, Data: []byte("x")}) + `"},{"role":"assistant","content":"c"}`,
			`{"role":"assistant","content":"c","reasoning_details":[{"type":"reasoning.encrypted","data":"x","index":0},{"type":"reasoning.summary","summary":"s","index":0}]}`, ``},
		// covers: P3.20
		"text of known origin": {`{"type":"reasoning","summary":[{"type":"summary_text","text":"s"}],"encrypted_content":"` + seal(thinking.Sealed{Format: "deepseek", Part: abi.ReasoningText}) + `"},{"role":"assistant","content":"c"}`,
			`{"role":"assistant","content":"c","reasoning_details":[{"type":"reasoning.text","text":"s","format":"deepseek","index":0}]}`, ``},
		// covers: P3.19
		"foreign reasoning": {`{"type":"reasoning","summary":[],"encrypted_content":"gAAAA"},{"role":"assistant","content":"a"},` + hello + `,{"type":"reasoning","summary":[{"type":"summary_text","text":"s"}],"encrypted_content":"gAAAA"},{"role":"assistant","content":"b"}`,
			`{"role":"assistant","content":"a"},` + hello + `,{"role":"assistant","content":"b"}`, `0 input[0]`},
		"a damaged seal":                   {`{"type":"reasoning","summary":[],"encrypted_content":"` + signed[:len(signed)-1] + `"},{"role":"assistant","content":"a"}`, `{"role":"assistant","content":"a"}`, `0 input[0]`},                                             // covers: P3.18
		"incomplete second seal":           {`{"type":"reasoning","summary":[],"encrypted_content":"` + signed + `,"},{"role":"assistant","content":"a"}`, `{"role":"assistant","content":"a"}`, `0 input[0]`},                                                            // covers: P3.18
		"plain content":                    {`{"type":"reasoning","summary":[{"type":"summary_text","text":"s"}],"content":[{"type":"reasoning_text","text":"t"}]},{"role":"assistant","content":"a"}`, `{"role":"assistant","content":"a","reasoning_content":"t"}`, ``}, // covers: P3.20
		"plain summary":                    {`{"type":"reasoning","summary":[{"type":"summary_text","text":"s"}]},{"role":"assistant","content":"a"}`, `{"role":"assistant","content":"a","reasoning_content":"s"}`, ``},                                                  // covers: P3.20
		"reasoning alone":                  {`{"type":"reasoning","summary":[{"type":"summary_text","text":"s"}],"encrypted_content":"` + signed + `"}`, ``, ``},                                                                                                          // covers: P3.21
		"reasoning without seal":           {`{"type":"reasoning","summary":[],"content":null,"encrypted_content":""},{"role":"assistant","content":"a"}`, `{"role":"assistant","content":"a"}`, ``},                                                                      // covers: P3.30
		"hosted calls":                     {`{"type":"web_search_call","id":"ws","status":"completed"},{"type":"mcp_list_tools","server_label":"x","tools":[]},{"role":"assistant","content":"a"}`, `{"role":"assistant","content":"a"}`, `0 input[0]`},                  // covers: P3.24
		"call of an undeclared tool":       {callItem + `,` + outputItem, `{"role":"assistant","content":null,"tool_calls":[` + chatCall + `]},` + chatTool, ``},                                                                                                          // covers: P3.31
		"tools of an item":                 {`{"type":"additional_tools","role":"developer","tools":[` + oneTool + `]}`, `,"tools":[` + chatOne + `]`, ``},                                                                                                                // covers: P3.27
		"tools defined again":              {`{"type":"additional_tools","tools":[{"type":"function","name":"f","description":"old"}]},` + hello + `,{"type":"additional_tools","tools":[` + oneTool + `]}`, `,"tools":[` + chatOne + `]`, ``},                            // covers: P3.27
		"effort of a configuration update": {`{"type":"configuration_update","reasoning":{"effort":"high"}}`, `,"reasoning_effort":"high"`, ``},                                                                                                                           // covers: P3.27

		"a function":        {`,"input":"hi","tools":[{"type":"function","name":"f","strict":true,"description":"d","parameters":{},"defer_loading":true,"allowed_callers":["direct"],"output_schema":{}}]`, `,"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{},"strict":true}}]`, ``},                                                                                              // covers: P4.1 P4.3
		"parameters null":   {`,"input":"hi","tools":[` + emptyTool + `]`, `,"tools":[` + chatEmpty + `]`, ``},                                                                                                                                                                                                                                                                                                          // covers: P4.2
		"a custom tool":     {`,"input":"hi","tools":[{"type":"custom","name":"x","description":"d","format":{"type":"text"}}]`, `,"tools":[{"type":"function","function":{"name":"x","description":"d","parameters":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}}}]`, ``},                                                                              // covers: P4.4
		"a grammar":         {`,"input":"hi","tools":[{"type":"custom","name":"x","format":{"type":"grammar","syntax":"lark","definition":"start: \"a\"\n"}}]`, `,"tools":[{"type":"function","function":{"name":"x","parameters":{"type":"object","properties":{"input":{"type":"string","description":"Must match this grammar (lark):\nstart: \"a\"\n"}},"required":["input"],"additionalProperties":false}}}]`, ``}, // covers: P4.4
		"a namespace":       {`,"input":"hi","tools":[{"type":"namespace","name":"n","description":"d","tools":[` + oneTool + `]}]`, `,"tools":[{"type":"function","function":{"name":"n__f","parameters":{"type":"object"}}}]`, ``},                                                                                                                                                                                    // covers: P4.5
		"web_search":        {`,"input":"hi","tools":[{"type":"web_search"},` + oneTool + `]`, `,"tools":[` + chatOne + `]`, `0 tools[0]`},                                                                                                                                                                                                                                                                              // covers: P4.6
		"web_search alone":  {`,"input":"hi","tool_choice":"auto","parallel_tool_calls":false,"tools":[{"type":"web_search_preview"}]`, ``, `0 tools[0]`},                                                                                                                                                                                                                                                               // covers: P4.6
		"an expanded chain": {`,"previous_response_id":"resp_1","input":"hi"`, `{"role":"user","content":"a"},{"role":"assistant","content":"b"}`, ``},                                                                                                                                                                                                                                                                  // covers: P2.22 P9.6
	} {
		t.Run(name, func(t *testing.T) {
			body := `{"model":"m"` + test.members + `}`
			if strings.HasPrefix(test.members, "{") {
				body = `{"model":"m","input":[` + test.members + `,` + hello + `]}`
			}
			want := `{"model":"m","messages":[` + hello + `]` + test.want + `}`
			switch {
			case test.want == "stream":
				want = `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[` + hello + `]}`
			case strings.HasPrefix(test.want, "{"):
				want = `{"model":"m","messages":[` + test.want + `,` + hello + `]}`
			case name == "tools defined again":
				want = `{"model":"m","messages":[` + hello + `,` + hello + `]` + test.want + `}`
			}
			r := parseRequest(t, body)
			if e := r.Expand("c"); e != nil {
				t.Fatal(e)
			}
			chat, warnings, e := r.AppendChat([]byte("> "))
			if e != nil {
				t.Fatal(e)
			}
			if want = clientapitest.PromptOrder(t, want); string(chat) != "> "+want {
				t.Errorf(" got %s\nwant > %s", chat, want)
			}
			var list []string
			for _, w := range warnings {
				list = append(list, fmt.Sprint(w.Kind, " ", w.Member))
			}
			if got := strings.Join(list, " "); got != test.warnings {
				t.Errorf("warnings are %q, want %q", got, test.warnings)
			}
			if again, _, e := r.AppendChat(nil); e != nil || "> "+string(again) != string(chat) {
				t.Errorf("the second AppendChat returned %s, %v", again, e)
			}
			var q openai.Request
			if e := q.Parse(chat[2:], clientapi.Limits{}); e != nil {
				t.Error(e)
			} else if q.Rewritten() {
				t.Errorf("not canonical: %s", q.Body)
			}
		})
	}
}

// TestLowerRejects checks the errors for requests that only providers of the API support, or that no provider supports.
func TestLowerRejects(t *testing.T) {
	for name, test := range map[string]struct {
		members string
		param   string
		code    string
		tryNext bool
		message string
	}{
		"conversation":                     {`,"input":"hi","conversation":"conv_1"`, "conversation", "unsupported", true, ""},                                                                                        // covers: P2.23 P8.4
		"prompt":                           {`,"prompt":{"id":"pmpt_1"}`, "prompt", "unsupported", true, ""},                                                                                                          // covers: P2.24
		"background":                       {`,"input":"hi","background":true`, "background", "unsupported", true, ""},                                                                                                // covers: P2.25
		"previous response":                {`,"previous_response_id":"resp_9","input":"hi"`, "previous_response_id", "previous_response_not_found", true, "Previous response with id 'resp_9' not found."},           // covers: P2.22 P9.1 P9.8
		"item reference":                   {`{"type":"item_reference","id":"msg_9"}`, "input", "", true, "Item with id 'msg_9' not found."},                                                                          // covers: P3.22 P9.1
		"effort":                           {`,"input":"hi","reasoning":{"effort":"enormous"}`, "reasoning.effort", "unsupported", true, ""},                                                                          // covers: P2.10
		"format":                           {`,"input":"hi","text":{"format":{"type":"grammar"}}`, "text.format.type", "unsupported", true, ""},                                                                       // covers: P2.13
		"choice of hosted":                 {`,"input":"hi","tool_choice":{"type":"file_search"},"tools":[` + oneTool + `]`, "tool_choice.type", "unsupported", true, ""},                                             // covers: P2.20
		"choice without tools left":        {`,"input":"hi","tool_choice":"required","tools":[{"type":"web_search"}]`, "tool_choice", "unsupported", true, ""},                                                        // covers: P2.17
		"unknown choice":                   {`,"input":"hi","tool_choice":"perhaps","tools":[` + oneTool + `]`, "tool_choice", "invalid_value", true, ""},                                                             // covers: P2.17
		"choice of an undeclared function": {`,"input":"hi","tool_choice":{"type":"function","name":"f"}`, "tool_choice", "unsupported", true, ""},                                                                    // covers: P2.18
		"too many allowed":                 {`,"input":"hi","tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"f"}]}`, "tool_choice.tools", "array_above_max_length", false, ""}, // covers: P2.19
		"image by file":                    {`{"role":"user","content":[{"type":"input_image","file_id":"f"}]}`, "input[0].content[0].file_id", "unsupported", true, ""},                                              // covers: P3.4
		"no image":                         {`{"role":"user","content":[{"type":"input_image"}]}`, "input[0].content[0].image_url", "missing_required_parameter", false, ""},                                          // covers: P3.4
		"image by file in an output":       {callItem + `,{"type":"function_call_output","call_id":"a","output":[{"type":"input_image","file_id":"f"}]}`, "input[1].output[0].file_id", "unsupported", true, ""},      // covers: P3.12
		"file by URL":                      {`{"role":"user","content":[{"type":"input_file","file_url":"u"}]}`, "input[0].content[0].file_url", "unsupported", true, ""},                                             // covers: P3.5
		"part type of chat completions":    {`{"role":"user","content":[{"type":"text","text":"a"}]}`, "input[0].content[0].type", "unsupported", true, ""},                                                           // covers: P3.2
		"image of an assistant":            {`{"role":"assistant","content":[{"type":"input_image","image_url":"u"}]}`, "input[0].content[0].type", "unsupported", true, ""},                                          // covers: P3.7
		"call without output":              {callItem, "input", "", false, "No tool output found for function call a."},                                                                                               // covers: P3.13
		"custom without output":            {`{"type":"custom_tool_call","call_id":"a","name":"x","input":""}`, "input", "", false, "No tool output found for custom tool call a."},                                   // covers: P3.13
		"output without call":              {outputItem, "input", "", false, "No tool call found for tool call output with call_id a."},                                                                               // covers: P3.13
		"output before call":               {outputItem + `,` + callItem, "input", "", false, "No tool call found for tool call output with call_id a."},                                                              // covers: P3.13
		"two outputs":                      {callItem + `,` + outputItem + `,` + outputItem, "input[2].call_id", "invalid_value", false, "'input[2].call_id' is 'a', but this call already has an output."},           // covers: P3.15
		"compaction":                       {`{"type":"compaction","encrypted_content":"x"}`, "input[0].type", "unsupported", true, ""},                                                                               // covers: P3.23
		"computer":                         {`{"type":"computer_call","call_id":"a","action":{}}`, "input[0].type", "unsupported", true, ""},                                                                          // covers: P3.26
		"unknown item":                     {hello + `,{"type":"hologram"}`, "input[1].type", "unsupported", true, "Items of the type 'hologram' are not supported by this model's provider."},                        // covers: P3.28
		"hosted tool":                      {`,"input":"hi","tools":[` + oneTool + `,{"type":"mcp","server_label":"x"}]`, "tools[1].type", "unsupported", true, ""},                                                   // covers: P4.7
		"shell":                            {`,"input":"hi","tools":[{"type":"shell"}]`, "tools[0].type", "unsupported", true, ""},                                                                                    // covers: P4.8
		"hosted in a namespace":            {`,"input":"hi","tools":[{"type":"namespace","name":"n","tools":[{"type":"mcp"}]}]`, "tools[0].tools[0].type", "unsupported", true, ""},                                   // covers: P4.7
		"no content left":                  {`,"input":[{"type":"reasoning","summary":[]}]`, "input", "unsupported", true, ""},                                                                                        // covers: P3.21
	} {
		t.Run(name, func(t *testing.T) {
			body := `{"model":"m"` + test.members + `}`
			if strings.HasPrefix(test.members, "{") {
				body = `{"model":"m","input":[` + test.members + `]}`
			}
			r := parseRequest(t, body)
			if e := r.Expand("c"); e != nil {
				t.Fatal(e)
			}
			chat, _, e := r.AppendChat([]byte("> "))
			if e == nil || e.Status != 400 || e.Param != test.param || e.Code != test.code || e.TryNext != test.tryNext || test.message != "" && e.Message != test.message {
				t.Errorf("got %+v", e)
			}
			if string(chat) != "> " {
				t.Errorf("AppendChat returned an error and appended %s", chat)
			}
			if again := parseRequest(t, body); again.Describe().Model != "m" { // a provider of the API receives it
				t.Error("not parsed")
			}
		})
	}
}
