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

// passing is the state of a response whose frames are passed on as the provider sent them. If no filter changes the
// texts of a frame, the frame is passed on unchanged; otherwise the texts are replaced in it. Text that is still held
// when the text ends is sent in a frame built from the text's last one. The frames with the arguments of a tool call
// are held back until the arguments are complete.
type passing struct {
	texts clientapi.PassedTexts // finds the texts in a frame; nil if the response is not passed on

	doc    jsondoc.Doc // the current frame
	edits  jsondoc.Edits
	found  []clientapi.PassedText // the texts in doc
	edited []byte                 // scratch: the edited frame
	plain  []byte                 // scratch: an unescaped text

	templates []*frameTemplate // for held texts; elements beyond the length are reused
	calls     []*passedCall    // incomplete tool calls, in order of arrival; elements beyond the length are reused
	altered   bool             // frames were added, dropped or reordered
	seq       int64            // sequence number of the last frame that was sent, -1 for none
	numberDoc jsondoc.Doc      // scratch: a frame that is renumbered
	numbered  []byte           // scratch: the renumbered frame
}

// frameTemplate is a frame split around one text.
type frameTemplate struct {
	text             *text
	name, head, tail []byte
}

// passedCall holds the arguments of an incomplete tool call, and their frames.
type passedCall struct {
	key      int32
	args     []byte
	frames   []byte             // names and data of the frames
	spans    [][2]response.Span // name and data of each frame in frames
	last     int64              // sequence number of the last frame, -1 for none
	template frameTemplate
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
		doc: p.doc, edits: p.edits, found: p.found[:0], edited: response.Reuse(p.edited), plain: response.Reuse(p.plain),
		templates: p.templates[:0], calls: p.calls[:0], seq: -1, numberDoc: p.numberDoc, numbered: response.Reuse(p.numbered),
	}
}

// Pass announces, after Filter, that the response is passed on as the provider sends it. texts finds the texts in its
// frames.
func (r *Renderer) Pass(texts clientapi.PassedTexts) {
	if r.chain != nil {
		r.passing.texts = texts
	}
}

// passedLimits are the limits for a frame. They are loose because the API's reader has already checked it.
var passedLimits = jsondoc.Limits{Depth: jsondoc.DefaultDepth, Nodes: 1 << 19, Loose: true, FlatNumbers: true}

// runPassing processes an op of a response that is passed on. Only its frames reach the client: Finish and Complete
// serve accounting.
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

// runFrame passes the texts of a frame through the filters, and the frame to the renderer.
func (r *Renderer) runFrame(ctx context.Context, name, data []byte) error {
	p := &r.passing
	if p.doc.Parse(data, passedLimits) != nil || p.doc.Root().Kind() != jsondoc.Object {
		// The [DONE] marker that ends a stream is not a JSON object.
		if err := r.endAllPassed(ctx); err != nil {
			return err
		}
		r.emit(name, data)
		return nil
	}
	defer p.doc.Reset()
	p.edits.Reset(&p.doc)
	p.found = p.found[:0]
	p.texts(name, p.doc.Root(), r.head.Stream, r.collect)
	drop := false
	for i := range p.found {
		t := &p.found[i]
		left, err := r.passText(ctx, t, name, data)
		if err != nil {
			return err
		}
		drop = drop || t.Drop && !left
		if t.Place == clientapi.PassedArguments {
			return nil // endPassedCall sends the frame
		}
	}
	switch {
	case drop:
		p.altered = true
		return nil
	case p.edits.Len() > 0:
		var err error
		if p.edited, err = p.edits.Apply(p.edited[:0]); err != nil {
			return err
		}
		data = p.edited
	}
	p.altered = p.altered || len(p.calls) > 0 // this frame overtakes the held ones
	number := p.frameNumber()
	r.emit(name, data)
	p.recordNumber(number)
	return nil
}

// frameNumber returns the sequence number of the current frame, -1 if it has none.
func (p *passing) frameNumber() int64 {
	if n, ok := p.doc.Root().Get(sequenceNumber).Int(); ok {
		return n
	}
	return -1
}

// recordNumber records the sequence number of a frame that was sent under its own number.
func (p *passing) recordNumber(number int64) {
	if number >= 0 && !p.altered {
		p.seq = number
	}
}

// sequenceNumber is the member that numbers the events of the Responses API.
const sequenceNumber = "sequence_number"

// endAllPassed sends the frames of all incomplete tool calls, and the held parts of all texts.
func (r *Renderer) endAllPassed(ctx context.Context) error {
	for len(r.passing.calls) > 0 {
		if err := r.endPassedCall(ctx, r.passing.calls[0].key); err != nil {
			return err
		}
	}
	return r.releasePassed(ctx, nil)
}

// passText passes one text of a frame through the filters. left reports whether the frame still has content.
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
		return true, r.endAllPassed(ctx)
	case clientapi.PassedArguments:
		return true, r.holdArguments(t, name, data)
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
		if c.hideProbs = c.hideProbs || r.holdsText(t.Choice); c.hideProbs {
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
		out, unchanged, err := r.chain.filterStrings(ctx, t.What, t.Choice, r.flags(), p.plain)
		if err == nil && !unchanged {
			r.chain.replaceString(&p.edits, t.Value, out)
		}
		return true, err
	}
	r.chain.single.what, r.chain.single.choice = t.What, t.Choice
	r.chain.single.clear()
	res, err := r.chain.filterPiece(ctx, &r.chain.single, r.flags()|abi.TextComplete, p.plain, t.What == abi.WhatReasoning)
	if err != nil {
		return true, err
	}
	if res.edited && t.What == abi.WhatReasoning {
		c.markChanged(t.Key, false)
	}
	if res.edited && t.What == abi.WhatText {
		c.hideProbs = true
	}
	if !res.unchanged || res.cut {
		r.chain.replaceString(&p.edits, t.Value, res.out)
	}
	return true, nil
}

// markChanged records that a filter has changed a block of reasoning.
func (c *choice) markChanged(key int32, cut bool) {
	if c.block(key) == nil {
		c.blocks = append(c.blocks, block{key: key})
	}
	b := c.block(key)
	b.cut = b.cut || cut
}

// holdsText reports whether a filter holds back a part of any text of a choice.
func (r *Renderer) holdsText(choice int32) bool {
	for _, t := range r.chain.texts {
		if t.choice == choice && t.holds() {
			return true
		}
	}
	return false
}

// passPiece passes a piece of a text through the filters.
func (r *Renderer) passPiece(ctx context.Context, t *clientapi.PassedText, name, data []byte) (left bool, err error) {
	p, c := &r.passing, r.at(t.Choice)
	reasoning := t.What == abi.WhatReasoning
	full := r.chain.textOf(t.What, t.Choice, t.Key, abi.ReasoningPart(t.Part))
	p.plain = t.Value.AppendText(p.plain[:0])
	if len(p.plain) == 0 && t.Place == clientapi.PassedPiece {
		return true, nil // usually the start of a block
	}
	flags := r.flags()
	if t.Place == clientapi.PassedLast {
		flags |= abi.TextComplete
	}
	if b := c.block(t.Key); reasoning && b != nil && b.cut {
		p.edits.SetValue(t.Value, `""`)
		return false, nil
	}
	res, err := r.chain.filterPiece(ctx, full, flags, p.plain, reasoning)
	if err != nil {
		return true, err
	}
	if reasoning && res.edited {
		c.markChanged(t.Key, res.cut)
	}
	if res.cut {
		full.clear()
	}
	if res.unchanged {
		return true, nil
	}
	c.hideProbs = c.hideProbs || !reasoning
	r.chain.replaceString(&p.edits, t.Value, res.out)
	if full.open = full.holds(); full.open {
		r.saveTemplate(full, t, name, data)
	}
	return len(res.out) > 0, nil
}

// saveTemplate saves the frame of a text that is partly held, as the template of the frame that sends the held part
// when the text ends.
func (r *Renderer) saveTemplate(held *text, t *clientapi.PassedText, name, data []byte) {
	p := &r.passing
	var template *frameTemplate
	for _, f := range p.templates {
		if f.text == held {
			template = f
		}
	}
	if template == nil {
		if n := len(p.templates); n < cap(p.templates) {
			p.templates = p.templates[:n+1]
		} else {
			p.templates = append(p.templates, nil)
		}
		if p.templates[len(p.templates)-1] == nil {
			p.templates[len(p.templates)-1] = new(frameTemplate)
		}
		template = p.templates[len(p.templates)-1]
	}
	template.text = held
	template.set(t.Value, name, data)
}

// set splits a frame around the string v.
func (f *frameTemplate) set(v jsondoc.Value, name, data []byte) {
	from := v.Offset()
	f.name = append(f.name[:0], name...)
	f.head = append(f.head[:0], data[:from+1]...)
	f.tail = append(f.tail[:0], data[from+len(v.Raw())-1:]...)
}

// releasePassed sends the held part of a text that has ended, or of all texts if t is nil.
func (r *Renderer) releasePassed(ctx context.Context, t *clientapi.PassedText) error {
	p := &r.passing
	for i := 0; i < len(p.templates); i++ {
		template := p.templates[i]
		held := template.text
		if !held.open || t != nil && (held.what != t.What || held.choice != t.Choice || held.key != t.Key || t.Part != 0 && held.part != abi.ReasoningPart(t.Part)) {
			continue
		}
		held.open = false
		res, err := r.chain.filterPiece(ctx, held, r.flags()|abi.TextComplete, nil, held.what == abi.WhatReasoning)
		if err != nil {
			return err
		}
		if held.what == abi.WhatReasoning && res.edited {
			r.at(held.choice).markChanged(held.key, res.cut)
		}
		r.emitTemplate(template, res.out)
	}
	return nil
}

// emitTemplate sends a text in a frame built from a template.
func (r *Renderer) emitTemplate(f *frameTemplate, text []byte) {
	if len(text) == 0 {
		return
	}
	r.passing.altered = true
	r.escaped = append(r.escaped[:0], f.head...)
	r.escaped = jsondoc.AppendEscaped(r.escaped, text)
	r.escaped = append(r.escaped, f.tail...)
	r.emit(f.name, r.escaped)
}

// emit passes a frame to the renderer. Once frames were added, dropped or reordered, it renumbers those with a sequence
// number.
func (r *Renderer) emit(name, data []byte) {
	p := &r.passing
	if p.altered && p.seq >= 0 && p.numberDoc.Parse(data, passedLimits) == nil {
		if v := p.numberDoc.Root().Get(sequenceNumber); v.Kind() == jsondoc.Number {
			p.seq++
			from := v.Offset()
			p.numbered = strconv.AppendInt(append(p.numbered[:0], data[:from]...), p.seq, 10)
			data = append(p.numbered, data[from+len(v.Raw()):]...)
			p.numbered = data
		}
		p.numberDoc.Reset()
	}
	r.Renderer.Frame(name, data)
}

// holdArguments holds back a frame with a piece of a tool call's arguments.
func (r *Renderer) holdArguments(t *clientapi.PassedText, name, data []byte) error {
	c := r.passing.call(t.Key)
	if c == nil {
		c = r.passing.newCall(t.Key)
	}
	if r.waiting += len(data); r.waiting > response.DefaultMaxHeld {
		return tooLarge()
	}
	store := func(p []byte) response.Span {
		c.frames = append(c.frames, p...)
		return response.Span{Off: uint32(len(c.frames) - len(p)), Len: uint32(len(p))}
	}
	c.spans = append(c.spans, [2]response.Span{store(name), store(data)})
	c.last = r.passing.frameNumber()
	c.args = t.Value.AppendText(c.args)
	c.template.set(t.Value, name, data)
	return nil
}

// call returns the incomplete tool call with this key, nil if there is none.
func (p *passing) call(key int32) *passedCall {
	for _, c := range p.calls {
		if c.key == key {
			return c
		}
	}
	return nil
}

// newCall adds a tool call. It reuses the memory of removed ones.
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

// removeCall removes a tool call. c is valid until the next newCall.
func (p *passing) removeCall(c *passedCall) {
	i := slices.Index(p.calls, c)
	last := len(p.calls) - 1
	copy(p.calls[i:], p.calls[i+1:])
	p.calls[last] = c
	p.calls = p.calls[:last]
}

// endPassedCall passes the complete arguments of a tool call through the filters. It sends their frames, or if a filter
// changed the arguments, a single frame with all of them.
func (r *Renderer) endPassedCall(ctx context.Context, key int32) error {
	p := &r.passing
	c := p.call(key)
	if c == nil {
		return nil
	}
	p.removeCall(c)
	p.altered = p.altered || len(p.calls) > 0 // frames of other calls may have arrived before these
	r.waiting -= len(c.frames)
	out, unchanged, err := r.chain.filterStrings(ctx, abi.WhatToolArguments, 0, r.flags(), c.args)
	if err != nil {
		return err
	}
	if !unchanged {
		r.emitTemplate(&c.template, out)
		return nil
	}
	for _, s := range c.spans {
		r.emit(c.frames[s[0].Off:s[0].Off+s[0].Len], c.frames[s[1].Off:s[1].Off+s[1].Len])
	}
	p.recordNumber(c.last)
	return nil
}
