package gemini

import (
	"bytes"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/chat"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// call is a tool call of an earlier assistant message, with its result if that has been read.
type call struct {
	id       []byte
	name     []byte // escaped string content
	answered bool
	result   chat.Message
}

// skipSignature is the provider's placeholder for a missing signature, for a call made by another provider.
const skipSignature = "skip_thought_signature_validator"

// writeCalls writes the tool calls of an earlier assistant message and records them for their results.
func (t *translation) writeCalls(m *chat.Message) error {
	t.calls = t.calls[:0]
	var calls chat.Calls
	for calls.Open(m); calls.Next(); {
		if err := t.writeCall(&calls.Call, m); err != nil {
			return err
		}
	}
	t.waiting = len(t.calls)
	return nil
}

func (t *translation) writeCall(c *chat.Call, m *chat.Message) error {
	if string(c.Type) != "function" {
		return sdk.Refuse(c.Param(m, ".type"), "This provider supports only tools of type function.")
	}
	id, signature := c.ID.Text(), c.ExtraContent.Get("google").Get("thought_signature").Inside()
	args, ok := translate.Arguments(c.ArgumentsText())
	if !ok {
		t.r.Warn(abi.WarnChanged, c.Param(m, ".function.arguments"))
	}
	if signature = t.signatures.callSignature(id, signature); len(signature) == 0 && c.Index == 0 && t.o.requireSignature == translate.Yes {
		signature = []byte(skipSignature)
	}
	name := t.names.Fit(c.Name)
	t.calls = append(t.calls, call{id: id, name: name})
	w := t.w
	t.openContent("model")
	w.Object()
	w.Name("functionCall")
	w.Object()
	if !t.o.vertex {
		w.Name("id")
		w.Text(id)
	}
	w.Name("name")
	w.Inside(name)
	w.Name("args")
	w.Raw(args)
	w.EndObject()
	t.writeSignature(signature)
	w.EndObject()
	return nil
}

// addToolResult records the result of a tool call. Results are written together, in the order of the calls, because the
// provider matches results without an ID by order alone.
func (t *translation) addToolResult(m *chat.Message) error {
	id := m.ToolCallID.Text()
	for i := range t.calls {
		c := &t.calls[i]
		if c.answered || !bytes.Equal(c.id, id) {
			continue
		}
		c.answered, c.result = true, *m
		if t.waiting--; t.waiting == 0 {
			return t.writeResults()
		}
		return nil
	}
	return translate.Invalid("invalid_value", m.Param(".tool_call_id"), "No earlier tool call has this id.")
}

// writeResults writes the results read so far. Media in them follow after the last one, because a result is an object.
func (t *translation) writeResults() error {
	for i := range t.calls {
		if c := &t.calls[i]; c.answered {
			t.writeResult(c)
		}
	}
	for i := range t.calls {
		c := &t.calls[i]
		var parts chat.Parts
		for parts.Open(&c.result); parts.Next(); {
			if string(parts.Type) == "text" {
				continue
			}
			if err := t.writePart(&parts.Part, "user", &c.result); err != nil {
				return err
			}
		}
	}
	t.calls, t.waiting = t.calls[:0], 0
	return nil
}

func (t *translation) writeResult(c *call) {
	w := t.w
	t.openContent("user")
	w.Object()
	w.Name("functionResponse")
	w.Object()
	if !t.o.vertex {
		w.Name("id")
		w.Text(c.id)
	}
	w.Name("name")
	w.Inside(c.name)
	w.Name("response")
	t.writeResponse(&c.result)
	w.EndObject()
	w.EndObject()
}

// writeResponse writes the result of a tool as an object: a JSON object unchanged, any other text as the member output,
// several texts as an array there. The result of a failed tool is the member error.
func (t *translation) writeResponse(m *chat.Message) {
	w := t.w
	text, texts := m.Text, 0
	var parts chat.Parts
	for parts.Open(m); parts.Next(); {
		if string(parts.Type) == "text" {
			text = parts.Text
			texts++
		}
	}
	if first := bytes.TrimLeft(text, " "); texts < 2 && len(first) > 0 && (first[0] == '{' || first[0] == '\\') {
		if plain := json.Value(bytes.TrimSpace(json.AppendText(nil, text))); plain.Kind() == json.Object && plain.Valid() {
			if !m.Failed {
				w.Raw(plain)
				return
			}
			w.Object()
			w.Name("error")
			w.Raw(plain)
			w.EndObject()
			return
		}
	}
	w.Object()
	if m.Failed {
		w.Name("error")
	} else {
		w.Name("output")
	}
	if texts < 2 {
		w.Inside(text)
	} else {
		w.Array()
		for parts.Open(m); parts.Next(); {
			if string(parts.Type) == "text" {
				w.Inside(parts.Text)
			}
		}
		w.EndArray()
	}
	w.EndObject()
}
