package messages

import (
	"bytes"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

const deltaEvent = "content_block_delta"

// delta is the payload of a content_block_delta event.
type delta struct {
	kind deltaType
	key  int32  // index of the block
	text []byte // still escaped: the inside of a JSON string
}

type deltaType uint8

const (
	otherDelta deltaType = iota
	textDelta
	inputDelta
	thinkingDelta
	signatureDelta
)

// deltaMembers names the member that holds the text of each type of delta.
var deltaMembers = [...]string{
	otherDelta: "", textDelta: "text", inputDelta: "partial_json", thinkingDelta: "thinking", signatureDelta: "signature",
}

// deltaKind parses the type of a delta.
func deltaKind(name []byte) deltaType {
	switch string(name) {
	case "text_delta":
		return textDelta
	case "input_json_delta":
		return inputDelta
	case "thinking_delta":
		return thinkingDelta
	case "signature_delta":
		return signatureDelta
	}
	return otherDelta
}

// The fixed bytes before the text of nearly every event of a stream. Comparing them takes a fraction of the time that
// parsing takes.
const (
	deltaHead    = `{"type":"content_block_delta","index":`
	textForm     = `,"delta":{"type":"text_delta","text":"`
	inputForm    = `,"delta":{"type":"input_json_delta","partial_json":"`
	thinkingForm = `,"delta":{"type":"thinking_delta","thinking":"`
	typeAt       = len(`,"delta":{"type":"`) + 1 // offset of the second letter of the type, which is different for each type
)

// readDelta reads an event in exactly this form, with optional spaces before the last brace, with which the API pads
// its events. It reports false for any other event, which may still be valid.
func readDelta(data []byte) (d delta, ok bool) {
	if len(data) < len(deltaHead) || string(data[:len(deltaHead)]) != deltaHead {
		return d, false
	}
	rest := data[len(deltaHead):]
	digits := 0
	for digits < len(rest) && rest[digits]-'0' <= 9 {
		d.key = d.key*10 + int32(rest[digits]-'0')
		digits++
	}
	const maxDigits = 6 // no message has that many blocks
	if digits == 0 || digits > maxDigits || digits > 1 && rest[0] == '0' {
		return d, false
	}
	if rest = rest[digits:]; len(rest) <= typeAt {
		return d, false
	}
	form := ""
	switch rest[typeAt] {
	case 'e':
		form, d.kind = textForm, textDelta
	case 'n':
		form, d.kind = inputForm, inputDelta
	case 'h':
		form, d.kind = thinkingForm, thinkingDelta
	default:
		return d, false
	}
	if len(rest) < len(form) || string(rest[:len(form)]) != form {
		return d, false
	}
	rest = rest[len(form):]
	end, ok := jsondoc.StringEnd(rest, 0)
	if !ok {
		return d, false
	}
	d.text = rest[:end]
	return d, closesTwice(rest[end+1:])
}

// closesTwice reports whether s consists of two closing braces, optionally with spaces between them.
func closesTwice(s []byte) bool {
	n := len(s)
	return n >= 2 && s[0] == '}' && s[n-1] == '}' && len(bytes.TrimLeft(s[1:n-1], " ")) == 0
}
