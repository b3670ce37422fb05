package response

import "github.com/sluice-gateway/sluice/sdk/abi"

// choice is the state of one choice of the response.
//
// Preparing a batch may reserve choices, tool calls and parts of reasoning before they are in use. They do not exist
// for the rest of the Writer until begun is set.
type choice struct {
	index     int32
	begun     bool
	finished  bool   // the provider has given the finish reason; later events are dropped
	unflushed bool   // an extra member was written since the last Flush
	grouped   uint64 // epoch of the batch in which extra members were written with the event before them
	reason    abi.FinishReason
	native    []byte // the provider's own reason, escaped

	content, refusal text
	points           int64 // code points of content
	tools            []tool
	begunTools       int32
	lastTool         int    // index in tools of the last lookup
	parts            []part // of the reasoning
	lastPart         int    // index in parts of the last lookup
}

// text is one text that arrives in pieces.
type text struct {
	partial  partial // start of a character that the next piece completes
	trial    partial // partial after the batch that is being prepared; valid if epoch is that batch
	epoch    uint64  // batch that trial belongs to
	begun    bool    // a piece was applied, even if it was empty
	nonEmpty bool

	fallback []byte // the text given with abi.EncodingDefault, escaped
}

// tool is a tool call.
type tool struct {
	key   int32
	index int32 // position in the order in which the choice's calls started
	begun bool
	ended bool
	args  text
	json  Extent // tracks whether args is a complete JSON value
}

// part is one text of the reasoning, identified by its key and abi.ReasoningPart.
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

// hasTruncatedCall reports whether the arguments of one of the choice's tool calls are incomplete: they are not a whole
// JSON value, and the provider has not given a finish reason, which it sends last. If the choice were reported as
// finished, the client would execute the truncated call.
func (c *choice) hasTruncatedCall() bool {
	if !c.begun || c.finished {
		return false
	}
	for i := range c.tools {
		if t := &c.tools[i]; t.begun && !t.json.Whole() {
			return true
		}
	}
	return false
}

// reset returns an empty text that reuses the memory of t.
func (t *text) reset() text { return text{fallback: Reuse(t.fallback)} }

// tool returns the tool call with a key, which may only be reserved, or nil if there is none. The pointer is valid
// until the next reserveTool.
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

// reserveTool allocates the tool call with a key unless it exists. It reports false if the choice has too many of them.
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

// reservePart returns the reasoning text with a key and part, and allocates it if necessary. It returns nil if the
// choice has too many of them. The pointer is valid until the next call.
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

// unreserve frees the tool calls and parts that were reserved for a rejected batch. They follow all those in use.
func (c *choice) unreserve() {
	for n := len(c.tools); n > 0 && !c.tools[n-1].begun; n-- {
		c.tools = c.tools[:n-1]
	}
	for n := len(c.parts); n > 0 && !c.parts[n-1].begun; n-- {
		c.parts = c.parts[:n-1]
	}
}
