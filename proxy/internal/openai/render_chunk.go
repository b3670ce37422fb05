package openai

import (
	"strconv"

	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// A frame is one "data:" line followed by a blank line. It contains no other line feeds, because its parts are escaped
// or compact JSON.

// appendOpening appends a choice's first chunk, which has the role, unless it has been written. contentNull is set if
// the choice starts with anything that the OpenAI API opens with a null content.
func (r *Renderer) appendOpening(dst []byte, c *choiceState, contentNull bool) []byte {
	if c.opened {
		return dst
	}
	c.opened = true
	dst = r.beginChunk(dst, c)
	if contentNull {
		dst = append(dst, `"role":"assistant","content":null`...)
	} else {
		dst = append(dst, `"role":"assistant","content":""`...)
	}
	dst = append(dst, `},"finish_reason":null}]`...)
	return r.endFrame(dst)
}

// writeText writes a piece of content or refusal.
func (r *Renderer) writeText(c *choiceState, member string, s []byte, contentNull bool) {
	dst := r.appendOpening(r.out.Buf, c, contentNull)
	dst = r.beginChunk(dst, c)
	dst = appendString(dst, member, s)
	r.out.Buf = r.endChunk(dst, c)
}

// writeReasoning writes a piece of reasoning.
func (r *Renderer) writeReasoning(c *choiceState, part abi.ReasoningPart, key int32, s []byte) {
	dst := r.appendOpening(r.out.Buf, c, false)
	dst = r.beginChunk(dst, c)
	if isReadable(part) {
		dst = append(appendString(dst, "reasoning_content", s), ',')
	}
	dst = append(dst, `"reasoning_details":[{"type":`...)
	switch part {
	case abi.ReasoningText:
		dst = appendString(append(dst, `"reasoning.text",`...), "text", s)
	case abi.ReasoningSignature:
		dst = appendString(append(dst, `"reasoning.text",`...), "signature", s)
	case abi.ReasoningSummary:
		dst = appendString(append(dst, `"reasoning.summary",`...), "summary", s)
	case abi.ReasoningEncrypted, abi.ReasoningToolEncrypted:
		dst = appendString(append(dst, `"reasoning.encrypted",`...), "data", s)
		if part == abi.ReasoningToolEncrypted {
			if id := c.callID(key); id != nil {
				dst = append(append(append(dst, `,"id":"`...), id...), '"')
			}
		}
	}
	dst = thinking.AppendOrigin(dst, r.head.ReasoningFormat, key)
	dst = append(dst, `}]`...)
	r.out.Buf = r.endChunk(dst, c)
}

// writeCall writes the start of a tool call.
func (r *Renderer) writeCall(c *choiceState, t *toolState, call response.ToolCall) {
	dst := r.appendOpening(r.out.Buf, c, true)
	if r.head.FunctionCalls {
		r.out.Buf = dst
		r.writeFunctionCall(c, t, call.Index, call.Name, call.Arguments)
		return
	}
	dst = r.beginTool(dst, c, call.Index)
	dst = append(append(dst, `,"id":"`...), call.ID...)
	dst = append(append(dst, `","type":"function","function":{"name":"`...), call.Name...)
	dst = append(append(dst, `","arguments":"`...), call.Arguments...)
	dst = append(dst, `"}`...)
	r.out.Buf = r.endTool(dst, c, t)
}

// writeArguments writes a piece of a tool call's arguments.
func (r *Renderer) writeArguments(c *choiceState, index int32, t *toolState, args []byte) {
	if r.head.FunctionCalls {
		r.writeFunctionCall(c, t, index, nil, args)
		return
	}
	dst := r.beginTool(r.out.Buf, c, index)
	dst = append(append(dst, `,"function":{"arguments":"`...), args...)
	dst = append(dst, `"}`...)
	r.out.Buf = r.endTool(dst, c, t)
}

func (r *Renderer) beginTool(dst []byte, c *choiceState, index int32) []byte {
	dst = append(r.beginChunk(dst, c), `"tool_calls":[{"index":`...)
	return strconv.AppendInt(dst, int64(index), 10)
}

func (r *Renderer) endTool(dst []byte, c *choiceState, t *toolState) []byte {
	dst = r.appendAndRelease(dst, &t.members)
	return r.endChunk(append(dst, `}]`...), c)
}

// writeFunctionCall writes a piece of a tool call as a function_call, which has no id. A message can have only one, so
// calls after the first are left out. A model that still needs them repeats them after it has received the first
// result.
func (r *Renderer) writeFunctionCall(c *choiceState, t *toolState, index int32, name, args []byte) {
	r.out.Held -= t.members.size
	t.members.reset()
	if index > 0 {
		return
	}
	dst := append(r.beginChunk(r.out.Buf, c), `"function_call":{`...)
	if len(name) > 0 {
		dst = append(appendString(dst, "name", name), ',')
	}
	dst = append(appendString(dst, "arguments", args), '}')
	r.out.Buf = r.endChunk(dst, c)
}

// writeFinish writes the last chunk of a choice, with its pending extra members. Those of tool calls are written before
// it, in chunks of their own.
func (r *Renderer) writeFinish(c *choiceState) {
	dst := r.appendOpening(r.out.Buf, c, false)
	for i := range c.tools {
		if t := &c.tools[i]; len(t.members.list) > 0 && !r.head.FunctionCalls {
			dst = r.endTool(r.beginTool(dst, c, int32(i)), c, t)
		}
	}
	dst = r.endDelta(r.beginChunk(dst, c), c)
	dst = r.appendFinish(dst, c)
	r.out.Buf = r.endChoice(dst, c)
}

// finishReasons are the names of finish reasons in the OpenAI API.
var finishReasons = [abi.FinishReasons]string{
	abi.FinishStop:          "stop",
	abi.FinishLength:        "length",
	abi.FinishToolCalls:     "tool_calls",
	abi.FinishContentFilter: "content_filter",
	abi.FinishFunctionCall:  "function_call",
}

// appendFinish appends a choice's finish reason, and the provider's own name of it if that differs.
func (r *Renderer) appendFinish(dst []byte, c *choiceState) []byte {
	reason := finishReasons[c.reason]
	if c.reason == abi.FinishToolCalls && r.head.FunctionCalls {
		reason = finishReasons[abi.FinishFunctionCall]
	}
	dst = append(append(append(dst, `,"finish_reason":"`...), reason...), '"')
	if len(c.native) > 0 && string(c.native) != reason {
		dst = append(append(append(dst, `,"native_finish_reason":"`...), c.native...), '"')
	}
	return dst
}

// writeUsage writes the usage chunk, which has no choices.
func (r *Renderer) writeUsage(u *response.Usage) {
	dst := append(r.appendPrefix(r.out.Buf), ']')
	dst = r.appendAndRelease(dst, &r.once)
	dst = r.appendUsage(append(dst, `,"usage":`...), u)
	r.out.Buf = append(dst, "}\n\n"...)
}

// beginChunk appends the start of a chunk, up to and including the opening brace of its delta.
func (r *Renderer) beginChunk(dst []byte, c *choiceState) []byte {
	dst = append(r.appendPrefix(dst), `{"index":`...)
	dst = strconv.AppendInt(dst, int64(c.index), 10)
	return append(dst, `,"delta":{`...)
}

// endChunk appends the rest of a chunk that does not finish its choice.
func (r *Renderer) endChunk(dst []byte, c *choiceState) []byte {
	dst = append(r.endDelta(dst, c), `,"finish_reason":null`...)
	return r.endChoice(dst, c)
}

func (r *Renderer) endDelta(dst []byte, c *choiceState) []byte {
	from := len(dst)
	dst = r.appendAndRelease(dst, &c.message)
	if dst[from-1] == '{' {
		dst = dropComma(dst, from)
	}
	return append(dst, '}')
}

func (r *Renderer) endChoice(dst []byte, c *choiceState) []byte {
	dst = r.appendAndRelease(dst, &c.choice)
	return r.endFrame(append(dst, `}]`...))
}

// endFrame appends the members after the choices, in every chunk except the usage chunk.
func (r *Renderer) endFrame(dst []byte) []byte {
	dst = r.appendAndRelease(dst, &r.once)
	if r.head.IncludeUsage {
		dst = append(dst, `,"usage":null`...)
	}
	return append(dst, "}\n\n"...)
}

// appendPrefix appends the common start of all chunks. It is cached until a sticky member changes.
func (r *Renderer) appendPrefix(dst []byte) []byte {
	if len(r.prefix) == 0 {
		r.head.Fix()
		p := append(r.prefix, `data: {"id":"`...)
		p = append(p, r.head.ID...)
		p = append(p, `","object":"chat.completion.chunk","created":`...)
		p = strconv.AppendInt(p, r.head.Created, 10)
		p = append(append(append(p, `,"model":"`...), r.head.Model...), '"')
		p = appendFingerprint(r.sticky.appendTo(p), &r.sticky)
		r.prefix = append(p, `,"choices":[`...)
	}
	return append(dst, r.prefix...)
}

// appendAndRelease appends extra members, each with a comma before it, and removes them from ms.
func (r *Renderer) appendAndRelease(dst []byte, ms *members) []byte {
	if len(ms.list) == 0 {
		return dst
	}
	dst = ms.appendTo(dst)
	r.out.Held -= ms.size
	ms.reset()
	return dst
}

// appendString appends a member that is a string; s is escaped.
func appendString(dst []byte, name string, s []byte) []byte {
	dst = append(append(append(dst, '"'), name...), `":"`...)
	return append(append(dst, s...), '"')
}
