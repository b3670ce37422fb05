package ollama

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
	role := string(m.Role)
	switch role {
	case "system", "developer":
		role = "system"
	case "user", "tool":
	case "assistant":
		return t.writeAssistantMessage(m)
	default:
		return sdk.Refuse(m.Param(".role"), "This provider does not support messages with this role.")
	}
	t.openMessage(role)
	if err := t.writeContent(m); err != nil {
		return err
	}
	if role == "tool" {
		t.writeCallReference(m)
	}
	t.w.EndObject()
	return nil
}

func (t *translation) openMessage(role string) {
	t.wrote = true
	t.w.Object()
	t.w.Name("role")
	t.w.String(role)
}

// writeContent writes the text and images of a message.
func (t *translation) writeContent(m *chat.Message) error {
	w := t.w
	failed := m.Failed && string(m.Role) == "tool"
	if !m.Parts.Exists() {
		text := m.Text
		if failed {
			text = translate.FailedText(text)
		}
		w.Name("content")
		w.Inside(text)
		return nil
	}
	text, err := t.readParts(m)
	if err != nil {
		return err
	}
	if failed {
		text = translate.FailedText(text)
	}
	w.Name("content")
	w.Inside(text)
	if len(t.images) == 0 {
		return nil
	}
	w.Name("images")
	w.Array()
	for _, i := range t.images {
		if err := t.writeImage(i.url, m.Param(".content["+translate.Itoa(i.part)+"].image_url.url")); err != nil {
			return err
		}
	}
	w.EndArray()
	return nil
}

// readParts joins the texts of a message's parts with line feeds, and records its images in t.images. The returned text
// is escaped string content; it uses the scratch buffer unless there is only one part with text.
func (t *translation) readParts(m *chat.Message) (text []byte, err error) {
	t.scratch, t.images = t.scratch[:0], t.images[:0]
	texts := 0
	var parts chat.Parts
	for parts.Open(m); parts.Next(); {
		p := &parts.Part
		if p.CacheControl {
			t.warnDropped("messages[].content[].cache_control")
		}
		switch string(p.Type) {
		case "text":
			if texts++; texts == 1 {
				text = p.Text
				continue
			}
			if texts == 2 {
				t.scratch = append(t.scratch, text...)
			}
			t.scratch = append(append(t.scratch, '\\', 'n'), p.Text...)
			text = t.scratch
		case "image_url":
			t.images = append(t.images, image{p.URL, p.Index})
			if len(p.Detail) > 0 && string(p.Detail) != "auto" {
				t.warnDropped("image_url.detail")
			}
		default:
			return nil, translate.Unsupported(p.Param(m, ""), "This provider does not support content of this type.")
		}
	}
	return text, nil
}

// writeAssistantMessage writes an earlier assistant message: its text, its reasoning and its tool calls. An empty
// message is omitted.
func (t *translation) writeAssistantMessage(m *chat.Message) error {
	if m.Audio {
		return sdk.Refuse(m.Param(".audio"), "This provider does not support audio.")
	}
	text := t.assistantText(m)
	from := len(t.scratch)
	t.readThoughts(m)
	thoughts := t.scratch[from:]
	calls := m.ToolCalls.Kind() == json.Array
	if len(text) == 0 && len(thoughts) == 0 && !calls {
		return nil
	}
	t.openMessage("assistant")
	t.w.Name("content")
	t.w.Inside(text)
	if len(thoughts) > 0 {
		t.w.Name("thinking")
		t.w.Inside(thoughts)
	}
	if calls {
		if err := t.writeCalls(m); err != nil {
			return err
		}
	}
	t.w.EndObject()
	return nil
}

// assistantText returns the text of an earlier assistant message, as escaped string content. It resets the scratch
// buffer, and joins the texts there if there may be several.
func (t *translation) assistantText(m *chat.Message) []byte {
	t.scratch = t.scratch[:0]
	if !m.Parts.Exists() && len(m.Refusal) == 0 {
		return m.Text
	}
	t.scratch = append(t.scratch, m.Text...)
	var parts chat.Parts
	for parts.Open(m); parts.Next(); {
		t.scratch = append(t.scratch, parts.Text...)
		if parts.CacheControl {
			t.warnDropped("messages[].content[].cache_control")
		}
	}
	t.scratch = append(t.scratch, m.Refusal...)
	return t.scratch
}
