package responses

import (
	"bytes"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Renderer implements clientapi.Renderer for the Responses API. It writes the events of a stream, or one response
// object. Only the first choice is rendered, because a response has no others.
//
// The items of the output are numbered in the order in which they begin. At most one message or reasoning item is open,
// and it ends when another item begins. Any number of tool calls can be open at the same time, and they end in their
// order. The text of each item is kept until the response has ended, because the API repeats it when the item is done
// and again in the last event.
type Renderer struct {
	sealer        *thinking.Sealer
	memory        *Memory // nil: no response is kept
	showReasoning bool
	now           func() time.Time

	head    *response.Head
	out     response.Output
	request requestInfo
	client  string         // the client that a stored response belongs to
	id      [idLength]byte // the common part of the IDs of the response and its items
	stream  bool
	started bool  // response.created has been written
	seq     int64 // sequence number of the next event
	pass    passing

	items     []outputItem // elements beyond its length are reused with their memory
	current   int          // index of the open message or reasoning item, -1 if there is none
	calls     []int        // indices of the items that are calls, by the index of the call
	firstOpen int          // index in calls of the first call whose end has not been written

	annotations []byte // elements of a JSON array for the next message
	logprobs    []byte // elements of a JSON array for the next piece of text
	reason      abi.FinishReason

	deltaItem int    // index of the item that delta is for, -1 if there is none
	delta     []byte // a delta event of that item, up to the sequence number
	scratch   []byte
}

// outputItem is an item of the output. Its texts are still escaped: the inside of JSON strings.
type outputItem struct {
	kind    outputKind
	state   outputState
	key     int32  // key of the reasoning or call; for reasoning with ofCall, the key of that call
	ofCall  bool   // reasoning: it belongs to a call
	summary bool   // reasoning: text is a summary
	text    []byte // the content, the readable reasoning, the arguments or the input

	annotations, logprobs   []byte    // message: elements of JSON arrays
	annotated               int       // message: number of annotations
	signature, encrypted    []byte    // reasoning
	callID, name, namespace []byte    // call
	input                   unwrapper // custom call
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
	outputOpen       outputState = iota
	outputComplete               // a complete call that waits for the end of an earlier call
	outputDone                   // complete, and its last event has been written
	outputIncomplete             // cut off, and its last event has been written
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
	r.request.reset()
	r.pass.reset()
	*r = Renderer{
		sealer: r.sealer, memory: r.memory, showReasoning: r.showReasoning, now: r.now,
		head: head, stream: head.Stream, request: r.request, pass: r.pass,
		items: r.items[:0], calls: r.calls[:0], current: -1, deltaItem: -1,
		annotations: response.Reuse(r.annotations), logprobs: response.Reuse(r.logprobs), delta: r.delta[:0], scratch: response.Reuse(r.scratch),
		out: r.out,
	}
	return &r.out
}

// addItem adds an open item to the output and returns its index.
func (r *Renderer) addItem(kind outputKind) int {
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

// hold appends to memory that is kept until the response has ended.
func (r *Renderer) hold(dst, s []byte) []byte {
	r.out.Held += len(s)
	return append(dst, s...)
}

// ignores reports whether events of a choice are not rendered.
func (r *Renderer) ignores(choice int32) bool { return choice != 0 || r.pass.on }

// Text implements response.Renderer.
func (r *Renderer) Text(choice int32, s []byte) {
	if r.ignores(choice) {
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
	if r.ignores(choice) {
		return
	}
	n := r.openMessage(outputRefusal)
	r.items[n].text = r.hold(r.items[n].text, s)
	if r.stream {
		r.writeDelta(n, s)
	}
}

// openMessage returns the open item of a kind of message, beginning one if necessary.
func (r *Renderer) openMessage(kind outputKind) int {
	if r.current >= 0 && r.items[r.current].kind == kind {
		return r.current
	}
	r.endCurrent(outputDone)
	r.current = r.addItem(kind)
	if r.stream {
		r.writeAdded(r.current)
	}
	return r.current
}

// endCurrent ends the open message or reasoning item, if there is one.
func (r *Renderer) endCurrent(state outputState) {
	if r.current >= 0 {
		r.endItem(r.current, state)
		r.current = -1
	}
}

// endItem ends an item.
func (r *Renderer) endItem(n int, state outputState) {
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
	if r.ignores(choice) {
		return
	}
	readable := part == abi.ReasoningText || part == abi.ReasoningSummary
	if !readable && !r.request.seals {
		return // only its provider can read it, but would not get it back
	}
	n := r.openReasoning(part, key)
	it := &r.items[n]
	switch {
	case part == abi.ReasoningSignature:
		it.signature = r.hold(it.signature, s)
	case !readable:
		it.encrypted = r.hold(it.encrypted, s)
	case r.request.reasoning == reasoningHidden && !r.request.seals:
	default:
		first := len(it.text) == 0
		it.summary = part == abi.ReasoningSummary
		it.text = r.hold(it.text, s)
		if r.stream && r.request.reasoning != reasoningHidden {
			if first {
				r.writePartAdded(n)
			}
			r.writeDelta(n, s)
		}
	}
}

// openReasoning returns the open reasoning item that a part of a block belongs to, beginning one if necessary.
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
	r.current = r.addItem(outputReasoning)
	r.items[r.current].key, r.items[r.current].ofCall = key, ofCall
	if r.stream {
		r.writeAdded(r.current)
	}
	return r.current
}

// ToolCall implements response.Renderer.
func (r *Renderer) ToolCall(choice int32, call response.ToolCall) {
	if r.ignores(choice) {
		return
	}
	r.endCurrent(outputDone)
	kind, namespace, name := outputCall, []byte(nil), call.Name
	if t := r.request.tool(call.Name); t != nil {
		namespace, name = t.namespace, t.name
		if t.custom {
			kind = outputCustomCall
		}
	}
	n := r.addItem(kind)
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

// appendCallID appends the ID of a call in the characters that clients accept. It only links the call to its result.
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
	if r.ignores(choice) {
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

// addInput adds s to the input of a custom tool call. s is in the scratch buffer.
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
	if r.ignores(choice) {
		return
	}
	r.items[r.calls[tool]].state = outputComplete
	for r.firstOpen < len(r.calls) && r.items[r.calls[r.firstOpen]].state == outputComplete {
		r.endItem(r.calls[r.firstOpen], outputDone)
		r.firstOpen++
	}
}

// Flush implements response.Renderer. It has nothing to do, because Member holds nothing back.
func (r *Renderer) Flush(choice int32, finished bool) {}

// Finish implements response.Renderer.
func (r *Renderer) Finish(choice int32, reason abi.FinishReason, native []byte) {
	if r.ignores(choice) {
		return
	}
	r.reason = reason
	state := outputDone
	if r.status() == statusIncomplete {
		state = outputIncomplete
	}
	for n := range r.items {
		switch r.items[n].state {
		case outputOpen:
			r.endItem(n, state)
		case outputComplete:
			r.endItem(n, outputDone)
		}
	}
	r.current, r.firstOpen = -1, len(r.calls)
}

// Complete implements response.Renderer.
func (r *Renderer) Complete(usage response.Usage) {
	if r.pass.on {
		r.pass.complete(&r.out)
		return
	}
	r.storeResponse(&usage)
	if !r.stream {
		return
	}
	r.writeStart()
	r.beginEvent("response." + r.status())
	r.endResponse(&usage, nil)
}

// AppendError implements response.Renderer. It appends response.failed, the last event.
func (r *Renderer) AppendError(dst []byte, e *apierror.Error) []byte {
	buf := r.out.Buf
	r.out.Buf = dst
	if r.pass.on {
		r.pass.begin(&r.out)
		r.seq, r.started = r.pass.frames, r.started || r.pass.frames > 0
	}
	r.writeStart()
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

// Member implements response.Renderer. Of the extra members, this API has the annotations of a text and its log
// probabilities.
func (r *Renderer) Member(scope abi.Scope, choice, tool int32, name, value []byte) bool {
	switch {
	case r.ignores(choice):
	case scope == abi.ScopeMessage && bytes.Equal(name, []byte("annotations")):
		return r.addAnnotations(value)
	case scope == abi.ScopeChoice && r.request.logprobs && bytes.Equal(name, []byte("logprobs")):
		return r.addLogprobs(value)
	}
	return true
}
