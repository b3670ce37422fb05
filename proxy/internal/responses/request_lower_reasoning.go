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
	begin, index := len(w.dst), 0
	plain := false
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
		before := len(w.dst)
		if before == begin {
			w.write(`,"reasoning_details":[`)
		} else {
			w.write(",")
		}
		if w.writeDetails(it.v, token.Inside(), index) {
			index++
			continue
		}
		w.dst = w.dst[:before]
		w.warnOnce(droppedReasoning, it.v)
	}
	switch {
	case len(w.dst) > begin:
		w.write("]")
	case plain:
		w.write(`,"reasoning_content":"`)
		for k := range items {
			if it := &items[k]; it.kind == itemReasoning && len(it.v.Get("encrypted_content").Inside()) == 0 {
				w.dst = appendReadableText(w.dst, it.v)
			}
		}
		w.write(`"`)
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

// writeDetails writes the entries of a sealed item. It returns false if a seal is damaged or not the gateway's, or if
// there are no entries.
func (w *lowering) writeDetails(v jsondoc.Value, tokens []byte, index int) bool {
	d := detailWriter{w: w, item: v, index: index}
	for len(tokens) > 0 {
		token, rest, more := bytes.Cut(tokens, []byte{sealSeparator})
		s, ok := w.r.sealer.Open(token)
		if !ok || more && len(rest) == 0 || !jsondoc.CheckEscaped(s.Data) || !jsondoc.CheckEscaped([]byte(s.Format)) || !jsondoc.CheckEscaped([]byte(s.CallID)) {
			return false
		}
		d.write(s)
		tokens = rest
	}
	d.finish()
	return d.entries > 0
}

// detailWriter writes the reasoning_details entries of one item.
type detailWriter struct {
	w       *lowering
	item    jsondoc.Value
	index   int
	entries int

	text   thinking.Sealed // a text whose signature may follow
	open   bool            // text is in use
	used   bool            // an entry has the text that the item shows
	format string          // format of the last seal
}

func (d *detailWriter) write(s thinking.Sealed) {
	d.format = s.Format
	if s.Part != abi.ReasoningSignature {
		d.flush()
	}
	switch s.Part {
	case abi.ReasoningText:
		d.text, d.open = s, true
	case abi.ReasoningSignature:
		d.begin(`{"type":"reasoning.text","text":"`)
		d.appendText(d.text.Data)
		d.text, d.open = thinking.Sealed{}, false
		d.w.write(`","signature":"`)
		d.end(s)
	case abi.ReasoningSummary:
		d.begin(`{"type":"reasoning.summary","summary":"`)
		d.appendText(s.Data)
		s.Data = nil
		d.end(s)
	default:
		d.begin(`{"type":"reasoning.encrypted","data":"`)
		d.end(s)
	}
}

// flush writes a held text that no signature follows.
func (d *detailWriter) flush() {
	if !d.open {
		return
	}
	d.begin(`{"type":"reasoning.text","text":"`)
	d.appendText(d.text.Data)
	d.text.Data = nil
	d.end(d.text)
	d.text, d.open = thinking.Sealed{}, false
}

// finish writes what is left. A text that the item shows, but that no seal refers to, is the summary of encrypted
// reasoning.
func (d *detailWriter) finish() {
	d.flush()
	if d.used || !hasReadableText(d.item) {
		return
	}
	d.begin(`{"type":"reasoning.summary","summary":"`)
	d.appendText(nil)
	d.end(thinking.Sealed{Format: d.format})
}

func (d *detailWriter) begin(opening string) {
	if d.entries > 0 {
		d.w.write(",")
	}
	d.entries++
	d.w.write(opening)
}

// appendText appends a sealed text, or if it is empty, the text that the item shows.
func (d *detailWriter) appendText(sealed []byte) {
	if len(sealed) > 0 {
		d.w.dst = append(d.w.dst, sealed...)
		d.used = true // the item shows the same text
		return
	}
	if !d.used {
		d.w.dst = appendReadableText(d.w.dst, d.item)
		d.used = true
	}
}

// end ends an entry, with the data of a seal as the end of its last string.
func (d *detailWriter) end(s thinking.Sealed) {
	d.w.dst = append(append(d.w.dst, s.Data...), '"')
	if len(s.CallID) > 0 {
		d.w.write(`,"id":"`)
		d.w.write(s.CallID)
		d.w.write(`"`)
	}
	d.w.dst = append(thinking.AppendOrigin(d.w.dst, []byte(s.Format), int32(d.index)), '}')
}
