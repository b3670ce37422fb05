package openai

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// turn is one of the client's messages, its members in any order. Strings are escaped contents without quotes.
type turn struct {
	index    int
	role     []byte
	text     []byte     // a content that is a string, else nil
	parts    json.Value // a content that is an array
	refusal  []byte
	calls    json.Value
	callID   []byte
	thought  []byte     // reasoning_content
	details  json.Value // reasoning_details
	hasBlock bool       // thinking_blocks
	failed   bool       // is_error of a tool's result
	audio    bool
}

// param is the path of a member of the message, for an error.
func (m *turn) param(rest string) string { return "messages[" + translate.Itoa(m.index) + "]" + rest }

// thought is an item of reasoning of an earlier turn: its summary and the seal.
type thought struct {
	index   int64 // of the item among those of its response; -1 if it is not known
	summary [][]byte
	data    []byte
}

// writeInput writes the conversation as items.
func (t *translation) writeInput(in *json.Reader) error {
	t.w.Name("input")
	t.w.Array()
	for a, n := in.Array(), 0; a.Next(); n++ {
		m := t.readTurn(in, n)
		if err := t.writeTurn(&m); err != nil {
			return err
		}
		if len(t.w.Buf) > flushAt {
			t.w.Flush()
		}
	}
	t.w.EndArray()
	return nil
}

// flushAt is how much of the conversation is written before it is handed on. It keeps the plugin's memory small.
const flushAt = 32 << 10

func (t *translation) readTurn(in *json.Reader, index int) turn {
	m := turn{index: index}
	named := false
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
			m.thought = in.Inside()
		case "reasoning_details":
			m.details = in.Raw()
		case "thinking_blocks":
			m.hasBlock = true
		case "audio":
			m.audio = true
		case "name":
			named = true
		case "cache_control":
			t.warnDropped("cache_control")
		case "is_error":
			m.failed, _ = in.Bool()
		case "annotations":
			// They describe earlier text.
		default:
			t.warnDropped("messages[]." + translate.Printable(name))
		}
	}
	if named && string(m.role) != "tool" {
		t.warnDropped("messages[].name")
	}
	return m
}

func (t *translation) writeTurn(m *turn) error {
	switch role := string(m.role); role {
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
	return sdk.Refuse(m.param(".role"), "This provider does not support messages with this role.")
}

// writeMessage writes a message with the parts of its content; textType is the type of a text.
func (t *translation) writeMessage(m *turn, role, textType string) error {
	w := t.w
	t.input = true
	w.Object()
	w.Name("type")
	w.String("message")
	w.Name("role")
	w.String(role)
	w.Name("content")
	if m.parts == nil && len(m.refusal) == 0 {
		w.Inside(m.text)
		w.EndObject()
		return nil
	}
	w.Array()
	if len(m.text) > 0 {
		t.writeTextPart(textType, m.text)
	}
	if err := t.writeParts(m, textType); err != nil {
		return err
	}
	if len(m.refusal) > 0 {
		t.writeRefusal(m.refusal)
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

// writeParts writes the parts of a content that is a list.
func (t *translation) writeParts(m *turn, textType string) error {
	if m.parts == nil {
		return nil
	}
	var in json.Reader
	in.Reset(m.parts)
	for a, n := in.Array(), 0; a.Next(); n++ {
		if err := t.writePart(&in, m, n, textType); err != nil {
			return err
		}
	}
	return nil
}

// writePart writes a part of a content.
func (t *translation) writePart(in *json.Reader, m *turn, n int, textType string) error {
	var kind, text, url, detail []byte
	var file, audio json.Value
	for o := in.Object(); o.Next(); {
		switch string(in.Name()) {
		case "type":
			kind = in.Text()
		case "text", "refusal":
			text = in.Inside()
		case "image_url":
			for o := in.Object(); o.Next(); {
				switch string(in.Name()) {
				case "url":
					url = in.Inside()
				case "detail":
					detail = in.Inside()
				}
			}
		case "file":
			file = in.Raw()
		case "input_audio":
			audio = in.Raw()
		case "cache_control":
			t.warnDropped("cache_control")
		}
	}
	w, own := t.w, string(m.role) != "assistant"
	switch {
	case string(kind) == "text":
		if m.failed && string(m.role) == "tool" {
			text, m.failed = translate.FailedText(text), false
		}
		t.writeTextPart(textType, text)
	case string(kind) == "refusal" && !own:
		t.writeRefusal(text)
	case string(kind) == "image_url" && own:
		w.Object()
		w.Name("type")
		w.String("input_image")
		w.Name("image_url")
		w.Inside(url)
		if len(detail) > 0 {
			w.Name("detail")
			w.Inside(detail)
		}
		w.EndObject()
	case string(kind) == "file" && own:
		t.writeFile(file)
	case string(kind) == "input_audio" && own:
		w.Object()
		w.Name("type")
		w.String("input_audio")
		w.Name("input_audio")
		w.Raw(audio)
		w.EndObject()
	default:
		return translate.Unsupported(m.param(".content["+translate.Itoa(n)+"]"), "The provider does not support content of this type.")
	}
	return nil
}

// writeFile writes a file: its members are the part's own. An address instead of data is a member of another name.
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

// writeAssistant writes what an earlier response consisted of: reasoning, a message, calls. The reasoning knows its place among the
// other items, which are in the order that they have here. The API refuses reasoning that no other item follows.
func (t *translation) writeAssistant(m *turn) error {
	if m.audio {
		return sdk.Refuse(m.param(".audio"), "This provider does not support audio.")
	}
	t.readThoughts(m)
	thoughts, place := t.thoughts, int64(0)
	message := len(m.text) > 0 || m.parts != nil || len(m.refusal) > 0
	var calls json.Reader
	var list json.Loop
	if m.calls != nil {
		calls.Reset(m.calls)
		list = calls.Array()
	}
	others := countElements(m.calls)
	if message {
		others++
	}
	for n := 0; others > 0; place++ {
		switch {
		case len(thoughts) > 0 && (thoughts[0].index <= place || others == 1):
			t.writeThought(&thoughts[0])
			thoughts = thoughts[1:]
		case message:
			message = false
			others--
			if err := t.writeMessage(m, "assistant", "output_text"); err != nil {
				return err
			}
		case list.Next():
			if err := t.writeCall(&calls, m, n); err != nil {
				return err
			}
			n++
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

// readThoughts reads the reasoning of an earlier turn that can be sent back. Without a seal, the provider would not take it as its
// own, unless it is one that takes plain text.
func (t *translation) readThoughts(m *turn) {
	t.thoughts = t.thoughts[:0]
	if m.details.Kind() == json.Array {
		var in json.Reader
		in.Reset(m.details)
		for a := in.Array(); a.Next(); {
			t.addDetail(&in)
		}
	}
	sealed := t.thoughts[:0]
	for _, th := range t.thoughts {
		if len(th.data) > 0 {
			sealed = append(sealed, th)
		}
	}
	t.thoughts = sealed
	switch {
	case len(sealed) > 0:
		t.reasoningHistory = true
	case len(m.thought) > 0 && t.o.history&textForms != 0:
		t.thoughts = append(t.thoughts, thought{index: -1, summary: [][]byte{m.thought}})
	case m.details.Kind() == json.Array && !isDefault("", m.details):
		t.warnDropped("messages[].reasoning_details")
	case len(m.thought) > 0:
		t.warnDropped("messages[].reasoning_content")
	case m.hasBlock:
		t.warnDropped("messages[].thinking_blocks")
	}
}

// addDetail reads an entry of reasoning_details. Entries with the same index are parts of one item.
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
	n := len(t.thoughts)
	if n == 0 || t.thoughts[n-1].index != index || len(t.thoughts[n-1].data) > 0 {
		t.thoughts = append(t.thoughts, thought{index: index})
		n++
	}
	th := &t.thoughts[n-1]
	if len(text) > 0 {
		th.summary = append(th.summary, text)
	}
	th.data = data
}

// writeThought writes an item of reasoning.
func (t *translation) writeThought(th *thought) {
	w := t.w
	w.Object()
	w.Name("type")
	w.String("reasoning")
	w.Name("summary")
	w.Array()
	if len(th.data) > 0 && len(th.summary) > 0 {
		t.writeJoined("summary_text", th.summary)
	}
	w.EndArray()
	if len(th.data) > 0 {
		w.Name("encrypted_content")
		w.Inside(th.data)
	} else {
		w.Name("content")
		w.Array()
		t.writeJoined("reasoning_text", th.summary)
		w.EndArray()
	}
	w.EndObject()
}

// writeJoined writes pieces of a text as one part.
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

// writeCall writes a tool call of an earlier turn. Its arguments are text on both sides, whatever a model has written.
func (t *translation) writeCall(in *json.Reader, m *turn, n int) error {
	var kind, id, name, arguments []byte
	for o := in.Object(); o.Next(); {
		switch string(in.Name()) {
		case "type":
			kind = in.Text()
		case "id":
			id = in.Inside()
		case "cache_control":
			t.warnDropped("cache_control")
		case "function", "custom":
			for o := in.Object(); o.Next(); {
				switch string(in.Name()) {
				case "name":
					name = in.Inside()
				case "arguments", "input":
					arguments = in.Inside()
				}
			}
		}
	}
	w := t.w
	t.input = true
	w.Object()
	w.Name("type")
	member := "arguments"
	switch string(kind) {
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
		return sdk.Refuse(m.param(".tool_calls["+translate.Itoa(n)+"].type"), "This provider does not support tools of this type.")
	}
	w.Name("call_id")
	w.Inside(id)
	w.Name("name")
	w.Inside(name)
	w.Name(member)
	w.Inside(arguments)
	w.EndObject()
	return nil
}

// writeResult writes the result of a tool call.
func (t *translation) writeResult(m *turn) error {
	w := t.w
	kind := "function_call_output"
	for _, id := range t.customIDs {
		if string(id) == string(m.callID) {
			kind = "custom_tool_call_output"
		}
	}
	t.input = true
	w.Object()
	w.Name("type")
	w.String(kind)
	w.Name("call_id")
	w.Inside(m.callID)
	w.Name("output")
	if m.parts == nil {
		if m.failed {
			m.text = translate.FailedText(m.text)
		}
		w.Inside(m.text)
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
