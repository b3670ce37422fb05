package response

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// prepared is what prepare made of an event's text, or of an extra member's value.
type prepared struct {
	at      Span
	scratch bool    // at is in the writer's scratch memory, not in the batch
	absent  bool    // the event belongs to a tool call that is not there
	points  int32   // code points
	partial partial // what waits for the next piece of the text
}

// bytes returns what was prepared. It is valid until the batch has been applied.
func (w *Writer) bytes(b *Batch, p *prepared) []byte {
	if p.scratch {
		return w.scratch[p.at.Off : p.at.Off+p.at.Len]
	}
	return b.Bytes(p.at)
}

// prepare checks every event of a batch and decodes its texts. It changes nothing that commit would see if
// the batch were dropped; room that it reserves in vain is freed.
func (w *Writer) prepare(b *Batch) error {
	w.epoch++
	w.scratch = w.scratch[:0]
	if cap(w.prepared) < len(b.Events) {
		w.prepared = make([]prepared, len(b.Events))
	}
	w.prepared = w.prepared[:len(b.Events)]
	for i := range b.Events {
		w.prepared[i] = prepared{}
		if reason := w.prepareEvent(b, &b.Events[i], &w.prepared[i]); reason != "" {
			for _, c := range w.choices {
				c.unreserve()
			}
			err := &ProtocolError{Event: i, Reason: reason}
			if providersFault(reason) {
				e := apierror.Fail(abi.FailBadAnswer, "", "", "")
				e.Cause = err
				return e
			}
			return err
		}
	}
	return nil
}

// Reasons for refusing what plugins pass on as the provider sent it: then it is the provider's response that cannot be
// used, and not the plugin.
const (
	// ambiguous is JSON that readers take for different values.
	ambiguous = "the text is JSON that can be read in more than one way"

	noVector     = "the vector is not an array of numbers"
	noScore      = "the score is not a number"
	tooManyTools = "there are too many tool calls"
	tooManyParts = "there are too many parts of reasoning"
)

func providersFault(reason string) bool {
	switch reason {
	case ambiguous, noVector, noScore, tooManyTools, tooManyParts:
		return true
	}
	return false
}

// prepareEvent prepares one event. It returns the reason for refusing it, or "".
func (w *Writer) prepareEvent(b *Batch, ev *Event, p *prepared) (reason string) {
	if ev.Choice < 0 || ev.Choice >= abi.MaxChoices {
		return "the choice is out of range"
	}
	switch ev.Kind {
	case EventText:
		return w.prepareText(b, ev, p, &w.at(ev.Choice).content)
	case EventRefusal:
		return w.prepareText(b, ev, p, &w.at(ev.Choice).refusal)
	case EventReasoning:
		if ev.Code >= abi.ReasoningParts {
			return "the part of the reasoning is unknown"
		}
		part := w.at(ev.Choice).reservePart(ev.Key, abi.ReasoningPart(ev.Code))
		if part == nil {
			return tooManyParts
		}
		return w.prepareText(b, ev, p, &part.text)
	case EventToolCall:
		if ev.A.Len > abi.MaxName || ev.B.Len > abi.MaxName {
			return "the tool call's id or name is too long"
		}
		if !w.at(ev.Choice).reserveTool(ev.Key) {
			return tooManyTools
		}
	case EventToolArguments:
		t := w.at(ev.Choice).tool(ev.Key)
		if t == nil {
			p.absent = true
			return ""
		}
		return w.prepareText(b, ev, p, &t.args)
	case EventToolEnd, EventFrame:
	case EventEmbedding, EventRank:
		return w.prepareItem(b, ev)
	case EventExtra:
		return w.prepareExtra(b, ev, p)
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
			return "the response's id, model or reasoning format is too long"
		}
	default:
		return "the kind of event is unknown"
	}
	return ""
}

// prepareText decodes a piece of a text into what goes inside a JSON string.
func (w *Writer) prepareText(b *Batch, ev *Event, p *prepared, t *text) (reason string) {
	s := b.Bytes(ev.A)
	if ev.Encoding&^(abi.EncodingMask|abi.EncodingDefault) != 0 {
		return "the encoding is unknown"
	}
	// A default is a text of its own, whole in one piece.
	alone := ev.Encoding&abi.EncodingDefault != 0
	var held partial
	if !alone {
		if t.epoch != w.epoch {
			t.trial, t.epoch = t.partial, w.epoch
		}
		held = t.trial
	}
	from := len(w.scratch)
	count := 0
	switch ev.Encoding & abi.EncodingMask {
	case abi.EncodingEscaped:
		if held.n == 0 && jsondoc.CheckEscaped(s) {
			p.at = ev.A
			if ev.Kind == EventText {
				p.points = int32(CountEscapedPoints(s))
			}
			return ""
		}
		if held.n > 0 {
			// The partial character and the piece are read as one, after which the result is built.
			w.scratch = append(append(w.scratch, held.bytes()...), s...)
			s = w.scratch[from:]
			from = len(w.scratch)
		}
		var ok bool
		if w.scratch, count, held, ok = appendValid(w.scratch, s); !ok {
			return "the text is not the inside of a JSON string"
		}

	case abi.EncodingUTF8:
		if held.escape() {
			w.scratch, count = held.appendTo(w.scratch)
			held = partial{}
		}
		if held.n > 0 {
			w.scratch = append(append(w.scratch, held.bytes()...), s...)
			s = w.scratch[from:]
			from = len(w.scratch)
		}
		s, held = cutUTF8(s)
		w.scratch = jsondoc.AppendEscaped(w.scratch, s)
		if ev.Kind == EventText {
			count += utf8.RuneCount(s)
		}

	case abi.EncodingJSON:
		raw := len(w.scratch)
		var err error
		if w.scratch, err = jsondoc.AppendCompact(w.scratch, s); err != nil {
			if json.Valid(s) {
				return ambiguous
			}
			return "the text is not a JSON value"
		}
		s = w.scratch[raw:]
		from = len(w.scratch)
		w.scratch, count = held.appendTo(w.scratch)
		w.scratch = jsondoc.AppendEscaped(w.scratch, s)
		count += CountPoints(s)
		held = partial{}

	default:
		return "the encoding is unknown"
	}
	if alone {
		var n int
		w.scratch, n = held.appendTo(w.scratch)
		count += n
	} else {
		t.trial, p.partial = held, held
	}
	p.at, p.scratch, p.points = Span{uint32(from), uint32(len(w.scratch) - from)}, true, int32(count)
	return ""
}
