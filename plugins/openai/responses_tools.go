package openai

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// writeTools writes the tools. In chat completions a tool's members are in a nested object named after its type; in
// Responses they are in the tool itself.
func (t *translation) writeTools() error {
	w := t.w
	if t.tools.Kind() == json.Array && t.beginMember("tools") {
		w.Array()
		var in json.Reader
		in.Reset(t.tools)
		for a, n := in.Array(), 0; a.Next(); n++ {
			if err := t.writeTool(in.Raw(), n); err != nil {
				return err
			}
		}
		w.EndArray()
	}
	return nil
}

// writeToolChoice writes the tool choice.
func (t *translation) writeToolChoice() error {
	if t.toolChoice.Exists() && t.beginMember("tool_choice") {
		return t.writeChoice()
	}
	return nil
}

func (t *translation) writeTool(tool json.Value, n int) error {
	w := t.w
	kind := tool.Get("type")
	if tool.Get("cache_control").Exists() {
		t.warnDropped("cache_control")
	}
	w.Object()
	w.Name("type")
	w.Raw(kind)
	switch {
	case kind.Is("function"):
		t.writeFunction(tool.Get("function"))
	case kind.Is("custom"):
		t.writeCustom(tool.Get("custom"))
	default:
		return sdk.Refuse("tools["+translate.Itoa(n)+"].type", "This provider does not support tools of this type.")
	}
	w.EndObject()
	return nil
}

// writeFunction writes a function's members. Unlike in chat completions, a function is strict unless it says otherwise.
func (t *translation) writeFunction(f json.Value) {
	w := t.w
	strict, parameters := false, false
	var in json.Reader
	in.Reset(f)
	for o := in.Object(); o.Next(); {
		switch name := in.Name(); string(name) {
		case "strict":
			strict, _ = in.Bool()
		case "parameters":
			if in.Kind() == json.Object {
				parameters = true
				w.Name("parameters")
				w.Raw(in.Raw())
			}
		case "name":
			t.writeName(in.Raw())
		case "description":
			if in.Kind() == json.String {
				w.NameText(name)
				w.Raw(in.Raw())
			}
		case "cache_control":
			t.warnDropped("cache_control")
		}
	}
	if !parameters {
		w.Name("parameters")
		w.Raw([]byte(translate.NoParameters))
	}
	w.Name("strict")
	w.Bool(strict)
}

// writeCustom writes the members of a custom tool. The members of a grammar are in the format itself.
func (t *translation) writeCustom(c json.Value) {
	w := t.w
	var in json.Reader
	in.Reset(c)
	for o := in.Object(); o.Next(); {
		switch string(in.Name()) {
		case "format":
		case "name":
			t.writeName(in.Raw())
			continue
		default:
			w.NameText(in.Name())
			w.Raw(in.Raw())
			continue
		}
		format := json.Value(in.Raw())
		w.Name("format")
		w.Object()
		w.Name("type")
		w.Raw(format.Get("type"))
		var g json.Reader
		g.Reset(format.Get("grammar"))
		for o := g.Object(); o.Next(); {
			w.NameText(g.Name())
			w.Raw(g.Raw())
		}
		w.EndObject()
	}
}

func (t *translation) writeChoice() error {
	w, choice := t.w, t.toolChoice
	if choice.Kind() != json.Object {
		w.Raw(choice)
		return nil
	}
	if allowed := choice.Get("allowed_tools"); allowed.Exists() {
		w.Object()
		w.Name("type")
		w.String("allowed_tools")
		w.Name("mode")
		w.Raw(allowed.Get("mode"))
		w.Name("tools")
		w.Array()
		var in json.Reader
		in.Reset(allowed.Get("tools"))
		for a := in.Array(); a.Next(); {
			t.writeNamed(in.Raw())
		}
		w.EndArray()
		w.EndObject()
		return nil
	}
	t.writeNamed(choice)
	return nil
}

// writeNamed writes a reference to a tool.
func (t *translation) writeNamed(tool json.Value) {
	w := t.w
	name := tool.Get("function").Get("name")
	if !name.Exists() {
		name = tool.Get("custom").Get("name")
	}
	w.Object()
	w.Name("type")
	w.Raw(tool.Get("type"))
	t.writeName(name)
	w.EndObject()
}

// writeName writes the name of a tool.
func (t *translation) writeName(name json.Value) {
	t.w.Field("name").Inside(t.names.Fit(name.Inside()))
}
