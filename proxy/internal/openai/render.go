package openai

import (
	"strconv"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Renderer implements response.Renderer for chat completions: frames with chat.completion.chunk objects, or one
// chat.completion object.
//
// In a stream each choice begins with one chunk that has its role and ends with one that has its finish reason; the usage
// chunk, where the client asked for it, and "[DONE]" come last. Every frame is one line of valid JSON in UTF-8, and ends
// with a blank line.
type Renderer struct {
	head    *response.Head
	out     response.Output
	stream  bool
	choices []*choiceState // by index; those that are not used hold memory for later

	prefix  []byte  // of every chunk, up to and with `"choices":[`; empty when it must be put together again
	sticky  members // short extra members of the response, in every chunk
	once    members // extra members of the response, for the next chunk; for a non-streaming response all of them
	usage   usageMembers
	escaped []byte // scratch: the name of an extra member
}

// NewWriter returns a writer of chat completions.
func NewWriter() *response.Writer { return response.NewWriter(new(Renderer)) }

// choiceState is the state of one choice.
type choiceState struct {
	index    int32
	opened   bool // the chunk with the role is written
	finished bool
	reason   abi.FinishReason
	native   []byte // the provider's own reason

	message members // extra members of the message, or of the next delta
	choice  members // extra members of the choice, or of the next chunk's
	tools   []toolState

	// Of a non-streaming response. Texts are the inside of JSON strings.
	content, refusal []byte
	reasoning        []byte // the reasoning that people can read
	details          thinking.Details
}

// toolState is the state of one tool call, at its index in the list.
type toolState struct {
	key        int32
	id         []byte
	name, args []byte // of a non-streaming response
	members    members
}

// Reset implements response.Renderer.
func (r *Renderer) Reset(head *response.Head) *response.Output {
	choices := r.choices
	if len(choices) > 8 {
		choices = choices[:8:8]
	}
	for _, c := range choices {
		c.reset()
	}
	r.sticky.reset()
	r.once.reset()
	r.usage.reset()
	r.head, r.stream, r.choices, r.prefix = head, head.Stream, choices, r.prefix[:0]
	return &r.out
}

func (c *choiceState) reset() {
	const keepTools = 16
	for i := range c.tools {
		c.tools[i].members.reset()
	}
	*c = choiceState{
		index:     c.index,
		message:   c.message,
		choice:    c.choice,
		tools:     c.tools[:0],
		content:   response.Reuse(c.content),
		refusal:   response.Reuse(c.refusal),
		reasoning: response.Reuse(c.reasoning),
		details:   c.details,
	}
	c.message.reset()
	c.choice.reset()
	c.details.Reset()
	if cap(c.tools) > keepTools {
		c.tools = nil
	}
}

// at returns a choice's state, making room for it.
func (r *Renderer) at(index int32) *choiceState {
	for int(index) >= len(r.choices) {
		r.choices = append(r.choices, &choiceState{index: int32(len(r.choices))})
	}
	return r.choices[index]
}

// tool returns the tool call with an index, making room for it. The pointer is valid until the next call.
func (c *choiceState) tool(index int32) *toolState {
	for int(index) >= len(c.tools) {
		n := len(c.tools)
		if n == cap(c.tools) {
			c.tools = append(c.tools, toolState{})
			continue
		}
		c.tools = c.tools[:n+1]
		t := &c.tools[n]
		*t = toolState{id: t.id[:0], name: t.name[:0], args: response.Reuse(t.args), members: t.members}
	}
	return &c.tools[index]
}

// Text implements response.Renderer.
func (r *Renderer) Text(choice int32, s []byte) {
	c := r.at(choice)
	if !r.stream {
		c.content = append(c.content, s...)
		r.out.Held += len(s)
		return
	}
	r.writeText(c, "content", s, false)
}

// Refusal implements response.Renderer.
func (r *Renderer) Refusal(choice int32, s []byte) {
	c := r.at(choice)
	if !r.stream {
		c.refusal = append(c.refusal, s...)
		r.out.Held += len(s)
		return
	}
	r.writeText(c, "refusal", s, true)
}

// Reasoning implements response.Renderer.
func (r *Renderer) Reasoning(choice int32, part abi.ReasoningPart, key int32, s []byte) {
	c := r.at(choice)
	if r.stream {
		r.writeReasoning(c, part, key, s)
		return
	}
	c.details.Add(part, key, s)
	r.out.Held += len(s)
	if readable(part) {
		c.reasoning = append(c.reasoning, s...)
		r.out.Held += len(s)
	}
}

// readable reports whether a part of the reasoning is text for people: it goes into reasoning_content.
func readable(p abi.ReasoningPart) bool {
	return p == abi.ReasoningText || p == abi.ReasoningSummary
}

// callID returns the id of the tool call with a key, nil if there is none.
func (c *choiceState) callID(key int32) []byte {
	for i := range c.tools {
		if t := &c.tools[i]; t.key == key {
			return t.id
		}
	}
	return nil
}

// ToolCall implements response.Renderer.
func (r *Renderer) ToolCall(choice int32, call response.ToolCall) {
	c := r.at(choice)
	t := c.tool(call.Index)
	t.key = call.Key
	t.id = append(t.id[:0], call.ID...)
	r.out.Held += len(call.ID)
	if r.stream {
		r.writeCall(c, t, call)
		return
	}
	t.name = append(t.name[:0], call.Name...)
	t.args = append(t.args[:0], call.Arguments...)
	r.out.Held += len(call.Name) + len(call.Arguments)
}

// ToolArguments implements response.Renderer.
func (r *Renderer) ToolArguments(choice, tool int32, s []byte) {
	c := r.at(choice)
	t := c.tool(tool)
	if r.stream {
		r.writeArguments(c, tool, t, s)
		return
	}
	t.args = append(t.args, s...)
	r.out.Held += len(s)
}

// ToolEnd implements response.Renderer. The format does not say where a call ends.
func (r *Renderer) ToolEnd(choice, tool int32) {}

// Flush implements response.Renderer. Extra members of the message are a part of its content, such as sound, and may begin
// it; those of the choice wait until something has, or for the chunk with the finish reason.
func (r *Renderer) Flush(choice int32, finished bool) {
	c := r.at(choice)
	content := len(c.message.list) > 0
	switch {
	case !r.stream:
	case finished && content:
		dst := r.beginChunk(r.appendOpening(r.out.Buf, c, true), c)
		dst = append(r.endDelta(dst, c), `,"finish_reason":null}]`...)
		r.out.Buf = r.endFrame(dst)
	case !finished && (content || c.opened && len(c.choice.list) > 0):
		dst := r.beginChunk(r.appendOpening(r.out.Buf, c, true), c)
		r.out.Buf = r.endChunk(dst, c)
	}
}

// Finish implements response.Renderer.
func (r *Renderer) Finish(choice int32, reason abi.FinishReason, native []byte) {
	c := r.at(choice)
	c.finished, c.reason, c.native = true, reason, native
	if r.stream {
		r.writeFinish(c)
	}
}

// Complete implements response.Renderer.
func (r *Renderer) Complete(usage response.Usage) {
	if !r.stream {
		return
	}
	if r.head.IncludeUsage {
		r.writeUsage(&usage)
	}
	r.out.Buf = append(r.out.Buf, "data: [DONE]\n\n"...)
}

// AppendError implements response.Renderer.
func (r *Renderer) AppendError(dst []byte, e *apierror.Error) []byte {
	return append(clientapi.AppendErrorBody(append(dst, "data: "...), e), "\n\n"...)
}

// AppendResponse implements response.Renderer.
func (r *Renderer) AppendResponse(dst []byte, usage response.Usage) []byte {
	dst = append(append(dst, `{"id":"`...), r.head.ID...)
	dst = append(dst, `","object":"chat.completion","created":`...)
	dst = strconv.AppendInt(dst, r.head.Created, 10)
	dst = append(append(append(dst, `,"model":"`...), r.head.Model...), `","choices":[`...)
	first := true
	for _, c := range r.choices {
		if !c.finished {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = r.appendChoice(dst, c)
	}
	dst = append(dst, `],"usage":`...)
	dst = r.appendUsage(dst, &usage)
	dst = r.once.appendTo(dst)
	return append(dst, '}')
}

// Member implements response.Renderer.
func (r *Renderer) Member(scope abi.Scope, choice, tool int32, name, value []byte) bool {
	to := &r.once
	switch scope {
	case abi.ScopeAnswer:
		r.escaped = jsondoc.AppendEscaped(r.escaped[:0], name)
		return r.addToResponse(value)
	case abi.ScopeUsage:
		to, name = r.usage.object(name)
	case abi.ScopeChoice:
		to = &r.at(choice).choice
	case abi.ScopeMessage:
		to = &r.at(choice).message
	case abi.ScopeTool:
		to = &r.at(choice).tool(tool).members
	}
	r.escaped = jsondoc.AppendEscaped(r.escaped[:0], name)
	return r.add(to, value)
}
