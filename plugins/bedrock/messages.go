package bedrock

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// conversation is the state of writing the messages.
type conversation struct {
	system   []block // system prompt, in the order of the messages
	messages bool    // the member messages was present
	wrote    bool    // a message was written

	// The current message.
	role     string // "" before the first and after the last
	results  bool   // contains tool results
	texts    bool   // contains text
	document []byte // name of a document in the message, as escaped string content
	held     block  // if holds is true: assistant text that is written when something follows it
	holds    bool

	bare      bool     // the last assistant message does not begin with reasoning
	called    [][]byte // names of the tools that were called, as escaped string contents
	documents [][]byte // names of documents in all messages
	thoughts  []thought
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
	messageFailed      // is_error of a tool result
)

var messageShape = json.NewShape("role", "content", "refusal", "tool_calls", "tool_call_id", "cache_control", "reasoning_details",
	"thinking_blocks", "reasoning_content", "audio", "name", "annotations", "is_error")

// message is one of the client's messages, with its members in any order.
type message struct {
	json.Members
	index int
	role  []byte
}

// system reports whether the message belongs to the system prompt.
func (m *message) system() bool { return string(m.role) == "system" || string(m.role) == "developer" }

// text returns the content if it is a string, escaped, otherwise nil.
func (m *message) text() []byte { return m.Inside(messageContent) }

// parts returns the content if it is an array, otherwise nil.
func (m *message) parts() json.Value {
	if m.Kind(messageContent) != json.Array {
		return nil
	}
	return m.Raw(messageContent)
}

// readMessage reads a message. It warns of members that the provider lacks.
func (t *translation) readMessage(m *message, in *json.Reader, index int) {
	in.Members(&m.Members, messageShape)
	m.index, m.role = index, m.Text(messageRole)
	for i := range m.Unknown() {
		t.r.Warn(abi.WarnDropped, "messages[]."+translate.Printable(m.UnknownName(i)))
	}
	t.warnDropped(m.Has(messageName) && string(m.role) != "tool", "messages[].name")
}

// param returns the path of a member of the message, for an error.
func (m *message) param(rest string) string {
	return "messages[" + translate.Itoa(m.index) + "]" + rest
}

// hasText reports whether the message has text that is not blank.
func (t *translation) hasText(m *message) bool {
	return !translate.Blank(m.text()) || t.lastPart(m.parts()) >= 0 || !translate.Blank(m.Inside(messageRefusal))
}

// writeMessages writes the conversation without system messages: one message for each run of messages with the same
// role. The provider requires that consecutive messages of one role are merged, in particular the results of parallel
// tool calls.
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
		// The model continues a final assistant message, which must not end in white space.
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

// openMessage starts a message unless the current one has the same role. It is called when the first block is written,
// so that empty messages are omitted.
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
		// The provider rejects a document without text in the same message. Its name serves as text.
		t.writeTextBlock(t.document, nil)
	}
	t.w.EndArray()
	t.w.EndObject()
}

// writeText writes a text block with a role, unless it is blank. Assistant text is held until something follows it,
// because it is trimmed at the end of a conversation.
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

// writeTextBlock writes a text block, and its cache point.
func (t *translation) writeTextBlock(inside []byte, cache json.Value) {
	w := t.w
	w.Object()
	w.Name("text")
	w.Inside(inside)
	w.EndObject()
	t.writeCachePoint(cache)
}

// addSystemMessage records the text of a system message with its cache points, one block per part.
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

// writeContent writes a message's content as blocks. The message's own cache point moves to its last block.
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

// writeAssistantMessage writes an earlier assistant message: its reasoning if the provider needs it back, its text, and
// its tool calls. Reasoning blocks keep their indexes in the response. Text and calls fill the gaps between them, but
// at least one of these follows the last reasoning block. A message with nothing but reasoning is omitted, because the
// API rejects it.
func (t *translation) writeAssistantMessage(m *message) error {
	if m.Has(messageAudio) {
		return sdk.Refuse(m.param(".audio"), "This provider does not support audio in assistant messages.")
	}
	thoughts := t.readThoughts(m)
	calls := m.Raw(messageCalls)
	rest := assistantBlocks{m: m, text: t.hasText(m)}
	rest.calls.Reset(calls)
	rest.loop = rest.calls.Array()
	if !rest.text {
		rest.marked = m.Raw(messageCache) // without text, the message's cache point moves to its last call
	}
	if len(thoughts) == 0 && rest.marked == nil {
		return t.writeTextAndCalls(&rest)
	}
	rest.left = countElements(calls)
	if !rest.text && rest.left == 0 {
		t.warnDropped(len(thoughts) > 0, "messages[].reasoning_details")
		return nil
	}
	if rest.text {
		rest.left++
	}
	index := int64(0) // index of the next block in the response
	for i := range thoughts {
		th := &thoughts[i]
		if i == 0 || !thoughts[i-1].indexed {
			index = th.index
		}
		for ; th.indexed && index < th.index && rest.left > 1; index++ {
			if err := t.writeNext(&rest); err != nil {
				return err
			}
		}
		t.writeThought(th)
		index = th.index + 1
	}
	for rest.left > 0 {
		if err := t.writeNext(&rest); err != nil {
			return err
		}
	}
	return nil
}

// assistantBlocks are the text and calls of an earlier assistant message that have not been written yet.
type assistantBlocks struct {
	m      *message
	text   bool // the text has not been written
	left   int  // number of remaining blocks, of which the text is one
	calls  json.Reader
	loop   json.Loop
	call   int        // index of the next call
	marked json.Value // cache point after the last call
}

// writeNext writes the next of the remaining blocks.
func (t *translation) writeNext(b *assistantBlocks) error {
	b.left--
	if b.text {
		b.text = false
		return t.writeAssistantText(b.m)
	}
	var cache json.Value
	if b.left == 0 {
		cache = b.marked
	}
	b.loop.Next()
	b.call++
	return t.writeCall(&b.calls, b.m, b.call-1, cache)
}

// writeTextAndCalls writes the text and the calls of a message without reasoning and cache point. Counting the calls
// beforehand would read each of them once more.
func (t *translation) writeTextAndCalls(b *assistantBlocks) error {
	if b.text {
		if err := t.writeAssistantText(b.m); err != nil {
			return err
		}
	}
	for ; b.loop.Next(); b.call++ {
		if err := t.writeCall(&b.calls, b.m, b.call, nil); err != nil {
			return err
		}
	}
	return nil
}

func (t *translation) writeAssistantText(m *message) error {
	if err := t.writeContent(m, "assistant"); err != nil {
		return err
	}
	t.writeText("assistant", m.Inside(messageRefusal), nil)
	return nil
}

// writeToolMessage writes the result of a tool call as a block of a user message. A cache point within the result moves
// to its end.
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
	// The API rejects the member status for models of other families. Their result contains the failure as text.
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

// countElements returns the length of an array, 0 for any other value.
func countElements(v json.Value) (n int) {
	var r json.Reader
	r.Reset(v)
	for a := r.Array(); a.Next(); {
		n++
	}
	return n
}

// lastPart returns the index of the last part that is not blank, -1 if there is none.
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
