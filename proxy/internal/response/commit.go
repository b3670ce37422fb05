package response

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// commit applies the events of a batch that prepare has accepted.
func (w *Writer) commit(b *Batch) {
	// Values of the response as a whole apply to every frame of the batch, including frames of earlier events.
	for i := range b.Events {
		switch ev := &b.Events[i]; {
		case ev.Kind == EventStart:
			w.head.set(b.Bytes(ev.A), b.Bytes(ev.B), b.Bytes(ev.C))
		case ev.Kind == EventExtra && ev.Code == uint8(abi.ScopeAnswer):
			if string(b.Bytes(ev.A)) == serviceTier {
				w.tier = append(w.tier[:0], bytes.Trim(w.bytes(b, &w.prepared[i]), `"`)...)
			}
			w.writeMember(b, i, 0, 0)
		}
	}
	for i := 0; i < len(b.Events); i++ {
		ev := &b.Events[i]
		switch ev.Kind {
		case EventStart:
		case EventUsage:
			w.count(abi.UsageKind(ev.Code), ev.Value)
		case EventDone:
			if ev.Code == abi.DoneNow {
				w.doneNow = true
			} else {
				w.doneAtEnd = true
			}
		case EventExtra:
			w.commitExtra(b, i)
		case EventFrame:
			w.r.Frame(b.Bytes(ev.A), b.Bytes(ev.B))
		case EventEmbedding, EventRank:
			w.commitItem(b, ev)
		default:
			c := w.choiceAt(ev.Choice)
			c.grouped = 0
			if c.finished || w.prepared[i].absent {
				if ev.hasContent() {
					w.dropped++
				}
				continue
			}
			i += w.commitChoiceEvent(b, i, c)
		}
	}
	if w.o.Stream {
		for _, c := range w.choices {
			if c.begun && !c.finished && c.unflushed {
				c.unflushed = false
				w.r.Flush(c.index, false)
			}
		}
	}
}

// serviceTier is the extra member of a response that names the service tier that the provider has used.
const serviceTier = "service_tier"

// ServiceTier adds the service tier that the provider has used, as a JSON string.
func (b *Batch) ServiceTier(name []byte) { b.Extra(abi.ScopeAnswer, 0, 0, []byte(serviceTier), name) }

// commitChoiceEvent applies an event of a choice that has not finished. It returns the number of following events that
// were applied together with it.
func (w *Writer) commitChoiceEvent(b *Batch, i int, c *choice) (joined int) {
	ev, p := &b.Events[i], &w.prepared[i]
	c.begun = true
	if ev.hasContent() {
		w.head.Fix()
		w.doneAtEnd = false // the provider has sent more after it
	}
	switch ev.Kind {
	case EventText:
		if s := w.commitText(&c.content, b, ev, p); len(s) > 0 {
			c.points += int64(p.points)
			w.writeMembersAfter(b, i, c)
			w.r.Text(c.index, s)
		}
	case EventRefusal:
		if s := w.commitText(&c.refusal, b, ev, p); len(s) > 0 {
			w.writeMembersAfter(b, i, c)
			w.r.Refusal(c.index, s)
		}
	case EventReasoning:
		r := c.reservePart(ev.Key, abi.ReasoningPart(ev.Code))
		if s := w.commitText(&r.text, b, ev, p); len(s) > 0 {
			w.writeMembersAfter(b, i, c)
			w.writeReasoning(c, r, s)
		}
	case EventToolCall:
		return w.beginTool(b, i, c)
	case EventToolArguments:
		t := c.tool(ev.Key)
		if !t.begun || t.ended {
			w.dropped++
			break
		}
		if s := w.commitArguments(t, b, ev, p); len(s) > 0 {
			w.writeMembersAfter(b, i, c)
			w.r.ToolArguments(c.index, t.index, s)
		}
	case EventToolEnd:
		if t := c.tool(ev.Key); t != nil && t.begun && !t.ended {
			if s := w.endTool(t); len(s) > 0 {
				w.writeMembersAfter(b, i, c)
				w.r.ToolArguments(c.index, t.index, s)
			}
			w.r.ToolEnd(c.index, t.index)
		}
	case EventFinish:
		if w.o.Stream && c.unflushed {
			c.unflushed = false
			w.r.Flush(c.index, true)
		}
		c.finished = true
		c.reason = abi.FinishReason(ev.Code)
		c.native = jsondoc.AppendEscaped(c.native[:0], b.Bytes(ev.A))
	}
	return 0
}

// commitText adds a piece to its text. It returns the part of it that can be written now.
func (w *Writer) commitText(t *text, b *Batch, ev *Event, p *prepared) []byte {
	s := w.bytes(b, p)
	t.begun = true
	if ev.Encoding&abi.EncodingDefault != 0 {
		t.fallback = append(t.fallback, s...)
		w.held += len(s)
		return nil
	}
	t.partial = p.partial
	if len(s) > 0 {
		t.nonEmpty = true
		w.textBytes += int64(len(s))
	}
	return s
}

// commitArguments is commitText for a piece of a tool call's arguments.
func (w *Writer) commitArguments(t *tool, b *Batch, ev *Event, p *prepared) []byte {
	s := w.commitText(&t.args, b, ev, p)
	t.json.Add(s)
	return s
}

// finishText ends a text and returns the rest that has to be written: its default if the text is empty, or a
// replacement for a character that was never completed. The result is valid until the next call.
func (w *Writer) finishText(t *text) []byte {
	if !t.nonEmpty && t.partial.n == 0 {
		t.nonEmpty = len(t.fallback) > 0
		return t.fallback
	}
	w.remainder, _ = t.partial.appendTo(w.remainder[:0])
	t.partial, t.nonEmpty = partial{}, true
	return w.remainder
}

func (w *Writer) writeReasoning(c *choice, p *part, s []byte) {
	w.head.fixedReasoning = true
	w.r.Reasoning(c.index, p.part, p.key, s)
}

// beginTool starts a tool call. If its arguments or its end follow directly, they are applied with it, so that a call
// that arrives in one piece is rendered in one piece. beginTool returns the number of those events.
func (w *Writer) beginTool(b *Batch, i int, c *choice) (joined int) {
	ev := &b.Events[i]
	t := c.tool(ev.Key)
	if t.begun {
		return 0
	}
	t.begun, t.index = true, c.begunTools
	c.begunTools++
	if id := b.Bytes(ev.A); len(id) > 0 {
		w.id = jsondoc.AppendEscaped(w.id[:0], id)
	} else {
		w.id = appendToolID(w.id[:0], w.o.ID, c.index, t.index)
	}
	name := b.Bytes(ev.B)
	if w.o.Aliases != nil {
		if original := w.o.Aliases(name); len(original) > 0 {
			name = original
		}
	}
	w.name = jsondoc.AppendEscaped(w.name[:0], name)

	var args []byte
	if i+1 < len(b.Events) && b.Events[i+1].Choice == ev.Choice && b.Events[i+1].Key == ev.Key {
		switch next := &b.Events[i+1]; next.Kind {
		case EventToolArguments:
			args, joined = w.commitArguments(t, b, next, &w.prepared[i+1]), 1
		case EventToolEnd:
			args, joined = w.endTool(t), 1
		}
	}
	w.writeMembersAfter(b, i+joined, c)
	w.r.ToolCall(c.index, ToolCall{Index: t.index, Key: t.key, ID: w.id, Name: w.name, Arguments: args})
	if t.ended {
		w.r.ToolEnd(c.index, t.index)
	}
	return joined
}

// emptyObject is sent as the arguments of a call without arguments.
var emptyObject = []byte("{}")

// endTool ends a tool call. It returns the rest of its arguments: for a call without arguments, its default or the
// empty object.
func (w *Writer) endTool(t *tool) []byte {
	t.ended = true
	if !t.args.nonEmpty && t.args.partial.n == 0 {
		t.json = Extent{begun: true} // the default or empty object is a complete value
	}
	s := w.finishText(&t.args)
	if !t.args.nonEmpty {
		t.args.nonEmpty = true
		s = emptyObject
	}
	return s
}

// appendToolID appends an ID for a tool call that has none from the provider. The ID is derived from the response's ID
// and the position of the call, so it is reproducible.
func appendToolID(dst []byte, base string, choice, index int32) []byte {
	sum := sha256.Sum256(append([]byte(base), 0, byte(choice), byte(index), byte(index>>8)))
	const bytesOfID = 15
	dst = append(dst, "call_"...)
	return idAlphabet.AppendEncode(dst, sum[:bytesOfID])
}

var idAlphabet = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// finish completes the response, or fails it if a tool call is truncated or the response has no choices or items.
func (w *Writer) finish() {
	hasContent := w.anyItems
	for _, c := range w.choices {
		hasContent = hasContent || c.begun
		if c.hasTruncatedCall() {
			w.Fail(Truncated())
			return
		}
	}
	if !hasContent {
		w.Fail(apierror.Fail(abi.FailBadAnswer, "", "", "The provider's response has no choices."))
		return
	}
	for _, c := range w.choices {
		if c.begun {
			w.head.Fix()
			w.finishChoice(c)
		}
	}
	if w.items != nil {
		w.items.EndItems()
	}
	if e := w.out.Failed; e != nil {
		w.Fail(e)
		return
	}
	w.complete = true
	w.r.Complete(w.Usage())
}

// finishChoice writes the rest of a choice's texts and its finish reason.
func (w *Writer) finishChoice(c *choice) {
	for i := range c.parts {
		if s := w.finishText(&c.parts[i].text); len(s) > 0 {
			w.writeReasoning(c, &c.parts[i], s)
		}
	}
	if s := w.finishText(&c.content); len(s) > 0 {
		w.r.Text(c.index, s)
	}
	if s := w.finishText(&c.refusal); len(s) > 0 {
		w.r.Refusal(c.index, s)
	}
	// A truncated call must not look like one without arguments, because a client could execute it.
	truncated := c.finished && (c.reason == abi.FinishLength || c.reason == abi.FinishContentFilter)
	for i := range c.tools {
		t := &c.tools[i]
		w.partialCall = w.partialCall || t.begun && !truncated && !t.json.Whole() && t.args.nonEmpty
		switch {
		case !t.begun || t.ended:
		case !truncated:
			if s := w.endTool(t); len(s) > 0 {
				w.r.ToolArguments(c.index, t.index, s)
			}
			w.r.ToolEnd(c.index, t.index)
		case t.args.partial.n > 0:
			w.r.ToolArguments(c.index, t.index, w.finishText(&t.args))
		}
	}
	if !c.finished {
		c.finished, c.reason = true, abi.FinishStop
		w.unfinished = true
	}
	if c.reason == abi.FinishStop && c.begunTools > 0 {
		c.reason = abi.FinishToolCalls
	}
	w.r.Finish(c.index, c.reason, c.native)
}
