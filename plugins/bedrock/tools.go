package bedrock

import (
	"bytes"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// The members of a tool call.
const (
	callType = iota
	callID
	callCache
	callName
	callArguments
)

var callShape = json.NewShape("type", "id", "cache_control", "function.name", "function.arguments")

// writeCall writes a tool call of an earlier assistant message.
func (t *translation) writeCall(r *json.Reader, m *message, n int, cache json.Value) error {
	c := &t.call
	r.Members(c, callShape)
	name := c.Inside(callName)
	if c.Kind(callCache) == json.Object {
		cache = c.Raw(callCache)
	}
	param := func(rest string) string { return m.param(".tool_calls[" + translate.Itoa(n) + "]" + rest) }
	if string(c.Text(callType)) != "function" {
		return sdk.Refuse(param(".type"), "This provider supports only tools of type function.")
	}
	input, ok := translate.Arguments(c.Text(callArguments))
	if !ok {
		t.r.Warn(abi.WarnChanged, param(".function.arguments"))
	}
	if len(t.called) < maxCalled && !t.wasCalled(name) {
		t.called = append(t.called, name)
	}
	w := t.w
	t.openMessage("assistant")
	w.Object()
	w.Name("toolUse")
	w.Object()
	w.Name("toolUseId")
	t.writeID(c.Text(callID))
	w.Name("name")
	w.Inside(t.names.Fit(name))
	w.Name("input")
	w.Raw(input)
	w.EndObject()
	w.EndObject()
	t.writeCachePoint(cache)
	return nil
}

// maxCalled is the maximum number of called tools that are recorded from a history.
const maxCalled = 128

// wasCalled reports whether the history calls this tool.
func (t *translation) wasCalled(name []byte) bool {
	for _, known := range t.called {
		if bytes.Equal(known, name) {
			return true
		}
	}
	return false
}

// tool is one of the client's tools. name and description are escaped string contents.
type tool struct {
	kind, name, description []byte
	parameters, cache       json.Value
	strict                  bool
}

// The members of a tool.
const (
	toolType = iota
	toolCache
	toolName
	toolDescription
	toolParameters
	toolStrict
	toolInnerCache
)

var toolShape = json.NewShape("type", "cache_control", "function.name", "function.description", "function.parameters",
	"function.strict", "function.cache_control")

// readTool reads the current tool.
func (t *translation) readTool(r *json.Reader) (d tool) {
	m := &t.tool
	r.Members(m, toolShape)
	d = tool{kind: m.Text(toolType), name: m.Inside(toolName), description: m.Inside(toolDescription), parameters: m.Raw(toolParameters)}
	if d.cache = m.Raw(toolCache); d.cache == nil {
		d.cache = m.Raw(toolInnerCache)
	}
	d.strict, _ = m.Bool(toolStrict)
	return d
}

// writeTools writes the tools and the tool choice.
//
// The API has no tool choice none, so a request with it is sent without tools. The exception is a history with tool
// calls, which the API rejects unless the called tools are declared. They are also declared if the client omitted them.
func (t *translation) writeTools() error {
	if t.form.forced {
		return t.writeOutputTool()
	}
	none := t.ToolChoice.Is("none")
	given := t.Tools.Kind() == json.Array
	t.warnDropped(given && t.Serial, "parallel_tool_calls")
	if given && !none {
		return t.writeGivenTools()
	}
	if len(t.called) == 0 {
		return nil
	}
	w := t.w
	w.Name("toolConfig")
	w.Object()
	w.Name("tools")
	w.Array()
	left := append([][]byte(nil), t.called...)
	if given {
		t.r.Warn(abi.WarnChanged, "tool_choice")
		var r json.Reader
		r.Reset(t.Tools)
		for a, n := r.Array(), 0; a.Next(); n++ {
			d := t.readTool(&r)
			for i := range left {
				if bytes.Equal(left[i], d.name) {
					left = append(left[:i], left[i+1:]...)
					if err := t.writeTool(&d, n); err != nil {
						return err
					}
					break
				}
			}
		}
	}
	for _, name := range left {
		if err := t.writeTool(&tool{kind: []byte("function"), name: name}, 0); err != nil {
			return err
		}
	}
	w.EndArray()
	w.EndObject()
	return nil
}

func (t *translation) writeGivenTools() error {
	w := t.w
	w.Name("toolConfig")
	w.Object()
	w.Name("tools")
	w.Array()
	var r json.Reader
	r.Reset(t.Tools)
	for a, n := r.Array(), 0; a.Next(); n++ {
		d := t.readTool(&r)
		if err := t.writeTool(&d, n); err != nil {
			return err
		}
	}
	w.EndArray()
	err := t.writeToolChoice()
	w.EndObject()
	return err
}

func (t *translation) writeTool(d *tool, n int) error {
	param := "tools[" + translate.Itoa(n) + "]"
	if string(d.kind) != "function" {
		return sdk.Refuse(param+".type", "This provider supports only tools of type function.")
	}
	w := t.w
	w.Object()
	w.Name("toolSpec")
	w.Object()
	w.Name("name")
	w.Inside(t.names.Fit(d.name))
	if len(d.description) > 0 {
		w.Name("description")
		w.Inside(d.description)
	}
	w.Name("inputSchema")
	w.Object()
	w.Name("json")
	if !t.writeSchema(d.parameters) {
		return translate.Invalid("invalid_value", param+".function.parameters", "The parameters of a tool must be of type object.")
	}
	w.EndObject()
	switch {
	case !d.strict:
	case t.o.nativeSchema():
		w.Name("strict")
		w.Bool(true)
	default:
		t.warnDropped(true, "tools[].function.strict")
	}
	w.EndObject()
	w.EndObject()
	t.writeCachePoint(d.cache)
	return nil
}

// writeSchema writes the schema of a tool's input unchanged, except that the API requires a type at its root, which
// must be object. It returns false if the schema has another type.
func (t *translation) writeSchema(schema json.Value) bool {
	w := t.w
	var r json.Reader
	var kind json.Value
	members := 0
	r.Reset(schema)
	for o := r.Object(); o.Next(); members++ {
		if string(r.Name()) == "type" {
			kind = r.Raw()
		}
	}
	switch {
	case members == 0:
		w.Raw([]byte(translate.NoParameters))
		return true
	case kind.Is("object"):
		w.Raw(schema)
		return true
	case kind.Exists() && !containsString(kind, "object"):
		return false
	}
	w.Object()
	w.Name("type")
	w.String("object")
	r.Reset(schema)
	for o := r.Object(); o.Next(); {
		if string(r.Name()) != "type" {
			w.NameText(r.Name())
			w.Raw(r.Raw())
		}
	}
	w.EndObject()
	return true
}

// containsString reports whether an array contains a string.
func containsString(v json.Value, text string) bool {
	var r json.Reader
	r.Reset(v)
	for a := r.Array(); a.Next(); {
		if string(r.Text()) == text {
			return true
		}
	}
	return false
}

// writeToolChoice writes the tool choice unless it is auto, the default, which some models reject if it is explicit.
func (t *translation) writeToolChoice() error {
	var name []byte
	level := 0
	switch {
	case !t.ToolChoice.Exists() || t.ToolChoice.Is("auto"):
		return nil
	case t.ToolChoice.Is("required"):
		level = choiceAny
	default:
		level, name = choiceTool, t.ToolChoice.Get("function").Get("name").Inside()
		if name == nil {
			return sdk.Refuse("tool_choice", "This provider does not support this tool_choice.")
		}
	}
	if level > t.o.toolChoice {
		return sdk.Refuse("tool_choice", "This model does not support this tool_choice.")
	}
	if t.thinks && t.o.family == claude {
		return translate.Invalid("invalid_value", "tool_choice", "A tool call cannot be forced with thinking enabled: use auto or none, or disable thinking.")
	}
	w := t.w
	w.Name("toolChoice")
	w.Object()
	w.Name(toolChoices[level])
	w.Object()
	if name != nil {
		w.Name("name")
		w.Inside(t.names.Fit(name))
	}
	w.EndObject()
	w.EndObject()
	return nil
}
