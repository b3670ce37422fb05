package messages

import (
	"bytes"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Renderer implements clientapi.Renderer: the events of a stream, or one message.
//
// A message is a list of blocks, in the order in which what they hold began: reasoning, text and tool calls as they come, a
// block for each run. A block is closed when one of another kind begins, or reasoning with another key; that of a tool call
// when its arguments are complete, so that the blocks of calls whose arguments come by turns are open at the same time. Blocks
// stop in the order of their indices.
//
// A thinking block always has a signature, since clients cannot return one without. What Anthropic has signed goes as it is;
// what another provider has signed or encrypted goes sealed, and so does the origin of reasoning that nobody has signed
// (thinking.Sealer). The signature of a tool call is that of an empty thinking block, which names the call.
//
// Only one choice is rendered, the first that has content: the API has no other.
type Renderer struct {
	sealer  *thinking.Sealer
	head    *response.Head
	out     response.Output
	choice  int32 // the one that is rendered, noChoice until one has begun
	started bool  // message_start is written

	// blocks are those of the message; in a stream only those from the first one on that has not stopped. first is the index
	// of blocks[0] among all.
	blocks  []outBlock
	first   int
	current int    // index among all of the open block that is no call's, -1 if there is none
	prefix  []byte // what a delta of the current block begins with

	calls   []toolUse // by the Writer's index
	pending int32     // a whole call whose block has not begun: see holdCall; noCall if there is none

	reason       abi.FinishReason
	native       []byte // the provider's own reason
	refused      bool   // there is a refusal
	stopSequence []byte // the one that ended the message, a JSON string; empty if unknown

	renamed []renamed // tools of the request

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

// Respond implements clientapi.Renderer. Of its request a response needs the tools whose names were too long for the provider.
func (r *Renderer) Respond(to clientapi.Request) {
	q, ok := to.(*Request)
	if !ok {
		return
	}
	for _, name := range q.longNames {
		r.renamed = append(r.renamed, renamed{appendShortName(nil, name.Inside()), bytes.Clone(name.Inside())})
	}
}

// ignores reports whether an event of a choice is not rendered. The first choice with content is.
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
	call.Name = ownName(r.renamed, call.Name)
	t := r.addCall(call)
	r.closeOpen()
	if !t.args.add(call.Arguments) {
		r.failCall()
		return
	}
	if t.args.whole() {
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
	begun, whole := t.args.begun(), t.args.whole()
	switch {
	case !t.args.add(s):
		r.failCall()
	case whole: // white space
	case !begun && string(s) == "{}":
		r.endCall(t) // the block has it from its start
	default:
		r.writeArguments(t, s)
		if t.args.whole() {
			r.endCall(t)
		}
	}
}

// ToolEnd implements response.Renderer. Arguments show themselves where they end, and if they have not, only the reason for which
// the message ended shows whether they were cut off.
func (r *Renderer) ToolEnd(choice, tool int32) {}

// Member implements response.Renderer. The API has no place for the members that others add.
func (r *Renderer) Member(scope abi.Scope, choice, _ int32, name, value []byte) bool {
	if scope == abi.ScopeChoice && string(name) == stopSequenceMember && value[0] == '"' && (choice == r.choice || r.choice == noChoice) {
		r.stopSequence = append(r.stopSequence[:0], value...)
	}
	return true
}

// stopSequenceMember is the extra member of a choice that holds the stop sequence which ended it.
const stopSequenceMember = "stop_sequence"

// Flush implements response.Renderer: see Member.
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
		case t.block < 0 || t.args.whole():
		case cut:
			r.endCall(t)
		default:
			r.failCall()
			return
		}
	}
}

// failCall ends a response in which the model has called a tool with what is no JSON object.
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

// stopReason is why the message ended, in the API's words.
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

// appendStop appends the members that say why the message ended.
func (r *Renderer) appendStop(dst []byte) []byte {
	reason := r.stopReason()
	dst = append(append(append(dst, `"stop_reason":"`...), reason...), `","stop_sequence":`...)
	if reason == "stop_sequence" {
		return append(dst, r.stopSequence...)
	}
	return append(dst, "null"...)
}

// appendID appends the message's ID: the provider's if it is one of this API, else the gateway's.
func (r *Renderer) appendID(dst []byte) []byte {
	const prefix = "msg_"
	r.head.Fix()
	if bytes.HasPrefix(r.head.ID, []byte(prefix)) {
		return append(dst, r.head.ID...)
	}
	return appendOwnID(dst, prefix, r.head.OwnID)
}
