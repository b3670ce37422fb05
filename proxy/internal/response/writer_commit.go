package response

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// commit takes the events of a batch that prepare has accepted.
func (m *Writer) commit(b *Batch) {
	for i := range b.Events {
		// What is said of the answer counts for every chunk of the batch, also where it stands behind what that renders.
		switch ev := &b.Events[i]; {
		case ev.Kind == EventStart:
			m.start(b.Bytes(ev.A), b.Bytes(ev.B), b.Bytes(ev.C))
		case ev.Kind == EventExtra && ev.Code == uint8(abi.ScopeAnswer):
			m.answerExtra(b.Bytes(ev.A), m.bytesOf(b, &m.pieces[i]))
		}
	}
	for i := 0; i < len(b.Events); i++ {
		ev := &b.Events[i]
		switch ev.Kind {
		case EventStart:
		case EventUsage:
			m.usage.set(abi.UsageKind(ev.Code), ev.Value)
		case EventDone:
			if ev.Code == abi.DoneNow {
				m.doneNow = true
			} else {
				m.atEnd = true
			}
		case EventExtra:
			m.extra(b, i)
		default:
			c := m.at(ev.Choice)
			c.joined = 0
			if c.finished || m.pieces[i].absent {
				if ev.hasContent() {
					m.dropped++
				}
				continue
			}
			i += m.choiceEvent(b, i, c)
		}
	}
	if m.o.Stream {
		for _, c := range m.choices {
			m.newsChunk(c)
		}
	}
}

// start takes what is said of the answer as a whole. Of each fact the first word counts, and none once a chunk has said
// it to the client.
func (m *Writer) start(id, model, format []byte) {
	if len(m.id) == 0 && !m.frozen {
		m.id = jsondoc.AppendEscaped(m.id, id)
	}
	if len(m.model) == 0 && !m.frozen {
		m.model = jsondoc.AppendEscaped(m.model, model)
	}
	if len(m.format) == 0 && !m.formatFrozen {
		m.format = jsondoc.AppendEscaped(m.format, format)
	}
}

// freeze fixes the answer's id and model.
func (m *Writer) freeze() {
	if m.frozen {
		return
	}
	m.frozen = true
	if len(m.id) == 0 {
		m.id = jsondoc.AppendEscaped(m.id, []byte(m.o.ID))
	}
	if len(m.model) == 0 {
		m.model = jsondoc.AppendEscaped(m.model, []byte(m.o.Model))
	}
}

// choiceEvent takes an event of a choice that has not finished. It returns how many of the events behind it went into
// the same chunk.
func (m *Writer) choiceEvent(b *Batch, i int, c *choice) (joined int) {
	ev, p := &b.Events[i], &m.pieces[i]
	c.seen = true
	if ev.hasContent() {
		m.freeze()
		m.atEnd = false // whoever goes on was not done
	}
	switch ev.Kind {
	case EventText:
		if s := m.take(&c.content, ev, p, m.bytesOf(b, p)); len(s) > 0 {
			c.points += int64(p.points)
			m.say(b, i, c, &c.content, "content", s)
		}
	case EventRefusal:
		if s := m.take(&c.refusal, ev, p, m.bytesOf(b, p)); len(s) > 0 {
			m.say(b, i, c, &c.refusal, "refusal", s)
		}
	case EventReasoning:
		r := c.reservePart(ev.Key, abi.ReasoningPart(ev.Code))
		if s := m.take(&r.text, ev, p, m.bytesOf(b, p)); len(s) > 0 {
			m.reason(b, i, c, r, s)
		}
	case EventToolCall:
		return m.openTool(b, i, c)
	case EventToolArguments:
		t := c.tool(ev.Key)
		if !t.open || t.ended {
			m.dropped++
			break
		}
		if s := m.take(&t.args, ev, p, m.bytesOf(b, p)); len(s) > 0 {
			m.argue(b, i, c, t, s)
		}
	case EventToolEnd:
		if t := c.tool(ev.Key); t != nil && t.open && !t.ended {
			m.endTool(b, i, c, t)
		}
	case EventFinish:
		if m.o.Stream && len(c.messageX.list) > 0 {
			m.messageChunk(c) // it is a part of what the choice says, not of why it ended
		}
		c.finished = true
		c.reason = abi.FinishReason(ev.Code)
		c.native = jsondoc.AppendEscaped(c.native[:0], b.Bytes(ev.A))
	}
	return 0
}

// take commits a piece to its text. It returns what there is to say now.
func (m *Writer) take(t *text, ev *Event, p *piece, s []byte) []byte {
	t.taken = true
	if ev.Encoding&abi.EncodingDefault != 0 {
		t.fallback = append(t.fallback, s...)
		m.held += len(s)
		return nil
	}
	t.half = p.rest
	if len(s) > 0 {
		t.some = true
		m.bytes += int64(len(s))
	}
	return s
}

// rest is what a text still has to say when nothing more can come: the beginning of a character that was never
// completed, or its default. The result is valid until the next call.
func (m *Writer) rest(t *text) []byte {
	if !t.some && t.half.n == 0 {
		t.some = len(t.fallback) > 0
		return t.fallback
	}
	m.rests, _ = t.half.appendTo(m.rests[:0])
	t.half, t.some = half{}, true
	return m.rests
}

// say gives the client a piece of a choice's content or refusal. i is the piece's event, or -1.
func (m *Writer) say(b *Batch, i int, c *choice, t *text, member string, s []byte) {
	if !m.o.Stream {
		t.all = append(t.all, s...)
		m.held += len(s)
		return
	}
	m.openChoice(c, member != "content")
	m.gather(b, i, c)
	m.textChunk(c, member, s)
}

// reason gives the client a piece of reasoning.
func (m *Writer) reason(b *Batch, i int, c *choice, r *part, s []byte) {
	m.formatFrozen = true
	if !m.o.Stream {
		d := c.detailOf(r)
		m.held += len(s)
		if r.part == abi.ReasoningSignature {
			d.signature = append(d.signature, s...)
			return
		}
		d.text = append(d.text, s...)
		if readable(r.part) {
			c.reasoning = append(c.reasoning, s...)
			m.held += len(s)
		}
		return
	}
	m.openChoice(c, false)
	m.gather(b, i, c)
	m.reasoningChunk(c, r, s)
}

// readable reports whether a part of the reasoning is text for people: it goes into reasoning_content.
func readable(p abi.ReasoningPart) bool {
	return p == abi.ReasoningText || p == abi.ReasoningSummary
}

// finishAnswer completes the answer.
func (m *Writer) finishAnswer() {
	some := false
	for _, c := range m.choices {
		if c.seen {
			some = true
			m.freeze()
			m.finishChoice(c)
		}
	}
	if !some {
		m.Fail(apierror.Fail(abi.FailBadAnswer, "", "", "The provider's answer holds no choice."))
		return
	}
	m.complete = true
	if !m.o.Stream {
		return
	}
	if m.o.IncludeUsage {
		m.usageChunk()
	}
	m.out = append(m.out, "data: [DONE]\n\n"...)
}

// finishChoice says what the texts of a choice still have to say, and why it ended.
func (m *Writer) finishChoice(c *choice) {
	for i := range c.parts {
		if s := m.rest(&c.parts[i].text); len(s) > 0 {
			m.reason(nil, -1, c, &c.parts[i], s)
		}
	}
	if s := m.rest(&c.content); len(s) > 0 {
		m.say(nil, -1, c, &c.content, "content", s)
	}
	if s := m.rest(&c.refusal); len(s) > 0 {
		m.say(nil, -1, c, &c.refusal, "refusal", s)
	}
	// A call that was cut off must not look like one without arguments: it could be carried out.
	cut := c.finished && (c.reason == abi.FinishLength || c.reason == abi.FinishContentFilter)
	for i := range c.tools {
		t := &c.tools[i]
		switch {
		case !t.open || t.ended:
		case !cut:
			m.endTool(nil, -1, c, t)
		case t.args.half.n > 0:
			m.argue(nil, -1, c, t, m.rest(&t.args))
		}
	}
	if !c.finished {
		c.finished, c.reason = true, abi.FinishStop
	}
	if c.reason == abi.FinishStop && c.opened > 0 {
		c.reason = abi.FinishToolCalls
	}
	if m.o.Stream {
		m.finishChunk(c)
	}
}

// finishWords are the finish reasons as clients know them.
var finishWords = [abi.FinishReasons]string{
	abi.FinishStop:          "stop",
	abi.FinishLength:        "length",
	abi.FinishToolCalls:     "tool_calls",
	abi.FinishContentFilter: "content_filter",
	abi.FinishFunctionCall:  "function_call",
}
