package messages_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi/clientapitest"
	"github.com/sluice-gateway/sluice/proxy/internal/messages"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

var sealKey = []byte("0123456789abcdef0123456789abcdef")

// seal returns a token of a gateway with sealKey.
func seal(format string, part abi.ReasoningPart, callID, data string) string {
	return string(thinking.NewSealer(sealKey).Append(nil, thinking.Sealed{Format: format, Part: part, CallID: callID, Data: []byte(data)}))
}

// vector is a request and the chat completions request that it is lowered to.
type vector struct {
	name, covers string
	members      string // of the request, after model and max_tokens
	messages     string // hello if empty
	want         string // members of the chat completions request, after model and max_tokens
	warnings     string
	unsupported  string // the error, after which another target is tried
}

func (v *vector) request() string {
	conversation := v.messages
	if conversation == "" {
		conversation = hello
	}
	return `{"model":"m","max_tokens":100` + v.members + `,"messages":[` + conversation + `]}`
}

const (
	hello       = `{"role":"user","content":"Hi"}`
	helloChat   = `,"messages":[{"role":"user","content":"Hi"}]`
	oneTool     = `{"name":"f","input_schema":{"type":"object","properties":{}}}`
	oneToolChat = `{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}`
	called      = `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]}`
	calledChat  = `{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}],"content":null}`
	claude      = `"format":"anthropic-claude-v1"`
)

// newMessage returns a message with these blocks.
func newMessage(role, blocks string) string {
	return `{"role":"` + role + `","content":[` + blocks + `]}`
}

// inResult returns a conversation that ends with a tool result with this content.
func inResult(content string) string {
	return called + `,` + newMessage("user", `{"type":"tool_result","tool_use_id":"a","content":[`+content+`]}`)
}

// resultChat returns the members that inResult is lowered to.
func resultChat(content string) string {
	return `,"messages":[` + calledChat + `,{"role":"tool","tool_call_id":"a","content":` + content + `}]`
}

var vectors = []vector{
	// Members.
	{name: "sampling", covers: "M2.7 M2.12 M2.13 M2.14", members: `,"stream":true,"temperature":0.70,"top_p":1,"top_k":40`,
		want: `,"stream":true,"stream_options":{"include_usage":true},"temperature":0.70,"top_p":1,"top_k":40` + helloChat},
	{name: "stream false", covers: "M2.12", members: `,"stream":false`, want: `,"stream":false` + helloChat},
	{name: "system string", covers: "M2.9", members: `,"system":"Be \u0062rief."`,
		want: `,"messages":[{"role":"system","content":"Be \u0062rief."},{"role":"user","content":"Hi"}]`},
	{name: "system blocks", covers: "M2.10 M2.11",
		members: `,"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1"},{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral","ttl":"1h"}}]`,
		want:    `,"messages":[{"role":"system","content":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1"},{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral","ttl":"1h"}}]},{"role":"user","content":"Hi"}]`},
	{name: "empty system", covers: "M2.10", members: `,"system":[]`, want: helloChat},
	{name: "stop sequences", covers: "M2.15", members: `,"stop_sequences":["END"," \n","\t"]`, want: `,"stop":["END"]` + helloChat,
		warnings: "dropped stop_sequences.1, dropped stop_sequences.2"},
	{name: "no stop sequences", covers: "M2.15", members: `,"stop_sequences":[]`, want: helloChat},
	{name: "user ID", covers: "M2.16", members: `,"metadata":{"user_id":"u-1"}`, want: `,"user":"u-1"` + helloChat},
	{name: "long user ID", covers: "M2.16", members: `,"metadata":{"user_id":"user_` + strings.Repeat("0", 145) + `"}`,
		want: `,"user":"e824564af5eef78f9eee6fe86a0407e2a4cafe727043b5c37a792d2687f5a2d7"` + helloChat},
	{name: "thinking with a budget", covers: "M2.17", members: `,"max_tokens":4000,"thinking":{"type":"enabled","budget_tokens":2048}`,
		want: `,"thinking":{"type":"enabled","budget_tokens":2048}` + helloChat},
	{name: "adaptive thinking", covers: "M2.18 M2.22", members: `,"thinking":{"type":"adaptive","display":"omitted"},"output_config":{"effort":"xhigh"}`,
		want: `,"thinking":{"type":"adaptive","display":"omitted"}` + helloChat + `,"reasoning_effort":"xhigh"`},
	{name: "thinking disabled", covers: "M2.19", members: `,"thinking":{"type":"disabled"}`, want: `,"thinking":{"type":"disabled"}` + helloChat},
	{name: "thinking between tools", covers: "M2.20", members: `,"thinking":{"type":"between_tools"}`, want: `,"thinking":{"type":"adaptive"}` + helloChat},
	{name: "unknown thinking", members: `,"thinking":{"type":"deep"}`, unsupported: "thinking.type: The provider of this model does not support this kind of thinking."},
	{name: "effort of the last message with one", covers: "M2.22", members: `,"output_config":{"effort":"low"}`,
		messages: hello + `,{"role":"system","content":"Go on.","output_config":{"effort":"high"}},` + hello,
		want:     `,"messages":[{"role":"user","content":"Hi"},{"role":"system","content":"Go on."},{"role":"user","content":"Hi"}],"reasoning_effort":"high"`},
	{name: "unknown effort", members: `,"output_config":{"effort":"extreme"}`, want: helloChat, warnings: "dropped output_config.effort"},
	{name: "output_config.format", covers: "M2.23", members: `,"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}`,
		want: `,"response_format":{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":{"type":"object"}}}` + helloChat},
	{name: "output_format", covers: "M2.23", members: `,"output_format":{"type":"json_schema","schema":{"type":"object"}}`,
		want: `,"response_format":{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":{"type":"object"}}}` + helloChat},
	{name: "unknown format", members: `,"output_config":{"format":{"type":"grammar"}}`, unsupported: "output_config.format: The provider of this model does not support this format."},
	{name: "beta members", covers: "M2.24 M2.25 M2.29",
		members:  `,"output_config":{"task_budget":{"total":1}},"diagnostics":{},"speed":"fast","inference_geo":"eu","fallbacks":[],"compaction":{},"context_management":{"edits":[]},"x\ny":1`,
		want:     helloChat,
		warnings: "dropped output_config.task_budget, dropped diagnostics, dropped speed, dropped inference_geo, dropped fallbacks, dropped compaction, dropped context_management, dropped x\\\\ny"},
	{name: "cache_control of the request", covers: "M2.26", members: `,"cache_control":{"type":"ephemeral"}`, want: `,"cache_control":{"type":"ephemeral"}` + helloChat},
	{name: "service_tier auto", covers: "M2.27", members: `,"service_tier":"auto"`, want: `,"service_tier":"auto"` + helloChat},
	{name: "service_tier standard_only", covers: "M2.27", members: `,"service_tier":"standard_only"`, want: `,"service_tier":"default"` + helloChat},
	{name: "service_tier unknown", members: `,"service_tier":"gold"`, want: helloChat, warnings: "dropped service_tier"},
	{name: "container", covers: "M2.28", members: `,"container":"c"`, unsupported: "container: The provider of this model does not support containers."},
	{name: "mcp_servers", covers: "M2.28", members: `,"mcp_servers":[{}]`, unsupported: "mcp_servers: The provider of this model does not support MCP servers."},
	{name: "no mcp_servers", members: `,"mcp_servers":[]`, want: helloChat},
	{name: "null members", covers: "M2.30",
		members: `,"system":null,"stream":null,"temperature":null,"top_p":null,"top_k":null,"stop_sequences":null,"metadata":null,"thinking":null,"tools":null,"tool_choice":null,"service_tier":null,"container":null,"mcp_servers":null,"output_config":null,"output_format":null,"cache_control":null,"other":null`,
		want:    helloChat},
	{name: "null members of members", covers: "M2.30", members: `,"metadata":{"user_id":null},"output_config":{"effort":null,"format":null,"other":null},"thinking":{"type":"adaptive","budget_tokens":null,"display":null}`,
		want: `,"thinking":{"type":"adaptive"}` + helloChat},

	// Tools.
	{name: "tools", covers: "M4.1 M4.2", members: `,"tools":[{"name":"f","description":"Does it.","strict":true,"cache_control":{"type":"ephemeral"},"input_schema":{ "type":"object","properties":{"n":{"minimum":1.0}}}},{"type":"custom","name":"g","input_schema":{"type":"object"}}]`,
		want: helloChat + `,"tools":[{"type":"function","function":{"name":"f","description":"Does it.","strict":true,"parameters":{ "type":"object","properties":{"n":{"minimum":1.0}}}},"cache_control":{"type":"ephemeral"}},{"type":"function","function":{"name":"g","parameters":{"type":"object"}}}]`},
	{name: "members of tools", covers: "M4.3", members: `,"tools":[{"name":"f","input_schema":{"type":"object","properties":{}},"eager_input_streaming":true,"input_examples":[{}],"defer_loading":true,"allowed_callers":["direct","code_execution_20250825"]},{"name":"g","input_schema":{},"allowed_callers":["code_execution_20250825"]}]`,
		want: helloChat + `,"tools":[` + oneToolChat + `]`, warnings: "dropped tools.1"},
	{name: "schemas without a type", covers: "M4.4", members: `,"tools":[{"name":"f","input_schema":{}},{"name":"g","input_schema":{ "properties":{"a":{}}}}]`,
		want: helloChat + `,"tools":[` + oneToolChat + `,{"type":"function","function":{"name":"g","parameters":{"type":"object", "properties":{"a":{}}}}}]`},
	{name: "server tool", covers: "M4.6", members: `,"tools":[` + oneTool + `,{"type":"web_search_20250305","name":"web_search"}]`, unsupported: "tools.1: The provider of this model does not support tools of the type 'web_search_20250305'."},
	{name: "client tool with a type", covers: "M4.7", members: `,"tools":[{"type":"bash_20250124","name":"bash"}]`, unsupported: "tools.0: The provider of this model does not support tools of the type 'bash_20250124'."},
	{name: "tool_choice auto", covers: "M4.8", members: `,"tools":[` + oneTool + `],"tool_choice":{"type":"auto"}`, want: helloChat + `,"tools":[` + oneToolChat + `],"tool_choice":"auto"`},
	{name: "tool_choice any", covers: "M4.8", members: `,"tools":[` + oneTool + `],"tool_choice":{"type":"any"}`, want: helloChat + `,"tools":[` + oneToolChat + `],"tool_choice":"required"`},
	{name: "tool_choice none", covers: "M4.8", members: `,"tools":[` + oneTool + `],"tool_choice":{"type":"none"}`, want: helloChat + `,"tools":[` + oneToolChat + `],"tool_choice":"none"`},
	{name: "tool_choice tool, one call at a time", covers: "M4.8 M4.10", members: `,"tools":[` + oneTool + `],"tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true}`,
		want: helloChat + `,"tools":[` + oneToolChat + `],"tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false`},
	{name: "tool_choice of a dropped tool", members: `,"tools":[{"name":"f","input_schema":{},"allowed_callers":[]},{"name":"g","input_schema":{}}],"tool_choice":{"type":"tool","name":"f"}`,
		unsupported: "tool_choice.tool.name: Tool 'f' not found in the tools for the provider of this model"},
	{name: "tool_choice without tools", covers: "M4.9", members: `,"tool_choice":{"type":"any","disable_parallel_tool_use":true}`, want: helloChat},
	{name: "no tools", covers: "M4.11", members: `,"tools":[],"tool_choice":{"type":"auto"}`, want: helloChat},

	// Messages.
	{name: "one text block", covers: "M3.1", messages: newMessage("user", `{"type":"text","text":"Hi"}`), want: helloChat},
	{name: "texts", messages: newMessage("user", `{"type":"text","text":"Hi"},{"type":"text","text":"there"}`),
		want: `,"messages":[{"role":"user","content":[{"type":"text","text":"Hi"},{"type":"text","text":"there"}]}]`},
	{name: "results precede the rest of the turn", covers: "M3.2 M3.3", messages: newMessage("assistant", `{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","id":"b","name":"f","input":{}},{"type":"tool_use","id":"c","name":"f","input":{}},{"type":"tool_use","id":"d","name":"f","input":{}}`) + `,` +
		newMessage("user", `{"type":"text","text":"one"},{"type":"tool_result","tool_use_id":"b","content":"B"},{"type":"text","text":"two"},{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"A"},{"type":"text","text":"a"}]},{"type":"tool_result","tool_use_id":"c"},{"type":"tool_result","tool_use_id":"d","content":[]}`),
		want: `,"messages":[{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"d","type":"function","function":{"name":"f","arguments":"{}"}}],"content":null},` +
			`{"role":"tool","tool_call_id":"b","content":"B"},{"role":"tool","tool_call_id":"a","content":[{"type":"text","text":"A"},{"type":"text","text":"a"}]},{"role":"tool","tool_call_id":"c","content":""},{"role":"tool","tool_call_id":"d","content":""},` +
			`{"role":"user","content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]}]`},
	{name: "failed tool", covers: "M3.4", messages: called + `,` + newMessage("user", `{"type":"tool_result","tool_use_id":"a","is_error":true,"content":"no such file"}`),
		want: `,"messages":[` + calledChat + `,{"role":"tool","tool_call_id":"a","is_error":true,"content":"no such file"}]`},
	{name: "successful tool", covers: "M3.4", messages: called + `,` + newMessage("user", `{"type":"tool_result","tool_use_id":"a","is_error":false,"content":"x"}`), want: resultChat(`"x"`)},
	{name: "image in a result", covers: "M3.5", messages: inResult(`{"type":"text","text":"a.png"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBO"}}`),
		want: `,"messages":[` + calledChat + `,{"role":"tool","tool_call_id":"a","content":[{"type":"text","text":"a.png"},{"type":"text","text":"[image]"}]},{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBO"}}]}]`},
	{name: "files in results, before the rest of the turn", covers: "M3.5 M3.6", messages: inResult(`{"type":"document","title":"T","context":"C","source":{"type":"url","url":"https://a.example/c.pdf"},"cache_control":{"type":"ephemeral"}},{"type":"image","source":{"type":"url","url":"u"}}`) + `,` + hello,
		want: `,"messages":[` + calledChat + `,{"role":"tool","tool_call_id":"a","content":[{"type":"text","text":"C"},{"type":"text","text":"[file]"},{"type":"text","text":"[image]"}]},` +
			`{"role":"user","content":[{"type":"file","file":{"filename":"T","file_data":"https://a.example/c.pdf"},"cache_control":{"type":"ephemeral"}},{"type":"image_url","image_url":{"url":"u"}}]},{"role":"user","content":"Hi"}]`},
	{name: "documents in a result", covers: "M3.6", messages: inResult(`{"type":"document","source":{"type":"text","media_type":"text/plain","data":"D"}},{"type":"search_result","source":"https://a.example","title":"T","content":[{"type":"text","text":"S"}]},{"type":"tool_reference","tool_name":"g"}`),
		want: resultChat(`[{"type":"text","text":"D"},{"type":"text","text":"https://a.example\nT\nS"},{"type":"text","text":"g"}]`)},
	{name: "browser state in a result", covers: "M3.6", messages: inResult(`{"type":"browser_state"}`),
		unsupported: "messages.1.content.0.tool_result.content.0: The provider of this model does not support content of the type 'browser_state' here."},
	{name: "input keeps numbers and escapes", covers: "M3.7", messages: newMessage("assistant", `{"type":"tool_use","id":"a","name":"f","input":{ "b" : 1.00,"a":"say \"hi\"\n\\ \u00e9 ü" , "c":[ ]}}`) + `,` + newMessage("user", `{"type":"tool_result","tool_use_id":"a"}`),
		want: `,"messages":[{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"b\":1.00,\"a\":\"say \\\"hi\\\"\\n\\\\ \\u00e9 ü\",\"c\":[]}"}}],"content":null},{"role":"tool","tool_call_id":"a","content":""}]`},
	{name: "images", covers: "M3.9", messages: newMessage("user", `{"type":"image","source":{"type":"base64","media_type":"image/x-odd","data":"iVBO"}},{"type":"image","source":{"type":"url","url":"https://a.example/b.png"}}`),
		want: `,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/x-odd;base64,iVBO"}},{"type":"image_url","image_url":{"url":"https://a.example/b.png"}}]}]`},
	{name: "uploaded image", covers: "M3.9", messages: newMessage("user", `{"type":"image","source":{"type":"file","file_id":"file_1"}}`),
		unsupported: "messages.0.content.0.image.source: The provider of this model has no access to the file, which was uploaded to another provider."},
	{name: "documents", covers: "M3.10", messages: newMessage("user", `{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBE"}},{"type":"document","source":{"type":"text","media_type":"text/plain","data":"plain"}},{"type":"document","source":{"type":"content","content":"string"}},{"type":"document","source":{"type":"content","content":[{"type":"text","text":"block"},{"type":"image","source":{"type":"url","url":"https://a.example/b.png"}}]}},{"type":"document","source":{"type":"url","url":"https://a.example/c.pdf"}}`),
		want: `,"messages":[{"role":"user","content":[{"type":"file","file":{"file_data":"data:application/pdf;base64,JVBE"}},{"type":"text","text":"plain"},{"type":"text","text":"string"},{"type":"text","text":"block"},{"type":"image_url","image_url":{"url":"https://a.example/b.png"}},{"type":"file","file":{"file_data":"https://a.example/c.pdf"}}]}]`},
	{name: "uploaded document", covers: "M3.10", messages: newMessage("user", `{"type":"document","source":{"type":"file","file_id":"file_1"}}`),
		unsupported: "messages.0.content.0.document.source: The provider of this model has no access to the file, which was uploaded to another provider."},
	{name: "title, context and citations", covers: "M3.11", messages: newMessage("user", `{"type":"document","title":"T","context":"C","citations":{"enabled":true},"source":{"type":"base64","media_type":"application/pdf","data":"JVBE"}},{"type":"document","title":"U","context":null,"citations":{"enabled":false},"source":{"type":"text","media_type":"text/plain","data":"plain"}}`),
		want:     `,"messages":[{"role":"user","content":[{"type":"text","text":"C"},{"type":"file","file":{"filename":"T","file_data":"data:application/pdf;base64,JVBE"}},{"type":"text","text":"U"},{"type":"text","text":"plain"}]}]`,
		warnings: "dropped messages.0.content.0.document.citations"},
	{name: "search result", covers: "M3.12", messages: newMessage("user", `{"type":"search_result","source":"https://a.example","title":"T","content":[{"type":"text","text":"one"},{"type":"text","text":"two"}],"citations":{"enabled":true},"cache_control":{"type":"ephemeral"}}`),
		want:     `,"messages":[{"role":"user","content":[{"type":"text","text":"https://a.example\nT\none\ntwo","cache_control":{"type":"ephemeral"}}]}]`,
		warnings: "dropped messages.0.content.0.search_result.citations"},
	{name: "thinking of Anthropic keeps its position", covers: "M3.13 M3.17 M3.18", messages: newMessage("assistant", `{"type":"thinking","thinking":"one","signature":"Eq\/="},{"type":"text","text":"Hi"},{"type":"redacted_thinking","data":"Em=="},{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"thinking","thinking":"two","signature":"Eu"}`) + `,` + newMessage("user", `{"type":"tool_result","tool_use_id":"a"}`),
		want: `,"messages":[{"role":"assistant","reasoning_details":[{"type":"reasoning.text","text":"one","signature":"Eq\/=",` + claude + `,"index":0},{"type":"reasoning.encrypted","data":"Em==",` + claude + `,"index":2},{"type":"reasoning.text","text":"two","signature":"Eu",` + claude + `,"index":4}],` +
			`"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}],"content":"Hi"},{"role":"tool","tool_call_id":"a","content":""}]`},
	{name: "sealed thinking", covers: "M3.14", messages: newMessage("assistant", `{"type":"thinking","thinking":"S","signature":"`+seal("openai-responses-v1", abi.ReasoningEncrypted, "", "gAAA")+`"},`+
		`{"type":"thinking","thinking":"","signature":"`+seal("google-gemini-v1", abi.ReasoningToolEncrypted, `c"1`, "CiQB")+`"},`+
		`{"type":"thinking","thinking":"G","signature":"`+seal("google-gemini-v1", abi.ReasoningSignature, "", "Cg==")+`"},`+
		`{"type":"thinking","thinking":"X","signature":"`+seal("xai-responses-v1", abi.ReasoningSummary, "", "")+`"},`+
		`{"type":"redacted_thinking","data":"`+seal("cohere-v2", abi.ReasoningEncrypted, "", "E")+`"},`+
		`{"type":"thinking","thinking":"D","signature":"\u0073`+seal("deepseek-v1", abi.ReasoningText, "", "")[1:]+`"},{"type":"text","text":"Hi"}`),
		want: `,"messages":[{"role":"assistant","reasoning_details":[{"type":"reasoning.summary","summary":"S","format":"openai-responses-v1","index":0},{"type":"reasoning.encrypted","data":"gAAA","format":"openai-responses-v1","index":0},` +
			`{"type":"reasoning.encrypted","data":"CiQB","id":"c\"1","format":"google-gemini-v1","index":1},{"type":"reasoning.text","text":"G","signature":"Cg==","format":"google-gemini-v1","index":2},` +
			`{"type":"reasoning.summary","summary":"X","format":"xai-responses-v1","index":3},{"type":"reasoning.encrypted","data":"E","format":"cohere-v2","index":4},{"type":"reasoning.text","text":"D","format":"deepseek-v1","index":5}],"content":"Hi"}]`},
	{name: "damaged seal", covers: "M3.15", messages: newMessage("assistant", `{"type":"thinking","thinking":"S","signature":"sluice.seal.1.AAAA"},{"type":"text","text":"Hi"}`),
		want: `,"messages":[{"role":"assistant","content":"Hi"}]`, warnings: "dropped messages.0.content.0"},
	{name: "thinking without a signature", covers: "M3.16", messages: newMessage("assistant", `{"type":"thinking","thinking":"one ","signature":""},{"type":"thinking","thinking":"two"},{"type":"thinking","thinking":"!","signature":"`+seal("", abi.ReasoningText, "", "")+`"},{"type":"text","text":"Hi"}`),
		want: `,"messages":[{"role":"assistant","reasoning_content":"one two!","content":"Hi"}]`},
	{name: "only thinking", messages: newMessage("assistant", `{"type":"thinking","thinking":"one","signature":""}`) + `,` + hello,
		want: `,"messages":[{"role":"assistant","reasoning_content":"one","content":""},{"role":"user","content":"Hi"}]`},
	{name: "text after a call", covers: "M3.19", messages: newMessage("assistant", `{"type":"text","text":"one"},{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"text","text":"two"}`) + `,` + newMessage("user", `{"type":"tool_result","tool_use_id":"a"}`),
		want: `,"messages":[{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}],"content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]},{"role":"tool","tool_call_id":"a","content":""}]`},
	{name: "turns of one role", covers: "M3.20", messages: hello + `,` + hello + `,{"role":"assistant","content":"one"},{"role":"assistant","content":"two"}`,
		want: `,"messages":[{"role":"user","content":"Hi"},{"role":"user","content":"Hi"},{"role":"assistant","content":"one"},{"role":"assistant","content":"two"}]`},
	{name: "a turn that continues after a call", covers: "M3.20", messages: called + `,{"role":"assistant","content":"two"},` + newMessage("assistant", `{"type":"tool_use","id":"b","name":"f","input":{}}`) + `,` + newMessage("user", `{"type":"tool_result","tool_use_id":"a"}`) + `,` + newMessage("user", `{"type":"text","text":"x"},{"type":"tool_result","tool_use_id":"b"}`),
		want: `,"messages":[{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"f","arguments":"{}"}}],"content":[{"type":"text","text":"two"}]},` +
			`{"role":"tool","tool_call_id":"a","content":""},{"role":"tool","tool_call_id":"b","content":""},{"role":"user","content":"x"}]`},
	{name: "system in the middle", covers: "M3.21", messages: hello + `,{"role":"system","content":"S"},` + called + `,` + newMessage("system", `{"type":"text","text":"T","cache_control":{"type":"ephemeral"}}`) + `,` + newMessage("user", `{"type":"tool_result","tool_use_id":"a"}`),
		want: `,"messages":[{"role":"user","content":"Hi"},{"role":"system","content":"S"},` + calledChat + `,{"role":"tool","tool_call_id":"a","content":""},{"role":"system","content":[{"type":"text","text":"T","cache_control":{"type":"ephemeral"}}]}]`},
	{name: "tools added and removed", covers: "M3.22", members: `,"tools":[` + oneTool + `,{"name":"g","input_schema":{}}]`,
		messages: hello + `,` + newMessage("system", `{"type":"tool_removal","tool":{"type":"tool_reference","name":"f"}},{"type":"tool_removal","tool":{"type":"tool_reference","name":"g"}}`) + `,` + newMessage("system", `{"type":"tool_addition","tool":{"type":"tool_reference","name":"f"}},{"type":"text","text":"f is back"}`),
		want:     `,"messages":[{"role":"user","content":"Hi"},{"role":"system","content":"f is back"}],"tools":[` + oneToolChat + `]`},
	{name: "unknown tool added", covers: "M3.22", members: `,"tools":[` + oneTool + `]`, messages: hello + `,` + newMessage("system", `{"type":"tool_addition","tool":{"type":"tool_reference","name":"g"}}`),
		unsupported: "messages.1.content.0.tool_addition.tool.tool_reference.name: The provider of this model cannot add a tool that is not one of `tools`."},
	{name: "added tool is not a reference", covers: "M3.22", messages: hello + `,` + newMessage("system", `{"type":"tool_addition","tool":`+oneTool+`}`),
		unsupported: "messages.1.content.0: The provider of this model cannot change its tools in the middle of a conversation."},
	{name: "blocks of server tools", covers: "M3.23", messages: hello + `,` + newMessage("assistant", `{"type":"server_tool_use","id":"s","name":"web_search","input":{}},{"type":"web_search_tool_result","tool_use_id":"s","content":[]},{"type":"text","text":"It rains.","citations":[{}]}`) + `,` + newMessage("user", `{"type":"container_upload","file_id":"f"}`) + `,` +
		newMessage("assistant", `{"type":"mcp_tool_use","id":"m","name":"n","input":{}}`) + `,` + newMessage("assistant", `{"type":"compaction","content":"Summary"}`) + `,` + hello,
		want:     `,"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"text","text":"It rains."}]},{"role":"assistant","content":[{"type":"text","text":"Summary"}]},{"role":"user","content":"Hi"}]`,
		warnings: "dropped messages.1.content.0, dropped messages.1.content.1, dropped messages.2.content.0, dropped messages.3.content.0"},
	{name: "no content left", messages: newMessage("user", `{"type":"container_upload","file_id":"f"}`), unsupported: "messages: The provider of this model does not support any of the messages' content."},
	{name: "prefill", covers: "M3.24 M3.25", messages: hello + `,{"role":"assistant","content":"{ "}`, want: `,"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"{ "}]`},
	{name: "cache_control", covers: "M3.26", members: `,"tools":[{"name":"f","input_schema":{"type":"object","properties":{}},"cache_control":{"type":"ephemeral","ttl":"1h"}}]`,
		messages: newMessage("user", `{"type":"image","source":{"type":"url","url":"u"},"cache_control":{"type":"ephemeral"}},{"type":"document","source":{"type":"text","media_type":"text/plain","data":"d"},"cache_control":{"type":"ephemeral"}},{"type":"document","source":{"type":"content","content":[{"type":"text","text":"e"},{"type":"text","text":"f"}]},"cache_control":{"type":"ephemeral"}}`) + `,` +
			newMessage("assistant", `{"type":"tool_use","id":"a","name":"f","input":{},"cache_control":{"type":"ephemeral"}}`) + `,` +
			newMessage("user", `{"type":"tool_result","tool_use_id":"a","cache_control":{"type":"ephemeral"}},{"type":"text","text":"g","cache_control":{"type":"ephemeral"}}`),
		want: `,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"u"},"cache_control":{"type":"ephemeral"}},{"type":"text","text":"d","cache_control":{"type":"ephemeral"}},{"type":"text","text":"e"},{"type":"text","text":"f","cache_control":{"type":"ephemeral"}}]},` +
			`{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"},"cache_control":{"type":"ephemeral"}}],"content":null},` +
			`{"role":"tool","tool_call_id":"a","cache_control":{"type":"ephemeral"},"content":""},{"role":"user","content":[{"type":"text","text":"g","cache_control":{"type":"ephemeral"}}]}],` +
			`"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}},"cache_control":{"type":"ephemeral","ttl":"1h"}}]`},
	{name: "empty texts", covers: "M3.27", messages: newMessage("user", `{"type":"text","text":""},{"type":"text","text":"Hi"}`) + `,` + newMessage("assistant", `{"type":"text","text":""}`) + `,` + newMessage("user", ``) + `,` + inResult(`{"type":"text","text":""}`),
		want: `,"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]},{"role":"assistant","content":""},` + calledChat + `,{"role":"tool","tool_call_id":"a","content":""}]`},
	{name: "unknown block", covers: "M3.28", messages: hello + `,` + newMessage("user", `{"type":"text","text":"Hi"},{"type":"hologram","data":1}`),
		unsupported: "messages.1.content.1: The provider of this model does not support content of the type 'hologram' here."},
	{name: "unknown members", covers: "M2.29", messages: newMessage("user", `{"type":"text","text":"Hi","mood":"good"}`), want: helloChat, warnings: "dropped messages.0.content.0.text.mood"},
}

func TestAppendChat(t *testing.T) {
	r := messages.NewRequest(thinking.NewSealer(sealKey))
	for _, v := range vectors {
		t.Run(v.name, func(t *testing.T) {
			request := v.request()
			if strings.Count(request, `"max_tokens"`) > 1 {
				request = strings.Replace(request, `"max_tokens":100,`, "", 1)
			}
			if e := r.Parse([]byte(request), clientapi.Limits{}); e != nil {
				t.Fatal(e)
			}
			if e := r.FitModel(0, true, false); e != nil {
				t.Fatal(e)
			}
			chat, warnings, e := r.AppendChat(nil)
			if v.unsupported != "" {
				if e == nil || !e.TryNext || e.Param+": "+e.Message != v.unsupported {
					t.Fatalf("%+v, want %s", e, v.unsupported)
				}
				return
			}
			if e != nil {
				t.Fatal(e)
			}
			_, limit, _ := bytes.Cut(chat, []byte(`"max_tokens":`))
			limit = limit[:len(limit)-len(bytes.TrimLeft(limit, "0123456789"))]
			if want := clientapitest.PromptOrder(t, `{"model":"m","max_tokens":`+string(limit)+v.want+"}"); string(chat) != want {
				t.Errorf("got  %s\nwant %s", chat, want)
			}
			var all []string
			for _, w := range warnings {
				all = append(all, [...]string{"dropped ", "clamped ", "changed "}[w.Kind]+w.Member)
			}
			if got := strings.Join(all, ", "); got != v.warnings {
				t.Errorf("warnings %s, want %s", got, v.warnings)
			}
			var lowered openai.Request
			if e := lowered.Parse(chat, clientapi.Limits{}); e != nil {
				t.Errorf("rejected: %v", e)
			}
			checkRequest(t, r, new(openai.Request), []byte(request), request, 0, true)
		})
	}
}
