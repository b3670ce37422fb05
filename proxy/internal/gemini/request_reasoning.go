package gemini

import (
	"bytes"
	"encoding/base64"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// formatGemini is the format, in reasoning_details, of reasoning that Google has signed.
var formatGemini = []byte("google-gemini-v1")

// skipSignature is Google's placeholder for the signature of a function call that came from another provider's model.
const skipSignature = "skip_thought_signature_validator"

// sealStart is the beginning of every seal in base64, in either alphabet.
var sealStart = []byte("c2x1aWNlLnNlYWwu")

// isSeal reports whether a signature is the seal of a gateway.
func (r *Request) isSeal(signature jsondoc.Value) bool {
	return signature.Exists() && bytes.HasPrefix(r.text(signature), sealStart)
}

// openSeal returns the content of a seal. It reports false if the seal is damaged or was made with another key.
func (r *Request) openSeal(signature jsondoc.Value) (s thinking.Sealed, ok bool) {
	token, err := base64.StdEncoding.DecodeString(string(appendStdBase64(nil, r.text(signature))))
	if err != nil || r.sealer == nil {
		return s, false
	}
	s, ok = r.sealer.Open(token)
	return s, ok && jsondoc.CheckEscaped(s.Data) && jsondoc.CheckEscaped([]byte(s.Format)) && jsondoc.CheckEscaped([]byte(s.CallID))
}

// cutSeals records the edits that remove the gateway's seals from a content, because Google rejects any signature but
// its own. A sealed thought or empty part is removed as a whole, and so is a content that contains nothing else. The
// seal of a function call is replaced by the API's placeholder. There is no warning: AppendChat returns the reasoning
// to the provider that it came from, and no other provider can use it.
func (r *Request) cutSeals(content, list jsondoc.Value) {
	var p part
	partsLeft := false
	for v := elements(list); v.Exists(); v = v.next() {
		_ = r.scanPart(v.Value, &p) // Parse has checked it
		partsLeft = partsLeft || !r.isSeal(p.signature) || !p.isOnlySeal()
	}
	if !partsLeft {
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

// isOnlySeal reports whether a sealed part is useless to Google without its seal.
func (p *part) isOnlySeal() bool {
	return !p.call.Exists() && (p.isThought() || len(p.text.Inside()) == 0 && !p.inline.Exists() && !p.file.Exists())
}

// lowerReasoning appends the reasoning of a model turn. It becomes reasoning_details, which have the index of each
// block so that the provider gets them back in order, or reasoning_content if the origin of all of it is unknown. It
// reports false if there is none.
func (r *Request) lowerReasoning(first, end element) bool {
	c := &r.chat
	if !r.facts.Flags.Has(clientapi.FlagReasoningHistory) {
		return false
	}
	mark := len(c.Dst)
	c.plainReasoning, c.pieces = c.plainReasoning[:0], c.pieces[:0]
	d := details{r: r, index: -1}
	var p part
	inThought, inText, call := false, false, -1
	endThought := func() {
		if inThought {
			d.addThought(jsondoc.Value{})
			inThought = false
		}
	}
	for w := r.iterateParts(first, end); w.next(&p); {
		if p.isThought() {
			if !inThought {
				inThought, inText = true, false
				d.index++
			}
			if len(p.text.Inside()) > 0 {
				c.pieces = append(c.pieces, p.text)
			}
			if len(p.signature.Inside()) > 0 {
				d.addThought(p.signature)
				inThought = false
			}
			continue
		}
		endThought()
		switch {
		case p.call.Exists():
			call++
			d.index++
			inText = false
			d.addSignature(p.signature, call)
			continue
		case len(p.text.Inside()) > 0 && !inText:
			d.index++
			inText = true
		}
		if len(p.signature.Inside()) > 0 {
			if len(p.text.Inside()) == 0 {
				d.index++
			}
			inText = false
			d.addSignature(p.signature, -1)
		}
	}
	endThought()
	switch {
	case d.entries == 0:
		c.Dst = c.Dst[:mark]
		return false
	case d.plain < d.entries:
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

// details writes the reasoning_details entries of one turn.
type details struct {
	r       *Request
	index   int32 // index of the current block in the turn
	entries int   // number of entries so far
	plain   int   // number of entries so far whose origin is unknown
}

// addThought adds the collected pieces of a thought with its signature, which may be absent.
func (d *details) addThought(signature jsondoc.Value) {
	c := &d.r.chat
	defer func() { c.pieces = c.pieces[:0] }()
	switch {
	case len(signature.Inside()) == 0:
		if len(c.pieces) > 0 {
			d.plain++
			c.plainReasoning = append(c.plainReasoning, c.pieces...)
			d.add("reasoning.text", "text", c.pieces, nil, nil, nil, nil)
		}
	case !d.r.isSeal(signature):
		d.add("reasoning.text", "text", c.pieces, nil, signature.Inside(), nil, formatGemini)
	default:
		d.addSealed(signature, -1)
	}
}

// addSignature adds the signature of a function call, given its index in the turn, or of another part, for which call
// is -1.
func (d *details) addSignature(signature jsondoc.Value, call int) {
	switch {
	case len(signature.Inside()) == 0, bytes.Equal(signature.Inside(), []byte(skipSignature)):
	case d.r.isSeal(signature):
		d.addSealed(signature, call)
	default:
		d.add("reasoning.encrypted", "data", nil, signature.Inside(), nil, d.callID(call), formatGemini)
	}
}

// callID returns the ID of the function call with an index in the turn, nil if there is none.
func (d *details) callID(call int) []byte {
	if call < 0 || call >= len(d.r.chat.calls) {
		return nil
	}
	return d.r.chat.calls[call].appendID(nil)
}

// addSealed adds the content of a seal, with the collected pieces of a thought.
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
			c.plainReasoning = append(c.plainReasoning, c.pieces...)
		}
		d.add("reasoning.text", "text", c.pieces, nil, s.Data, nil, format)
		return
	}
	if len(c.pieces) > 0 {
		// The providers of the Responses API that encrypt reasoning only send a readable summary of it.
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

// add adds an entry. Its member is pieces joined, or data. All texts are still escaped: the insides of JSON strings.
func (d *details) add(typ, member string, pieces []jsondoc.Value, data, signature, callID, format []byte) {
	c := &d.r.chat
	c.StartDetail(&d.entries, typ, member)
	for _, v := range pieces {
		c.Inside(v)
	}
	c.Bytes(data)
	c.EndDetail(signature, callID, format, d.index)
}
