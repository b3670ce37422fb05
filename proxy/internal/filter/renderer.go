package filter

import (
	"bytes"
	"context"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Renderer is a response.Renderer that queues the calls of its methods until Run passes their texts through the filters
// of a chain and calls the next renderer. Reset removes the chain. Without one, until Filter sets it, calls go directly
// to the next renderer.
type Renderer struct {
	response.Renderer
	out  *response.Output
	head *response.Head

	chain  *Chain // nil disables filtering
	*queue        // nil until Filter is called for the first time
}

// queue is the state of a response that is filtered.
type queue struct {
	ops   []op   // the queued calls
	arena []byte // their arguments
	next  int    // index of the first op that has not been processed

	choices []*choice // by index; unused ones are kept for their memory
	plain   []byte    // scratch: an unescaped piece of a text
	escaped []byte    // scratch: an escaped piece of a text, or a frame
	waiting int       // bytes of tool arguments that are held back until they are complete
	usage   response.Usage
	passing passing
	collect func(clientapi.PassedText) // appends to passing.found
}

func newQueue() *queue {
	q := new(queue)
	q.passing.reset()
	q.collect = func(t clientapi.PassedText) { q.passing.found = append(q.passing.found, t) }
	return q
}

// choice is the state of a choice of the response.
type choice struct {
	hideProbs bool    // a filter has changed or held text, which the tokens in log probabilities would reveal
	tools     []tool  // by index
	blocks    []block // reasoning blocks that a filter has changed
	probs     []byte  // log probabilities that are held back until their text is sent; a JSON value
	hasProbs  bool
}

// block is a reasoning block that a filter has changed. Its signature is dropped, because it is no longer valid.
type block struct {
	key int32
	cut bool // the rest of the block is dropped
}

// tool is a tool call. Its arguments are held back until they are complete.
type tool struct {
	pending bool   // the arguments have not been sent
	args    []byte // the contents of a JSON string
}

// opKind is a method of response.Renderer.
type opKind uint8

const (
	opText opKind = iota
	opRefusal
	opReasoning
	opToolCall
	opToolArguments
	opToolEnd
	opMember
	opFlush
	opFrame
	opFinish
	opComplete
)

// op is a queued call of a method. Its fields are the method's arguments.
type op struct {
	kind     opKind
	part     abi.ReasoningPart
	scope    abi.Scope
	reason   abi.FinishReason
	finished bool
	choice   int32
	tool     int32
	key      int32
	a, b, c  response.Span // in Renderer.arena
}

// NewRenderer returns a renderer that calls r. It serves one Writer.
func NewRenderer(r response.Renderer) *Renderer { return &Renderer{Renderer: r} }

// Unwrap returns the next renderer.
func (r *Renderer) Unwrap() response.Renderer { return r.Renderer }

// Filter sets the chain for the response that begins. At least one of its filters must apply to it (Chain.OnResponse).
func (r *Renderer) Filter(c *Chain) {
	r.chain = c
	c.drop()
	if r.queue == nil {
		r.queue = newQueue()
	}
}

// Waiting returns the number of bytes that wait for Run or are held back until they are complete.
func (r *Renderer) Waiting() int {
	if r.chain == nil {
		return 0
	}
	return len(r.arena) + r.waiting
}

// Reset implements response.Renderer.
func (r *Renderer) Reset(head *response.Head) *response.Output {
	if r.chain != nil {
		r.chain = nil
		r.queue.clear()
	}
	r.head, r.out = head, r.Renderer.Reset(head)
	return r.out
}

// clear removes the state of a response.
func (q *queue) clear() {
	const keepOps, keepChoices = 256, 8
	if cap(q.ops) > keepOps {
		q.ops = nil
	}
	if len(q.choices) > keepChoices {
		q.choices = q.choices[:keepChoices:keepChoices]
	}
	for _, c := range q.choices {
		c.reset()
	}
	q.ops, q.arena, q.next, q.waiting = q.ops[:0], response.Reuse(q.arena), 0, 0
	q.plain, q.escaped = response.Reuse(q.plain), response.Reuse(q.escaped)
	q.passing.reset()
}

func (c *choice) reset() {
	const keepTools = 16
	if cap(c.tools) > keepTools {
		c.tools = nil
	}
	for i := range c.tools {
		c.tools[i] = tool{args: response.Reuse(c.tools[i].args)}
	}
	*c = choice{tools: c.tools, blocks: c.blocks[:0], probs: response.Reuse(c.probs)}
}

// put copies p to the arena.
func (q *queue) put(p []byte) response.Span {
	off := len(q.arena)
	q.arena = append(q.arena, p...)
	return response.Span{Off: uint32(off), Len: uint32(len(p))}
}

func (q *queue) bytes(s response.Span) []byte { return q.arena[s.Off : s.Off+s.Len] }

// Text implements response.Renderer.
func (r *Renderer) Text(choice int32, s []byte) {
	if r.chain == nil {
		r.Renderer.Text(choice, s)
		return
	}
	r.ops = append(r.ops, op{kind: opText, choice: choice, a: r.put(s)})
}

// Refusal implements response.Renderer.
func (r *Renderer) Refusal(choice int32, s []byte) {
	if r.chain == nil {
		r.Renderer.Refusal(choice, s)
		return
	}
	r.ops = append(r.ops, op{kind: opRefusal, choice: choice, a: r.put(s)})
}

// Reasoning implements response.Renderer.
func (r *Renderer) Reasoning(choice int32, part abi.ReasoningPart, key int32, s []byte) {
	if r.chain == nil {
		r.Renderer.Reasoning(choice, part, key, s)
		return
	}
	r.ops = append(r.ops, op{kind: opReasoning, choice: choice, part: part, key: key, a: r.put(s)})
}

// ToolCall implements response.Renderer.
func (r *Renderer) ToolCall(choice int32, call response.ToolCall) {
	if r.chain == nil {
		r.Renderer.ToolCall(choice, call)
		return
	}
	r.ops = append(r.ops, op{kind: opToolCall, choice: choice, tool: call.Index, key: call.Key, a: r.put(call.ID), b: r.put(call.Name), c: r.put(call.Arguments)})
}

// ToolArguments implements response.Renderer.
func (r *Renderer) ToolArguments(choice, tool int32, s []byte) {
	if r.chain == nil {
		r.Renderer.ToolArguments(choice, tool, s)
		return
	}
	r.ops = append(r.ops, op{kind: opToolArguments, choice: choice, tool: tool, a: r.put(s)})
}

// ToolEnd implements response.Renderer.
func (r *Renderer) ToolEnd(choice, tool int32) {
	if r.chain == nil {
		r.Renderer.ToolEnd(choice, tool)
		return
	}
	r.ops = append(r.ops, op{kind: opToolEnd, choice: choice, tool: tool})
}

// Member implements response.Renderer.
func (r *Renderer) Member(scope abi.Scope, choice, tool int32, name, value []byte) bool {
	if r.chain == nil {
		return r.Renderer.Member(scope, choice, tool, name, value)
	}
	r.ops = append(r.ops, op{kind: opMember, scope: scope, choice: choice, tool: tool, a: r.put(name), b: r.put(value)})
	return true
}

// Flush implements response.Renderer.
func (r *Renderer) Flush(choice int32, finished bool) {
	if r.chain == nil {
		r.Renderer.Flush(choice, finished)
		return
	}
	r.ops = append(r.ops, op{kind: opFlush, choice: choice, finished: finished})
}

// Frame implements response.Renderer.
func (r *Renderer) Frame(name, data []byte) {
	if r.chain == nil {
		r.Renderer.Frame(name, data)
		return
	}
	r.ops = append(r.ops, op{kind: opFrame, a: r.put(name), b: r.put(data)})
}

// Finish implements response.Renderer.
func (r *Renderer) Finish(choice int32, reason abi.FinishReason, native []byte) {
	if r.chain == nil {
		r.Renderer.Finish(choice, reason, native)
		return
	}
	r.ops = append(r.ops, op{kind: opFinish, choice: choice, reason: reason, a: r.put(native)})
}

// Complete implements response.Renderer.
func (r *Renderer) Complete(usage response.Usage) {
	if r.chain == nil {
		r.Renderer.Complete(usage)
		return
	}
	r.usage = usage
	r.ops = append(r.ops, op{kind: opComplete})
}

// at returns the choice with this index. It is added if necessary.
func (q *queue) at(index int32) *choice {
	for int(index) >= len(q.choices) {
		q.choices = append(q.choices, new(choice))
	}
	return q.choices[index]
}

// flags returns the flags for texts of the response.
func (r *Renderer) flags() (f abi.TextFlags) {
	if r.head.Stream {
		f = abi.TextStreamed
	}
	return f
}

// Run processes the queued calls: it passes their texts through the filters and calls the next renderer with the
// result. An error ends the response, and nothing more of it is sent.
func (r *Renderer) Run(ctx context.Context) error {
	if r.chain == nil {
		return nil
	}
	defer func() { r.ops, r.arena, r.next = r.ops[:0], response.Reuse(r.arena), 0 }()
	for r.next < len(r.ops) {
		if err := r.runNext(ctx); err != nil {
			r.chain.drop()
			return err
		}
	}
	if r.out.Failed != nil {
		return r.out.Failed
	}
	return nil
}

// runNext processes the next op. Consecutive pieces of the same text are joined.
func (r *Renderer) runNext(ctx context.Context) error {
	o := &r.ops[r.next]
	r.next++
	if r.passing.texts != nil {
		return r.runPassing(ctx, o)
	}
	switch o.kind {
	case opText, opRefusal:
		return r.runText(ctx, o)
	case opReasoning:
		if o.part != abi.ReasoningText && o.part != abi.ReasoningSummary {
			return r.runSignature(ctx, o)
		}
		return r.runText(ctx, o)
	case opToolCall:
		return r.runToolCall(ctx, o)
	case opToolArguments:
		t := r.at(o.choice).tool(o.tool)
		t.args = append(t.args, r.bytes(o.a)...)
		if r.waiting += int(o.a.Len); r.waiting > response.DefaultMaxHeld {
			return tooLarge()
		}
	case opToolEnd:
		if err := r.releaseArguments(ctx, o.choice, o.tool); err != nil {
			return err
		}
		r.Renderer.ToolEnd(o.choice, o.tool)
	case opMember:
		return r.runMember(ctx, o)
	case opFlush:
		r.writeProbs(r.at(o.choice), o.choice, true)
		r.Renderer.Flush(o.choice, o.finished)
	case opFrame: // the API has no texts to filter
		r.Renderer.Frame(r.bytes(o.a), r.bytes(o.b))
	case opFinish:
		if err := r.finishChoice(ctx, o.choice); err != nil {
			return err
		}
		r.Renderer.Finish(o.choice, o.reason, r.bytes(o.a))
	case opComplete:
		r.Renderer.Complete(r.usage)
	}
	return nil
}

// textKind returns the kind of an op's text.
func textKind(k opKind) abi.What {
	switch k {
	case opRefusal:
		return abi.WhatRefusal
	case opReasoning:
		return abi.WhatReasoning
	}
	return abi.WhatText
}

// sameText reports whether two ops are pieces of one text.
func sameText(a, b *op) bool {
	return a.kind == b.kind && a.choice == b.choice && a.part == b.part && a.key == b.key
}

// runText passes a piece of a text through the filters, joined with those that directly follow it.
func (r *Renderer) runText(ctx context.Context, o *op) error {
	r.plain = jsondoc.AppendUnescaped(r.plain[:0], r.bytes(o.a))
	for r.next < len(r.ops) && sameText(o, &r.ops[r.next]) {
		r.plain = jsondoc.AppendUnescaped(r.plain, r.bytes(r.ops[r.next].a))
		r.next++
	}
	if err := r.release(ctx, o.choice, o); err != nil {
		return err
	}
	flags := r.flags()
	if r.textEnds(o) {
		flags |= abi.TextComplete
	}
	t := r.chain.textOf(textKind(o.kind), o.choice, o.key, o.part)
	t.open = flags&abi.TextComplete == 0
	return r.writePiece(ctx, t, flags, r.plain)
}

// textEnds reports whether a text is known to be complete because another part of its choice follows it in the queue.
func (r *Renderer) textEnds(o *op) bool {
	for i := r.next; i < len(r.ops); i++ {
		n := &r.ops[i]
		switch {
		case n.kind == opComplete:
			return true
		case n.choice != o.choice, n.kind == opMember, n.kind == opFlush, n.kind == opToolArguments, n.kind == opToolEnd, n.kind == opFrame:
		default:
			return !sameText(o, n)
		}
	}
	return false
}

// writePiece passes a piece of a text through the filters to the next renderer.
func (r *Renderer) writePiece(ctx context.Context, t *text, flags abi.TextFlags, piece []byte) error {
	c := r.at(t.choice)
	reasoning := t.what == abi.WhatReasoning
	if b := c.block(t.key); reasoning && b != nil && b.cut {
		return nil
	}
	p, err := r.chain.filterPiece(ctx, t, flags, piece, reasoning && len(r.head.ReasoningFormat) > 0)
	if err != nil {
		return err
	}
	if reasoning && p.edited {
		c.markChanged(t.key, p.cut)
	}
	if p.cut {
		t.clear()
	}
	r.writeProbs(c, t.choice, p.unchanged)
	if len(p.out) == 0 {
		return nil
	}
	r.escaped = jsondoc.AppendEscaped(r.escaped[:0], p.out)
	switch t.what {
	case abi.WhatText:
		r.Renderer.Text(t.choice, r.escaped)
	case abi.WhatRefusal:
		r.Renderer.Refusal(t.choice, r.escaped)
	case abi.WhatReasoning:
		r.Renderer.Reasoning(t.choice, t.part, t.key, r.escaped)
	}
	return nil
}

// release completes the open texts of a choice and sends what is held of them, except the text that o is a piece of. o
// may be nil.
func (r *Renderer) release(ctx context.Context, choice int32, o *op) error {
	for i := 0; i < len(r.chain.texts); i++ {
		t := r.chain.texts[i]
		if !t.open || t.choice != choice || o != nil && t.what == textKind(o.kind) && t.key == o.key && t.part == o.part {
			continue
		}
		t.open = false
		if !t.holds() {
			continue
		}
		if err := r.writePiece(ctx, t, r.flags()|abi.TextComplete, nil); err != nil {
			return err
		}
	}
	return nil
}

// runSignature passes on a signature or encrypted reasoning, unless a filter has changed the block that it belongs to.
func (r *Renderer) runSignature(ctx context.Context, o *op) error {
	if err := r.release(ctx, o.choice, nil); err != nil {
		return err
	}
	if o.part == abi.ReasoningToolEncrypted || r.at(o.choice).block(o.key) == nil {
		r.Renderer.Reasoning(o.choice, o.part, o.key, r.bytes(o.a))
	}
	return nil
}

// block returns the reasoning block with this key if a filter has changed it, nil otherwise.
func (c *choice) block(key int32) *block {
	for i := range c.blocks {
		if c.blocks[i].key == key {
			return &c.blocks[i]
		}
	}
	return nil
}

// runToolCall passes on the start of a tool call, without its arguments.
func (r *Renderer) runToolCall(ctx context.Context, o *op) error {
	if err := r.release(ctx, o.choice, nil); err != nil {
		return err
	}
	t := r.at(o.choice).tool(o.tool)
	t.pending, t.args = true, append(t.args[:0], r.bytes(o.c)...)
	r.waiting += len(t.args)
	r.Renderer.ToolCall(o.choice, response.ToolCall{Index: o.tool, Key: o.key, ID: r.bytes(o.a), Name: r.bytes(o.b)})
	return nil
}

// tool returns the tool call with this index. It is added if necessary, and valid until another one is added.
func (c *choice) tool(index int32) *tool {
	for int(index) >= len(c.tools) {
		c.tools = append(c.tools, tool{})
	}
	return &c.tools[index]
}

// releaseArguments passes the arguments of a tool call through the filters to the next renderer. They are complete or
// truncated.
func (r *Renderer) releaseArguments(ctx context.Context, choice, index int32) error {
	t := r.at(choice).tool(index)
	t.pending = false
	if len(t.args) == 0 {
		return nil
	}
	r.waiting -= len(t.args)
	r.plain = jsondoc.AppendUnescaped(r.plain[:0], t.args)
	out, unchanged, err := r.chain.filterStrings(ctx, abi.WhatToolArguments, choice, r.flags(), r.plain)
	if err != nil {
		return err
	}
	if !unchanged {
		t.args = jsondoc.AppendEscaped(t.args[:0], out)
	}
	if len(t.args) > 0 {
		r.Renderer.ToolArguments(choice, index, t.args)
	}
	t.args = t.args[:0]
	return nil
}

// finishChoice sends everything that is held of a choice that ends.
func (r *Renderer) finishChoice(ctx context.Context, index int32) error {
	if err := r.release(ctx, index, nil); err != nil {
		return err
	}
	c := r.at(index)
	r.writeProbs(c, index, true)
	for i := range c.tools {
		if c.tools[i].pending {
			if err := r.releaseArguments(ctx, index, int32(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// The names of extra members that need their own treatment.
const (
	memberProbs = "logprobs"
	memberAudio = "audio"
	memberImage = "images"
)

var nameProbs = []byte(memberProbs)

// runMember passes on an extra member. Its strings are filtered because they may be text: annotations quote what the
// model has read.
func (r *Renderer) runMember(ctx context.Context, o *op) error {
	name, value := r.bytes(o.a), r.bytes(o.b)
	if o.scope != abi.ScopeChoice && o.scope != abi.ScopeMessage {
		r.Renderer.Member(o.scope, o.choice, o.tool, name, value)
		return nil
	}
	c := r.at(o.choice)
	switch string(name) {
	case memberProbs:
		r.writeProbs(c, o.choice, true)
		c.probs, c.hasProbs = append(c.probs[:0], value...), true
		return nil
	case memberImage:
	case memberAudio:
		if err := r.chain.Uncheckable("audio"); err != nil {
			return err
		}
	default:
		if bytes.IndexByte(value, '"') < 0 {
			break
		}
		var err error
		if value, _, err = r.chain.filterStrings(ctx, abi.WhatText, o.choice, r.flags(), value); err != nil {
			return err
		}
	}
	r.Renderer.Member(o.scope, o.choice, o.tool, name, value)
	return nil
}

// writeProbs sends the held log probabilities if no filter has changed or held text of the choice so far. unchanged
// applies to their own text.
func (r *Renderer) writeProbs(c *choice, index int32, unchanged bool) {
	c.hideProbs = c.hideProbs || !unchanged
	if c.hasProbs && !c.hideProbs {
		r.Renderer.Member(abi.ScopeChoice, index, 0, nameProbs, c.probs)
	}
	c.hasProbs = false
}

// tooLarge returns the error for a response that would exceed the limit on held bytes.
func tooLarge() error {
	return apierror.Fail(abi.FailBadAnswer, "upstream_answer_too_large", "", "The provider's response is larger than the gateway accepts.")
}
