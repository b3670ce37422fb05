package response

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Renderer renders a response in one client API, either as the frames of a stream or as the body of a non-streaming
// response, whose parts it collects in the order that the API requires.
//
// The Writer only passes checked input, in a valid order: nothing for a choice after its Finish, arguments only between
// ToolCall and ToolEnd, nothing after Complete. Choices have the index that the client sees; tool calls are numbered in
// order within their choice. Both start at 0, and tool call numbers have no gaps.
//
// No method returns an error. A renderer rejects a response that its API cannot represent by setting Output.Failed.
//
// Texts, names and IDs are the contents of a JSON string: valid UTF-8, escaped, ready to be copied between quotes.
// Values are compact JSON. Both are valid only during the call.
//
// After every call the Output holds complete frames only, because the Writer may send it between any two batches.
type Renderer interface {
	// Reset starts another response. The renderer keeps head and returns the Output that it will write to. It is the
	// same Output each time, and the Writer empties it.
	Reset(head *Head) *Output

	// Text appends to a choice's content, Refusal to its refusal.
	Text(choice int32, s []byte)
	Refusal(choice int32, s []byte)

	// Reasoning appends to a part of the reasoning block identified by key.
	Reasoning(choice int32, part abi.ReasoningPart, key int32, s []byte)

	// ToolCall starts a tool call, ToolArguments appends to its arguments, and ToolEnd marks them as complete. A
	// truncated call has no ToolEnd.
	ToolCall(choice int32, call ToolCall)
	ToolArguments(choice, tool int32, s []byte)
	ToolEnd(choice, tool int32)

	// Member adds a member outside of the chat completions format to the response, its usage, a choice, a message or a
	// tool call. If the provider sent members together with a text, a piece of reasoning or a tool call, Member is
	// called first, so that everything fits into one frame; this includes members of the tool call that is about to
	// start. name is not escaped. Member reports false if the limit on extra members is reached.
	Member(scope abi.Scope, choice, tool int32, name, value []byte) bool

	// Flush writes the pending members of a streamed choice that no other output has carried. The Writer calls it at
	// the end of a batch and, with finished set, when the provider has given the choice's finish reason. The finish
	// reason itself is held back until Finish, because the provider may still fail.
	Flush(choice int32, finished bool)

	// Frame writes an event or the body of a non-streaming response unchanged, from a provider that speaks the client's
	// API. Only the native reader of that API produces frames, and a renderer that receives frames writes nothing else.
	Frame(name, data []byte)

	// Finish ends a choice. native is the provider's own reason, empty if it gave none. It is valid until the next
	// Reset.
	Finish(choice int32, reason abi.FinishReason, native []byte)

	// Complete ends the response.
	Complete(usage Usage)

	// AppendError appends the frame that ends a stream with an error.
	AppendError(dst []byte, e *apierror.Error) []byte

	// AppendResponse appends the body of a complete non-streaming response.
	AppendResponse(dst []byte, usage Usage) []byte
}

// Tap is a Renderer that observes the calls of one response and forwards all of them to the next Renderer.
type Tap interface {
	Renderer

	// SetNext sets the Renderer to forward to. It is called once per response, before any other method.
	SetNext(Renderer)
}

// Output is where a renderer writes. Renderer and Writer share it, so that neither needs a call to read it.
type Output struct {
	Buf  []byte // frames that have not been sent
	Held int    // bytes that the renderer keeps in memory besides Buf

	// Failed is the reason why the client's API cannot represent the response, nil if it can. It ends the response.
	Failed *apierror.Error
}

// ToolCall is the start of a tool call. Arguments holds the arguments that arrived with it and may be empty.
type ToolCall struct {
	Index     int32 // position in the order in which the choice's calls started
	Key       int32 // the provider's number of the block; reasoning with the same key belongs to the call
	ID, Name  []byte
	Arguments []byte
}

// Head holds the values that apply to a response as a whole. The Writer owns it; renderers only read it. ID, Model and
// ReasoningFormat are escaped for JSON.
type Head struct {
	Stream        bool
	IncludeUsage  bool   // the client asked for usage at the end of a stream
	FunctionCalls bool   // the client uses function_call instead of tool_calls
	Created       int64  // Unix seconds
	RequestID     string // the gateway's ID of the request
	OwnID         string // the gateway's ID of the response; renderers derive other IDs from it

	ID, Model       []byte // may change until Fix
	clientID        []byte // set by SetClientID
	ReasoningFormat []byte // may change until the first piece of reasoning

	ownModel              string // Model if the provider names none
	fixed, fixedReasoning bool

	usage func() Usage // Writer.Usage
}

// Usage returns the tokens so far, for APIs that also report usage at the start of a response.
func (h *Head) Usage() Usage { return h.usage() }

// SetClientID records the response's ID as the client receives it, escaped for JSON, if it is not ID.
func (h *Head) SetClientID(id []byte) { h.clientID = append(h.clientID[:0], id...) }

// Fix makes ID and Model final. A renderer calls it before the client can see either of them.
func (h *Head) Fix() {
	if h.fixed {
		return
	}
	h.fixed = true
	if len(h.ID) == 0 {
		h.ID = jsondoc.AppendEscaped(h.ID, []byte(h.OwnID))
	}
	if len(h.Model) == 0 {
		h.Model = jsondoc.AppendEscaped(h.Model, []byte(h.ownModel))
	}
}

// set stores the provider's values, except those that are already set or final.
func (h *Head) set(id, model, reasoningFormat []byte) {
	if len(h.ID) == 0 && !h.fixed {
		h.ID = jsondoc.AppendEscaped(h.ID, id)
	}
	if len(h.Model) == 0 && !h.fixed {
		h.Model = jsondoc.AppendEscaped(h.Model, model)
	}
	if len(h.ReasoningFormat) == 0 && !h.fixedReasoning {
		h.ReasoningFormat = jsondoc.AppendEscaped(h.ReasoningFormat, reasoningFormat)
	}
}

// reset starts another response and reuses the memory of the last one.
func (h *Head) reset(o *Options) {
	*h = Head{
		Stream: o.Stream, IncludeUsage: o.IncludeUsage, FunctionCalls: o.FunctionCalls, Created: o.Created, OwnID: o.ID, RequestID: o.RequestID,
		ID: h.ID[:0], Model: h.Model[:0], clientID: h.clientID[:0], ReasoningFormat: h.ReasoningFormat[:0],
		ownModel: o.Model, usage: h.usage,
	}
}
