package ollama

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// message is one of the client's messages, its members in any order. Strings are escaped contents without quotes.
type message struct {
	index     int
	role      []byte
	text      []byte     // a content that is a string, else nil
	parts     json.Value // a content that is an array
	refusal   []byte
	calls     json.Value
	callID    []byte // the text
	callIDRaw json.Value
	reasoning []byte     // reasoning_content
	details   json.Value // reasoning_details
	named     bool
	audio     bool
	failed    bool // is_error of a tool's result
}

// readMessage reads a message. Members that the API does not have cause a warning.
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
			m.callIDRaw = in.Raw()
			m.callID = m.callIDRaw.Text()
		case "reasoning_content":
			m.reasoning = in.Inside()
		case "reasoning_details":
			m.details = in.Raw()
		case "audio":
			m.audio = true
		case "name":
			m.named = true
		case "is_error":
			m.failed, _ = in.Bool()
		case "annotations":
			// Annotations describe earlier text and mean nothing to a model.
		default:
			t.warnDropped("messages[]." + translate.Printable(name))
		}
	}
	if m.named && string(m.role) != "tool" {
		t.warnDropped("messages[].name")
	}
}

// param is the path of a member of the message, for an error.
func (m *message) param(rest string) string {
	return "messages[" + translate.Itoa(m.index) + "]" + rest
}

func (t *translation) writeMessages(in *json.Reader) error {
	t.w.Name("messages")
	t.w.Array()
	var m message
	for a, n := in.Array(), 0; a.Next(); n++ {
		t.readMessage(&m, in, n)
		if err := t.writeMessage(&m); err != nil {
			return err
		}
	}
	t.w.EndArray()
	return nil
}

func (t *translation) writeMessage(m *message) error {
	role := string(m.role)
	switch role {
	case "system", "developer":
		role = "system"
	case "user", "tool":
	case "assistant":
		return t.writeAssistantMessage(m)
	default:
		return sdk.Refuse(m.param(".role"), "This provider does not support messages with this role.")
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
func (t *translation) writeContent(m *message) error {
	w := t.w
	failed := m.failed && string(m.role) == "tool"
	if !m.parts.Exists() {
		text := m.text
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
		if err := t.writeImage(i.url, m.param(".content["+translate.Itoa(i.part)+"].image_url.url")); err != nil {
			return err
		}
	}
	w.EndArray()
	return nil
}

// readParts puts the texts of a message's parts together, with a line feed between them, and notes its images. The text
// is escaped string content, in scratch memory unless there is but one.
func (t *translation) readParts(m *message) (text []byte, err error) {
	t.scratch, t.images = t.scratch[:0], t.images[:0]
	texts := 0
	var r json.Reader
	r.Reset(m.parts)
	for a, n := r.Array(), 0; a.Next(); n++ {
		switch p := t.readPart(&r); string(p.kind) {
		case "text":
			if texts++; texts == 1 {
				text = p.text
				continue
			}
			if texts == 2 {
				t.scratch = append(t.scratch, text...)
			}
			t.scratch = append(append(t.scratch, '\\', 'n'), p.text...)
			text = t.scratch
		case "image_url":
			t.images = append(t.images, image{p.url, n})
			if len(p.detail) > 0 && string(p.detail) != "auto" {
				t.warnDropped("image_url.detail")
			}
		default:
			return nil, translate.Unsupported(m.param(".content["+translate.Itoa(n)+"]"), "This provider does not support content of this type.")
		}
	}
	return text, nil
}

// part is one part of a message's content. Strings are escaped contents without quotes.
type part struct{ kind, text, url, detail []byte }

func (t *translation) readPart(r *json.Reader) (p part) {
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "type":
			p.kind = r.Text()
		case "text":
			p.text = r.Inside()
		case "cache_control":
			t.warnDropped("messages[].content[].cache_control")
		case "image_url":
			for o := r.Object(); o.Next(); {
				switch string(r.Name()) {
				case "url":
					p.url = r.Inside()
				case "detail":
					p.detail = r.Inside()
				}
			}
		}
	}
	return p
}

// writeAssistantMessage writes an earlier assistant message: its text, its reasoning and its tool calls. An empty
// message is omitted.
func (t *translation) writeAssistantMessage(m *message) error {
	if m.audio {
		return sdk.Refuse(m.param(".audio"), "This provider does not support audio.")
	}
	text := t.assistantText(m)
	from := len(t.scratch)
	t.readThoughts(m)
	thoughts := t.scratch[from:]
	calls := m.calls.Kind() == json.Array
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

// assistantText is the text of an earlier assistant message, as escaped string content: its pieces, in order. Several
// begin the translation's scratch memory.
func (t *translation) assistantText(m *message) []byte {
	t.scratch = t.scratch[:0]
	if !m.parts.Exists() && len(m.refusal) == 0 {
		return m.text
	}
	t.scratch = append(t.scratch, m.text...)
	var r json.Reader
	r.Reset(m.parts)
	for a := r.Array(); a.Next(); {
		for o := r.Object(); o.Next(); {
			switch string(r.Name()) {
			case "text", "refusal":
				t.scratch = append(t.scratch, r.Inside()...)
			case "cache_control":
				t.warnDropped("messages[].content[].cache_control")
			}
		}
	}
	t.scratch = append(t.scratch, m.refusal...)
	return t.scratch
}
