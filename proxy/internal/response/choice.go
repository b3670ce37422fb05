package response

import "github.com/sluice-gateway/sluice/sdk/abi"

// choice is the state of one choice of the response.
//
// State may be reserved before it is in use, while a batch is prepared: a choice, a tool call or a part of reasoning that
// has not begun is not there for anyone else.
type choice struct {
	index     int32
	begun     bool
	finished  bool   // the provider has given the reason; what it sends after that is dropped
	unflushed bool   // it has had an extra member since the last Flush
	grouped   uint64 // the batch in which the members after the choice's latest event were written with it
	reason    abi.FinishReason
	native    []byte // the provider's own reason, escaped

	content, refusal text
	points           int64 // code points of content
	tools            []tool
	begunTools       int32
	lastTool         int    // index of the tool call that was looked up last
	parts            []part // of the reasoning
	lastPart         int
}

// text is one text that comes in pieces.
type text struct {
	partial partial // the beginning of a character that waits for the next piece
	trial   partial // the same as the batch in preparation leaves it; valid if epoch is that batch
	epoch   uint64  // see trial
	begun   bool    // a piece was applied, if only an empty one
	some    bool    // it is not empty

	fallback []byte // what was given with abi.EncodingDefault, escaped
}

// tool is a tool call.
type tool struct {
	key   int32
	index int32 // in the order in which the choice's calls began
	begun bool
	ended bool
	args  text
	json  extent // of args
}

// part is one text of the reasoning: the pieces with one key and one abi.ReasoningPart.
type part struct {
	key  int32
	part abi.ReasoningPart
	text
}

func (c *choice) reset() {
	const keepTools, keepParts = 16, 16
	*c = choice{
		index:   c.index,
		native:  c.native[:0],
		content: c.content.reset(),
		refusal: c.refusal.reset(),
		tools:   c.tools[:0],
		parts:   c.parts[:0],
	}
	if cap(c.tools) > keepTools {
		c.tools = nil
	}
	if cap(c.parts) > keepParts {
		c.parts = nil
	}
}

// cut reports whether one of the choice's tool calls lacks a part of its arguments. That is so where the provider has given
// no reason for the end, which it does last, and the arguments are not a whole JSON value: a client would carry out the
// call if it were told that the choice has finished.
func (c *choice) cut() bool {
	if !c.begun || c.finished {
		return false
	}
	for i := range c.tools {
		if t := &c.tools[i]; t.begun && !t.json.whole() {
			return true
		}
	}
	return false
}

// reset is an empty text that keeps the memory of t.
func (t *text) reset() text { return text{fallback: Reuse(t.fallback)} }

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
		*t = tool{key: key, args: t.args.reset()}
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
		*t = part{key: key, part: p, text: t.reset()}
	} else {
		c.parts = append(c.parts, part{key: key, part: p})
	}
	c.lastPart = n
	return &c.parts[n]
}

// unreserve frees the room that was made for a batch which is not applied: what is in use stands before it.
func (c *choice) unreserve() {
	for n := len(c.tools); n > 0 && !c.tools[n-1].begun; n-- {
		c.tools = c.tools[:n-1]
	}
	for n := len(c.parts); n > 0 && !c.parts[n-1].begun; n-- {
		c.parts = c.parts[:n-1]
	}
}
