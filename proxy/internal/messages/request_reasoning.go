package messages

import (
	"bytes"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// foreign reports whether a block is reasoning that no provider of this API has signed: a gateway has sealed it, or it
// has no signature.
func (r *Request) foreign(b *block) bool {
	switch b.kind {
	case blockThinking:
		return len(b.signature.Inside()) == 0 || thinking.IsSealed(r.text(b.signature))
	case blockRedactedThinking:
		return thinking.IsSealed(r.text(b.data))
	}
	return false
}

// text returns the unescaped text of a string. It is valid until the next call.
func (r *Request) text(v jsondoc.Value) []byte {
	if !v.Escaped() {
		return v.Inside()
	}
	r.scratch = v.AppendText(r.scratch[:0])
	return r.scratch
}

// cutReasoning records the edits that remove reasoning from other APIs from a message, because Anthropic rejects any
// signature but its own. A message that contains nothing else is removed as a whole, because an empty one would be
// rejected, too. There is no warning: AppendChat returns the reasoning to the provider that it came from, and no other
// provider can use it.
func (r *Request) cutReasoning(message, content jsondoc.Value) {
	var b block
	others := false
	for v := content.First(); v.Exists() && !others; v = v.Next() {
		r.scanBlock(v, &b)
		others = !r.foreign(&b)
	}
	if !others {
		r.edit().DeleteValue(message)
		return
	}
	for v := content.First(); v.Exists(); v = v.Next() {
		if r.scanBlock(v, &b); r.foreign(&b) {
			r.edit().DeleteValue(v)
		}
	}
}

// formatClaude is the format, in reasoning_details, of reasoning that Anthropic has signed.
var formatClaude = []byte("anthropic-claude-v1")

// lowerReasoning appends the reasoning of an assistant message, merged from the messages from first up to end
// (exclusive). It becomes reasoning_details, which have the index of each block so that the provider gets them back in
// order, or reasoning_content if the origin of all of it is unknown. It reports false if there is none.
func (r *Request) lowerReasoning(first, end jsondoc.Value) bool {
	c := &r.chat
	mark := len(c.Dst)
	index, entries := 0, 0
	c.plainReasoning = c.plainReasoning[:0]
	var b block
	for m := first; m != end; m = m.Next() {
		for v := m.Get("content").First(); v.Exists(); v = v.Next() {
			if typ := v.Get("type"); typ.Is("thinking") || typ.Is("redacted_thinking") {
				r.scanBlock(v, &b)
				entries = r.lowerReasoningBlock(&b, index, entries)
			}
			index++
		}
	}
	switch {
	case entries == 0:
		c.Dst = c.Dst[:mark]
		return false
	case len(c.plainReasoning) < entries:
		c.Literal("]")
		return true
	}
	c.Dst = c.Dst[:mark]
	c.Literal(`,"reasoning_content":"`)
	for _, v := range c.plainReasoning {
		c.Inside(v)
	}
	c.Literal(`"`)
	return true
}

// lowerReasoningBlock appends the entries of reasoning_details for a block, after the first previous ones, and returns
// their new number.
func (r *Request) lowerReasoningBlock(b *block, index, previous int) (entries int) {
	c := &r.chat
	d := details{c: c, index: int32(index), entries: previous}
	var s thinking.Sealed
	seal := b.signature
	if b.kind == blockRedactedThinking {
		seal = b.data
	}
	switch text := r.text(seal); {
	case len(text) == 0:
		d.add("reasoning.text", "text", b.thinking.Inside(), nil, "")
	case !thinking.IsSealed(text):
		d.format = formatClaude
		if b.kind == blockRedactedThinking {
			d.add("reasoning.encrypted", "data", seal.Inside(), nil, "")
		} else {
			d.add("reasoning.text", "text", b.thinking.Inside(), seal.Inside(), "")
		}
	default:
		ok := false
		if r.sealer != nil {
			s, ok = r.sealer.Open(text)
		}
		if !ok || !jsondoc.CheckEscaped(s.Data) {
			r.drop(b.self)
			return previous
		}
		d.format = jsondoc.AppendEscaped(nil, []byte(s.Format))
		d.addSealed(&s, b.thinking.Inside())
	}
	if len(d.format) == 0 && len(s.Data) == 0 && d.entries == previous+1 && b.kind == blockThinking {
		c.plainReasoning = append(c.plainReasoning, b.thinking)
	}
	return d.entries
}

// details writes the reasoning_details entries of one block.
type details struct {
	c       *lowering
	format  []byte // escaped; empty if unknown
	index   int32  // index of the block in the message
	entries int    // number of entries written for the message so far
}

// addSealed adds the entries for a sealed block: its readable text and the sealed data.
func (d *details) addSealed(s *thinking.Sealed, text []byte) {
	switch s.Part {
	case abi.ReasoningSignature:
		d.add("reasoning.text", "text", text, s.Data, "")
		return
	case abi.ReasoningSummary:
		d.add("reasoning.summary", "summary", text, nil, "")
		return
	}
	if len(text) > 0 {
		// The providers of the Responses API that encrypt reasoning only send a readable summary of it.
		if bytes.HasSuffix(d.format, []byte("-responses-v1")) {
			d.add("reasoning.summary", "summary", text, nil, "")
		} else {
			d.add("reasoning.text", "text", text, nil, "")
		}
	}
	switch s.Part {
	case abi.ReasoningEncrypted:
		d.add("reasoning.encrypted", "data", s.Data, nil, "")
	case abi.ReasoningToolEncrypted:
		d.add("reasoning.encrypted", "data", s.Data, nil, s.CallID)
	}
}

// add adds an entry. text and signature are still escaped: the insides of JSON strings.
func (d *details) add(typ, member string, text, signature []byte, callID string) {
	d.c.StartDetail(&d.entries, typ, member)
	d.c.Bytes(text)
	d.c.EndDetail(signature, jsondoc.AppendEscaped(nil, []byte(callID)), d.format, d.index)
}
