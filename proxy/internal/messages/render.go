package messages

import (
	"bytes"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// renderer implements clientapi.Renderer behind clientapi.InOrder. It writes the events of a stream, or one message.
//
// A message is a list of blocks. Each run of reasoning, of text, and each tool call becomes a block. A block is closed
// when the next one begins. The block of a tool call is closed as soon as its arguments are complete.
//
// Every thinking block gets a signature, because clients cannot return one without. A signature of Anthropic is written
// unchanged. Anything that another provider has signed or encrypted is sealed (thinking.Sealer), and so is the origin
// of unsigned reasoning. A provider's signature of a tool call becomes the signature of an empty thinking block, and
// its seal names the call.
type renderer struct {
	sealer  *thinking.Sealer
	head    *response.Head
	out     response.Output
	started bool // message_start has been written

	blocks []outBlock // of the message; in a stream, only the open one
	first  int        // index in the message of blocks[0]
	open   bool       // the last of blocks is open
	prefix []byte     // the frame of a delta of the open block up to its text

	calls []toolUse // by the Writer's index

	reason       abi.FinishReason
	native       []byte // the provider's own finish reason
	refused      bool   // the choice has a refusal
	stopSequence []byte // the stop sequence that ended the message, as a JSON string; empty if unknown

	pass  passing
	token []byte // scratch
}

// NewRenderer returns a renderer that seals reasoning with sealer.
func NewRenderer(sealer *thinking.Sealer) clientapi.Renderer {
	return clientapi.InOrder(&renderer{sealer: sealer})
}

// Reset implements response.Renderer.
func (r *renderer) Reset(head *response.Head) *response.Output {
	const keepBlocks, keepCalls = 16, 16
	if cap(r.blocks) > keepBlocks {
		r.blocks = nil
	}
	if cap(r.calls) > keepCalls {
		r.calls = nil
	}
	*r = renderer{
		sealer: r.sealer, head: head, out: r.out,
		blocks: r.blocks[:0], prefix: r.prefix[:0], calls: r.calls[:0],
		stopSequence: r.stopSequence[:0], pass: r.pass.reset(), token: response.Reuse(r.token),
	}
	return &r.out
}

// Respond implements clientapi.Renderer.
func (r *renderer) Respond(clientapi.Request) {}

// passed reports whether the response, which has content, is passed on instead of rendered.
func (r *renderer) passed() bool {
	r.pass.begun = r.pass.on
	return r.pass.on
}

// Text implements response.Renderer.
func (r *renderer) Text(choice int32, s []byte) {
	if !r.passed() {
		r.writePiece(outText, 0, 0, s)
	}
}

// Refusal implements response.Renderer.
func (r *renderer) Refusal(choice int32, s []byte) {
	if !r.passed() {
		r.refused = true
		r.writePiece(outRefusal, 0, 0, s)
	}
}

// Reasoning implements response.Renderer.
func (r *renderer) Reasoning(choice int32, part abi.ReasoningPart, key int32, s []byte) {
	switch {
	case r.passed():
	case part == abi.ReasoningText, part == abi.ReasoningSummary:
		r.writePiece(outThinking, key, part, s)
	default:
		b := r.sealedBlock(part, key)
		b.seal = append(b.seal, s...)
		r.out.Held += len(s)
	}
}

// ToolCall implements response.Renderer.
func (r *renderer) ToolCall(choice int32, call response.ToolCall) {
	if r.passed() {
		return
	}
	t := r.addCall(call) // before the block of its signature is closed
	if !t.args.add(call.Arguments) {
		r.failCall()
		return
	}
	r.closeOpen()
	b := r.beginBlock(outToolUse, call.Key)
	b.call = call.Index
	if r.head.Stream {
		r.writeStart(b)
	}
	r.writeArguments(t, call.Arguments)
}

// ToolArguments implements response.Renderer.
func (r *renderer) ToolArguments(choice, tool int32, s []byte) {
	if r.passed() {
		return
	}
	t := &r.calls[tool]
	switch complete := t.args.complete(); {
	case !t.args.add(s):
		r.failCall()
	case !complete: // otherwise only white space can follow
		r.writeArguments(t, s)
	}
}

// ToolEnd implements response.Renderer. It has nothing to do: the end of the arguments shows in their JSON, and for
// incomplete ones only the finish reason shows whether they were cut off (see Finish).
func (r *renderer) ToolEnd(choice, tool int32) {}

// Member implements response.Renderer. It drops all extra members except stop_sequence, because the API has no place
// for them.
func (r *renderer) Member(scope abi.Scope, choice, _ int32, name, value []byte) bool {
	if scope == abi.ScopeChoice && string(name) == stopSequenceMember && value[0] == '"' {
		r.stopSequence = append(r.stopSequence[:0], value...)
	}
	return true
}

// stopSequenceMember is the extra member of a choice that holds the stop sequence that ended it.
const stopSequenceMember = "stop_sequence"

// Flush implements response.Renderer. It has nothing to do, because Member keeps no other members.
func (r *renderer) Flush(choice int32, finished bool) {}

// Finish implements response.Renderer.
func (r *renderer) Finish(choice int32, reason abi.FinishReason, native []byte) {
	if r.passed() {
		return
	}
	r.reason, r.native = reason, native
	cut := reason == abi.FinishLength || reason == abi.FinishContentFilter
	for i := range r.calls {
		if !cut && !r.calls[i].args.complete() {
			r.failCall()
			return
		}
	}
	r.closeOpen()
}

// failCall fails a response in which the arguments of a tool call are not a JSON object.
func (r *renderer) failCall() { r.out.Failed = apierror.Fail(abi.FailBadToolCall, "", "", "") }

// Complete implements response.Renderer.
func (r *renderer) Complete(usage response.Usage) {
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
func (r *renderer) AppendError(dst []byte, e *apierror.Error) []byte {
	dst = append(dst, "event: error\ndata: "...)
	return append(AppendError(dst, e, r.head.RequestID), "\n\n"...)
}

// stopReason returns the API's stop_reason.
func (r *renderer) stopReason() string {
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
func (r *renderer) appendStop(dst []byte) []byte {
	reason := r.stopReason()
	dst = append(append(append(dst, `"stop_reason":"`...), reason...), `","stop_sequence":`...)
	if reason == "stop_sequence" {
		return append(dst, r.stopSequence...)
	}
	return append(dst, "null"...)
}

// appendID appends the message's ID: the provider's if it has this API's prefix, otherwise the gateway's.
func (r *renderer) appendID(dst []byte) []byte {
	const prefix = "msg_"
	r.head.Fix()
	if bytes.HasPrefix(r.head.ID, []byte(prefix)) {
		return append(dst, r.head.ID...)
	}
	n := len(dst)
	dst = appendOwnID(dst, prefix, r.head.OwnID)
	r.head.SetClientID(dst[n:])
	return dst
}
