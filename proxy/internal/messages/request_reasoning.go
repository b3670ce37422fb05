package messages

import (
	"bytes"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// foreign reports whether a block is reasoning that no provider of this API has signed: it carries a seal of a gateway, or
// no signature at all.
func (r *Request) foreign(b *block) bool {
	switch b.kind {
	case blockThinking:
		return len(b.signature.Inside()) == 0 || thinking.IsSealed(r.text(b.signature))
	case blockRedactedThinking:
		return thinking.IsSealed(r.text(b.data))
	}
	return false
}

// text is the text of a string. It is valid until the next call.
func (r *Request) text(v jsondoc.Value) []byte {
	if !v.Escaped() {
		return v.Inside()
	}
	r.scratch = v.AppendText(r.scratch[:0])
	return r.scratch
}

// cutReasoning records the edits that take reasoning of other origins out of a message: Anthropic refuses a signature that is not
// its own. A message without anything else goes with it, since one without content would be refused, too. There is no
// warning: AppendChat gives the reasoning to the provider that it came from, and no other one has use for it.
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

// formatClaude is the format of reasoning that Anthropic has signed, in reasoning_details.
var formatClaude = []byte("anthropic-claude-v1")

// lowerReasoning appends the reasoning of a message of the assistant, made of those from first up to end: as reasoning_details with
// the place of each block among all, so that its provider can be given them in order; or as plain text, where no provider is known
// to have written it. It reports false if there is none.
func (r *Request) lowerReasoning(first, end jsondoc.Value) bool {
	c := &r.chat
	mark := len(c.dst)
	c.text(`,"reasoning_details":[`)
	index, entries := 0, 0
	c.plain = c.plain[:0]
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
		c.dst = c.dst[:mark]
		return false
	case len(c.plain) < entries:
		c.text("]")
		return true
	}
	c.dst = c.dst[:mark]
	c.text(`,"reasoning_content":"`)
	for _, v := range c.plain {
		c.dst = append(c.dst, v.Inside()...)
	}
	c.text(`"`)
	return true
}

// lowerReasoningBlock appends the entries of reasoning_details that a block stands for, after others of them, and returns how many
// there are then.
func (r *Request) lowerReasoningBlock(b *block, index, others int) (entries int) {
	c := &r.chat
	d := details{c: c, index: int32(index), entries: others}
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
		s, ok := thinking.Sealed{}, false
		if r.sealer != nil {
			s, ok = r.sealer.Open(text)
		}
		if !ok || !jsondoc.CheckEscaped(s.Data) {
			r.drop(b.self)
			return others
		}
		d.format = jsondoc.AppendEscaped(nil, []byte(s.Format))
		d.addSealed(&s, b.thinking.Inside())
	}
	if len(d.format) == 0 && d.entries == others+1 && b.kind == blockThinking {
		c.plain = append(c.plain, b.thinking)
	}
	return d.entries
}

// details writes the entries of one block.
type details struct {
	c       *lowering
	format  []byte // escaped; empty if unknown
	index   int32
	entries int
}

// addSealed adds what a seal holds, and the text that stood beside it.
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
		// Of the two providers of the Responses API that encrypt their reasoning, what can be read of it is a summary.
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

// add adds an entry. text and signature are the insides of JSON strings.
func (d *details) add(typ, member string, text, signature []byte, callID string) {
	c := d.c
	if d.entries++; d.entries > 1 {
		c.text(",")
	}
	c.text(`{"type":"`)
	c.text(typ)
	c.text(`","`)
	c.text(member)
	c.text(`":"`)
	c.dst = append(c.dst, text...)
	if len(signature) > 0 {
		c.text(`","signature":"`)
		c.dst = append(c.dst, signature...)
	}
	if callID != "" {
		c.text(`","id":"`)
		c.dst = jsondoc.AppendEscaped(c.dst, []byte(callID))
	}
	c.text(`"`)
	c.dst = thinking.AppendOrigin(c.dst, d.format, d.index)
	c.text("}")
}
