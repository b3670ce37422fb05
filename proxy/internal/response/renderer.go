package response

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Renderer spells a response in one client API: the frames of a stream, or the body of a non-streaming response, for which
// it collects what it is given in the order that the API wants.
//
// The Writer calls it only with what has been checked, in an order that is right: nothing for a choice after its Finish,
// arguments only between ToolCall and ToolEnd, nothing after Complete. Choices are numbered as the client numbers them, and
// tool calls by their order within the choice, both from 0 and without gaps for tool calls.
//
// No method fails, but a response that the API cannot spell is given up by Output.Failed.
//
// Texts, names and IDs are the inside of a JSON string: valid UTF-8, escaped, to be copied between quotes. Values are
// compact JSON. Both are valid during the call only.
//
// Every call leaves complete frames in the Output: the Writer may send it between any two batches.
type Renderer interface {
	// Reset begins another response. The renderer keeps head, and returns where it will write: the same Output each time,
	// which the Writer empties.
	Reset(head *Head) *Output

	// Text appends to a choice's content, Refusal to its refusal.
	Text(choice int32, s []byte)
	Refusal(choice int32, s []byte)

	// Reasoning appends to a part of the reasoning block with a key.
	Reasoning(choice int32, part abi.ReasoningPart, key int32, s []byte)

	// ToolCall begins a tool call, ToolArguments appends to its arguments, ToolEnd says that they are complete. A call that
	// was cut off has no ToolEnd.
	ToolCall(choice int32, call ToolCall)
	ToolArguments(choice, tool int32, s []byte)
	ToolEnd(choice, tool int32)

	// Member adds a member that the chat completions format does not name to the response, its usage, a choice, a message
	// or a tool call. Members that belong to one event of the provider with a text, a piece of reasoning or a tool call come
	// before it, so that all of it can go into one frame: also those of a tool call that is about to begin. name is not
	// escaped. Member reports false if there is no room for another.
	Member(scope abi.Scope, choice, tool int32, name, value []byte) bool

	// Flush writes the members of a choice that is being streamed and that nothing has come with: at the end of a batch,
	// and, with finished set, when the provider has given the reason why the choice ended. The finish reason itself waits for Finish,
	// because the provider may still fail.
	Flush(choice int32, finished bool)

	// Frame writes an event of a provider that speaks the client's API, or the body of a non-streaming response, as it came. Only
	// a reader of that API makes them, and a renderer that is given them writes nothing else.
	Frame(name, data []byte)

	// Finish ends a choice. native is the provider's own reason, empty if it gave none, and valid until the next Reset.
	Finish(choice int32, reason abi.FinishReason, native []byte)

	// Complete ends the response.
	Complete(usage Usage)

	// AppendError appends the frame that ends a stream with an error.
	AppendError(dst []byte, e *apierror.Error) []byte

	// AppendResponse appends the body of a non-streaming response that is complete.
	AppendResponse(dst []byte, usage Usage) []byte
}

// Tap is a Renderer in front of another one, of one response: it sees what that one is called with, and passes all of it on.
type Tap interface {
	Renderer

	// Over says which Renderer that is, before anything else.
	Over(Renderer)
}

// Output is where a renderer writes. It is shared with the Writer, so that neither calls the other to look at it.
type Output struct {
	Buf  []byte // frames that have not been sent
	Held int    // bytes that the renderer keeps in memory besides Buf

	// Failed is why the response cannot be spelled in the client's API, nil if it can. It ends the response.
	Failed *apierror.Error
}

// ToolCall is the beginning of a tool call. Arguments is what came with it, and may be empty.
type ToolCall struct {
	Index     int32 // in the order in which the choice's calls began
	Key       int32 // the provider's number of the block: reasoning with the same key belongs to the call
	ID, Name  []byte
	Arguments []byte
}

// Head is what holds for a response as a whole. It belongs to the Writer; a renderer reads it. ID, Model and
// ReasoningFormat are escaped for JSON.
type Head struct {
	Stream        bool
	IncludeUsage  bool   // the client asked for usage at the end of a stream
	FunctionCalls bool   // the client knows function_call, not tool_calls
	Created       int64  // Unix seconds
	RequestID     string // the gateway's
	OwnID         string // the gateway's ID of the response, for what a renderer derives from it

	ID, Model       []byte // may change until Fix
	ReasoningFormat []byte // may change until the first piece of reasoning

	ownModel              string // where the provider gives none
	fixed, fixedReasoning bool

	usage func() Usage // the Writer's
}

// Usage is the tokens so far, for an API that gives them at the beginning of a response, too.
func (h *Head) Usage() Usage { return h.usage() }

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

// set takes the provider's facts, as far as they are not known and not final.
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

// reset begins another response in the same memory.
func (h *Head) reset(o *Options) {
	*h = Head{
		Stream: o.Stream, IncludeUsage: o.IncludeUsage, FunctionCalls: o.FunctionCalls, Created: o.Created, OwnID: o.ID, RequestID: o.RequestID,
		ID: h.ID[:0], Model: h.Model[:0], ReasoningFormat: h.ReasoningFormat[:0],
		ownModel: o.Model, usage: h.usage,
	}
}
