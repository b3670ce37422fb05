package bedrock

import (
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// delta is a piece of a block. Except for unknown, its slices are escaped string contents.
type delta struct {
	index                              int32
	text, thought, signature, redacted []byte
	input                              []byte
	unknown                            []byte // name of an unknown kind of delta
}

// The constant bytes around the text of nearly every event of a stream. Comparing them is much cheaper than parsing the
// members. The provider pads events with a member p.
const (
	deltaHead   = `{"contentBlockIndex":`
	deltaMiddle = `,"delta":{"`
	textForm    = deltaMiddle + `text":`
	inputForm   = deltaMiddle + `toolUse":{"input":`
	thoughtForm = deltaMiddle + `reasoningContent":{"text":`
	padding     = `,"p":`
)

// readPlain parses an event that consists of exactly these bytes and a text. It returns false for any other event,
// which may still be valid.
func (d *delta) readPlain(r *json.Reader, data []byte) bool {
	rest, ok := cut(data, deltaHead)
	if !ok {
		return false
	}
	digits := 0
	index := int32(0)
	for digits < len(rest) && '0' <= rest[digits] && rest[digits] <= '9' {
		index = index*10 + int32(rest[digits]-'0')
		digits++
	}
	// JSON numbers have no leading zeros, and no response has blocks with six-digit indexes.
	if digits == 0 || digits > 5 || digits > 1 && rest[0] == '0' {
		return false
	}
	if rest = rest[digits:]; len(rest) < len(deltaMiddle)+2 {
		return false
	}
	form, ends := textForm, "}"
	into := &d.text
	switch rest[len(deltaMiddle)+1] { // the second letter distinguishes the kinds
	case 'o':
		form, ends, into = inputForm, "}}", &d.input
	case 'e':
		if rest[len(deltaMiddle)] == 'r' {
			form, ends, into = thoughtForm, "}}", &d.thought
		}
	}
	if rest, ok = cut(rest, form); !ok {
		return false
	}
	inside, rest := cutString(r, rest)
	if inside == nil {
		return false
	}
	if rest, ok = cut(rest, ends); !ok {
		return false
	}
	if padded, ok := cut(rest, padding); ok {
		var pad []byte
		if pad, rest = cutString(r, padded); pad == nil {
			return false
		}
	}
	if string(rest) != "}" {
		return false
	}
	d.index, *into = index, inside
	return true
}

// cutString splits s after the JSON string at its beginning. inside is nil if there is none.
func cutString(r *json.Reader, s []byte) (inside, rest []byte) {
	if len(s) == 0 || s[0] != '"' {
		return nil, s
	}
	r.Reset(s)
	if inside = r.Inside(); inside == nil {
		return nil, s
	}
	return inside, s[len(inside)+2:]
}

// cut removes a prefix.
func cut(s []byte, prefix string) (rest []byte, ok bool) {
	if len(s) < len(prefix) || string(s[:len(prefix)]) != prefix {
		return s, false
	}
	return s[len(prefix):], true
}

// read reads an event member by member.
func (d *delta) read(r *json.Reader) {
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "contentBlockIndex":
			d.index = readIndex(r)
		case "delta":
			for o := r.Object(); o.Next(); {
				switch name := r.Name(); string(name) {
				case "text":
					d.text = r.Inside()
				case "toolUse":
					for o := r.Object(); o.Next(); {
						if string(r.Name()) == "input" {
							d.input = r.Inside()
						}
					}
				case "reasoningContent":
					d.readReasoning(r)
				default:
					d.unknown = name
				}
			}
		}
	}
}

func (d *delta) readReasoning(r *json.Reader) {
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "text":
			d.thought = r.Inside()
		case "signature":
			d.signature = r.Inside()
		case "redactedContent":
			d.redacted = r.Inside()
		}
	}
}

// emit emits the delta. If the block is not a tool call of the client, its input is ignored, because the gateway has no
// call with that key.
func (d *delta) emit(a *provider.Answer) error {
	switch {
	case len(d.text) > 0:
		a.Text(0, abi.EncodingEscaped, d.text)
	case len(d.input) > 0:
		if a.ToolArguments(0, d.index, abi.EncodingEscaped, d.input) {
			return nil
		}
		if s := loadState(a); s.emulate && s.block == d.index {
			a.Text(0, abi.EncodingEscaped, d.input)
		}
	case len(d.thought) > 0 || len(d.signature) > 0:
		emitReasoning(a, d.index, d.thought, d.signature)
	case len(d.redacted) > 0:
		return emitRedacted(a, d.index, d.redacted, false)
	case d.unknown != nil:
		a.Unknown(d.unknown)
	}
	return nil
}
