package responses

import (
	"bytes"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// sealSeparator separates the seals of one item.
const sealSeparator = ','

// writeReasoning writes the reasoning of a turn: sealed reasoning as reasoning_details, or if there is none, plain text
// as reasoning_content.
func (w *lowering) writeReasoning(items []item) {
	index, entries, plain := 0, 0, false
	for k := range items {
		it := &items[k]
		if it.kind != itemReasoning {
			continue
		}
		token := it.v.Get("encrypted_content")
		if len(token.Inside()) == 0 {
			plain = plain || hasReadableText(it.v)
			continue
		}
		before := len(w.Dst)
		if n := w.writeDetails(it.v, token.Inside(), index, entries); n > entries {
			entries = n
			index++
			continue
		}
		w.Dst = w.Dst[:before]
		w.warnOnce(droppedReasoning, it.v)
	}
	switch {
	case entries > 0:
		w.Literal("]")
	case plain:
		w.Literal(`,"reasoning_content":"`)
		for k := range items {
			if it := &items[k]; it.kind == itemReasoning && len(it.v.Get("encrypted_content").Inside()) == 0 {
				w.Dst = appendReadableText(w.Dst, it.v)
			}
		}
		w.Literal(`"`)
	}
}

// appendReadableText appends the text that a reasoning item shows in its content, or else in its summary.
func appendReadableText(dst []byte, v jsondoc.Value) []byte {
	for _, list := range [...]jsondoc.Value{v.Get("content"), v.Get("summary")} {
		begin := len(dst)
		for p := list.First(); p.Exists(); p = p.Next() {
			dst = append(dst, p.Get("text").Inside()...)
		}
		if len(dst) > begin {
			break
		}
	}
	return dst
}

// hasReadableText reports whether a reasoning item shows a text.
func hasReadableText(v jsondoc.Value) bool {
	for _, list := range [...]jsondoc.Value{v.Get("content"), v.Get("summary")} {
		for p := list.First(); p.Exists(); p = p.Next() {
			if len(p.Get("text").Inside()) > 0 {
				return true
			}
		}
	}
	return false
}

// writeDetails writes the entries of a sealed item after the first previous ones, and returns their new number. It is
// previous, or 0, if a seal is damaged or not the gateway's, or if there are no entries.
func (w *lowering) writeDetails(v jsondoc.Value, tokens []byte, index, previous int) (entries int) {
	d := detailWriter{w: w, item: v, index: int32(index), entries: previous}
	for len(tokens) > 0 {
		token, rest, more := bytes.Cut(tokens, []byte{sealSeparator})
		s, ok := w.r.sealer.Open(token)
		if !ok || more && len(rest) == 0 || !jsondoc.CheckEscaped(s.Data) || !jsondoc.CheckEscaped([]byte(s.Format)) || !jsondoc.CheckEscaped([]byte(s.CallID)) {
			return 0
		}
		d.write(&s)
		tokens = rest
	}
	d.finish()
	return d.entries
}

// detailWriter writes the reasoning_details entries of one item.
type detailWriter struct {
	w       *lowering
	item    jsondoc.Value
	index   int32
	entries int // number of entries written for the message so far

	text   thinking.Sealed // a text whose signature may follow
	open   bool            // text is in use
	used   bool            // an entry has the text that the item shows
	format string          // format of the last seal
}

func (d *detailWriter) write(s *thinking.Sealed) {
	d.format = s.Format
	if s.Part != abi.ReasoningSignature {
		d.flush()
	}
	switch s.Part {
	case abi.ReasoningText:
		d.text, d.open = *s, true
	case abi.ReasoningSignature:
		d.writeText(d.text.Data, s)
		d.text, d.open = thinking.Sealed{}, false
	case abi.ReasoningSummary:
		d.w.StartDetail(&d.entries, "reasoning.summary", "summary")
		d.appendText(s.Data)
		d.end(nil, s)
	default:
		d.w.StartDetail(&d.entries, "reasoning.encrypted", "data")
		d.w.Bytes(s.Data)
		d.end(nil, s)
	}
}

// writeText writes a text with its signature.
func (d *detailWriter) writeText(text []byte, signature *thinking.Sealed) {
	d.w.StartDetail(&d.entries, "reasoning.text", "text")
	d.appendText(text)
	d.end(signature.Data, signature)
}

// flush writes a held text that no signature follows.
func (d *detailWriter) flush() {
	if !d.open {
		return
	}
	text := d.text.Data
	d.text.Data = nil
	d.writeText(text, &d.text)
	d.text, d.open = thinking.Sealed{}, false
}

// finish writes what is left. A text that the item shows, but that no seal refers to, is the summary of encrypted
// reasoning.
func (d *detailWriter) finish() {
	d.flush()
	if d.used || !hasReadableText(d.item) {
		return
	}
	d.w.StartDetail(&d.entries, "reasoning.summary", "summary")
	d.appendText(nil)
	d.end(nil, &thinking.Sealed{Format: d.format})
}

// appendText appends a sealed text, or if it is empty, the text that the item shows.
func (d *detailWriter) appendText(sealed []byte) {
	if len(sealed) > 0 {
		d.w.Bytes(sealed)
		d.used = true // the item shows the same text
		return
	}
	if !d.used {
		d.w.Dst = appendReadableText(d.w.Dst, d.item)
		d.used = true
	}
}

func (d *detailWriter) end(signature []byte, s *thinking.Sealed) {
	d.w.EndDetail(signature, []byte(s.CallID), []byte(s.Format), d.index)
}
