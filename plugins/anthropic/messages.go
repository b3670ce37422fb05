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
	thought bool       // there is a reasoning_content

	functionCall, audio, named bool
}

// read reads a message. What the provider has no place for is said in a warning.
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
		case "cache_control":
			m.cache = in.Raw()
		case "reasoning_details":
			m.details = in.Raw()
		case "thinking_blocks":
			m.blocks = in.Raw()
		case "reasoning_content":
			m.thought = true
		case "function_call":
			m.functionCall = true
		case "audio":
			m.audio = true
		case "name":
			m.named = true
		case "annotations":
			// They tell of an earlier answer's text and mean nothing to a model.
		default:
			t.r.Warn(abi.WarnDropped, "messages[]."+printable(name))
		}
	}
	if m.named && string(m.role) != "tool" {
		t.r.Warn(abi.WarnDropped, "messages[].name")
	}
}

// param is the path of a member of the message, for an error.
func (m *message) param(rest string) string { return "messages[" + number(m.index) + "]" + rest }

// hasText says whether the message has anything to say in words.
func (m *message) hasText() bool {
	return !blank(m.text) || lastPart(m.parts) >= 0 || !blank(m.refusal)
}

// writeMessages writes the conversation: one message for each run of the same role, system messages apart. What a
// client says in several messages the provider wants in one, the results of parallel tool calls above all.
func (t *translation) writeMessages(in *json.Reader) error {
	t.messages = true
	t.w.Name("messages")
	t.w.Array()
	var m message
	for a, n := in.Array(), 0; a.Next(); n++ {
		t.readMessage(&m, in, n)
		if err := t.writeMessage(&m); err != nil {
			return err
		}
	}
	// A conversation that ends with an answer asks for more of it. It must not end in white space.
	t.held.text = trimmed(t.held.text)
	t.closeMessage()
	return nil
}

func (t *translation) writeMessage(m *message) error {
	switch string(m.role) {
	case "system", "developer":
		t.systemMessage(m)
		return nil
	case "user":
		return t.content(m, "user")
	case "assistant":
		return t.assistantMessage(m)
	case "tool":
		return t.toolMessage(m)
	}
	return sdk.Refuse(m.param(".role"), "This provider has no messages of this role.")
}

// open begins a message of a role, unless the one at hand has it. It is called with the first block that there is to
// write, so that a message without content leaves no trace.
func (t *translation) open(role string) {
	t.release()
	if t.role == role {
		return
	}
	t.closeMessage()
	t.role, t.wrote = role, true
	t.bare = t.bare || role == "assistant"
	t.results = false
	t.w.Object()
	t.members(`"role":"`)
	t.members(role)
	t.members(`","content":[`)
}

// members appends members of an object, or a part of them, as they are written in the program: one step for what would
// be five of the writer's.
func (t *translation) members(s string) { t.w.Buf = append(t.w.Buf, s...) }

func (t *translation) closeMessage() {
	t.release()
	if t.role == "" {
		return
	}
	t.role = ""
	t.w.EndArray()
	t.w.EndObject()
}

// say writes a text of a role, unless it is blank. That of an assistant is held back until something follows it, since
// the last one of a conversation has a rule of its own.
func (t *translation) say(role string, inside []byte, cache json.Value) {
	if blank(inside) {
		return
	}
	t.open(role)
	if role == "assistant" {
		t.held, t.holds = block{inside, cache}, true
		return
	}
	t.textBlock(inside, cache)
}

// release writes the text that was held back.
func (t *translation) release() {
	if t.holds {
		t.holds = false
		t.textBlock(t.held.text, t.held.cache)
	}
}

// textBlock writes a block of text.
func (t *translation) textBlock(inside []byte, cache json.Value) {
	t.w.Object()
	t.members(`"type":"text","text":`)
	t.w.Inside(inside)
	t.cacheControl(cache)
	t.w.EndObject()
}

func (t *translation) cacheControl(cache json.Value) {
	if len(cache) > 0 && cache.Kind() == json.Object {
		t.w.Name("cache_control")
		t.w.Raw(cache)
	}
}

// systemMessage notes the text of a system message, a block for each part, with its cache breakpoints.
func (t *translation) systemMessage(m *message) {
	if m.parts == nil {
		if !blank(m.text) {
			t.system = append(t.system, block{m.text, m.cache})
		}
		return
	}
	first := len(t.system)
	var r json.Reader
	r.Reset(m.parts)
	for a := r.Array(); a.Next(); {
		if p := readPart(&r); !p.blank() {
			t.system = append(t.system, block{p.text, p.cache})
		}
	}
	if last := len(t.system) - 1; last >= first && !t.system[last].cache.Exists() {
		t.system[last].cache = m.cache
	}
}

// content writes a message's content as blocks. A message's own cache breakpoint goes to its last block.
func (t *translation) content(m *message, role string) error {
	if m.parts == nil {
		t.say(role, m.text, m.cache)
		return nil
	}
	marked := -1
	if m.cache.Exists() {
		marked = lastPart(m.parts)
	}
	var r json.Reader
	r.Reset(m.parts)
	for a, n := r.Array(), 0; a.Next(); n++ {
		p := readPart(&r)
		if n == marked && !p.cache.Exists() {
			p.cache = m.cache
		}
		if err := t.part(&p, role, m, n); err != nil {
			return err
		}
	}
	return nil
}

// assistantMessage writes an earlier answer: its reasoning where the provider needs it back, then its text, then its
// tool calls. One that has only reasoning is left out, since no answer may end with it.
func (t *translation) assistantMessage(m *message) error {
	switch {
	case m.functionCall:
		return sdk.Refuse(m.param(".function_call"), "This provider takes tool_calls in the place of function_call.")
	case m.audio:
		return sdk.Refuse(m.param(".audio"), "This provider takes no audio.")
	}
	thoughts := t.thoughts(m)
	hasText, calls := m.hasText(), 0
	if interleaved(thoughts) || !hasText {
		calls = countElements(m.calls)
	}
	if !hasText && calls == 0 {
		return nil
	}
	// A breakpoint of the message goes to its text, or where it has none to its last call.
	marked := -1
	if !hasText {
		marked = calls - 1
	}

	said, call := false, 0
	if interleaved(thoughts) {
		// Reasoning keeps its number among the blocks of the answer. Text and calls fill the gaps that they left; one of
		// them stays for the end.
		said = !hasText
		left := calls
		if hasText {
			left++
		}
		place := thoughts[0].index
		for i := range thoughts {
			for ; place < thoughts[i].index && left > 1; place++ {
				left--
				if !said {
					said = true
					if err := t.assistantText(m); err != nil {
						return err
					}
					continue
				}
				if err := t.writeCalls(m, call, call+1, marked); err != nil {
					return err
				}
				call++
			}
			t.writeThought(&thoughts[i])
			place = thoughts[i].index + 1
		}
	} else {
		for i := range thoughts {
			t.writeThought(&thoughts[i])
		}
	}
	if !said {
		if err := t.assistantText(m); err != nil {
			return err
		}
	}
	return t.writeCalls(m, call, -1, marked)
}

func (t *translation) assistantText(m *message) error {
	if err := t.content(m, "assistant"); err != nil {
		return err
	}
	if m.refusal != nil {
		t.say("assistant", m.refusal, nil)
	}
	return nil
}

// toolMessage writes the result of a tool call into the user's message. A cache breakpoint within the result belongs
// to the result.
func (t *translation) toolMessage(m *message) error {
	w := t.w
	t.open("user")
	t.results = true
	w.Object()
	t.members(`"type":"tool_result","tool_use_id":`)
	t.toolID(m.callID)
	cache := m.cache
	opened := false
	begin := func() {
		if !opened {
			opened = true
			w.Name("content")
			w.Array()
		}
	}
	if !blank(m.text) {
		begin()
		t.textBlock(m.text, nil)
	}
	if m.parts != nil {
		var r json.Reader
		r.Reset(m.parts)
		for a, n := r.Array(), 0; a.Next(); n++ {
			p := readPart(&r)
			if p.cache.Exists() {
				cache, p.cache = p.cache, nil
			}
			if p.blank() {
				continue
			}
			begin()
			if err := t.part(&p, "user", m, n); err != nil {
				return err
			}
		}
	}
	if opened {
		w.EndArray()
	}
	t.cacheControl(cache)
	w.EndObject()
	return nil
}

// escapedID begins every id that had to be spelled anew.
const escapedID = "call_x_"

// toolID writes the id of a tool call. The provider takes letters, digits, _ and - only; an id with anything else gets
// another spelling, the same for the call and for its result. No two ids get the same one: an id that looks like a new
// spelling is spelled anew itself.
func (t *translation) toolID(id []byte) {
	if word(id) && !hasPrefix(id, escapedID) {
		t.w.Text(id)
		return
	}
	const digits = "0123456789abcdef"
	s := append(t.scratch[:0], escapedID...)
	for _, c := range id {
		if wordByte(c) && c != '_' {
			s = append(s, c)
		} else {
			s = append(s, '_', digits[c>>4], digits[c&15])
		}
	}
	t.scratch = s
	t.w.Text(s)
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

// lastPart is the index of the last part that has anything in it, -1 if there is none.
func lastPart(parts json.Value) int {
	last := -1
	var r json.Reader
	r.Reset(parts)
	for a, n := r.Array(), 0; a.Next(); n++ {
		if p := readPart(&r); !p.blank() {
			last = n
		}
	}
	return last
}

// invalid is a mistake of the client's that no target would take.
func invalid(code, param, text string) error {
	return &sdk.Failure{Kind: abi.FailInvalidRequest, Code: code, Param: param, Message: text}
}
