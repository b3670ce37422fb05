package thinking

import (
	"strconv"

	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Details is the reasoning of one choice, as the entries of its reasoning_details. All texts are the contents of JSON
// strings. The zero value is empty. Reset keeps the memory, except what only a very long response needs.
type Details struct{ list []detail }

// detail is one entry.
type detail struct {
	kind      detailKind
	key       int32
	text      []byte // the text, summary or encrypted data
	signature []byte
}

type detailKind uint8

const (
	detailText detailKind = iota
	detailSummary
	detailEncrypted
	detailToolEncrypted
)

// Reset removes all entries.
func (d *Details) Reset() {
	const keep = 16
	if cap(d.list) > keep {
		d.list = nil
	}
	d.list = d.list[:0]
}

// Len returns the number of entries.
func (d *Details) Len() int { return len(d.list) }

// Add appends a piece to a part of the reasoning block identified by key.
func (d *Details) Add(part abi.ReasoningPart, key int32, s []byte) {
	e := d.entry(part, key)
	if part == abi.ReasoningSignature {
		e.signature = append(e.signature, s...)
		return
	}
	e.text = append(e.text, s...)
}

// entry returns the entry that a part belongs to. It adds one if there is none.
func (d *Details) entry(part abi.ReasoningPart, key int32) *detail {
	kind := detailText
	switch part {
	case abi.ReasoningSummary:
		kind = detailSummary
	case abi.ReasoningEncrypted:
		kind = detailEncrypted
	case abi.ReasoningToolEncrypted:
		kind = detailToolEncrypted
	}
	for i := len(d.list) - 1; i >= 0; i-- { // it is usually the last one
		if e := &d.list[i]; e.kind == kind && e.key == key {
			return e
		}
	}
	n := len(d.list)
	if n == cap(d.list) {
		d.list = append(d.list, detail{kind: kind, key: key})
		return &d.list[n]
	}
	d.list = d.list[:n+1]
	e := &d.list[n]
	*e = detail{kind: kind, key: key, text: response.Reuse(e.text), signature: response.Reuse(e.signature)}
	return e
}

// signed reports whether any entry from index from on is signed or encrypted. Entries that belong to tool calls are
// ignored unless ofCalls is set.
func (d *Details) signed(from int, ofCalls bool) bool {
	for i := from; i < len(d.list); i++ {
		if e := &d.list[i]; len(e.signature) > 0 || e.kind == detailEncrypted || ofCalls && e.kind == detailToolEncrypted {
			return true
		}
	}
	return false
}

// AppendTo appends the entries from index from on as a JSON array. format is the format of all entries, empty if
// unknown. callID returns the ID of the tool call with a key, nil if there is none. If callID is nil, entries that
// belong to tool calls are omitted.
func (d *Details) AppendTo(dst []byte, from int, format []byte, callID func(key int32) []byte) []byte {
	dst = append(dst, '[')
	begin := len(dst)
	for i := from; i < len(d.list); i++ {
		if d.list[i].kind == detailToolEncrypted && callID == nil {
			continue
		}
		if len(dst) > begin {
			dst = append(dst, ',')
		}
		dst = d.list[i].appendTo(dst, format, callID)
	}
	return append(dst, ']')
}

func (e *detail) appendTo(dst, format []byte, callID func(key int32) []byte) []byte {
	switch e.kind {
	case detailText:
		dst = append(append(dst, `{"type":"reasoning.text","text":"`...), e.text...)
		if len(e.signature) > 0 {
			dst = append(append(dst, `","signature":"`...), e.signature...)
		}
	case detailSummary:
		dst = append(append(dst, `{"type":"reasoning.summary","summary":"`...), e.text...)
	case detailEncrypted, detailToolEncrypted:
		dst = append(append(dst, `{"type":"reasoning.encrypted","data":"`...), e.text...)
	}
	dst = append(dst, '"')
	if e.kind == detailToolEncrypted {
		if id := callID(e.key); id != nil {
			dst = append(append(append(dst, `,"id":"`...), id...), '"')
		}
	}
	return append(AppendOrigin(dst, format, e.key), '}')
}

// AppendOrigin appends the members of an entry that the provider needs to use the reasoning again, so the client must
// return them: its format, and the number of its block in the response.
func AppendOrigin(dst, format []byte, key int32) []byte {
	if len(format) > 0 {
		dst = append(append(append(dst, `,"format":"`...), format...), '"')
	}
	dst = append(dst, `,"index":`...)
	return strconv.AppendInt(dst, int64(key), 10)
}
