package gemini

import (
	"bytes"
	"encoding/base64"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// formatGemini is the format of reasoning that Google has signed, in reasoning_details.
var formatGemini = []byte("google-gemini-v1")

// skipSignature is Google's placeholder for the signature of a call that another provider's model has made.
const skipSignature = "skip_thought_signature_validator"

// sealStart is what a seal begins with in base64, of either alphabet, as far as it is the same for all seals.
var sealStart = []byte("c2x1aWNlLnNlYWwu")

// isSeal reports whether a signature is a seal of a gateway.
func (r *Request) isSeal(signature jsondoc.Value) bool {
	return signature.Exists() && bytes.HasPrefix(r.text(signature), sealStart)
}

// openSeal returns what is in a seal. It is false for one that is damaged, or of another key.
func (r *Request) openSeal(signature jsondoc.Value) (s thinking.Sealed, ok bool) {
	token, err := base64.StdEncoding.DecodeString(string(appendStandard(nil, r.text(signature))))
	if err != nil || r.sealer == nil {
		return s, false
	}
	s, ok = r.sealer.Open(token)
	return s, ok && jsondoc.CheckEscaped(s.Data) && jsondoc.CheckEscaped([]byte(s.Format)) && jsondoc.CheckEscaped([]byte(s.CallID))
}

// cutSeals records the edits that take the gateway's seals out of a content: Google refuses signatures that are not its own. A part that
// is nothing without its seal goes with it, as does a thought of another model, and a content without other parts. A call gets the
// placeholder that the API has for it. There is no warning: AppendChat gives reasoning to the provider that it came from, and
// no other one has use for it.
func (r *Request) cutSeals(content, list jsondoc.Value) {
	var p part
	kept := false
	for v := elements(list); v.Exists(); v = v.next() {
		_ = r.scanPart(v.Value, &p) // it has been checked
		kept = kept || !r.isSeal(p.signature) || !p.isOnlySeal()
	}
	if !kept {
		if r.m.contents.Kind() == jsondoc.Array {
			r.edit().DeleteValue(content)
		}
		return
	}
	for v := elements(list); v.Exists(); v = v.next() {
		if _ = r.scanPart(v.Value, &p); !r.isSeal(p.signature) {
			continue
		}
		switch {
		case p.isOnlySeal():
			r.edit().DeleteValue(v.Value)
		case p.call.Exists():
			r.edit().SetValue(p.signature, `"`+skipSignature+`"`)
		default:
			r.edit().DeleteValue(p.signature)
		}
	}
}

// isOnlySeal reports whether nothing of a sealed part is of use to a provider that has not made the seal.
func (p *part) isOnlySeal() bool {
	return !p.call.Exists() && (p.isThought() || len(p.text.Inside()) == 0 && !p.inline.Exists() && !p.file.Exists())
}

// lowerReasoning appends the reasoning of a turn of the model: as reasoning_details with the place of each block among all, so that
// its provider can be given them in order; or as plain text, where no provider is known to have written it. It reports false
// if there is none.
func (r *Request) lowerReasoning(first, end element) bool {
	c := &r.chat
	if !r.facts.Flags.Has(clientapi.FlagReasoningHistory) {
		return false
	}
	mark := len(c.dst)
	c.text(`,"reasoning_details":[`)
	c.plain, c.pieces = c.plain[:0], c.pieces[:0]
	d := details{r: r, index: -1}
	var p part
	open, text, call := false, false, -1
	flush := func() {
		if open {
			d.addThought(jsondoc.Value{})
			open = false
		}
	}
	for w := r.partsOf(first, end); w.next(&p); {
		if p.isThought() {
			if !open {
				open, text = true, false
				d.index++
			}
			if len(p.text.Inside()) > 0 {
				c.pieces = append(c.pieces, p.text)
			}
			if len(p.signature.Inside()) > 0 {
				d.addThought(p.signature)
				open = false
			}
			continue
		}
		flush()
		switch {
		case p.call.Exists():
			call++
			d.index++
			text = false
			d.addSignature(p.signature, call)
			continue
		case len(p.text.Inside()) > 0 && !text:
			d.index++
			text = true
		}
		if len(p.signature.Inside()) > 0 {
			if len(p.text.Inside()) == 0 {
				d.index++
			}
			text = false
			d.addSignature(p.signature, -1)
		}
	}
	flush()
	switch {
	case d.entries == 0:
		c.dst = c.dst[:mark]
		return false
	case d.plain < d.entries:
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

// details writes the entries of reasoning_details.
type details struct {
	r       *Request
	index   int32 // of the block
	entries int
	plain   int // entries of which no provider is known
}

// addThought adds the thought whose pieces have been collected.
func (d *details) addThought(signature jsondoc.Value) {
	c := &d.r.chat
	defer func() { c.pieces = c.pieces[:0] }()
	switch {
	case len(signature.Inside()) == 0:
		if len(c.pieces) > 0 {
			d.plain++
			c.plain = append(c.plain, c.pieces...)
			d.add("reasoning.text", "text", c.pieces, nil, nil, nil, nil)
		}
	case !d.r.isSeal(signature):
		d.add("reasoning.text", "text", c.pieces, nil, signature.Inside(), nil, formatGemini)
	default:
		d.addSealed(signature, -1)
	}
}

// addSignature adds the signature of a text, or of the call with a number.
func (d *details) addSignature(signature jsondoc.Value, call int) {
	switch {
	case len(signature.Inside()) == 0, bytes.Equal(signature.Inside(), []byte(skipSignature)):
	case d.r.isSeal(signature):
		d.addSealed(signature, call)
	default:
		d.add("reasoning.encrypted", "data", nil, signature.Inside(), nil, d.callID(call), formatGemini)
	}
}

// callID is the ID of the call with a number, nil for none.
func (d *details) callID(call int) []byte {
	if call < 0 || call >= len(d.r.chat.calls) {
		return nil
	}
	return d.r.chat.calls[call].appendID(nil)
}

// addSealed adds what a seal holds, with the thought whose pieces have been collected.
func (d *details) addSealed(signature jsondoc.Value, call int) {
	c := &d.r.chat
	s, ok := d.r.openSeal(signature)
	if !ok {
		d.r.drop(signature)
		return
	}
	format := []byte(s.Format)
	switch s.Part {
	case abi.ReasoningSummary:
		d.add("reasoning.summary", "summary", c.pieces, nil, nil, nil, format)
		return
	case abi.ReasoningText, abi.ReasoningSignature:
		if len(format) == 0 && len(s.Data) == 0 {
			d.plain++
			c.plain = append(c.plain, c.pieces...)
		}
		d.add("reasoning.text", "text", c.pieces, nil, s.Data, nil, format)
		return
	}
	if len(c.pieces) > 0 {
		// Of the two providers of the Responses API that encrypt their reasoning, what can be read of it is a summary.
		if bytes.HasSuffix(format, []byte("-responses-v1")) {
			d.add("reasoning.summary", "summary", c.pieces, nil, nil, nil, format)
		} else {
			d.add("reasoning.text", "text", c.pieces, nil, nil, nil, format)
		}
	}
	id := []byte(nil)
	if s.Part == abi.ReasoningToolEncrypted {
		if id = d.callID(call); id == nil {
			id = []byte(s.CallID)
		}
	}
	d.add("reasoning.encrypted", "data", nil, s.Data, nil, id, format)
}

// add adds an entry, whose text is pieces, or data. All are the insides of JSON strings.
func (d *details) add(typ, member string, pieces []jsondoc.Value, data, signature, callID, format []byte) {
	c := &d.r.chat
	if d.entries++; d.entries > 1 {
		c.text(",")
	}
	c.text(`{"type":"`)
	c.text(typ)
	c.text(`","`)
	c.text(member)
	c.text(`":"`)
	for _, v := range pieces {
		c.dst = append(c.dst, v.Inside()...)
	}
	c.dst = append(c.dst, data...)
	if len(signature) > 0 {
		c.text(`","signature":"`)
		c.dst = append(c.dst, signature...)
	}
	if len(callID) > 0 {
		c.text(`","id":"`)
		c.dst = append(c.dst, callID...)
	}
	c.text(`"`)
	c.dst = thinking.AppendOrigin(c.dst, format, d.index)
	c.text("}")
}
