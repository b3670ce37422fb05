package response

import (
	"strconv"

	"github.com/sluice-gateway/sluice/sdk/abi"
)

// A frame is one "data:" line and the blank line that ends it. What goes into it is escaped or compact JSON, so there is
// no other line feed in it.

// openChoice renders a choice's role chunk, if it has none. contentNull is for a choice that begins with something else
// than content, as far as the convention tells these apart.
func (m *Writer) openChoice(c *choice, contentNull bool) {
	if c.open {
		return
	}
	c.open = true
	m.beginChunk(c)
	if contentNull {
		m.out = append(m.out, `"role":"assistant","content":null`...)
	} else {
		m.out = append(m.out, `"role":"assistant","content":""`...)
	}
	m.out = append(m.out, `},"finish_reason":null}]`...)
	m.endFrame()
}

// textChunk renders a piece of content or refusal.
func (m *Writer) textChunk(c *choice, member string, s []byte) {
	m.beginChunk(c)
	m.appendMember(member, s)
	m.endChunk(c)
}

// reasoningChunk renders a piece of reasoning.
func (m *Writer) reasoningChunk(c *choice, r *part, s []byte) {
	m.beginChunk(c)
	if readable(r.part) {
		m.appendMember("reasoning_content", s)
		m.out = append(m.out, ',')
	}
	m.out = append(m.out, `"reasoning_details":[{"type":`...)
	switch r.part {
	case abi.ReasoningText:
		m.out = append(m.out, `"reasoning.text",`...)
		m.appendMember("text", s)
	case abi.ReasoningSignature:
		m.out = append(m.out, `"reasoning.text",`...)
		m.appendMember("signature", s)
	case abi.ReasoningSummary:
		m.out = append(m.out, `"reasoning.summary",`...)
		m.appendMember("summary", s)
	case abi.ReasoningEncrypted, abi.ReasoningToolEncrypted:
		m.out = append(m.out, `"reasoning.encrypted",`...)
		m.appendMember("data", s)
		if r.part == abi.ReasoningToolEncrypted {
			m.out = appendToolID(m.out, c, r.key)
		}
	}
	m.out = m.appendOrigin(m.out, r.key)
	m.out = append(m.out, `}]`...)
	m.endChunk(c)
}

// appendOrigin appends what the client must send back with a piece of reasoning so that it finds its place again.
func (m *Writer) appendOrigin(dst []byte, key int32) []byte {
	if len(m.format) > 0 {
		dst = append(append(append(dst, `,"format":"`...), m.format...), '"')
	}
	dst = append(dst, `,"index":`...)
	return strconv.AppendInt(dst, int64(key), 10)
}

// appendToolID appends the id of the tool call that a piece of reasoning belongs to.
func appendToolID(dst []byte, c *choice, key int32) []byte {
	t := c.tool(key)
	if t == nil || !t.open {
		return dst
	}
	return append(append(append(dst, `,"id":"`...), t.id...), '"')
}

// toolChunk renders the beginning of a tool call.
func (m *Writer) toolChunk(c *choice, t *tool, args []byte) {
	m.beginTool(c, t)
	m.out = append(append(m.out, `,"id":"`...), t.id...)
	m.out = append(append(m.out, `","type":"function","function":{"name":"`...), t.name...)
	m.out = append(append(m.out, `","arguments":"`...), args...)
	m.out = append(m.out, `"}`...)
	m.endTools(c, t)
}

// argumentsChunk renders a piece of a tool call's arguments.
func (m *Writer) argumentsChunk(c *choice, t *tool, args []byte) {
	m.beginTool(c, t)
	m.out = append(append(m.out, `,"function":{"arguments":"`...), args...)
	m.out = append(m.out, `"}`...)
	m.endTools(c, t)
}

func (m *Writer) beginTool(c *choice, t *tool) {
	m.beginChunk(c)
	m.out = append(m.out, `"tool_calls":[{"index":`...)
	m.out = strconv.AppendInt(m.out, int64(t.index), 10)
}

func (m *Writer) endTools(c *choice, t *tool) {
	m.out = t.extras.appendTo(m.out)
	m.let(&t.extras)
	m.out = append(m.out, `}]`...)
	m.endChunk(c)
}

// finishChunk renders the end of a choice. Extra members that no chunk has taken yet go with it, those of tool calls in
// chunks of their own before it.
func (m *Writer) finishChunk(c *choice) {
	m.openChoice(c, false)
	for i := range c.tools {
		if t := &c.tools[i]; t.open && len(t.extras.list) > 0 {
			m.beginTool(c, t)
			m.endTools(c, t)
		}
	}
	m.beginChunk(c)
	m.endDelta(c)
	m.out = appendFinish(m.out, c)
	m.endChoice(c)
}

// newsChunk renders the extra members that a batch had nothing else to say with. Those of the message are a part of what
// the choice says, such as sound, and may begin it; those of the choice wait until something has.
func (m *Writer) newsChunk(c *choice) {
	if !c.seen || c.finished || len(c.messageX.list) == 0 && (!c.open || len(c.choiceX.list) == 0) {
		return
	}
	m.openChoice(c, true)
	m.beginChunk(c)
	m.endChunk(c)
}

// messageChunk renders the extra members of the message alone.
func (m *Writer) messageChunk(c *choice) {
	m.openChoice(c, true)
	m.beginChunk(c)
	m.endDelta(c)
	m.out = append(m.out, `,"finish_reason":null}]`...)
	m.endFrame()
}

// appendFinish appends why a choice ended, and the provider's own word where that is another.
func appendFinish(dst []byte, c *choice) []byte {
	word := finishWords[c.reason]
	dst = append(append(append(dst, `,"finish_reason":"`...), word...), '"')
	if len(c.native) > 0 && string(c.native) != word {
		dst = append(append(append(dst, `,"native_finish_reason":"`...), c.native...), '"')
	}
	return dst
}

// usageChunk renders the chunk that has no choices.
func (m *Writer) usageChunk() {
	m.appendPrefix()
	m.out = append(m.out, ']')
	m.endAnswer()
	m.out = append(m.out, `,"usage":`...)
	m.out = m.appendUsage(m.out)
	m.out = append(m.out, "}\n\n"...)
}

// beginChunk renders a chunk as far as into its delta.
func (m *Writer) beginChunk(c *choice) {
	m.appendPrefix()
	m.out = append(m.out, `{"index":`...)
	m.out = strconv.AppendInt(m.out, int64(c.index), 10)
	m.out = append(m.out, `,"delta":{`...)
}

// endChunk renders the rest of a chunk that does not finish its choice.
func (m *Writer) endChunk(c *choice) {
	m.endDelta(c)
	m.out = append(m.out, `,"finish_reason":null`...)
	m.endChoice(c)
}

func (m *Writer) endDelta(c *choice) {
	if len(c.messageX.list) > 0 {
		from := len(m.out)
		m.out = c.messageX.appendTo(m.out)
		if m.out[from-1] == '{' {
			m.out = dropComma(m.out, from)
		}
		m.let(&c.messageX)
	}
	m.out = append(m.out, '}')
}

func (m *Writer) endChoice(c *choice) {
	if len(c.choiceX.list) > 0 {
		m.out = c.choiceX.appendTo(m.out)
		m.let(&c.choiceX)
	}
	m.out = append(m.out, `}]`...)
	m.endFrame()
}

// endFrame renders what stands behind the choices of every chunk but the usage chunk.
func (m *Writer) endFrame() {
	m.endAnswer()
	if m.o.IncludeUsage {
		m.out = append(m.out, `,"usage":null`...)
	}
	m.out = append(m.out, "}\n\n"...)
}

func (m *Writer) endAnswer() {
	if len(m.once.list) > 0 {
		m.out = m.once.appendTo(m.out)
		m.let(&m.once)
	}
}

// appendPrefix renders what all chunks begin with. It is put together once, and again when a member of all chunks
// changes.
func (m *Writer) appendPrefix() {
	if len(m.prefix) == 0 {
		m.freeze()
		p := append(m.prefix, `data: {"id":"`...)
		p = append(p, m.id...)
		p = append(p, `","object":"chat.completion.chunk","created":`...)
		p = strconv.AppendInt(p, m.o.Created, 10)
		p = append(append(append(p, `,"model":"`...), m.model...), '"')
		p = m.sticky.appendTo(p)
		m.prefix = append(p, `,"choices":[`...)
	}
	m.out = append(m.out, m.prefix...)
}

// appendMember renders a member that is a string; s is escaped.
func (m *Writer) appendMember(name string, s []byte) {
	m.out = append(append(append(m.out, '"'), name...), `":"`...)
	m.out = append(append(m.out, s...), '"')
}
