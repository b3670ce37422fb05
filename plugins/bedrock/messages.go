package bedrock

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// conversation is the state of writing the messages.
type conversation struct {
	system   []block // in the order of the messages
	messages bool    // the member was there
	wrote    bool    // a message was written

	// The current message.
	role     string // "" before the first and after the last
	results  bool   // it holds results of tools
	texts    bool   // it holds a text
	document []byte // the name of a document in it, escaped string content
	held     block  // text of an assistant message that waits for what follows it, if holds
	holds    bool

	bare      bool     // the last response does not begin with reasoning
	called    [][]byte // names of the tools that were called, escaped string contents
	documents [][]byte // names of documents
	all       []thought
}

// block is a text with the cache point after it.
type block struct {
	text  []byte // escaped string content
	cache json.Value
}

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
	messageFailed      // is_error of a tool's result
)

var messageShape = json.NewShape("role", "content", "refusal", "tool_calls", "tool_call_id", "cache_control", "reasoning_details",
	"thinking_blocks", "reasoning_content", "audio", "name", "annotations", "is_error")

// message is one of the client's messages, its members in any order.
type message struct {
	json.Members
	index int
	role  []byte
}

// system reports whether the message is a part of the system prompt.
func (m *message) system() bool { return string(m.role) == "system" || string(m.role) == "developer" }

// text is escaped string content, else nil.
func (m *message) text() []byte { return m.Inside(messageContent) }

// parts is a content that is an array, else nil.
func (m *message) parts() json.Value {
	if m.Kind(messageContent) != json.Array {
		return nil
	}
	return m.Raw(messageContent)
}

// readMessage reads a message. Members that the provider does not have cause a warning.
func (t *translation) readMessage(m *message, in *json.Reader, index int) {
	in.Members(&m.Members, messageShape)
	m.index, m.role = index, m.Text(messageRole)
	for i := range m.Unknown() {
		t.r.Warn(abi.WarnDropped, "messages[]."+translate.Printable(m.UnknownName(i)))
	}
	t.warnDropped(m.Has(messageName) && string(m.role) != "tool", "messages[].name")
}

// param is the path of a member of the message, for an error.
func (m *message) param(rest string) string {
	return "messages[" + translate.Itoa(m.index) + "]" + rest
}

// hasText reports whether the message has text that is not blank.
func (t *translation) hasText(m *message) bool {
	return !translate.Blank(m.text()) || t.lastPart(m.parts()) >= 0 || !translate.Blank(m.Inside(messageRefusal))
}

// writeMessages writes the conversation: one message for each run of the same role, system messages apart. The provider
// requires consecutive messages of one role as one message, above all results of parallel tool calls.
func (t *translation) writeMessages(in *json.Reader) error {
	t.messages = true
	t.w.Name("messages")
	t.w.Array()
	m := &t.message
	for a, n := in.Array(), 0; a.Next(); n++ {
		t.readMessage(m, in, n)
		if err := t.writeMessage(m); err != nil {
			return err
		}
	}
	if t.o.family == claude {
		// A final assistant message is continued by the model and must not end in white space.
		t.held.text = translate.TrimSpaceEnd(t.held.text)
	}
	t.closeMessage()
	return nil
}

func (t *translation) writeMessage(m *message) error {
	switch string(m.role) {
	case "system", "developer":
		t.addSystemMessage(m)
		return nil
	case "user":
		return t.writeContent(m, "user")
	case "assistant":
		return t.writeAssistantMessage(m)
	case "tool":
		return t.writeToolMessage(m)
	}
	return sdk.Refuse(m.param(".role"), "This provider does not support messages with this role.")
}

// openMessage starts a message unless the current one has the role. It is called with the first block to write, so that
// empty messages are omitted.
func (t *translation) openMessage(role string) {
	t.flushHeldText()
	if t.role == role {
		return
	}
	t.closeMessage()
	t.role, t.wrote = role, true
	t.bare = t.bare || role == "assistant"
	t.results, t.texts, t.document = false, false, nil
	w := t.w
	w.Object()
	w.Name("role")
	w.String(role)
	w.Name("content")
	w.Array()
}

func (t *translation) closeMessage() {
	t.flushHeldText()
	if t.role == "" {
		return
	}
	t.role = ""
	if t.document != nil && !t.texts {
		// The provider refuses a document without text in the same message. Its name adds nothing.
		t.writeTextBlock(t.document, nil)
	}
	t.w.EndArray()
	t.w.EndObject()
}

// writeText writes text with a role, unless it is blank. Assistant text is held until something follows it, since the
// last one of a conversation is trimmed.
func (t *translation) writeText(role string, inside []byte, cache json.Value) {
	if translate.Blank(inside) {
		return
	}
	t.openMessage(role)
	t.texts = true
	if role == "assistant" {
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

// writeTextBlock writes a block of text, and its cache point.
func (t *translation) writeTextBlock(inside []byte, cache json.Value) {
	w := t.w
	w.Object()
	w.Name("text")
	w.Inside(inside)
	w.EndObject()
	t.writeCachePoint(cache)
}

// addSystemMessage records the text of a system message, a block for each part, with its cache points.
func (t *translation) addSystemMessage(m *message) {
	parts, cache := m.parts(), m.Raw(messageCache)
	if parts == nil {
		if text := m.text(); !translate.Blank(text) {
			t.system = append(t.system, block{text, cache})
		}
		return
	}
	first := len(t.system)
	var r json.Reader
	r.Reset(parts)
	for a := r.Array(); a.Next(); {
		if p := readPart(&r, &t.pieces); !p.blank() {
			t.system = append(t.system, block{p.text, p.cache})
		}
	}
	if last := len(t.system) - 1; last >= first && !t.system[last].cache.Exists() {
		t.system[last].cache = cache
	}
}

// writeContent writes a message's content as blocks. A message's own cache point goes after its last block.
func (t *translation) writeContent(m *message, role string) error {
	parts, cache := m.parts(), m.Raw(messageCache)
	if parts == nil {
		t.writeText(role, m.text(), cache)
		return nil
	}
	marked := -1
	if cache.Exists() {
		marked = t.lastPart(parts)
	}
	var r json.Reader
	r.Reset(parts)
	for a, n := r.Array(), 0; a.Next(); n++ {
		p := readPart(&r, &t.pieces)
		if n == marked && !p.cache.Exists() {
			p.cache = cache
		}
		if err := t.writePart(&p, role, m, n); err != nil {
			return err
		}
	}
	return nil
}

// writeAssistantMessage writes an earlier assistant message: its reasoning where the provider needs it back, then its
// text, then its tool calls. Reasoning keeps its place among the blocks of the response: text and calls fill the gaps
// that their numbers leave, and one of them stays for the end. A message with only reasoning is omitted: the API
// refuses it.
func (t *translation) writeAssistantMessage(m *message) error {
	if m.Has(messageAudio) {
		return sdk.Refuse(m.param(".audio"), "This provider does not support audio in assistant messages.")
	}
	thoughts := t.readThoughts(m)
	calls := m.Raw(messageCalls)
	rest := assistantBlocks{m: m, text: t.hasText(m), left: countElements(calls)}
	rest.calls.Reset(calls)
	rest.loop = rest.calls.Array()
	if !rest.text {
		rest.marked = m.Raw(messageCache) // a message without text has its cache point after its last call
	}
	if !rest.text && rest.left == 0 {
		t.warnDropped(len(thoughts) > 0, "messages[].reasoning_details")
		return nil
	}
	if rest.text {
		rest.left++
	}
	place := int64(0)
	for i := range thoughts {
		th := &thoughts[i]
		if i == 0 || !thoughts[i-1].placed {
			place = th.index
		}
		for ; th.placed && place < th.index && rest.left > 1; place++ {
			if err := t.writeNext(&rest); err != nil {
				return err
			}
		}
		t.writeThought(th)
		place = th.index + 1
	}
	for rest.left > 0 {
		if err := t.writeNext(&rest); err != nil {
			return err
		}
	}
	return nil
}

// assistantBlocks are what of an earlier assistant message is not written yet, apart from its reasoning: the text, if
// text, and calls.
type assistantBlocks struct {
	m      *message
	text   bool
	left   int // blocks
	calls  json.Reader
	loop   json.Loop
	call   int        // the index of the next call
	marked json.Value // the cache point after the last call
}

// writeNext writes the next of a response's blocks.
func (t *translation) writeNext(b *assistantBlocks) error {
	b.left--
	if b.text {
		b.text = false
		if err := t.writeContent(b.m, "assistant"); err != nil {
			return err
		}
		t.writeText("assistant", b.m.Inside(messageRefusal), nil)
		return nil
	}
	var cache json.Value
	if b.left == 0 {
		cache = b.marked
	}
	b.loop.Next()
	b.call++
	return t.writeCall(&b.calls, b.m, b.call-1, cache)
}

// writeToolMessage writes the result of a tool call into the user's message. A cache point within the result goes after
// it.
func (t *translation) writeToolMessage(m *message) error {
	w := t.w
	t.openMessage("user")
	t.results = true
	w.Object()
	w.Name("toolResult")
	w.Object()
	w.Name("toolUseId")
	t.writeID(m.Text(messageCallID))
	w.Name("content")
	w.Array()
	failed, _ := m.Bool(messageFailed)
	// The API refuses the status for models of other families: these see it by the text.
	byStatus := t.o.family == claude || t.o.family == nova
	byText := failed && !byStatus
	if text := m.text(); !translate.Blank(text) || byText && text != nil {
		if byText {
			text = translate.FailedText(text)
		}
		t.writeTextBlock(text, nil)
	}
	cache := m.Raw(messageCache)
	var r json.Reader
	r.Reset(m.parts())
	for a, n := r.Array(), 0; a.Next(); n++ {
		p := readPart(&r, &t.pieces)
		if byText && string(p.kind) == "text" {
			p.text, byText = translate.FailedText(p.text), false
		}
		if p.cache.Exists() {
			cache, p.cache = p.cache, nil
		}
		if err := t.writePart(&p, "user", m, n); err != nil {
			return err
		}
	}
	w.EndArray()
	if failed && byStatus {
		w.Name("status")
		w.String("error")
	}
	w.EndObject()
	w.EndObject()
	t.writeCachePoint(cache)
	return nil
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
func (t *translation) lastPart(parts json.Value) int {
	last := -1
	var r json.Reader
	r.Reset(parts)
	for a, n := r.Array(), 0; a.Next(); n++ {
		if p := readPart(&r, &t.pieces); !p.blank() {
			last = n
		}
	}
	return last
}
