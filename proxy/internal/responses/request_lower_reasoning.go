package responses

import (
	"bytes"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// sealSeparator stands between the seals of one item.
const sealSeparator = ','

// reasoning writes the reasoning of a turn: what is sealed as reasoning_details, or else plain text as reasoning_content.
func (w *lowering) reasoning(items []item) {
	begin, index := len(w.dst), 0
	plain := false
	for k := range items {
		it := &items[k]
		if it.kind != itemReasoning {
			continue
		}
		token := it.v.Get("encrypted_content")
		if len(token.Inside()) == 0 {
			plain = plain || shows(it.v)
			continue
		}
		before := len(w.dst)
		if before == begin {
			w.string(`,"reasoning_details":[`)
		} else {
			w.string(",")
		}
		if w.details(it.v, token.Inside(), index) {
			index++
			continue
		}
		w.dst = w.dst[:before]
		w.warnOnce(droppedReasoning, it.v)
	}
	switch {
	case len(w.dst) > begin:
		w.string("]")
	case plain:
		w.string(`,"reasoning_content":"`)
		for k := range items {
			if it := &items[k]; it.kind == itemReasoning && len(it.v.Get("encrypted_content").Inside()) == 0 {
				w.dst = shown(w.dst, it.v)
			}
		}
		w.string(`"`)
	}
}

// shown appends the text that a reasoning item shows: that of its content, or else of its summary.
func shown(dst []byte, v jsondoc.Value) []byte {
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

// shows reports whether a reasoning item shows a text.
func shows(v jsondoc.Value) bool {
	for _, list := range [...]jsondoc.Value{v.Get("content"), v.Get("summary")} {
		for p := list.First(); p.Exists(); p = p.Next() {
			if len(p.Get("text").Inside()) > 0 {
				return true
			}
		}
	}
	return false
}

// details writes the entries of a sealed item, at least one. It is false for seals that are damaged, or not the gateway's.
func (w *lowering) details(v jsondoc.Value, tokens []byte, index int) bool {
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

// detailWriter writes the entries of one item.
type detailWriter struct {
	w       *lowering
	item    jsondoc.Value
	index   int
	entries int

	text   thinking.Sealed // a text whose signature may follow
	open   bool            // there is such a text
	used   bool            // an entry has the text that the item shows
	format string
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
		d.w.string(`","signature":"`)
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

// flush writes a text that no signature follows.
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

// finish writes what is left. A text that the item shows and no seal is about is the summary of what is encrypted.
func (d *detailWriter) finish() {
	d.flush()
	if d.used || !shows(d.item) {
		return
	}
	d.begin(`{"type":"reasoning.summary","summary":"`)
	d.appendText(nil)
	d.end(thinking.Sealed{Format: d.format})
}

func (d *detailWriter) begin(opening string) {
	if d.entries > 0 {
		d.w.string(",")
	}
	d.entries++
	d.w.string(opening)
}

// appendText appends a sealed text, or, where that is empty, the one that the item shows.
func (d *detailWriter) appendText(sealed []byte) {
	if len(sealed) > 0 {
		d.w.dst = append(d.w.dst, sealed...)
		d.used = true // what is shown is the same
		return
	}
	if !d.used {
		d.w.dst = shown(d.w.dst, d.item)
		d.used = true
	}
}

// end ends an entry with the data of a seal.
func (d *detailWriter) end(s thinking.Sealed) {
	d.w.dst = append(append(d.w.dst, s.Data...), '"')
	if len(s.CallID) > 0 {
		d.w.string(`,"id":"`)
		d.w.string(s.CallID)
		d.w.string(`"`)
	}
	d.w.dst = append(thinking.AppendOrigin(d.w.dst, []byte(s.Format), int32(d.index)), '}')
}
