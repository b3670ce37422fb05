package response

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// prepared is the result of preparing an event: its decoded text, or the compact value of its extra member.
type prepared struct {
	span    Span
	scratch bool    // span is in Writer.scratch, not in the batch
	absent  bool    // the event belongs to a tool call that does not exist
	points  int32   // code points
	partial partial // incomplete character at the end of the text, which the next piece completes
}

// bytes returns the prepared text or value. It is valid until the batch has been applied.
func (w *Writer) bytes(b *Batch, p *prepared) []byte {
	if p.scratch {
		return w.scratch[p.span.Off : p.span.Off+p.span.Len]
	}
	return b.Bytes(p.span)
}

// prepare checks every event of a batch and decodes its texts. Dropping the batch afterwards has no effect on later
// batches, because the tool calls and parts that a rejected batch has reserved are freed.
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
			if isProviderFault(reason) {
				e := apierror.Fail(abi.FailBadAnswer, "", "", "")
				e.Cause = err
				return e
			}
			return err
		}
	}
	return nil
}

// Reasons for rejecting input that plugins pass on as the provider sent it. They make it an error of the provider, not
// of the plugin.
const (
	// reasonAmbiguous means that JSON parsers differ in how they read the text.
	reasonAmbiguous = "the text is JSON that can be read in more than one way"

	reasonBadVector    = "the vector is not an array of numbers"
	reasonBadScore     = "the score is not a number"
	reasonTooManyTools = "there are too many tool calls"
	reasonTooManyParts = "there are too many parts of reasoning"
)

func isProviderFault(reason string) bool {
	switch reason {
	case reasonAmbiguous, reasonBadVector, reasonBadScore, reasonTooManyTools, reasonTooManyParts:
		return true
	}
	return false
}

// prepareEvent prepares one event. It returns the reason for rejecting it, or "".
func (w *Writer) prepareEvent(b *Batch, ev *Event, p *prepared) (reason string) {
	if ev.Choice < 0 || ev.Choice >= abi.MaxChoices {
		return "the choice is out of range"
	}
	switch ev.Kind {
	case EventText:
		return w.prepareText(b, ev, p, &w.choiceAt(ev.Choice).content)
	case EventRefusal:
		return w.prepareText(b, ev, p, &w.choiceAt(ev.Choice).refusal)
	case EventReasoning:
		if ev.Code >= abi.ReasoningParts {
			return "the part of the reasoning is unknown"
		}
		part := w.choiceAt(ev.Choice).reservePart(ev.Key, abi.ReasoningPart(ev.Code))
		if part == nil {
			return reasonTooManyParts
		}
		return w.prepareText(b, ev, p, &part.text)
	case EventToolCall:
		if ev.A.Len > abi.MaxName || ev.B.Len > abi.MaxName {
			return "the tool call's id or name is too long"
		}
		if !w.choiceAt(ev.Choice).reserveTool(ev.Key) {
			return reasonTooManyTools
		}
	case EventToolArguments:
		t := w.choiceAt(ev.Choice).tool(ev.Key)
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

// prepareText decodes a piece of a text into the contents of a JSON string.
func (w *Writer) prepareText(b *Batch, ev *Event, p *prepared, t *text) (reason string) {
	s := b.Bytes(ev.A)
	if ev.Encoding&^(abi.EncodingMask|abi.EncodingDefault) != 0 {
		return "the encoding is unknown"
	}
	// A default is a complete text in one piece, separate from t.
	isDefault := ev.Encoding&abi.EncodingDefault != 0
	var held partial
	if !isDefault {
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
			p.span = ev.A
			if ev.Kind == EventText {
				p.points = int32(CountEscapedPoints(s))
			}
			return ""
		}
		if held.n > 0 {
			// Join the partial character and the piece in scratch, and append the result after them.
			w.scratch = append(append(w.scratch, held.bytes()...), s...)
			s = w.scratch[from:]
			from = len(w.scratch)
		}
		var ok bool
		if w.scratch, count, held, ok = appendValid(w.scratch, s); !ok {
			return "the text is not valid inside a JSON string"
		}

	case abi.EncodingUTF8:
		if held.isEscape() {
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
				return reasonAmbiguous
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
	if isDefault {
		var n int
		w.scratch, n = held.appendTo(w.scratch)
		count += n
	} else {
		t.trial, p.partial = held, held
	}
	p.span, p.scratch, p.points = Span{uint32(from), uint32(len(w.scratch) - from)}, true, int32(count)
	return ""
}
