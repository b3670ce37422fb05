package main

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// noParameters is the schema of a tool that takes none.
const noParameters = `{"type":"object","properties":{}}`

// writeCalls writes the tool calls of an earlier answer, from the one numbered from up to to, -1 for all. The one
// numbered marked has the message's cache breakpoint.
func (t *translation) writeCalls(m *message, from, to, marked int) error {
	if m.calls == nil {
		return nil
	}
	var r json.Reader
	r.Reset(m.calls)
	for a, n := r.Array(), 0; a.Next(); n++ {
		if n < from || to >= 0 && n >= to {
			continue
		}
		var cache json.Value
		if n == marked {
			cache = m.cache
		}
		if err := t.writeCall(&r, m, n, cache); err != nil {
			return err
		}
	}
	return nil
}

func (t *translation) writeCall(r *json.Reader, m *message, n int, cache json.Value) error {
	var kind, id, name, arguments []byte
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "type":
			kind = r.Text()
		case "id":
			id = r.Text()
		case "cache_control":
			if r.Kind() == json.Object {
				cache = r.Raw()
			}
		case "function":
			for o := r.Object(); o.Next(); {
				switch string(r.Name()) {
				case "name":
					name = r.Inside()
				case "arguments":
					arguments = r.Text()
				}
			}
		}
	}
	param := func(rest string) string { return m.param(".tool_calls[" + number(n) + "]" + rest) }
	if string(kind) != "function" {
		return sdk.Refuse(param(".type"), "This provider takes only tools of type function.")
	}
	input := json.Value(arguments)
	switch {
	case blankJSON(input):
		input = json.Value("{}")
	case input.Kind() != json.Object || !input.Valid():
		return invalid("invalid_value", param(".function.arguments"), "The arguments of a tool call must be a JSON object.")
	}
	t.called = appendNew(t.called, name)
	w := t.w
	t.open("assistant")
	w.Object()
	t.members(`"type":"tool_use","id":`)
	t.toolID(id)
	w.Name("name")
	w.Inside(name)
	w.Name("input")
	w.Raw(input)
	t.cacheControl(cache)
	w.EndObject()
	return nil
}

// blankJSON says whether there is nothing but what JSON takes for white space.
func blankJSON(v json.Value) bool {
	for _, c := range v {
		if c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return false
		}
	}
	return true
}

// maxCalled is how many tools a history is searched for.
const maxCalled = 128

// appendNew appends a name that is not there yet.
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

// writeTools writes the tools, how they are to be chosen, and what form the answer is to have where the model can only be
// held to it by a tool.
func (t *translation) writeTools() error {
	w := t.w
	var r json.Reader
	switch {
	case t.form.forced:
		t.writeAnswerTool()
		return nil
	case t.tools.Kind() == json.Array:
		w.Name("tools")
		w.Array()
		r.Reset(t.tools)
		for a, n := r.Array(), 0; a.Next(); n++ {
			if err := t.writeTool(&r, n); err != nil {
				return err
			}
		}
		w.EndArray()
		return t.writeToolChoice()
	case len(t.called) > 0:
		// The provider refuses a history with calls of tools that it is not told of.
		w.Name("tools")
		w.Array()
		for _, name := range t.called {
			w.Object()
			w.Name("name")
			w.Inside(name)
			w.Name("input_schema")
			w.Raw([]byte(noParameters))
			w.EndObject()
		}
		w.EndArray()
		t.writeChoice("none", nil)
	}
	return nil
}

func (t *translation) writeTool(r *json.Reader, n int) error {
	var kind, name, description []byte
	var parameters, cache json.Value
	strict := false
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "type":
			kind = r.Text()
		case "cache_control":
			cache = r.Raw()
		case "function":
			for o := r.Object(); o.Next(); {
				switch string(r.Name()) {
				case "name":
					name = r.Inside()
				case "description":
					description = r.Inside()
				case "parameters":
					parameters = r.Raw()
				case "strict":
					strict, _ = r.Bool()
				case "cache_control":
					cache = r.Raw()
				}
			}
		}
	}
	if string(kind) != "function" {
		return sdk.Refuse("tools["+number(n)+"].type", "This provider takes only tools of type function.")
	}
	w := t.w
	w.Object()
	w.Name("name")
	w.Inside(name)
	if len(description) > 0 {
		w.Name("description")
		w.Inside(description)
	}
	w.Name("input_schema")
	t.writeSchema(parameters)
	switch {
	case !strict:
	case t.o.nativeSchema:
		w.Name("strict")
		w.Bool(true)
	default:
		t.r.Warn(abi.WarnDropped, "tools[].function.strict")
	}
	t.cacheControl(cache)
	w.EndObject()
	return nil
}

// writeSchema writes the schema of a tool's input as it stands. The provider demands a type, and takes none but object.
func (t *translation) writeSchema(schema json.Value) {
	w := t.w
	var r json.Reader
	r.Reset(schema)
	members, typed := 0, false
	for o := r.Object(); o.Next(); members++ {
		typed = typed || string(r.Name()) == "type"
	}
	switch {
	case members == 0:
		w.Raw([]byte(noParameters))
	case typed:
		w.Raw(schema)
	default:
		w.Object()
		w.Name("type")
		w.String("object")
		r.Reset(schema)
		for o := r.Object(); o.Next(); {
			w.NameText(r.Name())
			w.Raw(r.Raw())
		}
		w.EndObject()
	}
}

// writeToolChoice writes how the tools are to be chosen.
func (t *translation) writeToolChoice() error {
	kind := ""
	var name []byte
	switch {
	case t.toolChoice.Is("auto"):
		kind = "auto"
	case t.toolChoice.Is("none"):
		kind = "none"
	case t.toolChoice.Is("required"):
		kind = "any"
	case t.toolChoice.Kind() == json.Object:
		kind, name = "tool", t.toolChoice.Get("function").Get("name").Inside()
		if name == nil {
			return sdk.Refuse("tool_choice", "This provider cannot choose tools in this way.")
		}
	case t.serial:
		kind = "auto"
	}
	if t.thinks && (kind == "any" || kind == "tool") {
		return invalid("invalid_value", "tool_choice", "A tool cannot be forced while the model thinks: use auto or none, or no thinking.")
	}
	if kind != "" {
		t.writeChoice(kind, name)
	}
	return nil
}

// writeChoice writes a choice of tools; name is the inside of a string, nil but for the kind tool.
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
