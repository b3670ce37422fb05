package messages

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// lowerMessages appends the conversation turn by turn. A turn is a run of assistant messages, or a run of user and
// system messages: tool results are in user messages, with system messages possibly before or after them.
func (r *Request) lowerMessages() *apierror.Error {
	c := &r.chat
	c.Literal(`,"messages":[`)
	start := len(c.Dst)
	r.lowerSystem()
	for m := r.m.messages.First(); m.Exists(); {
		var e *apierror.Error
		if r.messageRole(m) == roleAssistant {
			m, e = r.lowerAssistantTurn(m)
		} else {
			m, e = r.lowerUserTurn(m)
		}
		if e != nil {
			return e
		}
	}
	if e := r.checkAnswered(); e != nil {
		return e
	}
	if len(c.Dst) == start || len(c.Origins.Messages()) == 1 && r.m.system.Exists() && c.Origins.Messages()[0] == r.m.system {
		return r.unsupported(r.m.messages, "The provider of this model does not support any of the messages' content.")
	}
	c.Literal("]")
	return nil
}

// lowerSystem appends the system prompt.
func (r *Request) lowerSystem() {
	v := r.m.system
	if !v.Exists() || v.Kind() == jsondoc.Array && !v.First().Exists() {
		return
	}
	r.chat.StartMessage(v, "system")
	r.chat.Literal(`,"content":`)
	r.lowerTexts(v)
	r.chat.Literal("}")
}

// lowerTexts appends the content of a system message, which is a string or a list of text blocks.
func (r *Request) lowerTexts(v jsondoc.Value) {
	c := &r.chat
	var p partList
	c.beginParts(&p, v)
	var b block
	for v := v.First(); v.Exists(); v = v.Next() {
		if r.scanBlock(v, &b); b.kind == blockText {
			r.lowerText(&p, &b)
		}
	}
	c.endParts(&p)
}

// lowerAssistantTurn appends the assistant messages from first on, and returns the message after them. Assistant
// messages after one with a tool use are merged into that one, because chat completions requires the results directly
// after the calls.
func (r *Request) lowerAssistantTurn(first jsondoc.Value) (next jsondoc.Value, e *apierror.Error) {
	if e := r.checkAnswered(); e != nil {
		return next, e
	}
	for m := first; m.Exists() && r.messageRole(m) == roleAssistant; {
		end, calls := m.Next(), r.callsTool(m)
		for calls && end.Exists() && r.messageRole(end) == roleAssistant {
			end = end.Next()
		}
		if e := r.lowerAssistant(m, end); e != nil {
			return next, e
		}
		m, next = end, end
	}
	return next, nil
}

// callsTool reports whether a message contains a tool use.
func (r *Request) callsTool(message jsondoc.Value) bool {
	content := message.Get("content")
	if content.Kind() != jsondoc.Array {
		return false
	}
	for v := content.First(); v.Exists(); v = v.Next() {
		if v.Get("type").Is("tool_use") {
			return true
		}
	}
	return false
}

// lowerAssistant appends one assistant message, merged from the messages from first up to end (exclusive).
func (r *Request) lowerAssistant(first, end jsondoc.Value) *apierror.Error {
	c := &r.chat
	mark := c.Mark()
	c.StartMessage(first, "assistant")
	reasoning := r.lowerReasoning(first, end)
	calls, e := r.lowerCalls(first, end)
	if e != nil {
		return e
	}
	texts, e := r.lowerAssistantTexts(first, end)
	if e != nil {
		return e
	}
	switch {
	case texts:
	case calls:
		c.Literal(`,"content":null`)
	case reasoning:
		c.Literal(`,"content":""`)
	default: // only blocks of server tools
		c.Rewind(mark)
		return nil
	}
	c.Literal("}")
	return nil
}

// lowerAssistantTexts appends the content of an assistant message. It reports false if there is none.
func (r *Request) lowerAssistantTexts(first, end jsondoc.Value) (some bool, e *apierror.Error) {
	c := &r.chat
	mark := len(c.Dst)
	c.Literal(`,"content":`)
	var p partList
	if content := first.Get("content"); first.Next() == end {
		c.beginParts(&p, content)
	} else {
		c.beginParts(&p, jsondoc.Value{})
	}
	var b block
	for m := first; m != end; m = m.Next() {
		content := m.Get("content")
		if content.Kind() == jsondoc.String {
			if first.Next() != end {
				c.addText(&p, content, content, jsondoc.Value{})
			}
			continue
		}
		for v := content.First(); v.Exists(); v = v.Next() {
			switch r.scanBlock(v, &b); b.kind {
			case blockText:
				r.lowerText(&p, &b)
			case blockCompaction:
				if b.content.Kind() == jsondoc.String {
					c.addText(&p, v, b.content, b.cacheControl)
				} else {
					r.drop(v)
				}
			case blockServer:
				r.drop(v)
			case blockThinking, blockRedactedThinking, blockToolUse:
			default:
				return false, r.unknownBlock(&b)
			}
		}
	}
	if !c.endParts(&p) {
		c.Dst = c.Dst[:mark]
		return false, nil
	}
	return true, nil
}

// unknownBlock returns the error for a block that chat completions cannot express.
func (r *Request) unknownBlock(b *block) *apierror.Error {
	return r.unsupported(b.self, "The provider of this model does not support content of the type '%s' here.", quotable(b.typ.Text()))
}

// lowerCalls appends the tool calls of an assistant message. It reports false if there are none.
func (r *Request) lowerCalls(first, end jsondoc.Value) (some bool, e *apierror.Error) {
	c := &r.chat
	c.calls, c.nextCall = c.calls[:0], 0
	var b block
	for m := first; m != end; m = m.Next() {
		for v := m.Get("content").First(); v.Exists(); v = v.Next() {
			if !v.Get("type").Is("tool_use") {
				continue
			}
			r.scanBlock(v, &b)
			if len(c.calls) == r.limits.ToolCalls {
				return false, r.invalid(v, clientapi.CodeArrayAbove, "A turn should have at most %d `tool_use` blocks", r.limits.ToolCalls)
			}
			for i := range c.calls {
				if c.calls[i].id.SameText(b.id) {
					return false, r.invalid(b.id, clientapi.CodeInvalidValue, "`tool_use` ids must be unique")
				}
			}
			c.calls = append(c.calls, openCall{id: b.id})
			c.StartCall(v)
			c.Literal(`{"id":`)
			c.Raw(b.id)
			c.Literal(`,"type":"function","function":{"name":`)
			c.Raw(b.name)
			c.Literal(`,"arguments":"`)
			c.EscapedJSON(b.input)
			c.Literal(`"}`)
			c.Member("cache_control", b.cacheControl)
			c.Literal("}")
		}
	}
	c.EndCalls()
	c.unanswered = len(c.calls)
	return c.unanswered > 0, nil
}

// lowerUserTurn appends the user and system messages from first on, and returns the message after them. Tool results
// come first, in their original order, wherever they are in the turn.
func (r *Request) lowerUserTurn(first jsondoc.Value) (next jsondoc.Value, e *apierror.Error) {
	for next = first; next.Exists() && r.messageRole(next) != roleAssistant; next = next.Next() {
		if r.messageRole(next) != roleUser {
			continue
		}
		for v := next.Get("content").First(); v.Exists(); v = v.Next() {
			if !v.Get("type").Is("tool_result") {
				continue
			}
			if e := r.lowerResult(v); e != nil {
				return next, e
			}
		}
	}
	if e := r.checkAnswered(); e != nil {
		return next, e
	}
	if e := r.lowerMedia(first); e != nil {
		return next, e
	}
	for m := first; m != next; m = m.Next() {
		if r.messageRole(m) == roleUser {
			e = r.lowerUserMessage(m)
		} else {
			e = r.lowerSystemMessage(m)
		}
		if e != nil {
			return next, e
		}
	}
	return next, nil
}

// lowerSystemMessage appends a system message of the conversation in its place. It may change the effort and the tools.
func (r *Request) lowerSystemMessage(m jsondoc.Value) *apierror.Error {
	c, content := &r.chat, m.Get("content")
	if effort := m.Get("output_config").Get("effort"); clientapi.Given(effort) {
		c.effort = effort
	}
	var b block
	texts := content.Kind() == jsondoc.String
	for v := content.First(); v.Exists(); v = v.Next() {
		var e *apierror.Error
		switch r.scanBlock(v, &b); b.kind {
		case blockText:
			texts = true
		case blockToolAddition:
			e = r.recordToolChange(&b, false)
		case blockToolRemoval:
			e = r.recordToolChange(&b, true)
		default:
			e = r.unknownBlock(&b)
		}
		if e != nil {
			return e
		}
	}
	if !texts {
		return nil
	}
	c.StartMessage(m, "system")
	c.Literal(`,"content":`)
	r.lowerTexts(content)
	c.Literal("}")
	return nil
}

// lowerUserMessage appends a user message without its tool results.
func (r *Request) lowerUserMessage(m jsondoc.Value) *apierror.Error {
	c, content := &r.chat, m.Get("content")
	mark := c.Mark()
	c.StartMessage(m, "user")
	c.Literal(`,"content":`)
	var p partList
	c.beginParts(&p, content)
	var b block
	for v := content.First(); v.Exists(); v = v.Next() {
		r.scanBlock(v, &b)
		if b.kind == blockToolResult {
			p.hasOthers = true
			continue
		}
		if e := r.lowerBlock(&p, &b); e != nil {
			return e
		}
	}
	if !c.endParts(&p) {
		c.Rewind(mark)
		return nil
	}
	c.Literal("}")
	return nil
}

// lowerResult appends a tool result.
func (r *Request) lowerResult(v jsondoc.Value) *apierror.Error {
	var b block
	r.scanBlock(v, &b)
	if e := r.answerCall(&b); e != nil {
		return e
	}
	c := &r.chat
	c.StartMessage(v, "tool")
	c.Member("tool_call_id", b.toolUseID)
	if failed, _ := b.isError.Bool(); failed {
		c.Literal(`,"is_error":true`)
	}
	c.Member("cache_control", b.cacheControl)
	c.Literal(`,"content":`)
	p := partList{result: true}
	c.beginParts(&p, b.content)
	var inner block
	for w := b.content.First(); w.Exists(); w = w.Next() {
		r.scanBlock(w, &inner)
		if e := r.lowerBlock(&p, &inner); e != nil {
			return e
		}
	}
	if !c.endParts(&p) {
		c.Literal(`""`)
	}
	c.Literal("}")
	return nil
}

// answerCall marks the tool use of a result as answered.
func (r *Request) answerCall(b *block) *apierror.Error {
	c := &r.chat
	// Results usually come in the order of the calls.
	for i := range c.calls {
		at := (c.nextCall + i) % len(c.calls)
		call := &c.calls[at]
		if !call.id.SameText(b.toolUseID) {
			continue
		}
		if call.answered {
			return r.invalid(b.self, clientapi.CodeInvalidValue, "each tool_use must have a single result. Found multiple `tool_result` blocks with id: %s", quotable(b.toolUseID.Text()))
		}
		call.answered = true
		c.unanswered--
		c.nextCall = (at + 1) % len(c.calls)
		return nil
	}
	return r.invalid(b.self, clientapi.CodeInvalidValue, "unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.",
		quotable(b.toolUseID.Text()))
}

// checkAnswered checks that all tool uses of the last assistant turn have results, and forgets them.
func (r *Request) checkAnswered() *apierror.Error {
	c := &r.chat
	if c.unanswered > 0 {
		for _, call := range c.calls {
			if !call.answered {
				return r.invalid(call.id, clientapi.CodeInvalidValue, "`tool_use` ids were found without `tool_result` blocks immediately after: %s. Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
					quotable(call.id.Text()))
			}
		}
	}
	c.calls = c.calls[:0]
	return nil
}
