package openai

import (
	"slices"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/chat"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// reasoningItem is a reasoning item of an earlier turn: its summary and its encrypted content.
type reasoningItem struct {
	index   int64 // index among the items of its response; -1 if unknown
	summary [][]byte
	data    []byte
}

// writeInput writes the conversation as input items.
func (t *translation) writeInput(in *json.Reader) error {
	t.w.Name("input")
	t.w.Array()
	var list chat.Messages
	for list.Open(in); list.Next(); {
		m := &list.Message
		for _, name := range m.Unknown {
			switch string(name) {
			case "cache_control":
				t.warnDropped("cache_control")
			case "thinking_blocks":
			default:
				t.warnDropped("messages[]." + translate.Printable(name))
			}
		}
		if m.Named && string(m.Role) != "tool" {
			t.warnDropped("messages[].name")
		}
		if err := t.writeTurn(m); err != nil {
			return err
		}
		if len(t.w.Buf) > flushAt {
			t.w.Flush()
		}
	}
	t.w.EndArray()
	return nil
}

// flushAt is the number of bytes after which the conversation written so far is passed on, to keep the plugin's memory
// small.
const flushAt = 32 << 10

func (t *translation) writeTurn(m *chat.Message) error {
	switch role := string(m.Role); role {
	case "system", "user":
		return t.writeMessage(m, role, "input_text")
	case "developer":
		if len(t.o.developerRole) > 0 {
			role = string(t.o.developerRole)
		}
		return t.writeMessage(m, role, "input_text")
	case "assistant":
		return t.writeAssistant(m)
	case "tool":
		return t.writeResult(m)
	}
	return sdk.Refuse(m.Param(".role"), "This provider does not support messages with this role.")
}

// writeMessage writes a message with the parts of its content; textType is the type of its text parts.
func (t *translation) writeMessage(m *chat.Message, role, textType string) error {
	w := t.w
	t.input = true
	w.Object()
	w.Name("type")
	w.String("message")
	w.Name("role")
	w.String(role)
	w.Name("content")
	if m.Parts == nil && len(m.Refusal) == 0 {
		w.Inside(m.Text)
		w.EndObject()
		return nil
	}
	w.Array()
	if len(m.Text) > 0 {
		t.writeTextPart(textType, m.Text)
	}
	if err := t.writeParts(m, textType); err != nil {
		return err
	}
	if len(m.Refusal) > 0 {
		t.writeRefusal(m.Refusal)
	}
	w.EndArray()
	w.EndObject()
	return nil
}

func (t *translation) writeTextPart(textType string, text []byte) {
	w := t.w
	w.Object()
	w.Name("type")
	w.String(textType)
	w.Name("text")
	w.Inside(text)
	w.EndObject()
}

func (t *translation) writeRefusal(text []byte) {
	w := t.w
	w.Object()
	w.Name("type")
	w.String("refusal")
	w.Name("refusal")
	w.Inside(text)
	w.EndObject()
}

// writeParts writes the parts of a content that is an array.
func (t *translation) writeParts(m *chat.Message, textType string) error {
	if m.Parts == nil {
		return nil
	}
	var parts chat.Parts
	for parts.Open(m); parts.Next(); {
		if err := t.writePart(&parts.Part, m, textType); err != nil {
			return err
		}
	}
	return nil
}

// writePart writes a part of a content.
func (t *translation) writePart(p *chat.Part, m *chat.Message, textType string) error {
	if p.CacheControl {
		t.warnDropped("cache_control")
	}
	w, kind, text, own := t.w, string(p.Type), p.Text, string(m.Role) != "assistant"
	switch {
	case kind == "text":
		if m.Failed && string(m.Role) == "tool" {
			text, m.Failed = translate.FailedText(text), false
		}
		t.writeTextPart(textType, text)
	case kind == "refusal" && !own:
		t.writeRefusal(text)
	case kind == "image_url" && own:
		w.Object()
		w.Name("type")
		w.String("input_image")
		w.Name("image_url")
		w.Inside(p.URL)
		if len(p.Detail) > 0 {
			w.Name("detail")
			w.Inside(p.Detail)
		}
		w.EndObject()
	case kind == "file" && own:
		t.writeFile(p.File)
	case kind == "input_audio" && own:
		w.Object()
		w.Name("type")
		w.String("input_audio")
		w.Name("input_audio")
		w.Raw(p.Audio)
		w.EndObject()
	default:
		return translate.Unsupported(p.Param(m, ""), "The provider does not support content of this type.")
	}
	return nil
}

// writeFile writes the members of a file part. A URL instead of data has another member name.
func (t *translation) writeFile(file json.Value) {
	w := t.w
	w.Object()
	w.Name("type")
	w.String("input_file")
	var in json.Reader
	in.Reset(file)
	for o := in.Object(); o.Next(); {
		name, value := in.Name(), in.Raw()
		if data := json.Value(value).Inside(); string(name) == "file_data" && (hasPrefix(data, "https://") || hasPrefix(data, "http://")) {
			w.Name("file_url")
		} else {
			w.NameText(name)
		}
		w.Raw(value)
	}
	w.EndObject()
}

func hasPrefix(s []byte, prefix string) bool {
	return len(s) >= len(prefix) && string(s[:len(prefix)]) == prefix
}

// writeAssistant writes the items of an earlier response: reasoning, a message, calls. A reasoning item has its index
// among the items; the others are in the order in which they are written here. The API rejects a reasoning item that no
// other item follows.
func (t *translation) writeAssistant(m *chat.Message) error {
	if m.Audio {
		return sdk.Refuse(m.Param(".audio"), "This provider does not support audio.")
	}
	t.readReasoning(m)
	items, place := t.reasoningItems, int64(0)
	message := len(m.Text) > 0 || m.Parts != nil || len(m.Refusal) > 0
	var calls chat.Calls
	calls.Open(m)
	others := countElements(m.ToolCalls)
	if message {
		others++
	}
	for ; others > 0; place++ {
		switch {
		case len(items) > 0 && (items[0].index <= place || others == 1):
			t.writeReasoningItem(&items[0])
			items = items[1:]
		case message:
			message = false
			others--
			if err := t.writeMessage(m, "assistant", "output_text"); err != nil {
				return err
			}
		case calls.Next():
			if err := t.writeCall(&calls.Call, m); err != nil {
				return err
			}
			others--
		default:
			return nil
		}
	}
	return nil
}

func countElements(list json.Value) (n int) {
	if list.Kind() != json.Array {
		return 0
	}
	var in json.Reader
	in.Reset(list)
	for a := in.Array(); a.Next(); n++ {
		in.Skip()
	}
	return n
}

// readReasoning reads the reasoning of an earlier turn that can be sent back. Unless it is encrypted, only a provider
// that accepts plain text recognises it as its own.
func (t *translation) readReasoning(m *chat.Message) {
	t.reasoningItems = t.reasoningItems[:0]
	if m.ReasoningDetails.Kind() == json.Array {
		var in json.Reader
		in.Reset(m.ReasoningDetails)
		for a := in.Array(); a.Next(); {
			t.addDetail(&in)
		}
	}
	encrypted := t.reasoningItems[:0]
	for _, item := range t.reasoningItems {
		if len(item.data) > 0 {
			encrypted = append(encrypted, item)
		}
	}
	t.reasoningItems = encrypted
	switch {
	case len(encrypted) > 0:
		t.reasoningHistory = true
	case len(m.Reasoning) > 0 && t.o.history&textForms != 0:
		t.reasoningItems = append(t.reasoningItems, reasoningItem{index: -1, summary: [][]byte{m.Reasoning}})
	case m.ReasoningDetails.Kind() == json.Array && !isDefault("", m.ReasoningDetails):
		t.warnDropped("messages[].reasoning_details")
	case len(m.Reasoning) > 0:
		t.warnDropped("messages[].reasoning_content")
	case slices.ContainsFunc(m.Unknown, func(name []byte) bool { return string(name) == "thinking_blocks" }):
		t.warnDropped("messages[].thinking_blocks")
	}
}

// addDetail reads an entry of reasoning_details. Entries with the same index belong to one item.
func (t *translation) addDetail(in *json.Reader) {
	var format, text, data []byte
	index := int64(-1)
	for o := in.Object(); o.Next(); {
		switch string(in.Name()) {
		case "format":
			format = in.Text()
		case "text", "summary":
			text = in.Inside()
		case "data":
			data = in.Inside()
		case "index":
			if i, ok := in.Int(); ok && i >= 0 {
				index = i
			}
		}
	}
	if string(format) != responsesFormat {
		return
	}
	n := len(t.reasoningItems)
	if n == 0 || t.reasoningItems[n-1].index != index || len(t.reasoningItems[n-1].data) > 0 {
		t.reasoningItems = append(t.reasoningItems, reasoningItem{index: index})
		n++
	}
	item := &t.reasoningItems[n-1]
	if len(text) > 0 {
		item.summary = append(item.summary, text)
	}
	item.data = data
}

// writeReasoningItem writes a reasoning item.
func (t *translation) writeReasoningItem(item *reasoningItem) {
	w := t.w
	w.Object()
	w.Name("type")
	w.String("reasoning")
	w.Name("summary")
	w.Array()
	if len(item.data) > 0 && len(item.summary) > 0 {
		t.writeJoined("summary_text", item.summary)
	}
	w.EndArray()
	if len(item.data) > 0 {
		w.Name("encrypted_content")
		w.Inside(item.data)
	} else {
		w.Name("content")
		w.Array()
		t.writeJoined("reasoning_text", item.summary)
		w.EndArray()
	}
	w.EndObject()
}

// writeJoined writes the pieces of a text as one part.
func (t *translation) writeJoined(kind string, pieces [][]byte) {
	w := t.w
	w.Object()
	w.Name("type")
	w.String(kind)
	w.Name("text")
	w.Verbatim(`"`)
	for _, p := range pieces {
		w.Part(p)
	}
	w.Verbatim(`"`)
	w.EndObject()
}

// writeCall writes a tool call of an earlier turn. Its arguments are text in both APIs, and need not be JSON.
func (t *translation) writeCall(c *chat.Call, m *chat.Message) error {
	if c.CacheControl {
		t.warnDropped("cache_control")
	}
	id, arguments := c.ID.Inside(), c.Arguments
	w := t.w
	t.input = true
	w.Object()
	w.Name("type")
	member := "arguments"
	switch string(c.Type) {
	case "function":
		w.String("function_call")
		if translate.Blank(arguments) {
			arguments = []byte("{}")
		}
	case "custom":
		w.String("custom_tool_call")
		member = "input"
		t.customIDs = append(t.customIDs, id)
	default:
		return sdk.Refuse(c.Param(m, ".type"), "This provider does not support tools of this type.")
	}
	w.Field("call_id").Inside(id)
	w.Field("name").Inside(t.names.Fit(c.Name))
	w.Field(member).Inside(arguments)
	w.EndObject()
	return nil
}

// writeResult writes the result of a tool call.
func (t *translation) writeResult(m *chat.Message) error {
	w := t.w
	kind, call := "function_call_output", m.ToolCallID.Inside()
	for _, id := range t.customIDs {
		if string(id) == string(call) {
			kind = "custom_tool_call_output"
		}
	}
	t.input = true
	w.Object()
	w.Name("type")
	w.String(kind)
	w.Field("call_id").Inside(call)
	w.Name("output")
	if m.Parts == nil {
		if m.Failed {
			m.Text = translate.FailedText(m.Text)
		}
		w.Inside(m.Text)
	} else {
		w.Array()
		if err := t.writeParts(m, "input_text"); err != nil {
			return err
		}
		w.EndArray()
	}
	w.EndObject()
	return nil
}
