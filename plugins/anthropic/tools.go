package anthropic

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// nameRule is the rule for the names of tools: the API rejects others with "String should match pattern
// '^[a-zA-Z0-9_-]{1,128}$'".
var nameRule = translate.NameRule{Max: 128, Others: "-", Digit: true}

// writeCalls writes the tool calls of an earlier assistant message with indexes from from up to to, or to the end if to
// is -1. The message's cache breakpoint goes to the call with the index marked.
func (t *translation) writeCalls(m *message, from, to, marked int) error {
	if !m.Has(messageCalls) {
		return nil
	}
	r := &t.m.list
	m.Read(messageCalls, r)
	for a, n := r.Array(), 0; a.Next(); n++ {
		if n < from || to >= 0 && n >= to {
			continue
		}
		var cache json.Value
		if n == marked {
			cache = m.cache()
		}
		if err := t.writeCall(r, m, n, cache); err != nil {
			return err
		}
	}
	return nil
}

// The members of a tool call.
const (
	callType = iota
	callID
	callCache
	callName
	callArguments
)

var callShape = json.NewShape("type", "id", "cache_control", "function.name", "function.arguments")

func (t *translation) writeCall(r *json.Reader, m *message, n int, cache json.Value) error {
	call := &t.m.members
	r.Members(call, callShape)
	if call.Kind(callCache) == json.Object {
		cache = call.Raw(callCache)
	}
	if kind := call.Inside(callType); string(kind) != "function" && string(call.Text(callType)) != "function" {
		return sdk.Refuse(m.param(".tool_calls["+translate.Itoa(n)+"].type"), "This provider supports only tools of type function.")
	}
	name, arguments := call.Inside(callName), call.Inside(callArguments)
	w := t.w
	t.called = appendNew(t.called, name)
	t.openMessage(assistantRole)
	w.Literal(`{"type":"tool_use","id":"`)
	t.writeToolID(call.Text(callID))
	w.Verbatim(`","name":"`)
	w.Part(t.names.Fit(name))
	w.Verbatim(`","input":`)
	if call.Escaped(callArguments) {
		t.scratch = json.AppendText(t.scratch[:0], arguments)
		arguments = t.scratch
	}
	input, ok := translate.Arguments(arguments)
	if !ok {
		t.r.Warn(abi.WarnChanged, m.param(".tool_calls["+translate.Itoa(n)+"].function.arguments"))
	}
	w.Part(input)
	if cache != nil {
		t.writeCacheControl(cache)
	}
	w.EndObject()
	return nil
}

// maxCalled is the maximum number of called tools that are recorded from a history.
const maxCalled = 128

// appendNew appends a name unless it is present.
func appendNew(names [][]byte, name []byte) [][]byte {
	for _, known := range names {
		if string(known) == string(name) {
			return names
		}
	}
	if len(names) == maxCalled {
		return names
	}
	return append(names, name)
}

// writeTools writes the tools: the client's, or the forced tool of a response format, or those that the history calls.
func (t *translation) writeTools() error {
	w := t.w
	switch {
	case t.form.forced:
		t.writeOutputTool()
		return nil
	case t.tools.Kind() == json.Array:
		w.Literal(`"tools":[`)
		r := &t.m.list
		r.Reset(t.tools)
		for a, n := r.Array(), 0; a.Next(); n++ {
			if err := t.writeTool(r, n); err != nil {
				return err
			}
		}
		w.EndArray()
	case len(t.called) > 0:
		// The provider rejects a history with calls of undeclared tools.
		w.Name("tools")
		w.Array()
		for _, name := range t.called {
			w.Object()
			w.Name("name")
			w.Inside(t.names.Fit(name))
			w.Name("input_schema")
			w.Raw([]byte(translate.NoParameters))
			w.EndObject()
		}
		w.EndArray()
	}
	return nil
}

// The members of a tool.
const (
	toolType = iota
	toolCache
	toolName
	toolDescription
	toolParameters
	toolStrict
	toolFunctionCache
)

var toolShape = json.NewShape("type", "cache_control", "function.name", "function.description", "function.parameters",
	"function.strict", "function.cache_control")

func (t *translation) writeTool(r *json.Reader, n int) error {
	m := &t.m.members
	r.Members(m, toolShape)
	if string(m.Text(toolType)) != "function" {
		return sdk.Refuse("tools["+translate.Itoa(n)+"].type", "This provider supports only tools of type function.")
	}
	w := t.w
	w.Literal(`{"name":"`)
	w.Part(t.names.Fit(m.Inside(toolName)))
	if description := m.Inside(toolDescription); len(description) > 0 {
		w.Verbatim(`","description":"`)
		w.Part(description)
	}
	w.Verbatim(`","input_schema":`)
	t.writeSchema(m.Raw(toolParameters))
	if strict, _ := m.Bool(toolStrict); strict {
		if t.o.nativeSchema {
			w.Verbatim(`,"strict":true`)
		} else {
			t.r.Warn(abi.WarnDropped, "tools[].function.strict")
		}
	}
	cache := m.Raw(toolCache)
	if cache == nil {
		cache = m.Raw(toolFunctionCache)
	}
	if cache != nil {
		t.writeCacheControl(cache)
	}
	w.EndObject()
	return nil
}

// writeSchema writes the schema of a tool's input unchanged, except that the provider requires a type, which must be
// object.
func (t *translation) writeSchema(schema json.Value) {
	w := t.w
	var r json.Reader
	r.Reset(schema)
	members := 0
	for o := r.Object(); o.Next(); members++ {
		if string(r.Name()) == "type" {
			w.Raw(schema)
			return
		}
	}
	if members == 0 {
		w.Raw([]byte(translate.NoParameters))
		return
	}
	w.Literal(`{"type":"object"`)
	r.Reset(schema)
	for o := r.Object(); o.Next(); {
		w.NameText(r.Name())
		w.Raw(r.Raw())
	}
	w.EndObject()
}

// writeToolChoice writes the tool choice. It is written after the messages because it may differ between two turns.
func (t *translation) writeToolChoice() error {
	switch {
	case t.form.forced:
		t.writeChoice("tool", t.form.name)
		return nil
	case t.tools.Kind() == json.Array:
	case len(t.called) > 0:
		t.writeChoice("none", nil)
		return nil
	default:
		return nil
	}
	kind := ""
	var name []byte
	switch {
	case t.toolChoice == nil:
		if t.serial {
			kind = "auto"
		}
	case t.toolChoice.Is("auto"):
		kind = "auto"
	case t.toolChoice.Is("none"):
		kind = "none"
	case t.toolChoice.Is("required"):
		kind = "any"
	case t.toolChoice.Kind() == json.Object:
		kind, name = "tool", t.toolChoice.Get("function").Get("name").Inside()
		if name == nil {
			return sdk.Refuse("tool_choice", "This provider does not support this tool_choice.")
		}
		name = t.names.Fit(name)
	case t.serial:
		kind = "auto"
	}
	if t.thinks && (kind == "any" || kind == "tool") {
		return translate.Invalid("invalid_value", "tool_choice", "A tool call cannot be forced with thinking enabled: use auto or none, or disable thinking.")
	}
	if kind != "" {
		t.writeChoice(kind, name)
	}
	return nil
}

// writeChoice writes a tool choice. name is escaped string content, and nil except for the kind tool.
func (t *translation) writeChoice(kind string, name []byte) {
	w := t.w
	w.Name("tool_choice")
	w.Object()
	w.Name("type")
	w.String(kind)
	if name != nil {
		w.Name("name")
		w.Inside(name)
	}
	if (t.serial || t.form.forced) && kind != "none" {
		w.Name("disable_parallel_tool_use")
		w.Bool(true)
	}
	w.EndObject()
}
