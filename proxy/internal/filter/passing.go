package filter

import (
	"context"
	"slices"
	"strconv"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// passing is the state of a response that is passed on as its provider sends it. A frame whose texts no filter changes goes on as it came; of
// any other one the texts are replaced where they stand. What is held at the end of a text goes on in a frame like the last one of that text,
// and the frames of a tool's arguments wait for the end of these.
type passing struct {
	texts clientapi.PassedTexts // nil: the response is not passed on

	doc   jsondoc.Doc // of a frame
	edits jsondoc.Edits
	found []clientapi.PassedText // in it
	edit  []byte                 // scratch: the frame with other texts
	plain []byte                 // scratch: a text without its escapes

	like    []*frameLike  // of texts that are held; those behind the length hold memory for later
	calls   []*passedCall // in the order of their beginning; those behind the length hold memory for later
	altered bool          // the client gets more or fewer frames than there were
	seq     int64         // the sequence number of the last frame, -1 for none
	numbers jsondoc.Doc   // of a frame that gets another number
	number  []byte        // scratch: the frame
}

// frameLike is a frame of a text that is held, around the text.
type frameLike struct {
	of               *text
	name, head, tail []byte
}

// passedCall is the arguments of a tool that have not ended, with their frames.
type passedCall struct {
	key    int32
	args   []byte
	frames []byte // names and data
	spans  [][2]response.Span
	last   int64 // the sequence number of the last one, -1 for none
	like   frameLike
}

func (p *passing) reset() {
	p.doc.Reset()
	const keepCalls, keepSpans = 8, 256
	if cap(p.calls) > keepCalls {
		p.calls = nil
	}
	for _, c := range p.calls[:cap(p.calls)] {
		switch {
		case c == nil:
			continue
		case cap(c.spans) > keepSpans:
			c.spans = nil
		}
		c.args, c.frames = response.Reuse(c.args), response.Reuse(c.frames)
	}
	*p = passing{
		doc: p.doc, edits: p.edits, found: p.found[:0], edit: response.Reuse(p.edit), plain: response.Reuse(p.plain),
		like: p.like[:0], calls: p.calls[:0], seq: -1, numbers: p.numbers, number: response.Reuse(p.number),
	}
}

// Pass says that the response is passed on, after Filter. Texts finds the texts in its frames.
func (r *Renderer) Pass(texts clientapi.PassedTexts) {
	if r.chain != nil {
		r.passing.texts = texts
	}
}

// passedLimits bound a frame, which its reader has read.
var passedLimits = jsondoc.Limits{Depth: jsondoc.DefaultDepth, Nodes: 1 << 19, Loose: true, FlatNumbers: true}

// runPassing runs an op of a response that is passed on: what else than frames the renderer is told only accounts for it.
func (r *Renderer) runPassing(ctx context.Context, o *op) error {
	switch o.kind {
	case opFrame:
		return r.runFrame(ctx, r.bytes(o.a), r.bytes(o.b))
	case opFinish:
		r.Renderer.Finish(o.choice, o.reason, r.bytes(o.a))
	case opComplete:
		r.Renderer.Complete(r.usage)
	}
	return nil
}

// runFrame takes the texts of a frame through the filters, and the frame to the renderer.
func (r *Renderer) runFrame(ctx context.Context, name, data []byte) error {
	p := &r.passing
	if p.doc.Parse(data, passedLimits) != nil || p.doc.Root().Kind() != jsondoc.Object {
		// The word that ends a stream is no JSON.
		if err := r.endPassed(ctx); err != nil {
			return err
		}
		r.emit(name, data)
		return nil
	}
	defer p.doc.Reset()
	p.edits.Reset(&p.doc)
	p.found = p.found[:0]
	p.texts(name, p.doc.Root(), r.head.Stream, r.find)
	drop := false
	for i := range p.found {
		t := &p.found[i]
		left, err := r.passText(ctx, t, name, data)
		if err != nil {
			return err
		}
		drop = drop || t.Drop && !left
		if t.Place == clientapi.PassedArguments {
			return nil // the frame waits
		}
	}
	switch {
	case drop:
		p.altered = true
		return nil
	case p.edits.Len() > 0:
		var err error
		if p.edit, err = p.edits.Apply(p.edit[:0]); err != nil {
			return err
		}
		data = p.edit
	}
	p.altered = p.altered || len(p.calls) > 0 // it overtakes frames that wait
	number := p.frameNumber()
	r.emit(name, data)
	p.count(number)
	return nil
}

// frameNumber is the sequence number of the frame, -1 for none.
func (p *passing) frameNumber() int64 {
	if n, ok := p.doc.Root().Get(sequenceNumber).Int(); ok {
		return n
	}
	return -1
}

// count notes the number of a frame that was passed on as it came.
func (p *passing) count(number int64) {
	if number >= 0 && !p.altered {
		p.seq = number
	}
}

// sequenceNumber is the member of the events of Responses that numbers them.
const sequenceNumber = "sequence_number"

// endPassed passes on what waits for the end of any text.
func (r *Renderer) endPassed(ctx context.Context) error {
	for len(r.passing.calls) > 0 {
		if err := r.endPassedCall(ctx, r.passing.calls[0].key); err != nil {
			return err
		}
	}
	return r.releasePassed(ctx, nil)
}

// passText takes one text of a frame through the filters. left reports whether something of it is left.
func (r *Renderer) passText(ctx context.Context, t *clientapi.PassedText, name, data []byte) (left bool, err error) {
	p, c := &r.passing, r.at(t.Choice)
	switch t.Place {
	case clientapi.PassedPiece, clientapi.PassedLast:
		return r.passPiece(ctx, t, name, data)
	case clientapi.PassedEnd:
		if t.What == abi.WhatToolArguments {
			return true, r.endPassedCall(ctx, t.Key)
		}
		return true, r.releasePassed(ctx, t)
	case clientapi.PassedEndAll:
		return true, r.endPassed(ctx)
	case clientapi.PassedArguments:
		return true, r.waitForArguments(t, name, data)
	case clientapi.PassedSeal:
		if c.block(t.Key) == nil {
			return true, nil
		}
		empty := `""`
		if t.Value.Name().Is("encrypted_content") {
			empty = "null"
		}
		p.edits.SetValue(t.Value, empty)
		return false, nil
	case clientapi.PassedProbs:
		if c.opaque = c.opaque || r.holdsSomething(t.Choice); c.opaque {
			empty := "null"
			if t.Value.Kind() == jsondoc.Array {
				empty = "[]"
			}
			p.edits.SetValue(t.Value, empty)
		}
		return true, nil
	case clientapi.PassedUnknown:
		return true, r.chain.Uncheckable("an event of this type")
	}
	p.plain = t.Value.AppendText(p.plain[:0])
	if t.Place == clientapi.PassedJSON {
		out, same, err := r.chain.strings(ctx, t.What, t.Choice, r.flags(), p.plain)
		if err == nil && !same {
			r.chain.set(&p.edits, t.Value, out)
		}
		return true, err
	}
	r.chain.one.what, r.chain.one.choice = t.What, t.Choice
	r.chain.one.clear()
	done, err := r.chain.piece(ctx, &r.chain.one, r.flags()|abi.TextComplete, p.plain, t.What == abi.WhatReasoning)
	if err != nil {
		return true, err
	}
	if done.edit && t.What == abi.WhatReasoning {
		c.change(t.Key, false)
	}
	if done.edit && t.What == abi.WhatText {
		c.opaque = true
	}
	if !done.same || done.cut {
		r.chain.set(&p.edits, t.Value, done.out)
	}
	return true, nil
}

// change notes that a filter has changed a block of reasoning.
func (c *choice) change(key int32, cut bool) {
	if c.block(key) == nil {
		c.blocks = append(c.blocks, block{key: key})
	}
	b := c.block(key)
	b.cut = b.cut || cut
}

// holdsSomething reports whether something of a choice's texts is held.
func (r *Renderer) holdsSomething(choice int32) bool {
	for _, t := range r.chain.texts {
		if t.choice == choice && t.holds() {
			return true
		}
	}
	return false
}

// passPiece takes a piece of a text through the filters.
func (r *Renderer) passPiece(ctx context.Context, t *clientapi.PassedText, name, data []byte) (left bool, err error) {
	p, c := &r.passing, r.at(t.Choice)
	reasoning := t.What == abi.WhatReasoning
	of := r.chain.at(t.What, t.Choice, t.Key, abi.ReasoningPart(t.Part))
	p.plain = t.Value.AppendText(p.plain[:0])
	if len(p.plain) == 0 && t.Place == clientapi.PassedPiece {
		return true, nil // the beginning of a block, mostly
	}
	flags := r.flags()
	if t.Place == clientapi.PassedLast {
		flags |= abi.TextComplete
	}
	if b := c.block(t.Key); reasoning && b != nil && b.cut {
		p.edits.SetValue(t.Value, `""`)
		return false, nil
	}
	done, err := r.chain.piece(ctx, of, flags, p.plain, reasoning)
	if err != nil {
		return true, err
	}
	if reasoning && done.edit {
		c.change(t.Key, done.cut)
	}
	if done.cut {
		of.clear()
	}
	if done.same {
		return true, nil
	}
	c.opaque = c.opaque || !reasoning
	r.chain.set(&p.edits, t.Value, done.out)
	if of.open = of.holds(); of.open {
		r.remember(of, t, name, data)
	}
	return len(done.out) > 0, nil
}

// remember keeps the frame of a text that is held, for what goes on of it at its end.
func (r *Renderer) remember(of *text, t *clientapi.PassedText, name, data []byte) {
	p := &r.passing
	var like *frameLike
	for _, l := range p.like {
		if l.of == of {
			like = l
		}
	}
	if like == nil {
		if n := len(p.like); n < cap(p.like) {
			p.like = p.like[:n+1]
		} else {
			p.like = append(p.like, nil)
		}
		if p.like[len(p.like)-1] == nil {
			p.like[len(p.like)-1] = new(frameLike)
		}
		like = p.like[len(p.like)-1]
	}
	like.of = of
	like.set(t.Value, name, data)
}

func (l *frameLike) set(v jsondoc.Value, name, data []byte) {
	from := v.Offset()
	l.name = append(l.name[:0], name...)
	l.head = append(l.head[:0], data[:from+1]...)
	l.tail = append(l.tail[:0], data[from+len(v.Raw())-1:]...)
}

// releasePassed takes what is held of a text that has ended to the client; nil for all texts.
func (r *Renderer) releasePassed(ctx context.Context, t *clientapi.PassedText) error {
	p := &r.passing
	for i := 0; i < len(p.like); i++ {
		l := p.like[i]
		of := l.of
		if !of.open || t != nil && (of.what != t.What || of.choice != t.Choice || of.key != t.Key || t.Part != 0 && of.part != abi.ReasoningPart(t.Part)) {
			continue
		}
		of.open = false
		done, err := r.chain.piece(ctx, of, r.flags()|abi.TextComplete, nil, of.what == abi.WhatReasoning)
		if err != nil {
			return err
		}
		if of.what == abi.WhatReasoning && done.edit {
			r.at(of.choice).change(of.key, done.cut)
		}
		r.emitLike(l, done.out)
	}
	return nil
}

// emitLike passes on a text in a frame like an earlier one.
func (r *Renderer) emitLike(l *frameLike, text []byte) {
	if len(text) == 0 {
		return
	}
	r.passing.altered = true
	r.spell = append(r.spell[:0], l.head...)
	r.spell = jsondoc.AppendEscaped(r.spell, text)
	r.spell = append(r.spell, l.tail...)
	r.emit(l.name, r.spell)
}

// emit takes a frame to the renderer. Where the client gets other frames than there were, it numbers those that have a number.
func (r *Renderer) emit(name, data []byte) {
	p := &r.passing
	if p.altered && p.seq >= 0 && p.numbers.Parse(data, passedLimits) == nil {
		if v := p.numbers.Root().Get(sequenceNumber); v.Kind() == jsondoc.Number {
			p.seq++
			from := v.Offset()
			p.number = strconv.AppendInt(append(p.number[:0], data[:from]...), p.seq, 10)
			data = append(p.number, data[from+len(v.Raw()):]...)
			p.number = data
		}
		p.numbers.Reset()
	}
	r.Renderer.Frame(name, data)
}

// waitForArguments keeps a frame with a piece of a tool's arguments.
func (r *Renderer) waitForArguments(t *clientapi.PassedText, name, data []byte) error {
	c := r.passing.call(t.Key)
	if c == nil {
		c = r.passing.newCall(t.Key)
	}
	if r.waiting += len(data); r.waiting > response.DefaultMaxHeld {
		return tooLarge()
	}
	keep := func(p []byte) response.Span {
		c.frames = append(c.frames, p...)
		return response.Span{Off: uint32(len(c.frames) - len(p)), Len: uint32(len(p))}
	}
	c.spans = append(c.spans, [2]response.Span{keep(name), keep(data)})
	c.last = r.passing.frameNumber()
	c.args = t.Value.AppendText(c.args)
	c.like.set(t.Value, name, data)
	return nil
}

func (p *passing) call(key int32) *passedCall {
	for _, c := range p.calls {
		if c.key == key {
			return c
		}
	}
	return nil
}

// newCall begins the arguments of a tool, in the memory of earlier ones.
func (p *passing) newCall(key int32) *passedCall {
	n := len(p.calls)
	if n < cap(p.calls) {
		p.calls = p.calls[:n+1]
	} else {
		p.calls = append(p.calls, nil)
	}
	if p.calls[n] == nil {
		p.calls[n] = new(passedCall)
	}
	c := p.calls[n]
	c.key, c.args, c.frames, c.spans = key, response.Reuse(c.args), response.Reuse(c.frames), c.spans[:0]
	return c
}

// forget ends the arguments of a tool. They are valid until the next ones begin.
func (p *passing) forget(c *passedCall) {
	i := slices.Index(p.calls, c)
	last := len(p.calls) - 1
	copy(p.calls[i:], p.calls[i+1:])
	p.calls[last] = c
	p.calls = p.calls[:last]
}

// endPassedCall takes the arguments of a tool through the filters, and passes on their frames, or one with what the filters have made of
// them.
func (r *Renderer) endPassedCall(ctx context.Context, key int32) error {
	p := &r.passing
	c := p.call(key)
	if c == nil {
		return nil
	}
	p.forget(c)
	p.altered = p.altered || len(p.calls) > 0 // the frames of other calls may have come before its own
	r.waiting -= len(c.frames)
	out, same, err := r.chain.strings(ctx, abi.WhatToolArguments, 0, r.flags(), c.args)
	if err != nil {
		return err
	}
	if !same {
		r.emitLike(&c.like, out)
		return nil
	}
	for _, s := range c.spans {
		r.emit(c.frames[s[0].Off:s[0].Off+s[0].Len], c.frames[s[1].Off:s[1].Off+s[1].Len])
	}
	p.count(c.last)
	return nil
}
