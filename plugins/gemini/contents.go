package gemini

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// message is one of the client's messages, its members in any order.
type message struct {
	index   int
	role    []byte
	text    []byte     // escaped string content, else nil
	parts   json.Value // a content that is an array
	refusal []byte     // escaped string content
	calls   json.Value
	callID  []byte
	details json.Value // reasoning_details
	thought string     // another member with reasoning, which this provider cannot use

	audio, named bool
	failed       bool // is_error of a tool's result
}

// readMessage reads a message. Members that the provider does not have cause a warning.
func (t *translation) readMessage(m *message, in *json.Reader, index int) {
	*m = message{index: index}
	for o := in.Object(); o.Next(); {
		if in.Kind() == json.Null {
			continue
		}
		switch name := in.Name(); string(name) {
		case "role":
			m.role = in.Text()
		case "content":
			if in.Kind() == json.String {
				m.text = in.Inside()
			} else {
				m.parts = in.Raw()
			}
		case "refusal":
			m.refusal = in.Inside()
		case "tool_calls":
			m.calls = in.Raw()
		case "tool_call_id":
			m.callID = in.Text()
		case "reasoning_details":
			m.details = in.Raw()
		case "thinking_blocks":
			m.thought = "thinking_blocks"
		case "reasoning_content":
			if m.thought == "" {
				m.thought = "reasoning_content"
			}
		case "audio":
			m.audio = true
		case "name":
			m.named = true
		case "is_error":
			m.failed, _ = in.Bool()
		case "cache_control", "annotations":
			// The first is warned of for the whole request; the others tell of an earlier assistant message's text.
		default:
			t.warnDropped(true, "messages[]."+translate.Printable(name))
		}
	}
	t.warnDropped(m.named && string(m.role) != "tool", "messages[].name")
}

// param is the path of a member of the message, for an error.
func (m *message) param(rest string) string {
	return "messages[" + translate.Itoa(m.index) + "]" + rest
}

// writeMessages writes the conversation: one content for each run of the same role, system messages apart.
func (t *translation) writeMessages(in *json.Reader) error {
	t.messages = true
	t.w.Name("contents")
	t.w.Array()
	var m message
	for a, n := in.Array(), 0; a.Next(); n++ {
		t.readMessage(&m, in, n)
		if err := t.writeMessage(&m); err != nil {
			return err
		}
	}
	if err := t.writeResults(); err != nil {
		return err
	}
	t.closeContent()
	return nil
}

func (t *translation) writeMessage(m *message) error {
	if string(m.role) == "tool" {
		return t.addToolResult(m)
	}
	if err := t.writeResults(); err != nil {
		return err
	}
	switch string(m.role) {
	case "system", "developer":
		t.addSystemMessage(m)
		return nil
	case "user":
		return t.writeContent(m, "user")
	case "assistant":
		return t.writeAssistantMessage(m)
	}
	return sdk.Refuse(m.param(".role"), "This provider does not support messages with this role.")
}

// openContent starts a content unless the current one has the role. It is called with the first part to write, so that
// empty messages are omitted.
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

// writeTextPart writes a part with text, and with its signature if it has one. Both are escaped string contents.
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

// writeText writes text with a role. Empty text is omitted: the provider refuses it.
func (t *translation) writeText(role string, inside []byte) {
	if len(inside) > 0 {
		t.openContent(role)
		t.writeTextPart(inside, nil)
	}
}

// addSystemMessage records the texts of a system message.
func (t *translation) addSystemMessage(m *message) {
	note := func(inside []byte) {
		if len(inside) > 0 {
			t.system = append(t.system, inside)
		}
	}
	note(m.text)
	var r json.Reader
	r.Reset(m.parts)
	for a := r.Array(); a.Next(); {
		note(readPart(&r).text)
	}
}

// writeContent writes a message's content as parts.
func (t *translation) writeContent(m *message, role string) error {
	t.writeText(role, m.text)
	var r json.Reader
	r.Reset(m.parts)
	for a, n := r.Array(), 0; a.Next(); n++ {
		p := readPart(&r)
		if err := t.writePart(&p, role, m, n); err != nil {
			return err
		}
	}
	return nil
}

// writeAssistantMessage writes an earlier assistant message: thoughts that have a signature, its text, its tool calls.
func (t *translation) writeAssistantMessage(m *message) error {
	if m.audio {
		return sdk.Refuse(m.param(".audio"), "This provider does not support audio in assistant messages.")
	}
	s := &t.signatures
	s.read(m.details)
	for i := range s.thoughts {
		t.writeThought(&s.thoughts[i])
	}
	t.writeAssistantText(m)
	if err := t.writeCalls(m); err != nil {
		return err
	}
	if !s.used {
		t.warnDropped(m.details.Exists(), "messages[].reasoning_details")
		t.warnDropped(m.thought != "", "messages[]."+m.thought)
	}
	return nil
}

// writeAssistantText writes the text of an assistant message with its signatures. The first goes to the last text if it
// was there; any other is a part of its own.
func (t *translation) writeAssistantText(m *message) {
	s := &t.signatures
	texts := s.words[:0]
	add := func(inside []byte) {
		if len(inside) > 0 {
			texts = append(texts, inside)
		}
	}
	add(m.text)
	var r json.Reader
	r.Reset(m.parts)
	for a := r.Array(); a.Next(); {
		add(readPart(&r).text)
	}
	add(m.refusal)
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
