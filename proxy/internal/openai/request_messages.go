package openai

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// role is the author of a message.
type role uint8

const (
	roleUnknown role = iota
	roleSystem
	roleDeveloper
	roleUser
	roleAssistant
	roleTool
	roleFunction // the predecessor of tool
)

// readMessages reads the conversation.
func (r *Request) readMessages(list, root jsondoc.Value, l *clientapi.Limits) *apierror.Error {
	switch {
	case !list.Exists():
		return clientapi.Missing(root, "messages")
	case list.Kind() != jsondoc.Array:
		return clientapi.WrongType(list, "an array")
	case !list.First().Exists():
		return clientapi.EmptyArray(list)
	}
	for m := list.First(); m.Exists(); m = m.Next() {
		if r.Messages++; r.Messages > l.Messages {
			return clientapi.TooMany(list, l.Messages)
		}
		if m.Kind() != jsondoc.Object {
			return clientapi.WrongType(m, "an object")
		}
		if e := r.readMessage(m, l); e != nil {
			return e
		}
	}
	return r.checkAnswered()
}

// message holds the members of a message whose meaning depends on its role.
type message struct {
	self, role, content            jsondoc.Value
	toolCalls, toolCallID          jsondoc.Value
	name, functionCall             jsondoc.Value
	audio, refusal                 jsondoc.Value
	reasoning, details, thinkBlock jsondoc.Value
}

// readMessage reads one message: first the members that can be checked on their own, then those that depend on its
// role.
func (r *Request) readMessage(v jsondoc.Value, l *clientapi.Limits) *apierror.Error {
	m := message{self: v}
	for c := v.First(); c.Exists(); c = c.Next() {
		var e *apierror.Error
		switch string(r.keyword(c.Name())) {
		case "role":
			m.role = c
		case "content":
			m.content = c
		case "tool_calls":
			m.toolCalls, e = c, clientapi.CheckArray(c)
		case "tool_call_id":
			m.toolCallID, e = c, clientapi.CheckString(c)
		case "name":
			m.name, e = c, clientapi.CheckString(c)
		case "function_call":
			m.functionCall, e = c, clientapi.CheckObject(c)
		case "audio":
			m.audio, e = c, clientapi.CheckObject(c)
		case "refusal":
			m.refusal, e = c, clientapi.CheckString(c)
		case "reasoning_content":
			m.reasoning, e = c, clientapi.CheckString(c)
		case "reasoning_details":
			m.details, e = c, clientapi.CheckObjects(c)
		case "thinking_blocks":
			m.thinkBlock, e = c, clientapi.CheckObjects(c)
		case "is_error": // the gateway's own member of a tool's result
			_, e = clientapi.CheckBool(c)
		case "cache_control":
			e = r.readCacheControl(c)
		}
		if e != nil {
			return e
		}
	}
	author, e := r.readRole(m.role, v)
	if e != nil {
		return e
	}
	m.toolCalls, m.functionCall = r.dropEmpty(m.toolCalls), r.dropNull(m.functionCall)
	if author != roleTool && author != roleFunction {
		if e := r.checkAnswered(); e != nil {
			return e
		}
	}
	if author != roleAssistant {
		for _, c := range [...]jsondoc.Value{m.toolCalls, m.functionCall} {
			if clientapi.Given(c) {
				return clientapi.InvalidValue(c, clientapi.CodeUnknownParameter, "'%s' is only allowed in messages with the role 'assistant'.")
			}
		}
	}
	switch author {
	case roleSystem, roleDeveloper:
		return r.needContent(&m, partText)
	case roleUser:
		return r.needContent(&m, partText|partImage|partAudio|partFile|partVideo)
	case roleAssistant:
		return r.readAssistant(&m, l)
	case roleTool:
		if e := r.resolveCall(&m); e != nil {
			return e
		}
		if r.fillContent(&m) {
			return nil
		}
		return r.needContent(&m, partText|partImage|partFile)
	default:
		return r.readFunctionResult(&m)
	}
}

func (r *Request) readRole(v, message jsondoc.Value) (role, *apierror.Error) {
	if e := clientapi.NeedString(v, message, "role"); e != nil {
		return roleUnknown, e
	}
	switch string(r.keyword(v)) {
	case "system":
		return roleSystem, nil
	case "developer":
		return roleDeveloper, nil
	case "user":
		return roleUser, nil
	case "assistant":
		return roleAssistant, nil
	case "tool":
		return roleTool, nil
	case "function":
		return roleFunction, nil
	}
	return roleUnknown, clientapi.NotOneOf(v, "system", "developer", "user", "assistant", "tool", "function")
}

// readAssistant reads an assistant message. Its content may be null if the message has audio, a refusal or calls
// instead.
func (r *Request) readAssistant(m *message, l *clientapi.Limits) *apierror.Error {
	contentOnly := true
	for _, c := range [...]jsondoc.Value{m.reasoning, m.details, m.thinkBlock} {
		if clientapi.Given(c) {
			r.Flags |= clientapi.FlagReasoningHistory
		}
	}
	// These are three forms of the same reasoning. A model reads only one of them.
	r.TextBytes += max(len(m.reasoning.Raw()), len(m.details.Raw()), len(m.thinkBlock.Raw()))
	if clientapi.Given(m.audio) {
		contentOnly = false
		r.Flags |= clientapi.FlagAudio
	}
	if clientapi.Given(m.refusal) {
		contentOnly = false
		r.TextBytes += len(m.refusal.Inside())
	}
	if clientapi.Given(m.toolCalls) {
		contentOnly = false
		if e := r.readToolCalls(m.toolCalls, l); e != nil {
			return e
		}
	}
	if clientapi.Given(m.functionCall) {
		contentOnly = false
		r.Flags |= clientapi.FlagToolHistory
		if _, e := r.readCallee(m.functionCall); e != nil {
			return e
		}
		r.renameCall(m)
	}
	if !contentOnly && m.content.Kind() == jsondoc.Null || r.fillContent(m) {
		return nil
	}
	return r.needContent(m, partText|partRefusal)
}

// readFunctionResult reads a message with the role function, the predecessor of tool, which names a function instead of
// a call.
func (r *Request) readFunctionResult(m *message) *apierror.Error {
	r.Flags |= clientapi.FlagToolHistory
	if e := clientapi.NeedName(m.name, m.self, "name"); e != nil {
		return e
	}
	if !r.function.name.SameText(m.name) {
		return clientapi.InvalidValue(m.name, clientapi.CodeInvalidValue, "'%s' is '%s', but the assistant message before it has no unanswered function_call of this name.", clientapi.Quotable(m.name.Text()))
	}
	r.renameResult(m)
	if r.fillContent(m) {
		return nil
	}
	return r.needContent(m, partText)
}

// readToolCalls reads the calls of an assistant message. The tool messages that follow must answer all of them.
func (r *Request) readToolCalls(list jsondoc.Value, l *clientapi.Limits) *apierror.Error {
	r.Flags |= clientapi.FlagToolHistory
	r.calls, r.nextCall = r.calls[:0], 0
	for v := list.First(); v.Exists(); v = v.Next() {
		if len(r.calls) == l.ToolCalls {
			return clientapi.TooMany(list, l.ToolCalls)
		}
		if v.Kind() != jsondoc.Object {
			return clientapi.WrongType(v, "an object")
		}
		id, e := r.readToolCall(v)
		if e != nil {
			return e
		}
		for i := range r.calls {
			if r.calls[i].id.SameText(id) {
				return clientapi.InvalidValue(id, clientapi.CodeInvalidValue, "'%s' is '%s', which is the id of another tool call of the same message.", clientapi.Quotable(id.Text()))
			}
		}
		r.calls = append(r.calls, openCall{id: id})
	}
	r.unanswered = len(r.calls)
	return nil
}

// readToolCall reads one call and returns its id.
func (r *Request) readToolCall(v jsondoc.Value) (id jsondoc.Value, e *apierror.Error) {
	var typ, function, custom jsondoc.Value
	for c := v.First(); c.Exists(); c = c.Next() {
		switch string(r.keyword(c.Name())) {
		case "id":
			id = c
		case "type":
			typ = c
		case "function":
			function = c
		case "custom":
			custom = c
		}
	}
	if e = clientapi.NeedString(id, v, "id"); e == nil && len(id.Inside()) == 0 {
		e = clientapi.InvalidValue(id, clientapi.CodeEmptyString, "'%s' must not be empty.")
	}
	if e == nil {
		e = clientapi.NeedString(typ, v, "type")
	}
	if e != nil {
		return id, e
	}
	switch string(r.keyword(typ)) {
	case toolFunction:
		if e := clientapi.NeedObject(function, v, "function"); e != nil {
			return id, e
		}
		arguments, e := r.readCallee(function)
		if e == nil {
			r.fillArguments(function, arguments)
		}
		return id, e
	case toolCustom:
		if e := clientapi.NeedObject(custom, v, "custom"); e != nil {
			return id, e
		}
		input := custom.Get("input")
		if e := clientapi.NeedString(input, custom, "input"); e != nil {
			return id, e
		}
		name := custom.Get("name")
		r.TextBytes += len(input.Inside()) + len(name.Inside())
		return id, r.needToolName(name, custom)
	}
	return id, clientapi.NotOneOf(typ, toolFunction, toolCustom)
}

// readCallee reads {name, arguments}. The arguments are a string written by a model, so they may not be JSON. The
// plugin decides how to handle that.
func (r *Request) readCallee(f jsondoc.Value) (arguments jsondoc.Value, e *apierror.Error) {
	var name jsondoc.Value
	for v := f.First(); v.Exists(); v = v.Next() {
		switch string(r.keyword(v.Name())) {
		case "name":
			name = v
		case "arguments":
			if e := clientapi.CheckString(v); e != nil {
				return v, e
			}
			arguments = v
			r.TextBytes += len(v.Inside())
		}
	}
	r.TextBytes += len(name.Inside())
	return arguments, r.needToolName(name, f)
}

// resolveCall finds the call that a tool message answers.
func (r *Request) resolveCall(m *message) *apierror.Error {
	r.Flags |= clientapi.FlagToolHistory
	id := m.toolCallID
	if e := clientapi.NeedString(id, m.self, "tool_call_id"); e != nil {
		return e
	}
	// Results are mostly in the order of the calls.
	for i := range r.calls {
		index := (r.nextCall + i) % len(r.calls)
		c := &r.calls[index]
		if !c.id.SameText(id) {
			continue
		}
		if c.answered {
			return clientapi.InvalidValue(id, clientapi.CodeInvalidValue, "'%s' is '%s', a tool call that an earlier message has answered.", clientapi.Quotable(id.Text()))
		}
		c.answered = true
		r.unanswered--
		r.nextCall = (index + 1) % len(r.calls)
		return nil
	}
	return clientapi.InvalidValue(id, clientapi.CodeInvalidValue, "'%s' is '%s', but the assistant message before it has no tool call with this id.", clientapi.Quotable(id.Text()))
}

// checkAnswered checks that all calls of the last assistant message are answered, and clears them. It is called before
// every message that is not a result.
func (r *Request) checkAnswered() *apierror.Error {
	if r.unanswered > 0 {
		for _, c := range r.calls {
			if !c.answered {
				path := clientapi.Path(c.id)
				return apierror.Invalid(clientapi.CodeInvalidValue, path,
					"The tool call '%s' is not answered: a message with the role 'tool' and this 'tool_call_id' must follow the message that makes it.", clientapi.Quotable(c.id.Text()))
			}
		}
	}
	r.calls = r.calls[:0]
	if f := r.function.value; f.Exists() {
		path := clientapi.Path(f)
		return apierror.Invalid(clientapi.CodeInvalidValue, path,
			"The function_call of '%s' is not answered: a message with the role 'function' and this 'name' must follow the message that makes it.", clientapi.Quotable(r.function.name.Text()))
	}
	return nil
}
