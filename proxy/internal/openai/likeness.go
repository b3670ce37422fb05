package openai

import (
	"github.com/sluice-gateway/sluice/proxy/internal/response"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// likeness is a chunk that said one piece of text and nothing else, as nearly all do, and that left the reader as it was.
//
// A chunk that differs from it in that text only, byte for byte, says its own text in the same way, whatever the rest
// means: reading it member by member would come to the same. So it is compared, which takes a tenth of the time of
// reading. The padding by which a host hides the length of the text may differ as well, since nobody looks at it.
type likeness struct {
	chunk  []byte
	holes  [2]hole // in the order in which they stand; the second one may be missing
	choice int32
}

// hole is the inside of a string.
type hole struct {
	start, end int
	text       bool // it is the text, and not the padding
}

// maxLikeness is the length of a chunk that is remembered: each open stream keeps one.
const maxLikeness = 1 << 10

func (l *likeness) reset() { l.chunk = l.chunk[:0] }

// remember notes a chunk that was read strictly, and whose one event is a text from said. padding may be missing.
func (l *likeness) remember(chunk []byte, choice int32, said, padding jsondoc.Value) {
	l.chunk, l.choice, l.holes = append(l.chunk[:0], chunk...), choice, [2]hole{}
	l.holes[0] = inside(said, true)
	if padding.Kind() != jsondoc.String {
		return
	}
	l.holes[1] = inside(padding, false)
	if l.holes[1].start < l.holes[0].start {
		l.holes[0], l.holes[1] = l.holes[1], l.holes[0]
	}
}

func inside(v jsondoc.Value, text bool) hole {
	start := v.Offset() + 1
	return hole{start, start + len(v.Inside()), text}
}

// text returns the text of a chunk that is like the remembered one, nil for any other.
func (l *likeness) text(chunk []byte) (text []byte) {
	at, from := 0, 0
	for i := range l.holes {
		h := &l.holes[i]
		if h.start == 0 {
			break
		}
		between := l.chunk[from:h.start]
		if len(chunk)-at < len(between) || string(chunk[at:at+len(between)]) != string(between) {
			return nil
		}
		at += len(between)
		end, ok := jsondoc.StringEnd(chunk, at)
		if !ok {
			return nil
		}
		if h.text {
			text = chunk[at:end]
		}
		at, from = end, h.end
	}
	if len(text) == 0 || string(chunk[at:]) != string(l.chunk[from:]) {
		return nil
	}
	return text
}

// alike reads a chunk by its likeness to the last one. It returns false for one that has to be read.
func (r *Reader) alike(p []byte, b *response.Batch) bool {
	if len(r.like.chunk) == 0 {
		return false
	}
	text := r.like.text(p)
	if text == nil {
		return false
	}
	r.chunks++
	b.Text(r.like.choice, abi.EncodingEscaped, text)
	return true
}

// learn remembers a chunk that was read, if all that it said is one text: what it had to say besides has been said before,
// or is said again by every chunk with that member. before is how many events there were in front of it.
func (r *Reader) learn(p []byte, b *response.Batch, before int, padding jsondoc.Value) {
	r.like.reset()
	if r.loose || r.o.ThinkTags || len(p) > maxLikeness || b.Failure() != nil || len(b.Events) != before+1 || !r.said.Exists() {
		return
	}
	if e := &b.Events[before]; e.Kind == response.EventText {
		r.like.remember(p, e.Choice, r.said, padding)
	}
}
