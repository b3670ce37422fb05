package response

import "github.com/sluice-gateway/sluice/sdk/abi"

// choice is the state of one choice of the answer.
//
// A choice exists for the client once it is seen. State may be reserved before that, while a batch is prepared: a choice
// that is not seen, a tool call that is not open and a text that has nothing are not there.
type choice struct {
	index    int32
	seen     bool
	open     bool // the role chunk is rendered
	finished bool
	joined   uint64 // the batch in which the choice's latest event was rendered: extras behind it went with it
	reason   abi.FinishReason
	native   []byte // escaped

	content, refusal text
	points           int64 // code points of content
	tools            []tool
	opened           int32 // tool calls that are open
	lastTool         int
	parts            []part // pieces of reasoning, by key and part
	lastPart         int

	messageX members // extra members of the message, or of the next delta
	choiceX  members // extra members of the choice, or of the next chunk's

	reasoning []byte   // whole answers: the reasoning that can be read, escaped
	details   []detail // whole answers: reasoning_details
}

// text is one text that comes in pieces.
type text struct {
	half  half   // what waits for the next piece
	trial half   // the same as the batch in preparation leaves it; valid if epoch is that batch
	epoch uint64 // see trial
	taken bool   // a piece was applied, if only an empty one
	some  bool   // something came
	all   []byte // whole answers: the text, escaped

	fallback []byte // what was given with abi.EncodingDefault, escaped
}

// tool is a tool call.
type tool struct {
	key      int32
	index    int32 // in the client's tool_calls
	open     bool
	ended    bool
	id, name []byte // escaped; name only in whole answers
	args     text
	extras   members
}

// part is one text of the reasoning: the pieces with one key and one abi.ReasoningPart.
type part struct {
	key    int32
	part   abi.ReasoningPart
	detail int // whole answers: index of its detail
	text
}

// detail is one entry of reasoning_details in a whole answer. Its texts are escaped.
type detail struct {
	kind      detailKind
	key       int32
	text      []byte // the text, summary or data
	signature []byte
}

type detailKind uint8

const (
	detailText detailKind = iota
	detailSummary
	detailEncrypted
	detailToolEncrypted
)

func (c *choice) reset() {
	for i := range c.tools {
		c.tools[i].extras.reset()
	}
	const keepTools, keepParts = 16, 16
	*c = choice{
		index:     c.index,
		native:    c.native[:0],
		content:   c.content.emptied(),
		refusal:   c.refusal.emptied(),
		messageX:  c.messageX,
		choiceX:   c.choiceX,
		reasoning: trim(c.reasoning),
		tools:     c.tools[:0],
		parts:     c.parts[:0],
		details:   c.details[:0],
	}
	if cap(c.tools) > keepTools {
		c.tools = nil
	}
	if cap(c.parts) > keepParts {
		c.parts, c.details = nil, nil
	}
	c.messageX.reset()
	c.choiceX.reset()
}

// emptied is an empty text that keeps the memory of t.
func (t *text) emptied() text {
	return text{all: trim(t.all), fallback: trim(t.fallback)}
}

// tool returns the tool call with a key, also one that is only reserved; nil if there is none. The pointer is valid until
// the next reserveTool.
func (c *choice) tool(key int32) *tool {
	if c.lastTool < len(c.tools) && c.tools[c.lastTool].key == key {
		return &c.tools[c.lastTool]
	}
	for i := range c.tools {
		if c.tools[i].key == key {
			c.lastTool = i
			return &c.tools[i]
		}
	}
	return nil
}

// reserveTool makes room for the tool call with a key. It reports false where that would be one too many.
func (c *choice) reserveTool(key int32) bool {
	if c.tool(key) != nil {
		return true
	}
	n := len(c.tools)
	if n >= abi.MaxKeys {
		return false
	}
	if n < cap(c.tools) {
		c.tools = c.tools[:n+1]
		t := &c.tools[n]
		*t = tool{key: key, id: t.id[:0], name: t.name[:0], args: t.args.emptied(), extras: t.extras}
	} else {
		c.tools = append(c.tools, tool{key: key})
	}
	c.lastTool = n
	return true
}

// reservePart returns the reasoning text with a key and part, making room for it; nil where that would be one too many.
// The pointer is valid until the next call.
func (c *choice) reservePart(key int32, p abi.ReasoningPart) *part {
	if c.lastPart < len(c.parts) && c.parts[c.lastPart].key == key && c.parts[c.lastPart].part == p {
		return &c.parts[c.lastPart]
	}
	for i := range c.parts {
		if c.parts[i].key == key && c.parts[i].part == p {
			c.lastPart = i
			return &c.parts[i]
		}
	}
	n := len(c.parts)
	if n >= abi.MaxKeys {
		return nil
	}
	if n < cap(c.parts) {
		c.parts = c.parts[:n+1]
		t := &c.parts[n]
		*t = part{key: key, part: p, detail: -1, text: t.emptied()}
	} else {
		c.parts = append(c.parts, part{key: key, part: p, detail: -1})
	}
	c.lastPart = n
	return &c.parts[n]
}

// unreserve gives back the room that was made for a batch which is not applied. What is in use stands before it.
func (c *choice) unreserve() {
	for n := len(c.tools); n > 0 && !c.tools[n-1].open; n-- {
		c.tools = c.tools[:n-1]
	}
	for n := len(c.parts); n > 0 && !c.parts[n-1].taken; n-- {
		c.parts = c.parts[:n-1]
	}
}

// detailOf returns the entry of reasoning_details that a part belongs to, making it if need be.
func (c *choice) detailOf(p *part) *detail {
	if p.detail >= 0 {
		return &c.details[p.detail]
	}
	kind := detailText
	switch p.part {
	case abi.ReasoningSummary:
		kind = detailSummary
	case abi.ReasoningEncrypted:
		kind = detailEncrypted
	case abi.ReasoningToolEncrypted:
		kind = detailToolEncrypted
	}
	for i := range c.details {
		if d := &c.details[i]; d.kind == kind && d.key == p.key {
			p.detail = i
			return d
		}
	}
	n := len(c.details)
	if n < cap(c.details) {
		c.details = c.details[:n+1]
		d := &c.details[n]
		*d = detail{kind: kind, key: p.key, text: trim(d.text), signature: trim(d.signature)}
	} else {
		c.details = append(c.details, detail{kind: kind, key: p.key})
	}
	p.detail = n
	return &c.details[n]
}
