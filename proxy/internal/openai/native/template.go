package native

import (
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// template is a chunk that yielded one piece of text, as nearly all chunks do, and did not otherwise change the
// reader's state. If the next chunk only differs in the text, byte for byte, parsing it would have the same result with
// the new text, so the reader compares bytes instead, which takes a tenth of the time. The padding with which providers
// hide the length of the text may differ as well, since it is ignored.
type template struct {
	chunk  []byte
	slots  [2]slot // in the order of the chunk; the second one may be absent
	choice int32
}

// slot is the content of a string that may differ from the template.
type slot struct {
	start, end int
	text       bool // true for the text, false for the padding
}

// maxTemplate limits the length of a template, because each open stream keeps one.
const maxTemplate = 1 << 10

func (t *template) reset() { t.chunk = t.chunk[:0] }

// set stores a chunk, which must be strict JSON and have a text as its only event. padding may be absent.
func (t *template) set(chunk []byte, choice int32, text, padding jsondoc.Value) {
	t.chunk, t.choice, t.slots = append(t.chunk[:0], chunk...), choice, [2]slot{}
	t.slots[0] = newSlot(text, true)
	if padding.Kind() != jsondoc.String {
		return
	}
	t.slots[1] = newSlot(padding, false)
	if t.slots[1].start < t.slots[0].start {
		t.slots[0], t.slots[1] = t.slots[1], t.slots[0]
	}
}

func newSlot(v jsondoc.Value, text bool) slot {
	start := v.Offset() + 1
	return slot{start, start + len(v.Inside()), text}
}

// match returns the text of a chunk that matches the template, or nil.
func (t *template) match(chunk []byte) (text []byte) {
	at, from := 0, 0
	for i := range t.slots {
		s := &t.slots[i]
		if s.start == 0 {
			break
		}
		between := t.chunk[from:s.start]
		if len(chunk)-at < len(between) || string(chunk[at:at+len(between)]) != string(between) {
			return nil
		}
		at += len(between)
		end, ok := jsondoc.StringEnd(chunk, at)
		if !ok {
			return nil
		}
		if s.text {
			text = chunk[at:end]
		}
		at, from = end, s.end
	}
	if len(text) == 0 || string(chunk[at:]) != string(t.chunk[from:]) {
		return nil
	}
	return text
}

// readByTemplate reads a chunk that matches the template. It returns false if the chunk has to be parsed.
func (r *Reader) readByTemplate(p []byte, b *response.Batch) bool {
	if len(r.template.chunk) == 0 {
		return false
	}
	text := r.template.match(p)
	if text == nil {
		return false
	}
	r.chunks++
	b.Text(r.template.choice, abi.EncodingEscaped, text)
	return true
}

// setTemplate makes p the template if its only event is a text, which means that its other members were emitted before
// or are ignored in every chunk. before is the number of events in b before those of p.
func (r *Reader) setTemplate(p []byte, b *response.Batch, before int, padding jsondoc.Value) {
	r.template.reset()
	if r.loose || r.o.ThinkTags || len(p) > maxTemplate || b.Failure() != nil || len(b.Events) != before+1 || !r.lastText.Exists() {
		return
	}
	if e := &b.Events[before]; e.Kind == response.EventText {
		r.template.set(p, e.Choice, r.lastText, padding)
	}
}
