package openai

import (
	"strconv"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// The canonical request is what plugins see and what is forwarded. It says what the client's request says, in one way where
// clients have several:
//
//   - A message of an assistant or a tool has a content. It may be null only beside something else, such as tool calls.
//   - Lists of tools and tool calls are absent rather than empty, and without tools there is nothing about their choice.
//   - Tool calls have arguments.
//   - There are no functions, the older form of tools: Request.FunctionCalls says whether the response must have it.
//   - Surrogates come in pairs.
//
// Reading a request records the edits that make it canonical. They are then applied together, and the result is read again,
// as if the client had sent it. Nearly all requests need no edit and are read once.

// edit is where the edits that make the request canonical are recorded.
func (r *Request) edit() *jsondoc.Edits {
	if !r.edited {
		r.edited = true
		r.edits.Reset(&r.Doc)
	}
	return &r.edits
}

// rewrite applies the recorded edits, and reads the canonical request.
func (r *Request) rewrite(l *clientapi.Limits) *apierror.Error {
	body, err := r.edits.Apply(r.rewritten[:0])
	if err != nil {
		return clientapi.Unreadable(err)
	}
	r.rewritten = body
	return r.reread(body, l)
}

// reread reads a version of the request that is canonical.
func (r *Request) reread(body []byte, l *clientapi.Limits) *apierror.Error {
	functionCalls := r.FunctionCalls
	r.forget()
	r.Body, r.FunctionCalls = body, functionCalls
	if err := r.Doc.Parse(body, l.Document()); err != nil {
		return clientapi.Unreadable(err)
	}
	return r.readRequest(r.Doc.Root(), l)
}

// Replace makes body the canonical request: what r has read, with what the gateway has put into it or taken out of it. It
// is kept, without a copy, until Reset. After an error r is as it was.
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

// Rewritten reports whether Body is the Request's own memory, and the body that was given to Parse is no longer needed.
func (r *Request) Rewritten() bool { return len(r.rewritten) > 0 }

// dropEmpty removes a list without elements, and returns it as absent; any other value is returned unchanged.
func (r *Request) dropEmpty(list jsondoc.Value) jsondoc.Value {
	if !isEmptyArray(list) {
		return list
	}
	r.edit().DeleteValue(list)
	return jsondoc.Value{}
}

// dropNull removes a member that is null, and returns it as absent; any other value is returned unchanged. It is for members
// that the canonical request does not have: some hosts refuse unknown ones even then.
func (r *Request) dropNull(v jsondoc.Value) jsondoc.Value {
	if v.Kind() != jsondoc.Null {
		return v
	}
	r.edit().DeleteValue(v)
	return jsondoc.Value{}
}

func isEmptyArray(v jsondoc.Value) bool { return v.Kind() == jsondoc.Array && !v.First().Exists() }

// fillContent gives a message without content an empty one. It reports false if there is content.
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

// fillArguments gives a tool call without arguments an empty object: clients leave empty ones out, and providers want them.
func (r *Request) fillArguments(callee, arguments jsondoc.Value) {
	switch {
	case !arguments.Exists():
		r.edit().AddMember(callee, "arguments", `"{}"`)
	case arguments.Kind() == jsondoc.Null:
		r.edit().SetValue(arguments, `"{}"`)
	}
}

// renameFunctions makes functions tools. A client that sends both is taken for one that knows tools.
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

// renameFunctionCall makes function_call a tool_choice, unless there is one.
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

// functionCall is a call in the older form, which a message with the role function must answer.
type functionCall struct {
	value jsondoc.Value // absent: there is none
	name  jsondoc.Value
	id    string // of the tool call that it becomes, in quotes
}

// renameCall makes the function_call of an assistant message a tool call. Its id is made of the message's position, so that it is
// the same in each request of a conversation and prompt caches match.
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

// renameResult makes the result of a function that of the tool call that renameCall has made.
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

// lower replaces an integer of the body by a smaller one, in place, and warns of it.
func (r *Request) lower(v jsondoc.Value, n int64) {
	v.LowerInt(n)
	r.Warn(abi.WarnClamped, clientapi.Path(v))
}
