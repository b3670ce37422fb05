package openai

import (
	"strconv"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Plugins receive, and the gateway forwards, the canonical request. It has the same meaning as the client's request,
// but only one of several possible forms:
//
//   - A message with the role assistant or tool has a content. It is null only if there is something else, such as tool
//     calls.
//   - Lists of tools and tool calls are absent instead of empty. Without tools, members about their choice are absent
//     as well.
//   - Tool calls have arguments.
//   - The URL of an image or a video is in an object.
//   - Functions, the predecessor of tools, are replaced by tools. Request.FunctionCalls is set if the response must use
//     function_call.
//   - The effort in reasoning, OpenRouter's member, is reasoning_effort unless the client sets that or thinking.
//   - Surrogates are paired.
//
// Reading a request records the edits that make it canonical. If there are any, they are applied together, and the
// result is read as if the client had sent it. Nearly all requests need no edit and are read once.

// edit returns the recorder of edits that make the request canonical.
func (r *Request) edit() *jsondoc.Edits {
	if !r.edited {
		r.edited = true
		r.edits.Reset(&r.Doc)
	}
	return &r.edits
}

// rewrite applies the recorded edits and reads the canonical request.
func (r *Request) rewrite(l *clientapi.Limits) *apierror.Error {
	body, err := r.edits.Apply(r.rewritten[:0])
	if err != nil {
		return clientapi.Unreadable(err)
	}
	r.rewritten = body
	return r.reread(body, l)
}

// reread reads body, which must be canonical, in place of the current body.
func (r *Request) reread(body []byte, l *clientapi.Limits) *apierror.Error {
	functionCalls := r.FunctionCalls
	r.clearFacts()
	r.Body, r.FunctionCalls = body, functionCalls
	if err := r.Doc.Parse(body, l.Document()); err != nil {
		return clientapi.Unreadable(err)
	}
	return r.readRequest(r.Doc.Root(), l)
}

// Replace makes body the canonical request. body is a version of r.Body that the gateway has edited; r retains it until
// Reset. After an error r is unchanged.
func (r *Request) Replace(body []byte, l clientapi.Limits) *apierror.Error {
	l = l.WithDefaults()
	before := r.Body
	e := r.reread(body, &l)
	if e != nil {
		_ = r.reread(before, &l)
		return e
	}
	r.rewritten = r.rewritten[:0]
	return nil
}

// Rewritten reports whether Body is owned by the Request, so that the argument of Parse is no longer needed.
func (r *Request) Rewritten() bool { return len(r.rewritten) > 0 }

// dropEmpty removes an empty array and returns an absent value. It returns any other value unchanged.
func (r *Request) dropEmpty(list jsondoc.Value) jsondoc.Value {
	if !isEmptyArray(list) {
		return list
	}
	r.edit().DeleteValue(list)
	return jsondoc.Value{}
}

// dropNull removes a null member and returns an absent value. It returns any other value unchanged. It is used for
// members that a canonical request does not have, because some providers reject unknown members even if they are null.
func (r *Request) dropNull(v jsondoc.Value) jsondoc.Value {
	if v.Kind() != jsondoc.Null {
		return v
	}
	r.edit().DeleteValue(v)
	return jsondoc.Value{}
}

func isEmptyArray(v jsondoc.Value) bool { return v.Kind() == jsondoc.Array && !v.First().Exists() }

// fillContent adds an empty content to a message without content. It reports false if the message has content.
func (r *Request) fillContent(m *message) bool {
	switch c := m.content; {
	case !c.Exists():
		r.edit().AddMember(m.self, "content", `""`)
	case c.Kind() == jsondoc.Null, isEmptyArray(c):
		r.edit().SetValue(c, `""`)
	default:
		return false
	}
	return true
}

// fillArguments adds an empty object to a tool call without arguments. Some clients leave them out, but providers
// require them.
func (r *Request) fillArguments(callee, arguments jsondoc.Value) {
	switch {
	case !arguments.Exists():
		r.edit().AddMember(callee, "arguments", `"{}"`)
	case arguments.Kind() == jsondoc.Null:
		r.edit().SetValue(arguments, `"{}"`)
	}
}

// renameFunctions converts functions to tools. A client that sends both is assumed to support tool_calls in the
// response.
func (r *Request) renameFunctions(functions, tools jsondoc.Value) {
	e := r.edit()
	const before, after = `{"type":"function","function":`, `}`
	if clientapi.Given(tools) {
		for f := functions.First(); f.Exists(); f = f.Next() {
			e.AddElement(tools, before, string(f.Raw()), after)
		}
		e.DeleteValue(functions)
		return
	}
	if tools.Exists() {
		e.DeleteValue(tools)
	}
	for f := functions.First(); f.Exists(); f = f.Next() {
		e.SetValue(f, before, string(f.Raw()), after)
	}
	e.RenameMember(functions, "tools")
	r.FunctionCalls = true
}

// renameFunctionCall converts function_call to tool_choice, or removes it if there is a tool_choice.
func (r *Request) renameFunctionCall(v, toolChoice jsondoc.Value) {
	e := r.edit()
	if clientapi.Given(toolChoice) {
		e.DeleteValue(v)
		return
	}
	if toolChoice.Exists() {
		e.DeleteValue(toolChoice)
	}
	e.RenameMember(v, "tool_choice")
	if v.Kind() == jsondoc.Object {
		e.SetValue(v, `{"type":"function","function":{"name":`, string(v.Get("name").Raw()), `}}`)
	}
}

// moveEffort moves the effort in reasoning, OpenRouter's member, to reasoning_effort. An effort that the OpenAI API does
// not have, and the other members of reasoning, are for the upstream to read.
func (r *Request) moveEffort(t *topLevel, root jsondoc.Value) {
	v := t.reasoning.Get("effort")
	if clientapi.Given(t.thinking) || clientapi.Given(t.effort) {
		return
	}
	switch string(r.keyword(v)) {
	case "none", "minimal", "low", "medium", "high", "xhigh", "max":
	default:
		return
	}
	e := r.edit()
	if t.effort.Exists() {
		e.DeleteValue(t.effort)
	}
	if t.reasoning.Len() == 1 {
		e.RenameMember(t.reasoning, "reasoning_effort")
		e.SetValue(t.reasoning, string(v.Raw()))
		return
	}
	e.DeleteValue(v)
	e.AddMember(root, "reasoning_effort", string(v.Raw()))
}

// functionCall is the function_call of an assistant message, which a message with the role function must answer.
type functionCall struct {
	value jsondoc.Value // absent if there is no function_call
	name  jsondoc.Value
	id    string // id of the tool call that replaces it, in quotes
}

// renameCall converts the function_call of an assistant message to a tool call. Its id is derived from the message's
// position, so it is the same in every request of a conversation, and prompt caches match.
func (r *Request) renameCall(m *message) {
	f := m.functionCall
	name, arguments := f.Get("name"), string(f.Get("arguments").Raw())
	if !clientapi.Given(f.Get("arguments")) {
		arguments = `"{}"`
	}
	id := `"call_` + strconv.Itoa(r.Messages-1) + `"`
	r.function = functionCall{value: f, name: name, id: id}
	e := r.edit()
	call := `{"id":` + id + `,"type":"function","function":{"name":` + string(name.Raw()) + `,"arguments":` + arguments + `}}`
	if clientapi.Given(m.toolCalls) {
		e.AddElement(m.toolCalls, call)
		e.DeleteValue(f)
		return
	}
	if m.toolCalls.Exists() {
		e.DeleteValue(m.toolCalls)
	}
	e.RenameMember(f, "tool_calls")
	e.SetValue(f, "[", call, "]")
}

// renameResult converts the result of a function to the result of the tool call from renameCall.
func (r *Request) renameResult(m *message) {
	e := r.edit()
	e.SetValue(m.role, `"tool"`)
	e.DeleteValue(m.name)
	if m.toolCallID.Exists() {
		e.SetValue(m.toolCallID, r.function.id)
	} else {
		e.AddMember(m.self, "tool_call_id", r.function.id)
	}
	r.function = functionCall{}
}

// lowerInt replaces an integer of the body with a smaller one, in place, and adds a warning.
func (r *Request) lowerInt(v jsondoc.Value, n int64) {
	v.LowerInt(n)
	r.Warn(abi.WarnClamped, clientapi.Path(v))
}
