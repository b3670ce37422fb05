package anthropic

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// role is the role of a message.
type role int8

// The roles of the client's messages, in the order of roles. The provider only has the first two.
const (
	noRole role = iota - 1
	userRole
	assistantRole
	toolRole
	systemRole
	developerRole
)

var roles = json.NewShape("user", "assistant", "tool", "system", "developer")

// The members of a message.
const (
	messageRole = iota
	messageContent
	messageRefusal
	messageCalls
	messageCallID
	messageCache
	messageDetails // reasoning_details
	messageBlocks  // thinking_blocks
	messageThought // reasoning_content
	messageAudio
	messageName
	messageAnnotations // describe earlier text; not sent
	messageFailed      // is_error of a tool result
)

var messageShape = json.NewShape("role", "content", "refusal", "tool_calls", "tool_call_id", "cache_control", "reasoning_details",
	"thinking_blocks", "reasoning_content", "audio", "name", "annotations", "is_error")

// thoughtMembers are the members that contain reasoning.
const thoughtMembers = 1<<messageDetails | 1<<messageBlocks | 1<<messageThought

// message is one of the client's messages, with its members in any order.
type message struct {
	json.Members
	index int
	role  role
}

// text returns the content if it is a string, escaped, otherwise nil.
func (m *message) text() []byte { return m.Inside(messageContent) }

// parts returns the content if it is not a string, nil if there is none.
func (m *message) parts() json.Value {
	if m.Kind(messageContent) == json.String {
		return nil
	}
	return m.Raw(messageContent)
}

func (m *message) cache() json.Value { return m.Raw(messageCache) }

// readMessage reads a message. It warns of members that the provider lacks.
func (t *translation) readMessage(m *message, in *json.Reader, index int) {
	in.Members(&m.Members, messageShape)
	m.index, m.role = index, role(roles.Find(m.Inside(messageRole)))
	if m.role == noRole && m.Escaped(messageRole) {
		m.role = role(roles.Find(m.Text(messageRole)))
	}
	if m.Unknown() > 0 || m.Has(messageName) && m.role != toolRole {
		t.warnUnknownMembers(m)
	}
}

func (t *translation) warnUnknownMembers(m *message) {
	for i := range m.Unknown() {
		t.r.Warn(abi.WarnDropped, "messages[]."+translate.Printable(m.UnknownName(i)))
	}
	t.warnDropped(m.Has(messageName) && m.role != toolRole, "messages[].name")
}

// param returns the path of a member of the message, for an error.
func (m *message) param(rest string) string {
	return "messages[" + translate.Itoa(m.index) + "]" + rest
}

// hasText reports whether the message has text that is not blank.
func (t *translation) hasText(m *message) bool {
	return !translate.Blank(m.text()) || t.lastPart(m) >= 0 || !translate.Blank(m.Inside(messageRefusal))
}

// writeMessages writes the conversation without system messages: one message for each run of messages with the same
// role. The provider requires that consecutive messages of one role are merged, in particular the results of parallel
// tool calls.
func (t *translation) writeMessages(in *json.Reader) error {
	t.messages = true
	t.w.Literal(`"messages":[`)
	m := &t.m.message
	for a, n := in.Array(), 0; a.Next(); n++ {
		t.readMessage(m, in, n)
		if err := t.writeMessage(m); err != nil {
			return err
		}
	}
	// The model continues a final assistant message, which must not end in white space.
	if t.holds {
		t.held.text = translate.TrimSpaceEnd(t.held.text)
	}
	t.closeMessage()
	return nil
}

func (t *translation) writeMessage(m *message) error {
	switch m.role {
	case systemRole, developerRole:
		t.addSystemMessage(m)
		return nil
	case userRole:
		return t.writeContent(m, userRole)
	case assistantRole:
		return t.writeAssistantMessage(m)
	case toolRole:
		return t.writeToolMessage(m)
	}
	return sdk.Refuse(m.param(".role"), "This provider does not support messages with this role.")
}

// flushAt is the number of bytes after which the conversation written so far is passed on, to keep the plugin's memory
// small.
const flushAt = 32 << 10

// openMessage starts a message unless the current one has the same role. It is called when the first block is written,
// so that empty messages are omitted.
func (t *translation) openMessage(role role) {
	if t.holds {
		t.flushHeldText()
	}
	if t.role != role {
		t.beginMessage(role)
	}
}

// beginMessage closes the current message and starts one with another role.
func (t *translation) beginMessage(role role) {
	w := t.w
	if len(w.Buf) > flushAt {
		w.Flush()
	}
	head := `]},{"role":"user","content":[`
	if role == assistantRole {
		head, t.bare = `]},{"role":"assistant","content":[`, true
	}
	if t.role == noRole {
		head = head[len(`]},`):]
	}
	w.Verbatim(head)
	t.role, t.wrote, t.results = role, true, false
}

func (t *translation) closeMessage() {
	t.flushHeldText()
	if t.role != noRole {
		t.role = noRole
		t.w.Verbatim(`]}`)
	}
}

// writeText writes a text block with a role, unless it is blank. Assistant text is held until something follows it,
// because it is trimmed at the end of a conversation.
func (t *translation) writeText(role role, inside []byte, cache json.Value) {
	if translate.Blank(inside) {
		return
	}
	if t.role != role || t.holds {
		t.openMessage(role)
	}
	if role == assistantRole {
		t.held, t.holds = block{inside, cache}, true
		return
	}
	t.writeTextBlock(inside, cache)
}

// flushHeldText writes the held assistant text.
func (t *translation) flushHeldText() {
	if t.holds {
		t.holds = false
		t.writeTextBlock(t.held.text, t.held.cache)
	}
}

// writeTextBlock writes a text block, with a comma if it is not the first block.
func (t *translation) writeTextBlock(inside []byte, cache json.Value) {
	w := t.w
	w.Literal(`{"type":"text","text":"`)
	w.Part(inside)
	if cache == nil {
		w.Buf = append(w.Buf, '"', '}')
		return
	}
	w.Verbatim(`"`)
	t.writeCacheControl(cache)
	w.EndObject()
}

func (t *translation) writeCacheControl(cache json.Value) {
	if len(cache) > 0 && cache.Kind() == json.Object {
		t.w.Literal(`"cache_control":`)
		t.w.Raw(cache)
	}
}

// addSystemMessage records the text of a system message with its cache breakpoints, one block per part.
func (t *translation) addSystemMessage(m *message) {
	parts := m.parts()
	if parts == nil {
		if text := m.text(); !translate.Blank(text) {
			t.system = append(t.system, block{text, m.cache()})
		}
		return
	}
	first := len(t.system)
	r := &t.m.list
	m.Read(messageContent, r)
	for a := r.Array(); a.Next(); {
		if p := t.readPart(r); !p.blank() {
			t.system = append(t.system, block{p.text, p.cache})
		}
	}
	if last := len(t.system) - 1; last >= first && !t.system[last].cache.Exists() {
		t.system[last].cache = m.cache()
	}
}

// writeContent writes a message's content as blocks. The message's own cache breakpoint moves to its last block.
func (t *translation) writeContent(m *message, role role) error {
	parts := m.parts()
	if parts == nil {
		t.writeText(role, m.text(), m.cache())
		return nil
	}
	marked := -1
	if m.Has(messageCache) {
		marked = t.lastPart(m)
	}
	r := &t.m.list
	m.Read(messageContent, r)
	for a, n := r.Array(), 0; a.Next(); n++ {
		p := t.readPart(r)
		if n == marked && !p.cache.Exists() {
			p.cache = m.cache()
		}
		if err := t.writePart(&p, role, m, n); err != nil {
			return err
		}
	}
	return nil
}

// writeAssistantMessage writes an earlier assistant message: its reasoning if the provider needs it back, its text, and
// its tool calls. A message with nothing but reasoning is omitted, because the API rejects it.
func (t *translation) writeAssistantMessage(m *message) error {
	if m.Has(messageAudio) {
		return sdk.Refuse(m.param(".audio"), "This provider does not support audio.")
	}
	var thoughts []thought
	if m.Seen()&thoughtMembers != 0 {
		thoughts = t.readThoughts(m)
	}
	hasText, calls := t.hasText(m), 0
	if !hasText && !hasElement(m.Raw(messageCalls)) {
		return nil
	}
	// Counting reads every call, an eighth of the fuel of an agent's conversation.
	if interleaved(thoughts) || !hasText && m.Has(messageCache) {
		calls = countElements(m.Raw(messageCalls))
	}
	// The message's cache breakpoint moves to its text, or to its last call if there is no text.
	marked := -1
	if !hasText {
		marked = calls - 1
	}

	textWritten, call := false, 0
	if interleaved(thoughts) {
		// Reasoning blocks keep their indexes in the response. Text and calls fill the gaps between them, but at least
		// one of these follows the last reasoning block.
		textWritten = !hasText
		left := calls
		if hasText {
			left++
		}
		next := thoughts[0].index // index of the next block in the response
		for i := range thoughts {
			for ; next < thoughts[i].index && left > 1; next++ {
				left--
				if !textWritten {
					textWritten = true
					if err := t.writeAssistantText(m); err != nil {
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
			next = thoughts[i].index + 1
		}
	} else {
		for i := range thoughts {
			t.writeThought(&thoughts[i])
		}
	}
	if !textWritten {
		if err := t.writeAssistantText(m); err != nil {
			return err
		}
	}
	return t.writeCalls(m, call, -1, marked)
}

func (t *translation) writeAssistantText(m *message) error {
	if err := t.writeContent(m, assistantRole); err != nil {
		return err
	}
	if m.Has(messageRefusal) {
		t.writeText(assistantRole, m.Inside(messageRefusal), nil)
	}
	return nil
}

// writeToolMessage writes the result of a tool call as a block of a user message. The cache breakpoint of a part of
// the result moves to this block.
func (t *translation) writeToolMessage(m *message) error {
	w := t.w
	t.openMessage(userRole)
	t.results = true
	w.Literal(`{"type":"tool_result","tool_use_id":"`)
	t.writeToolID(m.Text(messageCallID))
	if text := m.text(); !translate.Blank(text) && m.Seen()&(1<<messageCache|1<<messageFailed) == 0 {
		// The form of nearly all results.
		w.Verbatim(`","content":[{"type":"text","text":"`)
		w.Part(text)
		w.Verbatim(`"}]}`)
		return nil
	}
	w.Verbatim(`"`)
	cache, opened := m.cache(), false
	if text := m.text(); !translate.Blank(text) {
		opened = true
		w.Verbatim(`,"content":[`)
		t.writeTextBlock(text, nil)
	}
	if parts := m.parts(); parts != nil {
		r := &t.m.list
		m.Read(messageContent, r)
		for a, n := r.Array(), 0; a.Next(); n++ {
			p := t.readPart(r)
			if p.cache.Exists() {
				cache, p.cache = p.cache, nil
			}
			if p.blank() {
				continue
			}
			if !opened {
				opened = true
				w.Verbatim(`,"content":[`)
			}
			if err := t.writePart(&p, userRole, m, n); err != nil {
				return err
			}
		}
	}
	if opened {
		w.EndArray()
	}
	if failed, _ := m.Bool(messageFailed); failed {
		w.Verbatim(`,"is_error":true`)
	}
	t.writeCacheControl(cache)
	w.EndObject()
	return nil
}

// escapedID is the prefix of IDs that had to be escaped.
const escapedID = "call_x_"

// writeToolID writes the ID of a tool call, without quotes. The provider accepts only letters, digits, _ and -; other
// IDs are escaped, the same way for the call and its result. The escaping is injective: an ID that already looks
// escaped is escaped as well.
func (t *translation) writeToolID(id []byte) {
	if translate.ValidName(id) && (id[0] != escapedID[0] || !hasPrefix(id, escapedID)) {
		t.w.Part(id)
		return
	}
	const digits = "0123456789abcdef"
	s := append(t.scratch[:0], escapedID...)
	for _, c := range id {
		if translate.NameByte(c) && c != '_' {
			s = append(s, c)
		} else {
			s = append(s, '_', digits[c>>4], digits[c&15])
		}
	}
	t.scratch = s
	t.w.Part(s)
}

// hasElement reports whether v is an array that is not empty.
func hasElement(v json.Value) bool {
	var r json.Reader
	r.Reset(v)
	a := r.Array()
	return a.Next()
}

// countElements returns the length of an array, 0 for any other value.
func countElements(v json.Value) (n int) {
	var r json.Reader
	r.Reset(v)
	for a := r.Array(); a.Next(); {
		n++
	}
	return n
}

// lastPart returns the index of the last part of a message that is not blank, -1 if there is none.
func (t *translation) lastPart(m *message) int {
	last := -1
	if m.parts() == nil {
		return last
	}
	r := &t.m.list
	m.Read(messageContent, r)
	for a, n := r.Array(), 0; a.Next(); n++ {
		if p := t.readPart(r); !p.blank() {
			last = n
		}
	}
	return last
}
