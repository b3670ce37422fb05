package main

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// message is one message of the client's, its members wherever they stand in it.
type message struct {
	index   int
	role    []byte
	text    []byte     // the inside of a content that is a string, else nil
	parts   json.Value // a content that is an array
	refusal []byte     // the inside of a string
	calls   json.Value
	callID  []byte
	cache   json.Value
	details json.Value // reasoning_details
	blocks  json.Value // thinking_blocks
}

func (m *message) read(in *json.Reader, index int) {
	*m = message{index: index}
	for o := in.Object(); o.Next(); {
		switch string(in.Name()) {
		case "role":
			m.role = in.Inside()
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
		case "cache_control":
			m.cache = in.Raw()
		case "reasoning_details":
			m.details = in.Raw()
		case "thinking_blocks":
			m.blocks = in.Raw()
		}
	}
	if m.cache.Kind() == json.Null {
		m.cache = nil
	}
}

// param is the path of a member of the message, for an error.
func (m *message) param(rest string) string { return "messages[" + number(m.index) + "]" + rest }

// writeMessages writes the conversation: one message for each run of the same role, system messages apart. What a
// client says in several messages the provider wants in one, the results of parallel tool calls above all.
//
// It stays one message behind what it has read, since the last one has a rule of its own.
func (t *translation) writeMessages(in *json.Reader) error {
	t.messages = true
	t.w.Name("messages")
	t.w.Array()
	var pair [2]message
	n := 0
	for a := in.Array(); a.Next(); n++ {
		if n > 0 {
			if err := t.writeMessage(&pair[(n-1)%2], false); err != nil {
				return err
			}
		}
		pair[n%2].read(in, n)
	}
	if n > 0 {
		if err := t.writeMessage(&pair[(n-1)%2], true); err != nil {
			return err
		}
	}
	t.closeMessage()
	return nil
}

func (t *translation) writeMessage(m *message, last bool) error {
	switch string(m.role) {
	case "system", "developer":
		return t.systemMessage(m)
	case "user":
		return t.content(m, "user", false)
	case "assistant":
		return t.assistantMessage(m, last)
	case "tool":
		return t.toolMessage(m)
	}
	return sdk.Refuse(m.param(".role"), "This provider has no messages of this role.")
}

// open begins a message of a role, unless the one at hand has it. It is called with the first block that there is to
// write, so that a message without content leaves no trace.
func (t *translation) open(role string) {
	if t.role == role {
		return
	}
	t.closeMessage()
	t.role, t.wrote = role, true
	w := t.w
	w.Object()
	w.Name("role")
	w.String(role)
	w.Name("content")
	w.Array()
}

func (t *translation) closeMessage() {
	if t.role == "" {
		return
	}
	t.role = ""
	t.w.EndArray()
	t.w.EndObject()
}

// textBlock writes a block of text.
func (t *translation) textBlock(inside []byte, cache json.Value) {
	w := t.w
	w.Object()
	w.Name("type")
	w.String("text")
	w.Name("text")
	w.Inside(inside)
	t.cacheControl(cache)
	w.EndObject()
}

func (t *translation) cacheControl(cache json.Value) {
	if cache.Exists() {
		t.w.Name("cache_control")
		t.w.Raw(cache)
	}
}

// systemMessage notes the text of a system message, a block for each part, with its cache breakpoints.
func (t *translation) systemMessage(m *message) error {
	if !m.parts.Exists() {
		if !blank(m.text) {
			t.system = append(t.system, block{m.text, m.cache})
		}
		return nil
	}
	var r json.Reader
	r.Reset(m.parts)
	first := len(t.system)
	n := 0
	for a := r.Array(); a.Next(); n++ {
		p := readPart(&r)
		if p.kind != "text" {
			return sdk.Refuse(m.param(".content["+number(n)+"].type"), "This provider takes only text in a system message.")
		}
		if !blank(p.text) {
			t.system = append(t.system, block{p.text, p.cache})
		}
	}
	if last := len(t.system) - 1; last >= first && m.cache.Exists() && !t.system[last].cache.Exists() {
		t.system[last].cache = m.cache
	}
	return nil
}

// content writes a message's content as blocks. A message's own cache breakpoint goes to its last block.
func (t *translation) content(m *message, role string, trim bool) error {
	if !m.parts.Exists() {
		text := m.text
		if trim {
			text = t.trimmed(text)
		}
		if !blank(text) {
			t.open(role)
			t.textBlock(text, m.cache)
		}
		return nil
	}
	last := lastPart(m.parts)
	var r json.Reader
	r.Reset(m.parts)
	n := 0
	for a := r.Array(); a.Next(); n++ {
		p := readPart(&r)
		if n == last {
			if trim {
				p.text = t.trimmed(p.text)
			}
			if !p.cache.Exists() {
				p.cache = m.cache
			}
		}
		if err := t.part(&p, role, m, n); err != nil {
			return err
		}
	}
	return nil
}

// assistantMessage writes an earlier answer: its reasoning where the provider needs it back, then its text, then its
// tool calls. The keys of reasoning leave gaps where text and tool calls stood, which gives interleaved reasoning its
// order back.
func (t *translation) assistantMessage(m *message, last bool) error {
	thoughts, err := t.thoughts(m)
	if err != nil {
		return err
	}
	hasCalls := m.calls.Kind() == json.Array
	trim := last && !hasCalls

	if len(thoughts) == 0 || !interleaved(thoughts) {
		for i := range thoughts {
			t.writeThought(&thoughts[i])
		}
		if err := t.assistantText(m, trim); err != nil {
			return err
		}
		return t.writeCalls(m, 0, -1)
	}
	// Interleaved: each block of text or tool call fills the next gap.
	place, call, said := int64(0), 0, false
	calls := countElements(m.calls)
	hasText := !blank(m.text) || m.parts.Exists() || len(m.refusal) > 0
	for i := range thoughts {
		for i > 0 && place < thoughts[i].index {
			switch {
			case !said && hasText:
				if err := t.assistantText(m, false); err != nil {
					return err
				}
			case call < calls:
				if err := t.writeCalls(m, call, call+1); err != nil {
					return err
				}
				call++
			}
			said = true
			place++
		}
		t.writeThought(&thoughts[i])
		place = thoughts[i].index + 1
	}
	if !said {
		if err := t.assistantText(m, trim); err != nil {
			return err
		}
	}
	return t.writeCalls(m, call, -1)
}

func (t *translation) assistantText(m *message, trim bool) error {
	if err := t.content(m, "assistant", trim); err != nil {
		return err
	}
	if !blank(m.refusal) {
		t.open("assistant")
		t.textBlock(m.refusal, nil)
	}
	return nil
}

// toolMessage writes the result of a tool call into the user's message. A cache breakpoint within the result belongs
// to the result.
func (t *translation) toolMessage(m *message) error {
	w := t.w
	t.open("user")
	w.Object()
	w.Name("type")
	w.String("tool_result")
	w.Name("tool_use_id")
	t.toolID(m.callID)
	cache := m.cache
	switch {
	case m.parts.Exists():
		var r json.Reader
		r.Reset(m.parts)
		w.Name("content")
		w.Array()
		n := 0
		for a := r.Array(); a.Next(); n++ {
			p := readPart(&r)
			if p.cache.Exists() {
				cache, p.cache = p.cache, nil
			}
			if err := t.part(&p, "user", m, n); err != nil {
				return err
			}
		}
		w.EndArray()
	case len(m.text) > 0:
		w.Name("content")
		w.Array()
		t.textBlock(m.text, nil)
		w.EndArray()
	}
	t.cacheControl(cache)
	w.EndObject()
	return nil
}

// toolID writes the id of a tool call. The provider takes letters, digits, _ and - only; an id with anything else gets
// another spelling, the same for the call and for its result, which no other id of the request has.
func (t *translation) toolID(id []byte) {
	plain := len(id) > 0
	for _, c := range id {
		plain = plain && wordByte(c)
	}
	if plain {
		t.w.Text(id)
		return
	}
	s := append(t.scratch[:0], "call_x_"...)
	for _, c := range id {
		if wordByte(c) && c != '_' {
			s = append(s, c)
		} else {
			s = append(s, '_', "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
		}
	}
	t.scratch = s
	t.w.Text(s)
}

func wordByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// trimmed is text without the white space at its end: the provider refuses a last answer that ends in it.
func (t *translation) trimmed(inside []byte) []byte {
	end := len(inside)
	for end > 0 {
		c := inside[end-1]
		if c == ' ' {
			end--
			continue
		}
		if end >= 2 && (c == 'n' || c == 't' || c == 'r') && slashes(inside[:end-1])%2 == 1 {
			end -= 2
			continue
		}
		break
	}
	return inside[:end]
}

// slashes is how many backslashes s ends in.
func slashes(s []byte) (n int) {
	for n < len(s) && s[len(s)-1-n] == '\\' {
		n++
	}
	return n
}

// blank says whether a string, given by its inside, holds nothing but white space.
func blank(inside []byte) bool {
	for i := 0; i < len(inside); i++ {
		switch inside[i] {
		case ' ':
		case '\\':
			i++
			if i == len(inside) || inside[i] != 'n' && inside[i] != 't' && inside[i] != 'r' {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// countElements is the length of an array, 0 for anything else.
func countElements(v json.Value) (n int) {
	var r json.Reader
	r.Reset(v)
	for a := r.Array(); a.Next(); {
		n++
	}
	return n
}

func lastPart(v json.Value) int { return countElements(v) - 1 }

func number(n int) string { return string(json.AppendInt(nil, int64(n))) }

// invalid is a mistake of the client's that no target would take.
func invalid(code, param, text string) error {
	return &sdk.Failure{Kind: abi.FailInvalidRequest, Code: code, Param: param, Message: text}
}
