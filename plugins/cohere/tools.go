package cohere

import (
	"bytes"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/chat"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// nameRule is the rule for the names of tools: "a-z, A-Z, 0-9, _ and must not begin with a digit"
// (https://docs.cohere.com/v1/reference/chat).
var nameRule = translate.NameRule{Max: 64}

// writeCall writes a tool call of an earlier assistant message. Both APIs have the arguments as a string, so they need
// not be valid JSON.
func (t *translation) writeCall(c *chat.Call, m *chat.Message) error {
	if c.CacheControl {
		t.warnDropped("messages[].tool_calls[].cache_control")
	}
	if string(c.Type) != "function" {
		return sdk.Refuse(c.Param(m, ".type"), "This provider supports only tools of type function.")
	}
	arguments := c.Arguments
	if translate.Blank(arguments) {
		arguments = []byte("{}")
	}
	w := t.w
	w.Object()
	w.Field("id").Inside(c.ID.Inside())
	w.Field("type").String("function")
	w.Field("function").Object()
	w.Field("name").Inside(t.names.Fit(c.Name))
	w.Field("arguments").Inside(arguments)
	w.EndObject()
	w.EndObject()
	return nil
}

// tool is one of the client's tools. name and description are escaped string contents.
type tool struct {
	kind, name, description []byte
	parameters              json.Value
	strict                  bool
}

func (t *translation) readTool(r *json.Reader) (f tool) {
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "type":
			f.kind = r.Text()
		case "cache_control":
			t.warnDropped("tools[].cache_control")
		case "function":
			for o := r.Object(); o.Next(); {
				switch string(r.Name()) {
				case "name":
					f.name = r.Inside()
				case "description":
					f.description = r.Inside()
				case "parameters":
					if r.Kind() == json.Object {
						f.parameters = r.Raw()
					}
				case "strict":
					f.strict, _ = r.Bool()
				case "cache_control":
					t.warnDropped("tools[].cache_control")
				}
			}
		}
	}
	return f
}

// writeTools writes the tools and the tool choice. If the client forces a specific tool, only that one is written.
func (t *translation) writeTools() error {
	if t.Tools.Kind() != json.Array {
		return nil
	}
	choice, named, err := t.readToolChoice()
	if err != nil {
		return err
	}
	w := t.w
	w.Name("tools")
	w.Array()
	written, strict := 0, 0
	var r json.Reader
	r.Reset(t.Tools)
	for a, n := r.Array(), 0; a.Next(); n++ {
		f := t.readTool(&r)
		if string(f.kind) != "function" {
			return sdk.Refuse("tools["+translate.Itoa(n)+"].type", "This provider supports only tools of type function.")
		}
		if named != nil && !bytes.Equal(f.name, named) {
			continue
		}
		written++
		if f.strict {
			strict++
		}
		t.writeTool(&f)
	}
	w.EndArray()
	if written == 0 {
		return translate.Invalid("invalid_value", "tool_choice.function.name", "No tool has this name.")
	}
	w = t.r.Part(translate.PartMessages) // the members below may differ between two turns
	switch strict {
	case 0:
	case written:
		w.Name("strict_tools")
		w.Bool(true)
	default:
		// The API enforces the schemas of all tools or of none.
		t.warnDropped("tools[].function.strict")
	}
	if choice != "" {
		w.Name("tool_choice")
		w.String(choice)
	}
	if t.Serial && choice != "NONE" {
		t.warnDropped("parallel_tool_calls")
	}
	return nil
}

func (t *translation) writeTool(f *tool) {
	w := t.w
	w.Object()
	w.Name("type")
	w.String("function")
	w.Name("function")
	w.Object()
	w.Name("name")
	w.Inside(t.names.Fit(f.name))
	if len(f.description) > 0 {
		w.Name("description")
		w.Inside(f.description)
	}
	w.Name("parameters")
	if translate.EmptyObject(f.parameters) {
		w.Raw([]byte(translate.NoParameters))
	} else {
		w.Raw(f.parameters)
	}
	w.EndObject()
	w.EndObject()
}

// readToolChoice returns the tool choice in the API's words, and the name of the tool to force as escaped string
// content.
func (t *translation) readToolChoice() (choice string, named []byte, err error) {
	c := t.ToolChoice
	switch {
	case !c.Exists(), c.Is("auto"):
		return "", nil, nil
	case c.Is("none"):
		return "NONE", nil, nil
	case c.Is("required"):
		return "REQUIRED", nil, nil
	}
	if named = c.Get("function").Get("name").Inside(); named == nil {
		return "", nil, sdk.Refuse("tool_choice", "This provider does not support this tool_choice.")
	}
	return "REQUIRED", named, nil
}
