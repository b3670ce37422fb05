package cohere

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/chat"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// writeMessages writes the conversation, with system messages as messages.
func (t *translation) writeMessages(in *json.Reader) error {
	t.w.Name("messages")
	t.w.Array()
	var list chat.Messages
	for list.Open(in); list.Next(); {
		m := &list.Message
		for _, name := range m.Unknown {
			t.warnDropped("messages[]." + translate.Printable(name))
		}
		if m.Named && string(m.Role) != "tool" {
			t.warnDropped("messages[].name")
		}
		if err := t.writeMessage(m); err != nil {
			return err
		}
	}
	t.w.EndArray()
	return nil
}

func (t *translation) writeMessage(m *chat.Message) error {
	switch string(m.Role) {
	case "system", "developer":
		t.openMessage("system")
		return t.closeMessage(t.writeContent(m))
	case "user":
		t.openMessage("user")
		return t.closeMessage(t.writeContent(m))
	case "assistant":
		return t.writeAssistantMessage(m)
	case "tool":
		t.openMessage("tool")
		if m.Failed {
			m.Text = translate.FailedText(m.Text)
		}
		t.w.Name("tool_call_id")
		t.w.Inside(m.ToolCallID.Inside())
		return t.closeMessage(t.writeContent(m))
	}
	return sdk.Refuse(m.Param(".role"), "This provider does not support messages with this role.")
}

func (t *translation) openMessage(role string) {
	t.wrote = true
	t.w.Object()
	t.w.Name("role")
	t.w.String(role)
}

// closeMessage ends a message unless err is not nil, and returns err.
func (t *translation) closeMessage(err error) error {
	if err == nil {
		t.w.EndObject()
	}
	return err
}

// writeContent writes a message's content, as a string or as parts like in the client's request.
func (t *translation) writeContent(m *chat.Message) error {
	t.w.Name("content")
	if !m.Parts.Exists() {
		t.w.Inside(m.Text)
		return nil
	}
	t.w.Array()
	var parts chat.Parts
	for parts.Open(m); parts.Next(); {
		if err := t.writePart(&parts.Part, m); err != nil {
			return err
		}
	}
	t.w.EndArray()
	return nil
}

// writePart writes a part of a message. Images have the same format in both APIs, whether they are data URLs or others.
func (t *translation) writePart(p *chat.Part, m *chat.Message) error {
	if p.CacheControl {
		t.warnDropped("messages[].content[].cache_control")
	}
	switch string(p.Type) {
	case "text", "refusal":
		text := p.Text
		if m.Failed && string(m.Role) == "tool" {
			text, m.Failed = translate.FailedText(text), false
		}
		t.writeTextPart(text)
		return nil
	case "image_url":
		if string(m.Role) != "user" {
			return translate.Unsupported(p.Param(m, ""), "This provider supports images only in user messages.")
		}
		w := t.w
		w.Object()
		w.Field("type").String("image_url")
		w.Field("image_url").Object()
		w.Field("url").Inside(p.URL)
		if len(p.Detail) > 0 {
			w.Field("detail").Inside(p.Detail)
		}
		w.EndObject()
		w.EndObject()
		return nil
	}
	return translate.Unsupported(p.Param(m, ""), "This provider does not support content of this type.")
}

func (t *translation) writeTextPart(text []byte) {
	t.w.Object()
	t.w.Name("type")
	t.w.String("text")
	t.w.Name("text")
	t.w.Inside(text)
	t.w.EndObject()
}

// writeAssistantMessage writes an earlier assistant message: its reasoning, its text, and its tool calls. If there are
// tool calls, the text is their plan. An empty message is omitted.
func (t *translation) writeAssistantMessage(m *chat.Message) error {
	if m.Audio {
		return sdk.Refuse(m.Param(".audio"), "This provider does not support audio.")
	}
	t.readThoughts(m)
	pieces := t.messageTexts(m)
	if m.ToolCalls.Kind() == json.Array {
		return t.writeToolCallMessage(m, pieces)
	}
	if len(pieces) == 0 && len(t.thoughts) == 0 {
		return nil
	}
	t.openMessage("assistant")
	t.w.Name("content")
	if len(pieces) == 1 && len(t.thoughts) == 0 && !m.Parts.Exists() {
		t.w.Inside(pieces[0])
	} else {
		t.w.Array()
		t.writeThoughts()
		for _, piece := range pieces {
			t.writeTextPart(piece)
		}
		t.w.EndArray()
	}
	t.w.EndObject()
	return nil
}

// writeToolCallMessage writes an earlier assistant message with tool calls. The pieces of text become its plan.
func (t *translation) writeToolCallMessage(m *chat.Message, pieces [][]byte) error {
	w := t.w
	t.openMessage("assistant")
	if len(pieces) > 0 {
		from := len(t.scratch)
		for _, piece := range pieces {
			t.scratch = append(t.scratch, piece...)
		}
		w.Name("tool_plan")
		w.Inside(t.scratch[from:])
	}
	if len(t.thoughts) > 0 {
		w.Name("content")
		w.Array()
		t.writeThoughts()
		w.EndArray()
	}
	w.Name("tool_calls")
	w.Array()
	var calls chat.Calls
	for calls.Open(m); calls.Next(); {
		if err := t.writeCall(&calls.Call, m); err != nil {
			return err
		}
	}
	w.EndArray()
	w.EndObject()
	return nil
}

// messageTexts returns the texts of an earlier assistant message that are not empty.
func (t *translation) messageTexts(m *chat.Message) (pieces [][]byte) {
	add := func(text []byte) {
		if len(text) > 0 {
			pieces = append(pieces, text)
		}
	}
	add(m.Text)
	var parts chat.Parts
	for parts.Open(m); parts.Next(); {
		add(parts.Text)
		if parts.CacheControl {
			t.warnDropped("messages[].content[].cache_control")
		}
	}
	add(m.Refusal)
	return pieces
}
