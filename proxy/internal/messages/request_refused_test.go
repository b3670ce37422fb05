package messages_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/messages"
)

// ask is a request with these members after model and max_tokens.
func ask(members string) string {
	return `{"model":"m","max_tokens":100,"messages":[` + hello + `]` + members + `}`
}

// talk is a request with these messages.
func talk(messages string) string {
	return `{"model":"m","max_tokens":100,"messages":[` + messages + `]}`
}

// refused are requests that no provider can serve, and the texts of their errors: by Parse, or, of tool uses and results that do not
// match, by AppendChat.
var refused = []struct{ name, body, want string }{
	// covers: M2.1
	{"no JSON", `{"model":`, "The request body could not be parsed as JSON: unexpected end of the document (at byte 9)."},
	{"duplicate member", `{"model":"m","mod\u0065l":"n"}`, "The request body could not be parsed as JSON: a member name appears twice in one object (at byte 13)."},
	{"duplicate member of a tool's input", talk(said("assistant", `{"type":"tool_use","id":"a","name":"f","input":{"x":1,"x":2}}`)), "The request body could not be parsed as JSON: a member name appears twice in one object (at byte 127)."},
	{"number too large", ask(`,"x":1e999`), "The request body could not be parsed as JSON: a number is too large (at byte 78)."},
	{"nested too deep", ask(`,"x":` + strings.Repeat("[", 128) + strings.Repeat("]", 128)), "The request body could not be parsed as JSON: the document is nested deeper than 128 levels (at byte 205)."},
	{"no object", `[]`, "The request body must be a JSON object."},
	// covers: M2.2
	{"no model", `{"max_tokens":1}`, "model: Field required"},
	{"null model", `{"model":null}`, "model: Field required"},
	{"empty model", `{"model":""}`, "model: String should have at least 1 character"},
	{"model of another kind", `{"model":1}`, "model: Input should be a valid string"},
	{"long model", `{"model":"` + strings.Repeat("m", 257) + `"}`, "model: String should have at most 256 characters"},
	{"model with a zero", `{"model":"a\u0000"}`, "model: String should not contain the character U+0000"},
	// covers: M2.4
	{"no max_tokens", `{"model":"m","messages":[` + hello + `]}`, "max_tokens: Field required"},
	{"null max_tokens", `{"model":"m","max_tokens":null}`, "max_tokens: Field required"},
	{"fraction of a token", `{"model":"m","max_tokens":1.0}`, "max_tokens: Input should be a valid integer"},
	{"less than no tokens", `{"model":"m","max_tokens":-1}`, "max_tokens: Input should be greater than or equal to 0"},
	{"too many tokens", `{"model":"m","max_tokens":99999999999999999999}`, "max_tokens: Input should be less than or equal to 2147483647"},
	{"far less than no tokens", `{"model":"m","max_tokens":-99999999999999999999}`, "max_tokens: Input should be greater than or equal to 0"},
	// covers: M2.8
	{"no messages", `{"model":"m","max_tokens":1}`, "messages: Field required"},
	{"empty messages", `{"model":"m","max_tokens":1,"messages":[]}`, "messages: at least one message is required"},
	{"too many messages", talk(strings.Repeat(hello+",", 100_000) + hello), "messages: List should have at most 100000 items, not 100001"},
	{"messages of another kind", `{"model":"m","max_tokens":1,"messages":{}}`, "messages: Input should be a valid list"},
	// covers: M2.12
	{"stream", ask(`,"stream":"true"`), "stream: Input should be a valid boolean"},
	// covers: M2.13
	{"temperature", ask(`,"temperature":2.1`), "temperature: Input should be less than or equal to 2"},
	{"top_p", ask(`,"top_p":-0.1`), "top_p: Input should be greater than or equal to 0"},
	{"top_p of another kind", ask(`,"top_p":"1"`), "top_p: Input should be a valid number"},
	// covers: M2.14
	{"top_k", ask(`,"top_k":-1`), "top_k: Input should be greater than or equal to 0"},
	// covers: M2.15
	{"stop sequence", ask(`,"stop_sequences":["a",1]`), "stop_sequences.1: Input should be a valid string"},
	{"stop sequences", ask(`,"stop_sequences":[` + strings.Repeat(`"a",`, 16) + `"a"]`), "stop_sequences: List should have at most 16 items, not 17"},
	// covers: M2.16
	{"user", ask(`,"metadata":{"user_id":1}`), "metadata.user_id: Input should be a valid string"},
	// covers: M2.21
	{"small budget", ask(`,"thinking":{"type":"enabled","budget_tokens":1023}`), "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"},
	{"budget that is all of max_tokens", ask(`,"thinking":{"type":"enabled","budget_tokens":1024}`), "max_tokens: `max_tokens` must be greater than `thinking.budget_tokens`."},
	// covers: M2.17
	{"no budget", ask(`,"thinking":{"type":"enabled"}`), "thinking.enabled.budget_tokens: Field required"},
	{"thinking without a type", ask(`,"thinking":{}`), "thinking.type: Field required"},
	// covers: M2.22
	{"effort", ask(`,"output_config":{"effort":1}`), "output_config.effort: Input should be a valid string"},
	// covers: M2.23
	{"schema", ask(`,"output_config":{"format":{"type":"json_schema","schema":[]}}`), "output_config.format.json_schema.schema: Input should be a valid dictionary"},
	// covers: M2.26
	{"cache_control", ask(`,"cache_control":true`), "cache_control: Input should be a valid dictionary"},
	// covers: M2.27
	{"service_tier", ask(`,"service_tier":1`), "service_tier: Input should be a valid string"},
	// covers: M2.9
	{"system", ask(`,"system":1`), "system: Input should be a valid list"},
	// covers: M2.10
	{"system block", ask(`,"system":[{"type":"text"}]`), "system.0.text.text: Field required"},
	{"system block that is no text", ask(`,"system":[{"type":"image","source":{"type":"url","url":"u"}}]`), "system.0: Input should be a valid text block"},

	// covers: M3.29
	{"message of another kind", talk(`"Hi"`), "messages.0: Input should be a valid dictionary"},
	{"no role", talk(`{"content":"Hi"}`), "messages.0.role: Field required"},
	{"unknown role", talk(hello + `,{"role":"tool","content":"Hi"}`), "messages.1.role: Input should be 'user', 'assistant' or 'system'"},
	{"no content", talk(`{"role":"user"}`), "messages.0.content: Field required"},
	{"null content", talk(`{"role":"user","content":null}`), "messages.0.content: Input should be a valid string or list"},
	{"block of another kind", talk(said("user", `"Hi"`)), "messages.0.content.0: Input should be a valid dictionary"},
	{"block without a type", talk(hello + `,` + hello + `,` + hello + `,` + said("user", `{"text":"Hi"}`)), "messages.3.content.0.type: Field required"},
	{"no text", talk(said("user", `{"type":"text"}`)), "messages.0.content.0.text.text: Field required"},
	// covers: M3.8
	{"no input", talk(said("assistant", `{"type":"tool_use","id":"a","name":"f"}`)), "messages.0.content.0.tool_use.input: Field required"},
	{"input that is no object", talk(said("assistant", `{"type":"tool_use","id":"a","name":"f","input":"{}"}`)), "messages.0.content.0.tool_use.input: Input should be a valid dictionary"},
	{"empty ID", talk(said("assistant", `{"type":"tool_use","id":"","name":"f","input":{}}`)), "messages.0.content.0.tool_use.id: String should have at least 1 character"},
	// covers: M3.3
	{"content of a result", talk(said("user", `{"type":"tool_result","tool_use_id":"a","content":{}}`)), "messages.0.content.0.tool_result.content: Input should be a valid string or list"},
	// covers: M3.4
	{"is_error", talk(said("user", `{"type":"tool_result","tool_use_id":"a","is_error":1}`)), "messages.0.content.0.tool_result.is_error: Input should be a valid boolean"},
	// covers: M3.29
	{"block of a result", talk(said("user", `{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":1}]}`)), "messages.0.content.0.tool_result.content.0.text.text: Input should be a valid string"},
	{"result in a result", talk(said("user", `{"type":"tool_result","tool_use_id":"a","content":[{"type":"tool_result"}]}`)), "messages.0.content.0.tool_result.content.0: `tool_result` blocks can only be specified in messages"},
	// covers: M3.9
	{"image without a source", talk(said("user", `{"type":"image"}`)), "messages.0.content.0.image.source: Field required"},
	{"image without data", talk(said("user", `{"type":"image","source":{"type":"base64","media_type":"image/png"}}`)), "messages.0.content.0.image.source.base64.data: Field required"},
	// covers: M3.10
	{"document of a document", talk(said("user", `{"type":"document","source":{"type":"content","content":[{"type":"document","source":{"type":"content","content":[]}}]}}`)), "messages.0.content.0.document.source.content.content.0: Documents must not contain documents"},
	// covers: M3.12
	{"search result", talk(said("user", `{"type":"search_result","source":"s","title":"t","content":[{"type":"text"}]}`)), "messages.0.content.0.search_result.content.0.text.text: Field required"},
	// covers: M3.13
	{"signature", talk(said("assistant", `{"type":"thinking","thinking":"t","signature":1}`)), "messages.0.content.0.thinking.signature: Input should be a valid string"},

	// covers: M4.1
	{"tools", ask(`,"tools":{}`), "tools: Input should be a valid list"},
	{"tool without a name", ask(`,"tools":[{"input_schema":{}}]`), "tools.0.custom.name: Field required"},
	{"tool without a schema", ask(`,"tools":[` + oneTool + `,{"type":"custom","name":"f"}]`), "tools.1.custom.input_schema: Field required"},
	{"schema of another kind", ask(`,"tools":[{"name":"f","input_schema":[]}]`), "tools.0.custom.input_schema: Input should be a valid dictionary"},
	// covers: M4.2
	{"strict", ask(`,"tools":[{"name":"f","input_schema":{},"strict":"yes"}]`), "tools.0.custom.strict: Input should be a valid boolean"},
	// covers: M4.1
	{"too many tools", ask(`,"tools":[` + strings.Repeat(oneTool+`,`, 1024) + oneTool + `]`), "tools: List should have at most 1024 items, not 1025"},
	// covers: M4.8
	{"tool_choice", ask(`,"tools":[` + oneTool + `],"tool_choice":"auto"`), "tool_choice: Input should be a valid dictionary"},
	{"unknown tool_choice", ask(`,"tools":[` + oneTool + `],"tool_choice":{"type":"some"}`), "tool_choice.type: Input should be 'auto', 'any', 'tool' or 'none'"},
	{"tool_choice without a name", ask(`,"tools":[` + oneTool + `],"tool_choice":{"type":"tool"}`), "tool_choice.tool.name: Field required"},

	// covers: M3.2
	{"a call without its result", talk(called + `,` + hello), "messages.0.content.0.tool_use.id: `tool_use` ids were found without `tool_result` blocks immediately after: a. Each `tool_use` block must have a corresponding `tool_result` block in the next message."},
	{"a call at the end", talk(called), "messages.0.content.0.tool_use.id: `tool_use` ids were found without `tool_result` blocks immediately after: a. Each `tool_use` block must have a corresponding `tool_result` block in the next message."},
	{"a result without its call", talk(said("user", `{"type":"tool_result","tool_use_id":"b"}`)), "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: b. Each `tool_result` block must have a corresponding `tool_use` block in the previous message."},
	{"two results of a call", talk(called + `,` + said("user", `{"type":"tool_result","tool_use_id":"a"},{"type":"tool_result","tool_use_id":"a"}`)), "messages.1.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks with id: a"},
	{"two calls with one ID", talk(said("assistant", `{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","id":"a","name":"f","input":{}}`)), "messages.0.content.1.tool_use.id: `tool_use` ids must be unique"},
	{"too many calls", talk(said("assistant", manyCalls(129))), "messages.0.content.128: A turn should have at most 128 `tool_use` blocks"},
}

// manyCalls are n tool uses.
func manyCalls(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"type":"tool_use","id":"` + strconv.Itoa(i) + `","name":"f","input":{}}`)
	}
	return b.String()
}

func TestRefuses(t *testing.T) {
	r := messages.NewRequest(nil)
	for _, c := range refused {
		t.Run(c.name, func(t *testing.T) {
			e := r.Parse([]byte(c.body), clientapi.Limits{})
			if e == nil {
				_, _, e = r.AppendChat(nil)
			}
			if e == nil {
				t.Fatal("accepted")
			}
			got := e.Message
			if e.Param != "" {
				got = e.Param + ": " + got
			}
			if got != c.want || e.Status != 400 || e.TryNext {
				t.Errorf("got  %+v\nwant %s", e, c.want)
			}
		})
	}
}
