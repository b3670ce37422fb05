package main

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

const (
	// noParameters is the schema of a tool that takes none.
	noParameters = `{"type":"object","properties":{}}`

	// anyObject is the schema for an answer that is to be any JSON object.
	anyObject = `{"type":"object","additionalProperties":true}`

	// answerTool is the tool that the model is forced to call where it has no other way to keep to a schema.
	answerTool = "json_answer"
)

// writeCalls writes the tool calls of an earlier answer, from the one numbered from up to to, -1 for all.
func (t *translation) writeCalls(m *message, from, to int) error {
	var r json.Reader
	r.Reset(m.calls)
	n := 0
	for a := r.Array(); a.Next(); n++ {
		if n < from || to >= 0 && n >= to {
			continue
		}
		if err := t.writeCall(&r, m, n); err != nil {
			return err
		}
	}
	return nil
}

func (t *translation) writeCall(r *json.Reader, m *message, n int) error {
	var id, name, arguments []byte
	var cache json.Value
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "id":
			id = r.Text()
		case "cache_control":
			cache = r.Raw()
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
	if input := json.Value(arguments); len(arguments) > 0 && (input.Kind() != json.Object || !input.Valid()) {
		return invalid("invalid_value", m.param(".tool_calls["+number(n)+"].function.arguments"), "The arguments of a tool call must be a JSON object.")
	}
	w := t.w
	t.open("assistant")
	w.Object()
	w.Name("type")
	w.String("tool_use")
	w.Name("id")
	t.toolID(id)
	w.Name("name")
	w.Inside(name)
	w.Name("input")
	if len(arguments) > 0 {
		w.Raw(arguments)
	} else {
		w.Raw([]byte("{}"))
	}
	t.cacheControl(cache)
	w.EndObject()
	return nil
}

// writeTools writes the tools, how they are to be chosen, and what form the answer is to have.
func (t *translation) writeTools() error {
	w := t.w
	schema, name, err := t.answerSchema()
	if err != nil {
		return err
	}
	count := countElements(t.tools)
	if count > 0 {
		w.Name("tools")
		w.Array()
		var r json.Reader
		r.Reset(t.tools)
		n := 0
		for a := r.Array(); a.Next(); n++ {
			if err := t.writeTool(&r, n); err != nil {
				return err
			}
		}
		w.EndArray()
	}
	switch {
	case schema == nil:
	case t.o.nativeSchema:
		// Written with the effort, which shares its object.
	case count > 0:
		return sdk.Refuse("response_format", "This model cannot be held to a schema and given tools at once.")
	case t.thinks():
		return sdk.Refuse("response_format", "This model cannot be held to a schema while it thinks.")
	default:
		t.emulate = true
		w.Name("tools")
		w.Array()
		w.Object()
		w.Name("name")
		w.Inside(name)
		w.Name("description")
		w.String("Give the answer by calling this tool. Its input is the whole answer.")
		w.Name("input_schema")
		w.Raw(schema)
		w.EndObject()
		w.EndArray()
		w.Name("tool_choice")
		w.Object()
		w.Name("type")
		w.String("tool")
		w.Name("name")
		w.Inside(name)
		w.Name("disable_parallel_tool_use")
		w.Bool(true)
		w.EndObject()
		return nil
	}
	return t.writeToolChoice(count)
}

func (t *translation) writeTool(r *json.Reader, n int) error {
	var kind, name, description []byte
	var parameters, cache json.Value
	strict := false
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "type":
			kind = r.Inside()
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
	if strict {
		t.r.Warn(abi.WarnDropped, "tools.function.strict")
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
	if emptyObject(parameters) {
		w.Raw([]byte(noParameters))
	} else {
		w.Raw(parameters)
	}
	if cache.Kind() == json.Object {
		t.cacheControl(cache)
	}
	w.EndObject()
	return nil
}

// emptyObject says whether a schema says nothing.
func emptyObject(v json.Value) bool {
	if v.Kind() != json.Object {
		return true
	}
	var r json.Reader
	r.Reset(v)
	for o := r.Object(); o.Next(); {
		return false
	}
	return true
}

// writeToolChoice writes how the tools are to be chosen; count is how many there are.
func (t *translation) writeToolChoice(count int) error {
	if count == 0 {
		return nil
	}
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
	if kind == "" {
		return nil
	}
	if t.thinks() && (kind == "any" || kind == "tool") {
		return invalid("invalid_value", "tool_choice", "A tool cannot be forced while the model thinks: use auto or none, or no thinking.")
	}
	w := t.w
	w.Name("tool_choice")
	w.Object()
	w.Name("type")
	w.String(kind)
	if kind == "tool" {
		w.Name("name")
		w.Inside(name)
	}
	if t.serial && kind != "none" {
		w.Name("disable_parallel_tool_use")
		w.Bool(true)
	}
	w.EndObject()
	return nil
}

// answerSchema is the schema that the answer is to keep to, and the name for it; nil where there is none.
func (t *translation) answerSchema() (schema json.Value, name []byte, err error) {
	if t.responseFormat.Kind() != json.Object {
		return nil, nil, nil
	}
	kind := t.responseFormat.Get("type")
	switch {
	case kind.Is("text"):
		return nil, nil, nil
	case kind.Is("json_object"):
		return json.Value(anyObject), []byte(answerTool), nil
	case kind.Is("json_schema"):
		form := t.responseFormat.Get("json_schema")
		schema = form.Get("schema")
		if schema.Kind() != json.Object {
			schema = json.Value(anyObject)
		}
		if name = form.Get("name").Inside(); len(name) == 0 {
			name = []byte(answerTool)
		}
		return schema, name, nil
	}
	return nil, nil, sdk.Refuse("response_format.type", "This provider has no such form of answer.")
}
