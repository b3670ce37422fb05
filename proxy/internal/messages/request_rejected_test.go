package messages_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/messages"
)

// requestWith returns a request with additional members.
func requestWith(members string) string {
	return `{"model":"m","max_tokens":100,"messages":[` + hello + `]` + members + `}`
}

// requestWithMessages returns a request with these messages.
func requestWithMessages(messages string) string {
	return `{"model":"m","max_tokens":100,"messages":[` + messages + `]}`
}

// invalidRequests are requests that are rejected for every provider, with the errors of Parse, or of AppendChat if tool
// uses and results do not match.
var invalidRequests = []struct{ name, body, want string }{
	// covers: M2.1
	{"incomplete JSON", `{"model":`, "The request body could not be parsed as JSON: unexpected end of the document (at byte 9)."},
	{"duplicate member", `{"model":"m","mod\u0065l":"n"}`, "The request body could not be parsed as JSON: a member name appears twice in one object (at byte 13)."},
	{"duplicate member of a tool's input", requestWithMessages(newMessage("assistant", `{"type":"tool_use","id":"a","name":"f","input":{"x":1,"x":2}}`)), "The request body could not be parsed as JSON: a member name appears twice in one object (at byte 127)."},
	{"number too large", requestWith(`,"x":1e999`), "The request body could not be parsed as JSON: a number is too large (at byte 78)."},
	{"nested too deeply", requestWith(`,"x":` + strings.Repeat("[", 128) + strings.Repeat("]", 128)), "The request body could not be parsed as JSON: the document is nested deeper than 128 levels (at byte 205)."},
	{"not an object", `[]`, "The request body must be a JSON object."},
	// covers: M2.2
	{"no model", `{"max_tokens":1}`, "model: Field required"},
	{"null model", `{"model":null}`, "model: Field required"},
	{"empty model", `{"model":""}`, "model: String should have at least 1 character"},
	{"model of the wrong type", `{"model":1}`, "model: Input should be a valid string"},
	{"long model", `{"model":"` + strings.Repeat("m", 257) + `"}`, "model: String should have at most 256 characters"},
	{"model with U+0000", `{"model":"a\u0000"}`, "model: String should not contain the character U+0000"},
	// covers: M2.4
	{"no max_tokens", `{"model":"m","messages":[` + hello + `]}`, "max_tokens: Field required"},
	{"null max_tokens", `{"model":"m","max_tokens":null}`, "max_tokens: Field required"},
	{"max_tokens with a fraction", `{"model":"m","max_tokens":1.0}`, "max_tokens: Input should be a valid integer"},
	{"negative max_tokens", `{"model":"m","max_tokens":-1}`, "max_tokens: Input should be greater than or equal to 0"},
	{"huge max_tokens", `{"model":"m","max_tokens":99999999999999999999}`, "max_tokens: Input should be less than or equal to 2147483647"},
	{"huge negative max_tokens", `{"model":"m","max_tokens":-99999999999999999999}`, "max_tokens: Input should be greater than or equal to 0"},
	// covers: M2.8
	{"no messages", `{"model":"m","max_tokens":1}`, "messages: Field required"},
	{"empty messages", `{"model":"m","max_tokens":1,"messages":[]}`, "messages: at least one message is required"},
	{"empty messages of a new thread", `{"model":"m","max_tokens":1,"messages":[],"thread":{"type":"create"}}`, "messages: at least one message is required"},
	{"continued thread without a message", requestWith(`,"thread":{"type":"continue"}`), "thread.continue.previous_message_id: Field required"},
	{"continued thread with an empty ID", requestWith(`,"thread":{"type":"continue","previous_message_id":""}`), "thread.continue.previous_message_id: String should have at least 1 character"},
	{"thread of the wrong type", requestWith(`,"thread":"continue"`), "thread: Input should be a valid dictionary"},
	{"too many messages", requestWithMessages(strings.Repeat(hello+",", 100_000) + hello), "messages: List should have at most 100000 items, not 100001"},
	{"messages of the wrong type", `{"model":"m","max_tokens":1,"messages":{}}`, "messages: Input should be a valid list"},
	// covers: M2.12
	{"stream of the wrong type", requestWith(`,"stream":"true"`), "stream: Input should be a valid boolean"},
	// covers: M2.13
	{"large temperature", requestWith(`,"temperature":2.1`), "temperature: Input should be less than or equal to 2"},
	{"negative top_p", requestWith(`,"top_p":-0.1`), "top_p: Input should be greater than or equal to 0"},
	{"top_p of the wrong type", requestWith(`,"top_p":"1"`), "top_p: Input should be a valid number"},
	// covers: M2.14
	{"negative top_k", requestWith(`,"top_k":-1`), "top_k: Input should be greater than or equal to 0"},
	// covers: M2.15
	{"stop sequence of the wrong type", requestWith(`,"stop_sequences":["a",1]`), "stop_sequences.1: Input should be a valid string"},
	{"too many stop sequences", requestWith(`,"stop_sequences":[` + strings.Repeat(`"a",`, 16) + `"a"]`), "stop_sequences: List should have at most 16 items, not 17"},
	// covers: M2.16
	{"user ID of the wrong type", requestWith(`,"metadata":{"user_id":1}`), "metadata.user_id: Input should be a valid string"},
	// covers: M2.21
	{"small budget", requestWith(`,"thinking":{"type":"enabled","budget_tokens":1023}`), "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"},
	{"budget not below max_tokens", requestWith(`,"thinking":{"type":"enabled","budget_tokens":1024}`), "max_tokens: `max_tokens` must be greater than `thinking.budget_tokens`."},
	// covers: M2.17
	{"no budget", requestWith(`,"thinking":{"type":"enabled"}`), "thinking.enabled.budget_tokens: Field required"},
	{"thinking without a type", requestWith(`,"thinking":{}`), "thinking.type: Field required"},
	// covers: M2.22
	{"effort of the wrong type", requestWith(`,"output_config":{"effort":1}`), "output_config.effort: Input should be a valid string"},
	// covers: M2.23
	{"response schema of the wrong type", requestWith(`,"output_config":{"format":{"type":"json_schema","schema":[]}}`), "output_config.format.json_schema.schema: Input should be a valid dictionary"},
	// covers: M2.26
	{"cache_control of the wrong type", requestWith(`,"cache_control":true`), "cache_control: Input should be a valid dictionary"},
	// covers: M2.27
	{"service_tier of the wrong type", requestWith(`,"service_tier":1`), "service_tier: Input should be a valid string"},
	// covers: M2.9
	{"system of the wrong type", requestWith(`,"system":1`), "system: Input should be a valid list"},
	// covers: M2.10
	{"system block without text", requestWith(`,"system":[{"type":"text"}]`), "system.0.text.text: Field required"},
	{"system block that is not text", requestWith(`,"system":[{"type":"image","source":{"type":"url","url":"u"}}]`), "system.0: Input should be a valid text block"},

	// covers: M3.29
	{"message of the wrong type", requestWithMessages(`"Hi"`), "messages.0: Input should be a valid dictionary"},
	{"no role", requestWithMessages(`{"content":"Hi"}`), "messages.0.role: Field required"},
	{"unknown role", requestWithMessages(hello + `,{"role":"tool","content":"Hi"}`), "messages.1.role: Input should be 'user', 'assistant' or 'system'"},
	{"no content", requestWithMessages(`{"role":"user"}`), "messages.0.content: Field required"},
	{"null content", requestWithMessages(`{"role":"user","content":null}`), "messages.0.content: Input should be a valid string or list"},
	{"block of the wrong type", requestWithMessages(newMessage("user", `"Hi"`)), "messages.0.content.0: Input should be a valid dictionary"},
	{"block without a type", requestWithMessages(hello + `,` + hello + `,` + hello + `,` + newMessage("user", `{"text":"Hi"}`)), "messages.3.content.0.type: Field required"},
	{"text block without text", requestWithMessages(newMessage("user", `{"type":"text"}`)), "messages.0.content.0.text.text: Field required"},
	// covers: M3.8
	{"tool use without input", requestWithMessages(newMessage("assistant", `{"type":"tool_use","id":"a","name":"f"}`)), "messages.0.content.0.tool_use.input: Field required"},
	{"input that is not an object", requestWithMessages(newMessage("assistant", `{"type":"tool_use","id":"a","name":"f","input":"{}"}`)), "messages.0.content.0.tool_use.input: Input should be a valid dictionary"},
	{"empty tool use ID", requestWithMessages(newMessage("assistant", `{"type":"tool_use","id":"","name":"f","input":{}}`)), "messages.0.content.0.tool_use.id: String should have at least 1 character"},
	// covers: M3.3
	{"result content of the wrong type", requestWithMessages(newMessage("user", `{"type":"tool_result","tool_use_id":"a","content":{}}`)), "messages.0.content.0.tool_result.content: Input should be a valid string or list"},
	// covers: M3.4
	{"is_error of the wrong type", requestWithMessages(newMessage("user", `{"type":"tool_result","tool_use_id":"a","is_error":1}`)), "messages.0.content.0.tool_result.is_error: Input should be a valid boolean"},
	// covers: M3.29
	{"invalid block in a result", requestWithMessages(newMessage("user", `{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":1}]}`)), "messages.0.content.0.tool_result.content.0.text.text: Input should be a valid string"},
	{"result in a result", requestWithMessages(newMessage("user", `{"type":"tool_result","tool_use_id":"a","content":[{"type":"tool_result"}]}`)), "messages.0.content.0.tool_result.content.0: `tool_result` blocks can only be specified in messages"},
	// covers: M3.9
	{"image without a source", requestWithMessages(newMessage("user", `{"type":"image"}`)), "messages.0.content.0.image.source: Field required"},
	{"image without data", requestWithMessages(newMessage("user", `{"type":"image","source":{"type":"base64","media_type":"image/png"}}`)), "messages.0.content.0.image.source.base64.data: Field required"},
	// covers: M3.10
	{"document in a document", requestWithMessages(newMessage("user", `{"type":"document","source":{"type":"content","content":[{"type":"document","source":{"type":"content","content":[]}}]}}`)), "messages.0.content.0.document.source.content.content.0: Documents must not contain documents"},
	// covers: M3.12
	{"search result with an invalid block", requestWithMessages(newMessage("user", `{"type":"search_result","source":"s","title":"t","content":[{"type":"text"}]}`)), "messages.0.content.0.search_result.content.0.text.text: Field required"},
	// covers: M3.13
	{"signature of the wrong type", requestWithMessages(newMessage("assistant", `{"type":"thinking","thinking":"t","signature":1}`)), "messages.0.content.0.thinking.signature: Input should be a valid string"},

	// covers: M4.1
	{"tools of the wrong type", requestWith(`,"tools":{}`), "tools: Input should be a valid list"},
	{"tool without a name", requestWith(`,"tools":[{"input_schema":{}}]`), "tools.0.custom.name: Field required"},
	{"tool without a schema", requestWith(`,"tools":[` + oneTool + `,{"type":"custom","name":"f"}]`), "tools.1.custom.input_schema: Field required"},
	{"tool schema of the wrong type", requestWith(`,"tools":[{"name":"f","input_schema":[]}]`), "tools.0.custom.input_schema: Input should be a valid dictionary"},
	// covers: M4.2
	{"strict of the wrong type", requestWith(`,"tools":[{"name":"f","input_schema":{},"strict":"yes"}]`), "tools.0.custom.strict: Input should be a valid boolean"},
	// covers: M4.1
	{"too many tools", requestWith(`,"tools":[` + strings.Repeat(oneTool+`,`, 1024) + oneTool + `]`), "tools: List should have at most 1024 items, not 1025"},
	// covers: M4.8
	{"tool_choice of the wrong type", requestWith(`,"tools":[` + oneTool + `],"tool_choice":"auto"`), "tool_choice: Input should be a valid dictionary"},
	{"unknown tool_choice", requestWith(`,"tools":[` + oneTool + `],"tool_choice":{"type":"some"}`), "tool_choice.type: Input should be 'auto', 'any', 'tool' or 'none'"},
	{"tool_choice without a name", requestWith(`,"tools":[` + oneTool + `],"tool_choice":{"type":"tool"}`), "tool_choice.tool.name: Field required"},

	// covers: M3.2
	{"a call without its result", requestWithMessages(called + `,` + hello), "messages.0.content.0.tool_use.id: `tool_use` ids were found without `tool_result` blocks immediately after: a. Each `tool_use` block must have a corresponding `tool_result` block in the next message."},
	{"a call at the end", requestWithMessages(called), "messages.0.content.0.tool_use.id: `tool_use` ids were found without `tool_result` blocks immediately after: a. Each `tool_use` block must have a corresponding `tool_result` block in the next message."},
	{"a result without its call", requestWithMessages(newMessage("user", `{"type":"tool_result","tool_use_id":"b"}`)), "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: b. Each `tool_result` block must have a corresponding `tool_use` block in the previous message."},
	{"two results of a call", requestWithMessages(called + `,` + newMessage("user", `{"type":"tool_result","tool_use_id":"a"},{"type":"tool_result","tool_use_id":"a"}`)), "messages.1.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks with id: a"},
	{"two calls with one ID", requestWithMessages(newMessage("assistant", `{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","id":"a","name":"f","input":{}}`)), "messages.0.content.1.tool_use.id: `tool_use` ids must be unique"},
	{"too many calls", requestWithMessages(newMessage("assistant", manyCalls(129))), "messages.0.content.128: A turn should have at most 128 `tool_use` blocks"},
}

// manyCalls returns n tool uses.
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

func TestInvalidRequestsAreRejected(t *testing.T) {
	r := messages.NewRequest(nil)
	for _, c := range invalidRequests {
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
