package response

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"

	"encoding/json"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// piece is what prepare made of an event's text, or of an extra member's value.
type piece struct {
	at      Span
	scratch bool  // at is in the machine's scratch memory, not in the batch
	absent  bool  // the event belongs to a tool call that is not there
	points  int32 // code points
	rest    half  // what waits for the next piece behind this one
}

// bytesOf returns a piece's text. It is valid while the batch is in hand.
func (m *Writer) bytesOf(b *Batch, p *piece) []byte {
	if p.scratch {
		return m.scratch[p.at.Off : p.at.Off+p.at.Len]
	}
	return b.Bytes(p.at)
}

// prepare checks every event of a batch and decodes its texts. It changes nothing that commit, or anybody else, would see
// if the batch were dropped; room that it reserves in vain is given back.
func (m *Writer) prepare(b *Batch) error {
	m.epoch++
	m.scratch = m.scratch[:0]
	if cap(m.pieces) < len(b.Events) {
		m.pieces = make([]piece, len(b.Events))
	}
	m.pieces = m.pieces[:len(b.Events)]
	for i := range b.Events {
		m.pieces[i] = piece{}
		if reason := m.prepareEvent(b, &b.Events[i], &m.pieces[i]); reason != "" {
			for _, c := range m.choices {
				c.unreserve()
			}
			err := &ProtocolError{Event: i, Reason: reason}
			if reason == ambiguous {
				e := apierror.Fail(abi.FailBadAnswer, "", "", "")
				e.Cause = err
				return e
			}
			return err
		}
	}
	return nil
}

// ambiguous is why JSON is refused that readers take for different values. Whoever says events passes such a value on as the
// provider wrote it, so it is the provider's answer that cannot be used.
const ambiguous = "the text is JSON that can be read in more than one way"

// prepareEvent prepares one event. It returns why the event is refused, or "".
func (m *Writer) prepareEvent(b *Batch, ev *Event, p *piece) (reason string) {
	if ev.Choice < 0 || ev.Choice >= abi.MaxChoices {
		return "the choice is out of range"
	}
	switch ev.Kind {
	case EventText:
		return m.prepareText(b, ev, p, &m.at(ev.Choice).content)
	case EventRefusal:
		return m.prepareText(b, ev, p, &m.at(ev.Choice).refusal)
	case EventReasoning:
		if ev.Code >= abi.ReasoningParts {
			return "the part of the reasoning is unknown"
		}
		part := m.at(ev.Choice).reservePart(ev.Key, abi.ReasoningPart(ev.Code))
		if part == nil {
			return "there are too many parts of reasoning"
		}
		return m.prepareText(b, ev, p, &part.text)
	case EventToolCall:
		if ev.A.Len > abi.MaxName || ev.B.Len > abi.MaxName {
			return "the tool call's id or name is too long"
		}
		if !m.at(ev.Choice).reserveTool(ev.Key) {
			return "there are too many tool calls"
		}
	case EventToolArguments:
		t := m.at(ev.Choice).tool(ev.Key)
		if t == nil {
			p.absent = true
			return ""
		}
		return m.prepareText(b, ev, p, &t.args)
	case EventToolEnd:
	case EventExtra:
		return m.prepareExtra(b, ev, p)
	case EventUsage:
		if ev.Code >= abi.UsageKinds {
			return "the kind of usage is unknown"
		}
	case EventFinish:
		if ev.Code >= abi.FinishReasons {
			return "the finish reason is unknown"
		}
		if ev.A.Len > abi.MaxName {
			return "the provider's finish reason is too long"
		}
	case EventDone:
		if ev.Code > abi.DoneAtEnd {
			return "the kind of done is unknown"
		}
	case EventStart:
		if ev.A.Len > abi.MaxName || ev.B.Len > abi.MaxName || ev.C.Len > abi.MaxName {
			return "the answer's id, model or reasoning format is too long"
		}
	default:
		return "the kind of event is unknown"
	}
	return ""
}

// prepareText decodes a piece of a text into what goes inside a JSON string.
func (m *Writer) prepareText(b *Batch, ev *Event, p *piece, t *text) (reason string) {
	s := b.Bytes(ev.A)
	if ev.Encoding&^(abi.EncodingMask|abi.EncodingDefault) != 0 {
		return "the encoding is unknown"
	}
	// A default is a text of its own, whole in one piece.
	alone := ev.Encoding&abi.EncodingDefault != 0
	var held half
	if !alone {
		if t.epoch != m.epoch {
			t.trial, t.epoch = t.half, m.epoch
		}
		held = t.trial
	}
	from := len(m.scratch)
	count := 0
	switch ev.Encoding & abi.EncodingMask {
	case abi.EncodingEscaped:
		if held.n == 0 && jsondoc.CheckEscaped(s) {
			p.at = ev.A
			if ev.Kind == EventText {
				p.points = int32(escapedPoints(s))
			}
			return ""
		}
		if held.n > 0 {
			// The half and the piece are read as one, behind which the result is built.
			m.scratch = append(append(m.scratch, held.bytes()...), s...)
			s = m.scratch[from:]
			from = len(m.scratch)
		}
		var ok bool
		if m.scratch, count, held, ok = appendMended(m.scratch, s); !ok {
			return "the text is not the inside of a JSON string"
		}

	case abi.EncodingUTF8:
		if held.escape() {
			m.scratch, count = held.appendTo(m.scratch)
			held = half{}
		}
		if held.n > 0 {
			m.scratch = append(append(m.scratch, held.bytes()...), s...)
			s = m.scratch[from:]
			from = len(m.scratch)
		}
		s, held = cutUTF8(s)
		m.scratch = jsondoc.AppendEscaped(m.scratch, s)
		if ev.Kind == EventText {
			count += utf8.RuneCount(s)
		}

	case abi.EncodingJSON:
		raw := len(m.scratch)
		var err error
		if m.scratch, err = jsondoc.AppendCompact(m.scratch, s); err != nil {
			if json.Valid(s) {
				return ambiguous
			}
			return "the text is not a JSON value"
		}
		s = m.scratch[raw:]
		from = len(m.scratch)
		m.scratch, count = held.appendTo(m.scratch)
		m.scratch = jsondoc.AppendEscaped(m.scratch, s)
		count += points(s)
		held = half{}

	default:
		return "the encoding is unknown"
	}
	if alone {
		var n int
		m.scratch, n = held.appendTo(m.scratch)
		count += n
	} else {
		t.trial, p.rest = held, held
	}
	p.at, p.scratch, p.points = Span{uint32(from), uint32(len(m.scratch) - from)}, true, int32(count)
	return ""
}

// prepareExtra checks an extra member and compacts its value.
func (m *Writer) prepareExtra(b *Batch, ev *Event, p *piece) (reason string) {
	if ev.Code >= abi.Scopes {
		return "the scope of the extra member is unknown"
	}
	scope, name := abi.Scope(ev.Code), b.Bytes(ev.A)
	switch {
	case len(name) == 0 || len(name) > abi.MaxName:
		return "the extra member's name is empty or too long"
	case Reserved(scope, name):
		return "the extra member's name is reserved"
	}
	from := len(m.scratch)
	var err error
	if m.scratch, err = jsondoc.AppendCompact(m.scratch, b.Bytes(ev.B)); err != nil {
		return "the extra member's value is not JSON"
	}
	p.at, p.scratch = Span{uint32(from), uint32(len(m.scratch) - from)}, true
	return ""
}
