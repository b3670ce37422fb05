package ollama

import (
	"bytes"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/chat"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// call is a tool call of an earlier assistant message.
type call struct {
	id   []byte
	name []byte // name of the tool, as escaped string content
}

// writeCalls writes the tool calls of an earlier assistant message, and records them for the results that follow.
func (t *translation) writeCalls(m *chat.Message) error {
	t.calls = t.calls[:0]
	w := t.w
	w.Name("tool_calls")
	w.Array()
	var calls chat.Calls
	for calls.Open(m); calls.Next(); {
		if err := t.writeCall(&calls.Call, m); err != nil {
			return err
		}
	}
	w.EndArray()
	return nil
}

// writeCall writes a tool call. The API expects its arguments as an object.
func (t *translation) writeCall(c *chat.Call, m *chat.Message) error {
	if c.CacheControl {
		t.warnDropped("messages[].tool_calls[].cache_control")
	}
	if string(c.Type) != "function" {
		return sdk.Refuse(c.Param(m, ".type"), "This provider supports only tools of type function.")
	}
	input, ok := translate.Arguments(c.ArgumentsText())
	if !ok {
		t.r.Warn(abi.WarnChanged, c.Param(m, ".function.arguments"))
	}
	t.calls = append(t.calls, call{c.ID.Text(), c.Name})
	w := t.w
	w.Object()
	w.Field("id").Raw(c.ID)
	w.Field("function").Object()
	w.Field("name").Inside(c.Name)
	w.Field("arguments").Raw(input)
	w.EndObject()
	w.EndObject()
	return nil
}

// writeCallReference writes the call that a result belongs to: the name of the tool, which the prompt templates of
// models use, and the ID of the call.
func (t *translation) writeCallReference(m *chat.Message) {
	id := m.ToolCallID.Text()
	for _, c := range t.calls {
		if bytes.Equal(c.id, id) {
			t.w.Name("tool_name")
			t.w.Inside(c.name)
			break
		}
	}
	t.w.Name("tool_call_id")
	t.w.Raw(m.ToolCallID)
}

// writeTools writes the tools, unless the tool choice is none.
func (t *translation) writeTools() error {
	if t.Tools.Kind() != json.Array || t.ToolChoice.Is("none") {
		return nil
	}
	if t.ToolChoice.Exists() && !t.ToolChoice.Is("auto") {
		return sdk.Refuse("tool_choice", "This provider cannot force a tool call.")
	}
	if t.Serial {
		t.warnDropped("parallel_tool_calls")
	}
	w := t.w
	w.Name("tools")
	w.Array()
	var r json.Reader
	r.Reset(t.Tools)
	for a, n := r.Array(), 0; a.Next(); n++ {
		if err := t.writeTool(&r, n); err != nil {
			return err
		}
	}
	w.EndArray()
	return nil
}

func (t *translation) writeTool(r *json.Reader, n int) error {
	var kind, name, description []byte
	var parameters json.Value
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "type":
			kind = r.Text()
		case "cache_control":
			t.warnDropped("tools[].cache_control")
		case "function":
			for o := r.Object(); o.Next(); {
				switch string(r.Name()) {
				case "name":
					name = r.Inside()
				case "description":
					description = r.Inside()
				case "parameters":
					if r.Kind() == json.Object {
						parameters = r.Raw()
					}
				case "strict":
					if strict, _ := r.Bool(); strict {
						t.warnDropped("tools[].function.strict")
					}
				case "cache_control":
					t.warnDropped("tools[].cache_control")
				}
			}
		}
	}
	if string(kind) != "function" {
		return sdk.Refuse("tools["+translate.Itoa(n)+"].type", "This provider supports only tools of type function.")
	}
	w := t.w
	w.Object()
	w.Name("type")
	w.String("function")
	w.Name("function")
	w.Object()
	w.Name("name")
	w.Inside(name)
	if len(description) > 0 {
		w.Name("description")
		w.Inside(description)
	}
	w.Name("parameters")
	if translate.EmptyObject(parameters) {
		w.Raw([]byte(translate.NoParameters))
	} else {
		w.Raw(parameters)
	}
	w.EndObject()
	w.EndObject()
	return nil
}
