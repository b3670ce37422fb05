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

// Renderer is a response.Renderer that keeps what it is told until Run takes it through the filters of a chain to the renderer behind it.
// Without a chain, after each Reset until Filter, it only passes on.
type Renderer struct {
	response.Renderer
	out  *response.Output
	head *response.Head

	chain *Chain // nil: everything passes
	ops   []op
	arena []byte
	next  int // of the ops, the first that has not been run

	choices []*choice // by index; those that are not used hold memory for later
	plain   []byte    // scratch: a piece without its escapes
	spell   []byte    // scratch: a piece with its escapes
	waiting int       // bytes of arguments that wait
	usage   response.Usage
	passing passing
	find    func(clientapi.PassedText) // collects the texts of a frame
}

// choice is what is known of a choice of the response.
type choice struct {
	opaque   bool    // a filter has changed or held a text: log probabilities would tell of it
	tools    []tool  // by index
	blocks   []block // of reasoning that a filter has changed
	probs    []byte  // log probabilities that wait for their text: a member's value
	hasProbs bool
}

// block is a reasoning block that a filter has changed: it has no signature any more.
type block struct {
	key int32
	cut bool // nothing of it follows
}

// tool is a tool call whose arguments wait until they are complete.
type tool struct {
	waits bool
	args  []byte // the inside of a JSON string
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

// op is a call of a method that waits for Run.
type op struct {
	kind     opKind
	part     abi.ReasoningPart
	scope    abi.Scope
	reason   abi.FinishReason
	finished bool
	choice   int32
	tool     int32
	key      int32
	a, b, c  response.Span // in the arena
}

// NewRenderer returns a renderer before r, for the use of one Writer.
func NewRenderer(r response.Renderer) *Renderer {
	f := &Renderer{Renderer: r}
	f.passing.reset()
	f.find = func(t clientapi.PassedText) { f.passing.found = append(f.passing.found, t) }
	return f
}

// Unwrap returns the renderer that this one passes on to.
func (r *Renderer) Unwrap() response.Renderer { return r.Renderer }

// Filter makes the renderer wait for Run with the texts of the response that begins.
func (r *Renderer) Filter(c *Chain) {
	r.chain = c
	c.drop()
}

// Waiting is how many bytes wait for Run, or for the end of what they belong to.
func (r *Renderer) Waiting() int { return len(r.arena) + r.waiting }

// Reset implements response.Renderer.
func (r *Renderer) Reset(head *response.Head) *response.Output {
	if r.chain != nil { // without filters nothing is kept
		r.forget()
	}
	r.head, r.out = head, r.Renderer.Reset(head)
	return r.out
}

// forget drops what the texts of a response have left.
func (r *Renderer) forget() {
	const keepOps, keepChoices = 256, 8
	if cap(r.ops) > keepOps {
		r.ops = nil
	}
	if len(r.choices) > keepChoices {
		r.choices = r.choices[:keepChoices:keepChoices]
	}
	for _, c := range r.choices {
		c.reset()
	}
	r.chain, r.ops, r.arena, r.next, r.waiting = nil, r.ops[:0], response.Reuse(r.arena), 0, 0
	r.plain, r.spell = response.Reuse(r.plain), response.Reuse(r.spell)
	r.passing.reset()
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

func (r *Renderer) put(p []byte) response.Span {
	off := len(r.arena)
	r.arena = append(r.arena, p...)
	return response.Span{Off: uint32(off), Len: uint32(len(p))}
}

func (r *Renderer) bytes(s response.Span) []byte { return r.arena[s.Off : s.Off+s.Len] }

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

func (r *Renderer) at(index int32) *choice {
	for int(index) >= len(r.choices) {
		r.choices = append(r.choices, new(choice))
	}
	return r.choices[index]
}

// flags are those of a text of the response.
func (r *Renderer) flags() (f abi.TextFlags) {
	if r.head.Stream {
		f = abi.TextStreamed
	}
	return f
}

// Run takes what has come through the filters, and what they let pass to the renderer. An error ends the response: nothing more of it
// goes on.
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

// runNext runs the next op, with the pieces of the same text that follow it.
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
	case opFrame: // of an API without texts
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

// whatOf is what a text is for a filter.
func whatOf(k opKind) abi.What {
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

// runText takes a piece of a text through the filters, with those that follow it directly.
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
	if r.ends(o) {
		flags |= abi.TextComplete
	}
	t := r.chain.at(whatOf(o.kind), o.choice, o.key, o.part)
	t.open = flags&abi.TextComplete == 0
	return r.write(ctx, t, flags, r.plain)
}

// ends reports whether what has come says that a text ends: something else of its choice follows it.
func (r *Renderer) ends(o *op) bool {
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

// write takes a piece through the filters to the renderer.
func (r *Renderer) write(ctx context.Context, t *text, flags abi.TextFlags, piece []byte) error {
	c := r.at(t.choice)
	reasoning := t.what == abi.WhatReasoning
	if b := c.block(t.key); reasoning && b != nil && b.cut {
		return nil
	}
	p, err := r.chain.piece(ctx, t, flags, piece, reasoning && len(r.head.ReasoningFormat) > 0)
	if err != nil {
		return err
	}
	if reasoning && p.edit {
		if c.block(t.key) == nil {
			c.blocks = append(c.blocks, block{key: t.key})
		}
		c.block(t.key).cut = p.cut
	}
	if p.cut {
		t.clear()
	}
	r.writeProbs(c, t.choice, p.same)
	if len(p.out) == 0 {
		return nil
	}
	r.spell = jsondoc.AppendEscaped(r.spell[:0], p.out)
	switch t.what {
	case abi.WhatText:
		r.Renderer.Text(t.choice, r.spell)
	case abi.WhatRefusal:
		r.Renderer.Refusal(t.choice, r.spell)
	case abi.WhatReasoning:
		r.Renderer.Reasoning(t.choice, t.part, t.key, r.spell)
	}
	return nil
}

// release takes what is held of the texts of a choice to the renderer, but for the one that o is a piece of; nil for all of them.
func (r *Renderer) release(ctx context.Context, choice int32, o *op) error {
	for i := 0; i < len(r.chain.texts); i++ {
		t := r.chain.texts[i]
		if !t.open || t.choice != choice || o != nil && t.what == whatOf(o.kind) && t.key == o.key && t.part == o.part {
			continue
		}
		t.open = false
		if !t.holds() {
			continue
		}
		if err := r.write(ctx, t, r.flags()|abi.TextComplete, nil); err != nil {
			return err
		}
	}
	return nil
}

// runSignature passes on what a provider has signed or encrypted, unless the reasoning that it is about has changed.
func (r *Renderer) runSignature(ctx context.Context, o *op) error {
	if err := r.release(ctx, o.choice, nil); err != nil {
		return err
	}
	if o.part == abi.ReasoningToolEncrypted || r.at(o.choice).block(o.key) == nil {
		r.Renderer.Reasoning(o.choice, o.part, o.key, r.bytes(o.a))
	}
	return nil
}

// block returns a reasoning block that has been changed; nil of any other.
func (c *choice) block(key int32) *block {
	for i := range c.blocks {
		if c.blocks[i].key == key {
			return &c.blocks[i]
		}
	}
	return nil
}

// runToolCall passes on that a tool call begins. Its arguments wait.
func (r *Renderer) runToolCall(ctx context.Context, o *op) error {
	if err := r.release(ctx, o.choice, nil); err != nil {
		return err
	}
	t := r.at(o.choice).tool(o.tool)
	t.waits, t.args = true, append(t.args[:0], r.bytes(o.c)...)
	r.waiting += len(t.args)
	r.Renderer.ToolCall(o.choice, response.ToolCall{Index: o.tool, Key: o.key, ID: r.bytes(o.a), Name: r.bytes(o.b)})
	return nil
}

// tool returns a tool call, making room for it. It is valid until the next one.
func (c *choice) tool(index int32) *tool {
	for int(index) >= len(c.tools) {
		c.tools = append(c.tools, tool{})
	}
	return &c.tools[index]
}

// releaseArguments takes the arguments of a tool call through the filters: they are complete, or nothing of them follows.
func (r *Renderer) releaseArguments(ctx context.Context, choice, index int32) error {
	t := r.at(choice).tool(index)
	t.waits = false
	if len(t.args) == 0 {
		return nil
	}
	r.waiting -= len(t.args)
	r.plain = jsondoc.AppendUnescaped(r.plain[:0], t.args)
	out, same, err := r.chain.strings(ctx, abi.WhatToolArguments, choice, r.flags(), r.plain)
	if err != nil {
		return err
	}
	if !same {
		t.args = jsondoc.AppendEscaped(t.args[:0], out)
	}
	if len(t.args) > 0 {
		r.Renderer.ToolArguments(choice, index, t.args)
	}
	t.args = t.args[:0]
	return nil
}

// finishChoice passes on what is left of a choice that ends.
func (r *Renderer) finishChoice(ctx context.Context, index int32) error {
	if err := r.release(ctx, index, nil); err != nil {
		return err
	}
	c := r.at(index)
	r.writeProbs(c, index, true)
	for i := range c.tools {
		if c.tools[i].waits {
			if err := r.releaseArguments(ctx, index, int32(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// The extra members with a meaning of their own here.
const (
	memberProbs = "logprobs"
	memberAudio = "audio"
	memberImage = "images"
)

var nameProbs = []byte(memberProbs)

// runMember passes on an extra member. Its strings may be text: those of annotations quote what the model has read.
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
		if value, _, err = r.chain.strings(ctx, abi.WhatText, o.choice, r.flags(), value); err != nil {
			return err
		}
	}
	r.Renderer.Member(o.scope, o.choice, o.tool, name, value)
	return nil
}

// writeProbs passes on log probabilities if the text that they belong to has passed as it came, as all before it.
func (r *Renderer) writeProbs(c *choice, index int32, same bool) {
	c.opaque = c.opaque || !same
	if c.hasProbs && !c.opaque {
		r.Renderer.Member(abi.ScopeChoice, index, 0, nameProbs, c.probs)
	}
	c.hasProbs = false
}

// tooLarge is the failure of a response that would have to wait in more memory than there is for it.
func tooLarge() error {
	return apierror.Fail(abi.FailBadAnswer, "upstream_answer_too_large", "", "The provider's response is larger than the gateway accepts.")
}
