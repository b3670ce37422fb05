package main

import "github.com/sluice-gateway/sluice/sdk/json"

// What the API writes around the text of nearly every event of a stream, byte for byte. To compare with it takes half of
// the time that reading the members takes.
const (
	deltaHead    = `{"type":"content_block_delta","index":`
	deltaMiddle  = `,"delta":{"type":"`
	textForm     = deltaMiddle + `text_delta","text":`
	inputForm    = deltaMiddle + `input_json_delta","partial_json":`
	thinkingForm = deltaMiddle + `thinking_delta","thinking":`
)

// deltaKind is the type of a delta.
type deltaKind uint8

const (
	otherDelta deltaKind = iota
	textDelta
	inputDelta
	thinkingDelta
)

// readPlain reads an event that is written just so, with nothing but white space in any other place than the API has it:
// at the end. It returns otherDelta for any other event, which says nothing about it; inside is that of the text.
func readPlain(r *json.Reader, data []byte) (kind deltaKind, index int32, inside []byte) {
	rest, ok := cut(data, deltaHead)
	if !ok {
		return otherDelta, 0, nil
	}
	digits := 0
	for digits < len(rest) && '0' <= rest[digits] && rest[digits] <= '9' {
		index = index*10 + int32(rest[digits]-'0')
		digits++
	}
	// A leading zero is no number in JSON, and six digits are no block.
	if digits == 0 || digits > 5 || digits > 1 && rest[0] == '0' {
		return otherDelta, 0, nil
	}
	if rest = rest[digits:]; len(rest) < len(textForm) {
		return otherDelta, 0, nil
	}
	var form string
	switch rest[len(deltaMiddle)+1] { // the second byte tells the types apart
	case 'e':
		kind, form = textDelta, textForm
	case 'n':
		kind, form = inputDelta, inputForm
	case 'h':
		kind, form = thinkingDelta, thinkingForm
	}
	if rest, ok = cut(rest, form); !ok || kind == otherDelta {
		return otherDelta, 0, nil
	}
	r.Reset(rest)
	inside = r.Inside()
	if inside == nil || r.Offset() != 0 || !closesTwice(rest[len(inside)+2:]) {
		return otherDelta, 0, nil
	}
	return kind, index, inside
}

// closesTwice says whether s closes two objects and holds nothing else. The API pads its events in front of the second
// brace.
func closesTwice(s []byte) bool {
	if len(s) < 2 || s[0] != '}' {
		return false
	}
	for i, c := range s[1:] {
		switch c {
		case ' ':
		case '}':
			return i == len(s)-2
		default:
			return false
		}
	}
	return false
}
