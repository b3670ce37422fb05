package native

import (
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// template is the last chunk that held one piece of text and nothing else, as nearly all do, and left the reader unchanged.
//
// A chunk that differs from it in that text only, byte for byte, yields its own text in the same way, whatever the rest
// means: reading it member by member would have the same result. So it is compared, which takes a tenth of the time. The
// padding by which a provider hides the length of the text may differ as well, since it is ignored.
type template struct {
	chunk  []byte
	slots  [2]slot // in their order in the chunk; the second one may be absent
	choice int32
}

// slot is the inside of a string that may differ.
type slot struct {
	start, end int
	text       bool // it is the text, and not the padding
}

// maxTemplate is the length of the longest chunk that is kept: each open stream keeps one.
const maxTemplate = 1 << 10

func (t *template) reset() { t.chunk = t.chunk[:0] }

// set keeps a chunk that is strict JSON, and whose one event is a text. padding may be absent.
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

// match returns the text of a chunk that fits the template, nil for any other.
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

// readByTemplate reads a chunk that fits the template. It returns false for one that has to be parsed.
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

// setTemplate makes a chunk the template, if its only event is one text: what else is in it has been emitted before, or is
// ignored in every chunk. before is how many events there were before it.
func (r *Reader) setTemplate(p []byte, b *response.Batch, before int, padding jsondoc.Value) {
	r.template.reset()
	if r.loose || r.o.ThinkTags || len(p) > maxTemplate || b.Failure() != nil || len(b.Events) != before+1 || !r.lastText.Exists() {
		return
	}
	if e := &b.Events[before]; e.Kind == response.EventText {
		r.template.set(p, e.Choice, r.lastText, padding)
	}
}
