package clientapi

import (
	"bytes"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// InOrder returns a Renderer for an API in which the parts of a response follow one another: its texts, refusals,
// blocks of reasoning and tool calls. r receives the events of one part at a time, and only those of the first choice
// that has content.
//
// While a tool call is open, everything else waits until its arguments are complete. The start of a call waits for the
// next event, because that may be the provider's signature of the call, which then precedes the call. A signature that
// arrives later follows the call. A call without ToolEnd was cut off, and so is the response.
func InOrder(r Renderer) Renderer { return &inOrder{Renderer: r, choice: noChoice} }

type inOrder struct {
	Renderer
	out    *response.Output
	pass   bool
	choice int32 // the choice that is rendered, noChoice before the first content

	state   callState
	call    part            // the latest call that r has received or, if it is held, will receive
	args    response.Extent // of the arguments that r has received of an open call
	waiting []part
}

const noChoice = -1

// callState is the state of the latest call.
type callState uint8

const (
	callEnded callState = iota // or there is none
	callHeld                   // r has not received the call
	callOpen
)

// part is a text, a refusal, a piece of reasoning or a tool call.
type part struct {
	kind      contentKind
	reasoning abi.ReasoningPart
	key       int32
	tool      int32  // index of a call
	ended     bool   // the arguments of a call are complete
	id, name  []byte // of a call
	text      []byte // the text, or the arguments of a call
}

type contentKind uint8

const (
	partText contentKind = iota
	partRefusal
	partReasoning
	partCall
)

// partSize is the approximate size of a part in memory without its texts.
const partSize = 120

// Reset implements response.Renderer.
func (o *inOrder) Reset(head *response.Head) *response.Output {
	const keep = 16
	if cap(o.waiting) > keep {
		o.waiting = nil
	}
	o.call.text = response.Reuse(o.call.text)
	o.out, o.pass, o.choice, o.state, o.waiting = o.Renderer.Reset(head), false, noChoice, callEnded, o.waiting[:0]
	return o.out
}

// Pass implements Renderer.
func (o *inOrder) Pass() {
	o.pass = true
	o.Renderer.Pass()
}

// renders reports whether the content of a choice is rendered.
func (o *inOrder) renders(choice int32) bool {
	if o.choice == noChoice {
		o.choice = choice
	}
	return choice == o.choice
}

// Text implements response.Renderer.
func (o *inOrder) Text(choice int32, s []byte) { o.add(choice, part{kind: partText, text: s}) }

// Refusal implements response.Renderer.
func (o *inOrder) Refusal(choice int32, s []byte) { o.add(choice, part{kind: partRefusal, text: s}) }

// Reasoning implements response.Renderer.
func (o *inOrder) Reasoning(choice int32, kind abi.ReasoningPart, key int32, s []byte) {
	if kind == abi.ReasoningToolEncrypted && o.state == callHeld && o.call.key == key && choice == o.choice {
		o.Renderer.Reasoning(choice, kind, key, s)
		return
	}
	o.add(choice, part{kind: partReasoning, reasoning: kind, key: key, text: s})
}

// ToolCall implements response.Renderer.
func (o *inOrder) ToolCall(choice int32, call response.ToolCall) {
	o.add(choice, part{kind: partCall, key: call.Key, tool: call.Index, id: call.ID, name: call.Name, text: call.Arguments})
}

// add adds an event that begins or continues a part.
func (o *inOrder) add(choice int32, p part) {
	switch {
	case !o.renders(choice):
	case o.pass:
		o.forward(&p)
	case !o.advance(false):
		o.wait(&p)
	case p.kind == partCall:
		o.hold(&p)
	default:
		o.forward(&p)
	}
}

// advance forwards the held call and then, each time that a call ends, the parts that wait for that. A call also ends if
// its arguments are complete, because chat completions do not mark the end. If cut is set, nothing waits any longer.
// advance reports whether r can receive another part.
func (o *inOrder) advance(cut bool) bool {
	if o.state == callHeld {
		o.forwardHeld()
	}
	n := 0
	for ; ; n++ {
		if o.state == callOpen && o.args.Whole() {
			o.endCall()
		}
		if n == len(o.waiting) || o.state == callOpen && !cut {
			break
		}
		p := &o.waiting[n]
		o.out.Held -= partSize + len(p.id) + len(p.name) + len(p.text)
		o.forward(p)
	}
	for i := n; n > 0 && i < len(o.waiting); i++ { // swap instead of copy, to reuse the memory
		o.waiting[i-n], o.waiting[i] = o.waiting[i], o.waiting[i-n]
	}
	o.waiting = o.waiting[:len(o.waiting)-n]
	return o.state == callEnded
}

func (o *inOrder) forwardHeld() {
	o.out.Held -= len(o.call.text)
	o.forward(&o.call)
}

// hold holds a call until the next event.
func (o *inOrder) hold(p *part) {
	c := &o.call
	*c = part{kind: partCall, key: p.key, tool: p.tool, id: append(c.id[:0], p.id...), name: append(c.name[:0], p.name...), text: append(c.text[:0], p.text...)}
	o.state = callHeld
	o.out.Held += len(c.text)
}

// wait adds a part to those that wait for the end of the open call.
func (o *inOrder) wait(p *part) {
	if n := len(o.waiting); n > 0 && p.kind != partCall {
		if w := &o.waiting[n-1]; w.kind == p.kind && w.key == p.key && w.reasoning == p.reasoning {
			w.text = append(w.text, p.text...)
			o.out.Held += len(p.text)
			return
		}
	}
	n := len(o.waiting)
	if n == cap(o.waiting) {
		o.waiting = append(o.waiting, part{})
	} else {
		o.waiting = o.waiting[:n+1]
	}
	w := &o.waiting[n]
	id, name, text := w.id[:0], w.name[:0], response.Reuse(w.text)
	*w = *p
	w.id, w.name, w.text = append(id, p.id...), append(name, p.name...), append(text, p.text...)
	o.out.Held += partSize + len(w.id) + len(w.name) + len(w.text)
}

// forward passes a part on to r. A call that is not complete becomes the open call.
func (o *inOrder) forward(p *part) {
	switch p.kind {
	case partText:
		o.Renderer.Text(o.choice, p.text)
	case partRefusal:
		o.Renderer.Refusal(o.choice, p.text)
	case partReasoning:
		o.Renderer.Reasoning(o.choice, p.reasoning, p.key, p.text)
	case partCall:
		o.Renderer.ToolCall(o.choice, response.ToolCall{Index: p.tool, Key: p.key, ID: p.id, Name: p.name, Arguments: p.text})
		o.call.tool, o.state, o.args = p.tool, callOpen, response.Extent{}
		o.args.Add(p.text)
		if p.ended {
			o.endCall()
		}
	}
}

func (o *inOrder) endCall() {
	o.state = callEnded
	o.Renderer.ToolEnd(o.choice, o.call.tool)
}

// ToolArguments implements response.Renderer.
func (o *inOrder) ToolArguments(choice, tool int32, s []byte) {
	latest := tool == o.call.tool
	switch {
	case !o.renders(choice):
		return
	case o.pass:
		o.Renderer.ToolArguments(choice, tool, s)
		return
	case o.state == callHeld && latest:
		o.forwardHeld()
	case o.state != callOpen || !latest:
		o.advance(false)
	}
	if w := o.waitingCall(tool); w != nil {
		w.text = append(w.text, s...)
		o.out.Held += len(s)
	} else if o.state == callOpen && tool == o.call.tool {
		o.args.Add(s)
		o.Renderer.ToolArguments(choice, tool, s)
	} else if len(bytes.Trim(s, ` \nrt`)) > 0 { // white space after complete arguments has no effect
		o.out.Failed = apierror.Fail(abi.FailBadToolCall, "", "", "")
	}
}

// ToolEnd implements response.Renderer.
func (o *inOrder) ToolEnd(choice, tool int32) {
	switch {
	case !o.renders(choice):
	case o.pass:
		o.Renderer.ToolEnd(choice, tool)
	case o.state == callHeld && tool == o.call.tool:
		o.call.ended = true
	case o.state == callOpen && tool == o.call.tool:
		o.endCall()
		o.advance(false)
	default:
		if w := o.waitingCall(tool); w != nil {
			w.ended = true
		}
	}
}

// waitingCall returns the waiting call with an index, or nil.
func (o *inOrder) waitingCall(tool int32) *part {
	for i := range o.waiting {
		if w := &o.waiting[i]; w.kind == partCall && w.tool == tool {
			return w
		}
	}
	return nil
}

// Member implements response.Renderer. Members of a message or choice belong to what follows, so a held call is
// forwarded first.
func (o *inOrder) Member(scope abi.Scope, choice, tool int32, name, value []byte) bool {
	switch scope {
	case abi.ScopeChoice, abi.ScopeMessage:
		if o.choice != noChoice && choice != o.choice {
			return true
		}
		o.advance(false)
	}
	return o.Renderer.Member(scope, choice, tool, name, value)
}

// Finish implements response.Renderer.
func (o *inOrder) Finish(choice int32, reason abi.FinishReason, native []byte) {
	if !o.renders(choice) {
		return
	}
	o.advance(true)
	o.Renderer.Finish(choice, reason, native)
}
