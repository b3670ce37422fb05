package gemini

import (
	"slices"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/chat"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// writeMessages writes the conversation without system messages: one content for each run of messages with the same
// role.
func (t *translation) writeMessages(in *json.Reader) error {
	t.messages = true
	t.w.Name("contents")
	t.w.Array()
	var list chat.Messages
	for list.Open(in); list.Next(); {
		m := &list.Message
		for _, name := range m.Unknown {
			switch string(name) {
			case "cache_control": // there is one warning for the whole request
			case "thinking_blocks":
			default:
				t.warnDropped(true, "messages[]."+translate.Printable(name))
			}
		}
		t.warnDropped(m.Named && string(m.Role) != "tool", "messages[].name")
		if err := t.writeMessage(m); err != nil {
			return err
		}
	}
	if err := t.writeResults(); err != nil {
		return err
	}
	t.closeContent()
	return nil
}

func (t *translation) writeMessage(m *chat.Message) error {
	if string(m.Role) == "tool" {
		return t.addToolResult(m)
	}
	if err := t.writeResults(); err != nil {
		return err
	}
	switch string(m.Role) {
	case "system", "developer":
		t.addSystemMessage(m)
		return nil
	case "user":
		return t.writeContent(m, "user")
	case "assistant":
		return t.writeAssistantMessage(m)
	}
	return sdk.Refuse(m.Param(".role"), "This provider does not support messages with this role.")
}

// openContent starts a content unless the current one has the same role. It is called when the first part is written,
// so that empty messages are omitted.
func (t *translation) openContent(role string) {
	if t.role == role {
		return
	}
	t.closeContent()
	t.role, t.wrote = role, true
	w := t.w
	w.Object()
	w.Name("role")
	w.String(role)
	w.Name("parts")
	w.Array()
}

func (t *translation) closeContent() {
	if t.role != "" {
		t.role = ""
		t.w.EndArray()
		t.w.EndObject()
	}
}

// writeTextPart writes a text part, with its signature if there is one. Both are escaped string contents.
func (t *translation) writeTextPart(inside, signature []byte) {
	w := t.w
	w.Object()
	w.Name("text")
	w.Inside(inside)
	t.writeSignature(signature)
	w.EndObject()
}

func (t *translation) writeSignature(signature []byte) {
	if len(signature) > 0 {
		t.w.Name("thoughtSignature")
		t.w.Inside(signature)
	}
}

// writeText writes a text with a role, unless it is empty, because the provider rejects empty text.
func (t *translation) writeText(role string, inside []byte) {
	if len(inside) > 0 {
		t.openContent(role)
		t.writeTextPart(inside, nil)
	}
}

// addSystemMessage records the texts of a system message.
func (t *translation) addSystemMessage(m *chat.Message) {
	note := func(inside []byte) {
		if len(inside) > 0 {
			t.system = append(t.system, inside)
		}
	}
	note(m.Text)
	var parts chat.Parts
	for parts.Open(m); parts.Next(); {
		note(parts.Text)
	}
}

// writeContent writes a message's content as parts.
func (t *translation) writeContent(m *chat.Message, role string) error {
	t.writeText(role, m.Text)
	var parts chat.Parts
	for parts.Open(m); parts.Next(); {
		if err := t.writePart(&parts.Part, role, m); err != nil {
			return err
		}
	}
	return nil
}

// writeAssistantMessage writes an earlier assistant message: its signed thoughts, its text, its tool calls.
func (t *translation) writeAssistantMessage(m *chat.Message) error {
	if m.Audio {
		return sdk.Refuse(m.Param(".audio"), "This provider does not support audio in assistant messages.")
	}
	s := &t.signatures
	s.read(m.ReasoningDetails)
	for i := range s.thoughts {
		t.writeThought(&s.thoughts[i])
	}
	t.writeAssistantText(m)
	if err := t.writeCalls(m); err != nil {
		return err
	}
	if !s.used {
		t.warnDropped(m.ReasoningDetails.Exists(), "messages[].reasoning_details")
		if slices.ContainsFunc(m.Unknown, func(name []byte) bool { return string(name) == "thinking_blocks" }) {
			t.warnDropped(true, "messages[].thinking_blocks")
		} else {
			t.warnDropped(m.Reasoning != nil, "messages[].reasoning_content")
		}
	}
	return nil
}

// writeAssistantText writes the text of an assistant message with its signatures. The first signature goes to the last
// text if it was on a text originally; each other signature becomes a part of its own.
func (t *translation) writeAssistantText(m *chat.Message) {
	s := &t.signatures
	texts := s.words[:0]
	add := func(inside []byte) {
		if len(inside) > 0 {
			texts = append(texts, inside)
		}
	}
	add(m.Text)
	var parts chat.Parts
	for parts.Open(m); parts.Next(); {
		add(parts.Text)
	}
	add(m.Refusal)
	s.words = texts
	next := 0
	for i, inside := range texts {
		t.openContent("model")
		var signature []byte
		if i == len(texts)-1 && len(s.texts) > 0 && s.onText {
			signature, next = s.texts[0], 1
		}
		t.writeTextPart(inside, signature)
	}
	for _, signature := range s.texts[next:] {
		t.openContent("model")
		t.writeTextPart(nil, signature)
	}
}
