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
// In a stream each choice starts with a chunk that has its role and ends with a chunk that has its finish reason. The
// usage chunk, if the client asked for it, and "[DONE]" come last. Every frame is one line of valid JSON in UTF-8,
// followed by a blank line.
type Renderer struct {
	head    *response.Head
	out     response.Output
	stream  bool
	choices []*choiceState // by index; unused ones are kept for their memory

	prefix  []byte  // start of every chunk, up to and including `"choices":[`; empty if it has to be rebuilt
	sticky  members // short extra members of the response, repeated in every chunk
	once    members // extra members of the response for the next chunk; in a non-streaming response, all of them
	usage   usageMembers
	escaped []byte // scratch for the name of an extra member
}

// NewWriter returns a Writer that renders chat completions.
func NewWriter() *response.Writer { return response.NewWriter(new(Renderer)) }

// choiceState is the state of one choice.
type choiceState struct {
	index    int32
	opened   bool // the chunk with the role has been written
	finished bool
	reason   abi.FinishReason
	native   []byte // the provider's own reason

	message members // extra members of the message; in a stream, for the next delta
	choice  members // extra members of the choice; in a stream, for its next chunk
	tools   []toolState

	// The following are only used for non-streaming responses. Texts are the contents of JSON strings.
	content, refusal []byte
	reasoning        []byte // human-readable reasoning
	details          thinking.Details
}

// toolState is the state of one tool call.
type toolState struct {
	key        int32
	id         []byte
	name, args []byte // only used for non-streaming responses
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

// choiceAt returns the state of a choice and allocates it if necessary.
func (r *Renderer) choiceAt(index int32) *choiceState {
	for int(index) >= len(r.choices) {
		r.choices = append(r.choices, &choiceState{index: int32(len(r.choices))})
	}
	return r.choices[index]
}

// tool returns the tool call with an index and allocates it if necessary. The pointer is valid until the next call.
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
	c := r.choiceAt(choice)
	if !r.stream {
		c.content = append(c.content, s...)
		r.out.Held += len(s)
		return
	}
	r.writeText(c, "content", s, false)
}

// Refusal implements response.Renderer.
func (r *Renderer) Refusal(choice int32, s []byte) {
	c := r.choiceAt(choice)
	if !r.stream {
		c.refusal = append(c.refusal, s...)
		r.out.Held += len(s)
		return
	}
	r.writeText(c, "refusal", s, true)
}

// Reasoning implements response.Renderer.
func (r *Renderer) Reasoning(choice int32, part abi.ReasoningPart, key int32, s []byte) {
	c := r.choiceAt(choice)
	if r.stream {
		r.writeReasoning(c, part, key, s)
		return
	}
	c.details.Add(part, key, s)
	r.out.Held += len(s)
	if isReadable(part) {
		c.reasoning = append(c.reasoning, s...)
		r.out.Held += len(s)
	}
}

// isReadable reports whether a part of the reasoning is human-readable text, which goes into reasoning_content.
func isReadable(p abi.ReasoningPart) bool {
	return p == abi.ReasoningText || p == abi.ReasoningSummary
}

// callID returns the id of the tool call with a key, or nil if there is none.
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
	c := r.choiceAt(choice)
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
	c := r.choiceAt(choice)
	t := c.tool(tool)
	if r.stream {
		r.writeArguments(c, tool, t, s)
		return
	}
	t.args = append(t.args, s...)
	r.out.Held += len(s)
}

// ToolEnd implements response.Renderer. It does nothing, because the format does not mark the end of a call.
func (r *Renderer) ToolEnd(choice, tool int32) {}

// Flush implements response.Renderer. Extra members of the message are content, for example audio, so they may open the
// choice. Extra members of the choice wait until it is open, or for the chunk with the finish reason.
func (r *Renderer) Flush(choice int32, finished bool) {
	c := r.choiceAt(choice)
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
	c := r.choiceAt(choice)
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
	dst = append(append(append(dst, `,"model":"`...), r.head.Model...), '"')
	dst = append(appendFingerprint(dst, &r.once), `,"choices":[`...)
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
		to = &r.choiceAt(choice).choice
	case abi.ScopeMessage:
		to = &r.choiceAt(choice).message
	case abi.ScopeTool:
		to = &r.choiceAt(choice).tool(tool).members
	}
	r.escaped = jsondoc.AppendEscaped(r.escaped[:0], name)
	return r.add(to, value)
}
