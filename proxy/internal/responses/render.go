package responses

import (
	"bytes"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Renderer implements clientapi.Renderer for the Responses API: the events of a stream, or one response object. A response has
// one choice; others are left out.
//
// The items of the output are numbered in the order in which they begin. At most one message or piece of reasoning is open:
// it is done when something else begins. Any number of tool calls is open besides; they are done in their order. What an item
// holds is kept, once, until the response has ended, since the API repeats all of it when the item is done, and again in
// the last event.
type Renderer struct {
	sealer        *thinking.Sealer
	memory        *Memory // nil: no response is kept
	showReasoning bool
	now           func() time.Time

	head    *response.Head
	out     response.Output
	asked   asked
	client  string         // whose response is kept
	id      [idLength]byte // of what the ids of the response and of its items are made
	stream  bool
	started bool  // response.created has been written
	seq     int64 // of the next event
	pass    passing

	items   []outputItem // in their order; those beyond its length hold memory for later
	current int          // the open item that is not a call, -1 if there is none
	calls   []int        // the items that are calls, by the index of the call
	open    int          // the first of calls that is not done

	annotations []byte // for the next message: without brackets
	logprobs    []byte // for the next piece of text: without brackets
	reason      abi.FinishReason

	deltas  int    // the item that delta is for, -1 if there is none
	delta   []byte // an event with a piece of it, up to the sequence number
	scratch []byte
}

// outputItem is an item of the output. All texts are the inside of JSON strings.
type outputItem struct {
	kind    outputKind
	state   outputState
	key     int32  // of reasoning: the number of its block, or of the call that it belongs to
	ofCall  bool   // of reasoning: it belongs to a call
	summary bool   // of reasoning: text is a summary
	text    []byte // the content, the readable reasoning, the arguments or the input

	annotations, logprobs   []byte // of a message: without brackets
	annotated               int    // how many annotations there are
	signature, encrypted    []byte // of reasoning
	callID, name, namespace []byte // of a call
	input                   unwrapper
}

type outputKind uint8

const (
	outputMessage outputKind = iota
	outputRefusal            // a message with a refusal
	outputReasoning
	outputCall
	outputCustomCall
)

func (k outputKind) isCall() bool { return k >= outputCall }

type outputState uint8

const (
	outputOpen  outputState = iota
	outputWhole             // a call that is complete, while one before it is not
	outputDone              // its last event has been written
	outputCut               // the same, and it is incomplete
)

// Reset implements response.Renderer.
func (r *Renderer) Reset(head *response.Head) *response.Output {
	const keepItems, keepCalls = 16, 64
	if cap(r.items) > keepItems {
		r.items = nil
	}
	if cap(r.calls) > keepCalls {
		r.calls = nil
	}
	r.asked.reset()
	r.pass.reset()
	*r = Renderer{
		sealer: r.sealer, memory: r.memory, showReasoning: r.showReasoning, now: r.now,
		head: head, stream: head.Stream, asked: r.asked, pass: r.pass,
		items: r.items[:0], calls: r.calls[:0], current: -1, deltas: -1,
		annotations: response.Reuse(r.annotations), logprobs: response.Reuse(r.logprobs), delta: r.delta[:0], scratch: response.Reuse(r.scratch),
		out: r.out,
	}
	return &r.out
}

// begin adds an item to the output. It is open.
func (r *Renderer) begin(kind outputKind) int {
	n := len(r.items)
	if n == cap(r.items) {
		r.items = append(r.items, outputItem{})
	}
	r.items = r.items[:n+1]
	it := &r.items[n]
	*it = outputItem{
		kind: kind, text: response.Reuse(it.text), annotations: response.Reuse(it.annotations), logprobs: response.Reuse(it.logprobs),
		signature: response.Reuse(it.signature), encrypted: response.Reuse(it.encrypted),
		callID: it.callID[:0], name: it.name[:0], namespace: it.namespace[:0], input: it.input,
	}
	it.input.reset()
	return n
}

// hold appends to what is kept until the response has ended.
func (r *Renderer) hold(dst, s []byte) []byte {
	r.out.Held += len(s)
	return append(dst, s...)
}

// silent reports whether a choice is not rendered.
func (r *Renderer) silent(choice int32) bool { return choice != 0 || r.pass.on }

// Text implements response.Renderer.
func (r *Renderer) Text(choice int32, s []byte) {
	if r.silent(choice) {
		return
	}
	n := r.openMessage(outputMessage)
	if len(r.annotations) > 0 {
		r.annotateAll(n)
	}
	it := &r.items[n]
	it.text = r.hold(it.text, s)
	if len(r.logprobs) > 0 {
		if len(it.logprobs) > 0 {
			it.logprobs = append(it.logprobs, ',')
		}
		it.logprobs = r.hold(it.logprobs, r.logprobs)
	}
	if r.stream {
		r.writeDelta(n, s)
	}
	r.logprobs = r.logprobs[:0]
}

// Refusal implements response.Renderer.
func (r *Renderer) Refusal(choice int32, s []byte) {
	if r.silent(choice) {
		return
	}
	n := r.openMessage(outputRefusal)
	r.items[n].text = r.hold(r.items[n].text, s)
	if r.stream {
		r.writeDelta(n, s)
	}
}

// openMessage returns the open message of a kind, after beginning one if need be.
func (r *Renderer) openMessage(kind outputKind) int {
	if r.current >= 0 && r.items[r.current].kind == kind {
		return r.current
	}
	r.endCurrent(outputDone)
	r.current = r.begin(kind)
	if r.stream {
		r.writeAdded(r.current)
	}
	return r.current
}

// endCurrent ends the open item that is not a call, if there is one.
func (r *Renderer) endCurrent(state outputState) {
	if r.current >= 0 {
		r.end(r.current, state)
		r.current = -1
	}
}

// end ends an item.
func (r *Renderer) end(n int, state outputState) {
	it := &r.items[n]
	if it.kind == outputCustomCall {
		r.addInput(n, it.input.end(r.scratch[:0]))
	}
	it.state = state
	if r.stream {
		r.writeDone(n)
	}
}

// Reasoning implements response.Renderer.
func (r *Renderer) Reasoning(choice int32, part abi.ReasoningPart, key int32, s []byte) {
	if r.silent(choice) {
		return
	}
	readable := part == abi.ReasoningText || part == abi.ReasoningSummary
	if !readable && !r.asked.seals {
		return // only its provider could read it, and would not get it back
	}
	n := r.openReasoning(part, key)
	it := &r.items[n]
	switch {
	case part == abi.ReasoningSignature:
		it.signature = r.hold(it.signature, s)
	case !readable:
		it.encrypted = r.hold(it.encrypted, s)
	case r.asked.reasoning == reasoningHidden && !r.asked.seals:
	default:
		first := len(it.text) == 0
		it.summary = part == abi.ReasoningSummary
		it.text = r.hold(it.text, s)
		if r.stream && r.asked.reasoning != reasoningHidden {
			if first {
				r.writePartAdded(n)
			}
			r.writeDelta(n, s)
		}
	}
}

// openReasoning returns the open item that a part of a block belongs to, after beginning one if need be.
func (r *Renderer) openReasoning(part abi.ReasoningPart, key int32) int {
	ofCall := part == abi.ReasoningToolEncrypted
	if r.current >= 0 {
		it := &r.items[r.current]
		other := len(it.text) > 0 && (part == abi.ReasoningText && it.summary || part == abi.ReasoningSummary && !it.summary)
		if it.kind == outputReasoning && it.key == key && it.ofCall == ofCall && !other {
			return r.current
		}
	}
	r.endCurrent(outputDone)
	r.current = r.begin(outputReasoning)
	r.items[r.current].key, r.items[r.current].ofCall = key, ofCall
	if r.stream {
		r.writeAdded(r.current)
	}
	return r.current
}

// ToolCall implements response.Renderer.
func (r *Renderer) ToolCall(choice int32, call response.ToolCall) {
	if r.silent(choice) {
		return
	}
	r.endCurrent(outputDone)
	kind, namespace, name := outputCall, []byte(nil), call.Name
	if t := r.asked.tool(call.Name); t != nil {
		namespace, name = t.namespace, t.name
		if t.custom {
			kind = outputCustomCall
		}
	}
	n := r.begin(kind)
	it := &r.items[n]
	it.key = call.Key
	it.callID = appendCallID(it.callID, call.ID)
	it.name, it.namespace = append(it.name, name...), append(it.namespace, namespace...)
	r.out.Held += len(it.callID) + len(it.name) + len(it.namespace)
	for int(call.Index) >= len(r.calls) {
		r.calls = append(r.calls, n)
	}
	if r.stream {
		r.writeAdded(n)
	}
	if len(call.Arguments) > 0 {
		r.ToolArguments(choice, call.Index, call.Arguments)
	}
}

// appendCallID appends the id of a call as clients accept it: it is no more than a name for its result to refer to.
func appendCallID(dst, id []byte) []byte {
	for _, c := range id {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' {
			dst = append(dst, c)
		} else {
			dst = append(dst, '_')
		}
	}
	return dst
}

// ToolArguments implements response.Renderer.
func (r *Renderer) ToolArguments(choice, tool int32, s []byte) {
	if r.silent(choice) {
		return
	}
	n := r.calls[tool]
	it := &r.items[n]
	if it.kind == outputCustomCall {
		r.addInput(n, it.input.add(r.scratch[:0], s))
		return
	}
	it.text = r.hold(it.text, s)
	if r.stream {
		r.writeDelta(n, s)
	}
}

// addInput adds to the input of a custom tool. s is in the scratch memory.
func (r *Renderer) addInput(n int, s []byte) {
	r.scratch = s[:0]
	if len(s) == 0 {
		return
	}
	it := &r.items[n]
	it.text = r.hold(it.text, s)
	if r.stream {
		r.writeDelta(n, s)
	}
}

// ToolEnd implements response.Renderer.
func (r *Renderer) ToolEnd(choice, tool int32) {
	if r.silent(choice) {
		return
	}
	r.items[r.calls[tool]].state = outputWhole
	for r.open < len(r.calls) && r.items[r.calls[r.open]].state == outputWhole {
		r.end(r.calls[r.open], outputDone)
		r.open++
	}
}

// Flush implements response.Renderer. Nothing waits: members that this API has no place for are left out.
func (r *Renderer) Flush(choice int32, finished bool) {}

// Finish implements response.Renderer.
func (r *Renderer) Finish(choice int32, reason abi.FinishReason, native []byte) {
	if r.silent(choice) {
		return
	}
	r.reason = reason
	state := outputDone
	if r.status() == statusIncomplete {
		state = outputCut
	}
	for n := range r.items {
		switch r.items[n].state {
		case outputOpen:
			r.end(n, state)
		case outputWhole:
			r.end(n, outputDone)
		}
	}
	r.current, r.open = -1, len(r.calls)
}

// Complete implements response.Renderer.
func (r *Renderer) Complete(usage response.Usage) {
	if r.pass.on {
		r.pass.complete(&r.out)
		return
	}
	r.keep(&usage)
	if !r.stream {
		return
	}
	r.start()
	r.beginEvent("response." + r.status())
	r.endResponse(&usage, nil)
}

// AppendError implements response.Renderer: response.failed is the last event.
func (r *Renderer) AppendError(dst []byte, e *apierror.Error) []byte {
	buf := r.out.Buf
	r.out.Buf = dst
	if r.pass.on {
		r.pass.begin(&r.out)
		r.seq, r.started = r.pass.frames, r.started || r.pass.frames > 0
	}
	r.start()
	r.beginEvent("response.failed")
	r.endResponse(nil, e)
	dst, r.out.Buf = r.out.Buf, buf
	return dst
}

// AppendResponse implements response.Renderer.
func (r *Renderer) AppendResponse(dst []byte, usage response.Usage) []byte {
	if r.pass.on {
		return append(dst, r.pass.last...)
	}
	return r.appendResponse(dst, r.status(), &usage, nil, true)
}

// Frame implements response.Renderer.
func (r *Renderer) Frame(name, data []byte) { r.pass.frame(&r.out, r.stream, name, data) }

// Pass implements clientapi.Renderer.
func (r *Renderer) Pass() { r.pass.on = true }

// Member implements response.Renderer. Of the members that chat completions do not name, this API knows the annotations of a
// text and its log probabilities.
func (r *Renderer) Member(scope abi.Scope, choice, tool int32, name, value []byte) bool {
	switch {
	case r.silent(choice):
	case scope == abi.ScopeMessage && bytes.Equal(name, []byte("annotations")):
		return r.addAnnotations(value)
	case scope == abi.ScopeChoice && r.asked.logprobs && bytes.Equal(name, []byte("logprobs")):
		return r.addLogprobs(value)
	}
	return true
}
