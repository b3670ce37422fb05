package responses

import (
	"bytes"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// renderer implements clientapi.Renderer for the Responses API, behind clientapi.InOrder. It writes the events of a
// stream, or one response object.
//
// One item of the output is open at a time, and ends when the next one begins. The text of each item is kept until the
// response has ended, because the API repeats it when the item is done and again in the last event.
type renderer struct {
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

	items   []outputItem // elements beyond its length are reused with their memory
	current int          // index of the open item, -1 if there is none
	calls   []int        // indices of the items that are calls, by the index of the call

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
	callID, name, namespace []byte    // call; reasoning with ofCall has the callID of that call
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
	outputOpen outputState = iota
	outputDone
	outputIncomplete // cut off
)

// Reset implements response.Renderer.
func (r *renderer) Reset(head *response.Head) *response.Output {
	const keepItems, keepCalls = 16, 64
	if cap(r.items) > keepItems {
		r.items = nil
	}
	if cap(r.calls) > keepCalls {
		r.calls = nil
	}
	r.request.reset()
	r.pass.reset()
	*r = renderer{
		sealer: r.sealer, memory: r.memory, showReasoning: r.showReasoning, now: r.now,
		head: head, stream: head.Stream, request: r.request, pass: r.pass,
		items: r.items[:0], calls: r.calls[:0], current: -1, deltaItem: -1,
		annotations: response.Reuse(r.annotations), logprobs: response.Reuse(r.logprobs), delta: r.delta[:0], scratch: response.Reuse(r.scratch),
		out: r.out,
	}
	return &r.out
}

// addItem adds an open item to the output and returns its index.
func (r *renderer) addItem(kind outputKind) int {
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
func (r *renderer) hold(dst, s []byte) []byte {
	r.out.Held += len(s)
	return append(dst, s...)
}

// Text implements response.Renderer.
func (r *renderer) Text(choice int32, s []byte) {
	if r.pass.on {
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
func (r *renderer) Refusal(choice int32, s []byte) {
	if r.pass.on {
		return
	}
	n := r.openMessage(outputRefusal)
	r.items[n].text = r.hold(r.items[n].text, s)
	if r.stream {
		r.writeDelta(n, s)
	}
}

// openMessage returns the open item of a kind of message, beginning one if necessary.
func (r *renderer) openMessage(kind outputKind) int {
	if r.current >= 0 && r.items[r.current].kind == kind {
		return r.current
	}
	n := r.beginItem(kind)
	if r.stream {
		r.writeAdded(n)
	}
	return n
}

// beginItem ends the open item and adds another one to the output. A call that is still open was cut off.
func (r *renderer) beginItem(kind outputKind) int {
	state := outputDone
	if r.current >= 0 && r.items[r.current].kind.isCall() {
		state = outputIncomplete
	}
	r.endItem(state)
	r.current = r.addItem(kind)
	return r.current
}

// endItem ends the open item, if there is one.
func (r *renderer) endItem(state outputState) {
	n := r.current
	if n < 0 {
		return
	}
	r.current = -1
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
func (r *renderer) Reasoning(choice int32, part abi.ReasoningPart, key int32, s []byte) {
	if r.pass.on {
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
func (r *renderer) openReasoning(part abi.ReasoningPart, key int32) int {
	ofCall := part == abi.ReasoningToolEncrypted
	if r.current >= 0 {
		it := &r.items[r.current]
		other := len(it.text) > 0 && (part == abi.ReasoningText && it.summary || part == abi.ReasoningSummary && !it.summary)
		if it.kind == outputReasoning && it.key == key && it.ofCall == ofCall && !other {
			return r.current
		}
	}
	n := r.beginItem(outputReasoning)
	it := &r.items[n]
	it.key, it.ofCall = key, ofCall
	for _, c := range r.calls {
		if call := &r.items[c]; ofCall && call.key == key {
			it.callID = append(it.callID, call.callID...)
		}
	}
	if r.stream {
		r.writeAdded(n)
	}
	return n
}

// ToolCall implements response.Renderer.
func (r *renderer) ToolCall(choice int32, call response.ToolCall) {
	if r.pass.on {
		return
	}
	if r.current >= 0 {
		if it := &r.items[r.current]; it.ofCall && it.key == call.Key {
			it.callID = appendCallID(it.callID[:0], call.ID)
		}
	}
	kind, namespace, name := outputCall, []byte(nil), call.Name
	if t := r.request.tool(call.Name); t != nil {
		namespace, name = t.namespace, t.name
		if t.custom {
			kind = outputCustomCall
		}
	}
	n := r.beginItem(kind)
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
func (r *renderer) ToolArguments(choice, tool int32, s []byte) {
	if r.pass.on {
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
func (r *renderer) addInput(n int, s []byte) {
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
func (r *renderer) ToolEnd(choice, tool int32) {
	if r.pass.on {
		return
	}
	r.endItem(outputDone)
}

// Flush implements response.Renderer. It has nothing to do, because Member holds nothing back.
func (r *renderer) Flush(choice int32, finished bool) {}

// Finish implements response.Renderer.
func (r *renderer) Finish(choice int32, reason abi.FinishReason, native []byte) {
	if r.pass.on {
		return
	}
	r.reason = reason
	state := outputDone
	if r.status() == statusIncomplete {
		state = outputIncomplete
	}
	r.endItem(state)
}

// Complete implements response.Renderer.
func (r *renderer) Complete(usage response.Usage) {
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
func (r *renderer) AppendError(dst []byte, e *apierror.Error) []byte {
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
func (r *renderer) AppendResponse(dst []byte, usage response.Usage) []byte {
	if r.pass.on {
		return append(dst, r.pass.last...)
	}
	return r.appendResponse(dst, r.status(), &usage, nil, true)
}

// Frame implements response.Renderer.
func (r *renderer) Frame(name, data []byte) { r.pass.frame(&r.out, r.stream, name, data) }

// Pass implements clientapi.Renderer.
func (r *renderer) Pass() { r.pass.on = true }

// Member implements response.Renderer. Of the extra members, this API has the annotations of a text and its log
// probabilities.
func (r *renderer) Member(scope abi.Scope, choice, tool int32, name, value []byte) bool {
	switch {
	case r.pass.on:
	case scope == abi.ScopeMessage && bytes.Equal(name, []byte("annotations")):
		return r.addAnnotations(value)
	case scope == abi.ScopeChoice && r.request.logprobs && bytes.Equal(name, []byte("logprobs")):
		return r.addLogprobs(value)
	}
	return true
}
