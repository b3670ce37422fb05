package messages

import (
	"bytes"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Renderer implements clientapi.Renderer. It writes the events of a stream, or one message.
//
// A message is a list of blocks. Each run of reasoning, of text, and each tool call becomes a block, in the order in
// which they begin. A block of text or reasoning is closed when a block of another kind, or reasoning with another key,
// begins. The block of a tool call is closed when its arguments are complete, so the blocks of calls whose arguments
// are interleaved are open at the same time. content_block_stop events are written in the order of the blocks' indices.
//
// Every thinking block gets a signature, because clients cannot return one without. A signature of Anthropic is written
// unchanged. Anything that another provider has signed or encrypted is sealed (thinking.Sealer), and so is the origin
// of unsigned reasoning. A provider's signature of a tool call becomes the signature of an empty thinking block, and
// its seal names the call.
//
// The API has only one choice, so only the first choice that has content is rendered.
type Renderer struct {
	sealer  *thinking.Sealer
	head    *response.Head
	out     response.Output
	choice  int32 // the choice that is rendered, noChoice before the first content
	started bool  // message_start has been written

	// blocks are the blocks of the message. A stream drops them from the front once their content_block_stop has been
	// written; first is the index in the message of blocks[0].
	blocks  []outBlock
	first   int
	current int    // index in the message of the open block of text or reasoning, -1 if there is none
	prefix  []byte // the frame of a delta of the current block up to its text

	calls   []toolUse // by the Writer's index
	pending int32     // a complete call whose block has not begun (see holdCall), noCall if there is none

	reason       abi.FinishReason
	native       []byte // the provider's own finish reason
	refused      bool   // the choice has a refusal
	stopSequence []byte // the stop sequence that ended the message, as a JSON string; empty if unknown

	renamed []renamedTool // the request's tools that the provider knows by a shorter name

	pass  passing
	token []byte // scratch
}

const (
	noChoice = -1
	noCall   = -1
)

// NewRenderer returns a renderer that seals reasoning with sealer.
func NewRenderer(sealer *thinking.Sealer) *Renderer { return &Renderer{sealer: sealer} }

// Reset implements response.Renderer.
func (r *Renderer) Reset(head *response.Head) *response.Output {
	const keepBlocks, keepCalls = 16, 16
	if cap(r.blocks) > keepBlocks {
		r.blocks = nil
	}
	if cap(r.calls) > keepCalls {
		r.calls = nil
	}
	*r = Renderer{
		sealer: r.sealer, head: head, out: r.out, choice: noChoice,
		blocks: r.blocks[:0], current: -1, prefix: r.prefix[:0], calls: r.calls[:0], pending: noCall,
		stopSequence: r.stopSequence[:0], pass: r.pass.reset(), token: response.Reuse(r.token),
	}
	return &r.out
}

// Respond implements clientapi.Renderer. It copies the tool names of the request that were shortened for the provider.
func (r *Renderer) Respond(to clientapi.Request) {
	q, ok := to.(*Request)
	if !ok {
		return
	}
	for _, name := range q.longNames {
		r.renamed = append(r.renamed, renamedTool{appendShortName(nil, name.Inside()), bytes.Clone(name.Inside())})
	}
}

// ignores reports whether an event of a choice is not rendered. The first choice that it is called with is the one that
// is rendered.
func (r *Renderer) ignores(choice int32) bool {
	if r.pass.on {
		r.pass.begun = true
		return true
	}
	if r.choice == noChoice {
		r.choice = choice
	}
	return choice != r.choice
}

// Text implements response.Renderer.
func (r *Renderer) Text(choice int32, s []byte) {
	if !r.ignores(choice) {
		r.writePiece(outText, 0, 0, s)
	}
}

// Refusal implements response.Renderer.
func (r *Renderer) Refusal(choice int32, s []byte) {
	if !r.ignores(choice) {
		r.refused = true
		r.writePiece(outRefusal, 0, 0, s)
	}
}

// Reasoning implements response.Renderer.
func (r *Renderer) Reasoning(choice int32, part abi.ReasoningPart, key int32, s []byte) {
	switch {
	case r.ignores(choice):
	case part == abi.ReasoningText, part == abi.ReasoningSummary:
		r.writePiece(outThinking, key, part, s)
	default:
		b := r.sealedBlock(part, key)
		b.seal = append(b.seal, s...)
		r.out.Held += len(s)
	}
}

// ToolCall implements response.Renderer.
func (r *Renderer) ToolCall(choice int32, call response.ToolCall) {
	if r.ignores(choice) {
		return
	}
	call.Name = clientToolName(r.renamed, call.Name)
	t := r.addCall(call)
	r.closeOpen()
	if !t.args.add(call.Arguments) {
		r.failCall()
		return
	}
	if t.args.complete() {
		r.holdCall(call.Index, call.Arguments)
		return
	}
	r.beginCall(t, call.Index)
	if len(call.Arguments) > 0 {
		r.writeArguments(t, call.Arguments)
	}
}

// ToolArguments implements response.Renderer.
func (r *Renderer) ToolArguments(choice, tool int32, s []byte) {
	if r.ignores(choice) {
		return
	}
	t := &r.calls[tool]
	started, complete := t.args.started(), t.args.complete()
	switch {
	case !t.args.add(s):
		r.failCall()
	case complete: // only white space can follow
	case !started && string(s) == "{}":
		r.endCall(t) // the block already has this input from its start
	default:
		r.writeArguments(t, s)
		if t.args.complete() {
			r.endCall(t)
		}
	}
}

// ToolEnd implements response.Renderer. It has nothing to do: the end of the arguments shows in their JSON, and for
// incomplete ones only the finish reason shows whether they were cut off (see Finish).
func (r *Renderer) ToolEnd(choice, tool int32) {}

// Member implements response.Renderer. It drops all extra members except stop_sequence, because the API has no place
// for them.
func (r *Renderer) Member(scope abi.Scope, choice, _ int32, name, value []byte) bool {
	if scope == abi.ScopeChoice && string(name) == stopSequenceMember && value[0] == '"' && (choice == r.choice || r.choice == noChoice) {
		r.stopSequence = append(r.stopSequence[:0], value...)
	}
	return true
}

// stopSequenceMember is the extra member of a choice that holds the stop sequence that ended it.
const stopSequenceMember = "stop_sequence"

// Flush implements response.Renderer. It has nothing to do, because Member keeps no other members.
func (r *Renderer) Flush(choice int32, finished bool) {}

// Finish implements response.Renderer.
func (r *Renderer) Finish(choice int32, reason abi.FinishReason, native []byte) {
	if r.ignores(choice) {
		return
	}
	r.reason, r.native = reason, native
	r.closeOpen()
	cut := reason == abi.FinishLength || reason == abi.FinishContentFilter
	for i := range r.calls {
		switch t := &r.calls[i]; {
		case t.block < 0 || t.args.complete():
		case cut:
			r.endCall(t)
		default:
			r.failCall()
			return
		}
	}
}

// failCall fails a response in which the arguments of a tool call are not a JSON object.
func (r *Renderer) failCall() { r.out.Failed = apierror.Fail(abi.FailBadToolCall, "", "", "") }

// Complete implements response.Renderer.
func (r *Renderer) Complete(usage response.Usage) {
	switch {
	case !r.head.Stream:
	case r.pass.on:
		r.completePassed()
	default:
		r.writeMessageStart()
		r.writeEnd(&usage)
	}
}

// AppendError implements response.Renderer.
func (r *Renderer) AppendError(dst []byte, e *apierror.Error) []byte {
	dst = append(dst, "event: error\ndata: "...)
	return append(AppendError(dst, e, r.head.RequestID), "\n\n"...)
}

// stopReason returns the API's stop_reason.
func (r *Renderer) stopReason() string {
	switch string(r.native) {
	case "pause_turn", "model_context_window_exceeded", "compaction", "refusal":
		return string(r.native)
	}
	switch r.reason {
	case abi.FinishLength:
		return "max_tokens"
	case abi.FinishContentFilter:
		return "refusal"
	}
	switch {
	case r.refused:
		return "refusal"
	case len(r.calls) > 0:
		return "tool_use"
	case len(r.stopSequence) > 0:
		return "stop_sequence"
	}
	return "end_turn"
}

// appendStop appends stop_reason and stop_sequence.
func (r *Renderer) appendStop(dst []byte) []byte {
	reason := r.stopReason()
	dst = append(append(append(dst, `"stop_reason":"`...), reason...), `","stop_sequence":`...)
	if reason == "stop_sequence" {
		return append(dst, r.stopSequence...)
	}
	return append(dst, "null"...)
}

// appendID appends the message's ID: the provider's if it has this API's prefix, otherwise the gateway's.
func (r *Renderer) appendID(dst []byte) []byte {
	const prefix = "msg_"
	r.head.Fix()
	if bytes.HasPrefix(r.head.ID, []byte(prefix)) {
		return append(dst, r.head.ID...)
	}
	return appendOwnID(dst, prefix, r.head.OwnID)
}
