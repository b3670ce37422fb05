package cohere

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
	callID    []byte
	reasoning []byte     // reasoning_content
	details   json.Value // reasoning_details
	named     bool
	audio     bool
	failed    bool // is_error of a tool's result
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
			m.callID = in.Inside()
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
	switch string(m.role) {
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
		if m.failed {
			m.text = translate.FailedText(m.text)
		}
		t.w.Name("tool_call_id")
		t.w.Inside(m.callID)
		return t.closeMessage(t.writeContent(m))
	}
	return sdk.Refuse(m.param(".role"), "This provider does not support messages with this role.")
}

func (t *translation) openMessage(role string) {
	t.wrote = true
	t.w.Object()
	t.w.Name("role")
	t.w.String(role)
}

// closeMessage ends a message, if it could be written.
func (t *translation) closeMessage(err error) error {
	if err == nil {
		t.w.EndObject()
	}
	return err
}

// writeContent writes a message's content in the form that it has.
func (t *translation) writeContent(m *message) error {
	t.w.Name("content")
	if !m.parts.Exists() {
		t.w.Inside(m.text)
		return nil
	}
	t.w.Array()
	var r json.Reader
	r.Reset(m.parts)
	for a, n := r.Array(), 0; a.Next(); n++ {
		if err := t.writePart(&r, m, n); err != nil {
			return err
		}
	}
	t.w.EndArray()
	return nil
}

// writePart writes one part of a message. An image has the same form on both sides, by its address or with its data.
func (t *translation) writePart(r *json.Reader, m *message, n int) error {
	var kind, text, url, detail []byte
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "type":
			kind = r.Text()
		case "text", "refusal":
			text = r.Inside()
		case "cache_control":
			t.warnDropped("messages[].content[].cache_control")
		case "image_url":
			for o := r.Object(); o.Next(); {
				switch string(r.Name()) {
				case "url":
					url = r.Inside()
				case "detail":
					detail = r.Inside()
				}
			}
		}
	}
	param := func() string { return m.param(".content[" + translate.Itoa(n) + "]") }
	switch string(kind) {
	case "text", "refusal":
		if m.failed && string(m.role) == "tool" {
			text, m.failed = translate.FailedText(text), false
		}
		t.writeTextPart(text)
		return nil
	case "image_url":
		if string(m.role) != "user" {
			return translate.Unsupported(param(), "This provider supports images only in user messages.")
		}
		w := t.w
		w.Object()
		w.Name("type")
		w.String("image_url")
		w.Name("image_url")
		w.Object()
		w.Name("url")
		w.Inside(url)
		if len(detail) > 0 {
			w.Name("detail")
			w.Inside(detail)
		}
		w.EndObject()
		w.EndObject()
		return nil
	}
	return translate.Unsupported(param(), "This provider does not support content of this type.")
}

func (t *translation) writeTextPart(text []byte) {
	t.w.Object()
	t.w.Name("type")
	t.w.String("text")
	t.w.Name("text")
	t.w.Inside(text)
	t.w.EndObject()
}

// writeAssistantMessage writes an earlier assistant message: its reasoning, then its text, then its tool calls. Text
// along with tool calls is their plan. An empty message is omitted.
func (t *translation) writeAssistantMessage(m *message) error {
	if m.audio {
		return sdk.Refuse(m.param(".audio"), "This provider does not support audio.")
	}
	t.readThoughts(m)
	pieces := t.messageTexts(m)
	if m.calls.Kind() == json.Array {
		return t.writeToolCallMessage(m, pieces)
	}
	if len(pieces) == 0 && len(t.thoughts) == 0 {
		return nil
	}
	t.openMessage("assistant")
	t.w.Name("content")
	if len(pieces) == 1 && len(t.thoughts) == 0 && !m.parts.Exists() {
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

// writeToolCallMessage writes an earlier assistant message that called tools.
func (t *translation) writeToolCallMessage(m *message, pieces [][]byte) error {
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
	var r json.Reader
	r.Reset(m.calls)
	for a, n := r.Array(), 0; a.Next(); n++ {
		if err := t.writeCall(&r, m, n); err != nil {
			return err
		}
	}
	w.EndArray()
	w.EndObject()
	return nil
}

// messageTexts is what an earlier assistant message said, without what is empty.
func (t *translation) messageTexts(m *message) (pieces [][]byte) {
	add := func(text []byte) {
		if len(text) > 0 {
			pieces = append(pieces, text)
		}
	}
	add(m.text)
	var r json.Reader
	r.Reset(m.parts)
	for a := r.Array(); a.Next(); {
		for o := r.Object(); o.Next(); {
			switch string(r.Name()) {
			case "text", "refusal":
				add(r.Inside())
			case "cache_control":
				t.warnDropped("messages[].content[].cache_control")
			}
		}
	}
	add(m.refusal)
	return pieces
}
