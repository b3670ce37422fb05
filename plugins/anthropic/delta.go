package anthropic

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// The constant bytes around the text of nearly every event of a stream. Comparing them takes half the time of parsing
// the members.
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

// The same constants as byte slices, and eight spaces as one word.
var (
	deltaStart  = []byte(deltaHead)
	deltaForms  = [...][]byte{textDelta: []byte(textForm), inputDelta: []byte(inputForm), thinkingDelta: []byte(thinkingForm)}
	eightSpaces = uint64(0x2020202020202020)
	minTail     = min(len(textForm), len(inputForm), len(thinkingForm)) + len(`""}}`)
)

// readPlain parses an event that consists of exactly these bytes and a text, with optional padding. It returns
// otherDelta for any other event, which may still be valid. inside is the escaped text.
func readPlain(data []byte) (kind deltaKind, index int32, inside []byte) {
	if len(data) <= len(deltaStart)+minTail || !hasLongPrefix(data, deltaStart) {
		return otherDelta, 0, nil
	}
	rest := data[len(deltaStart):]
	digits := 0
	for digits < len(rest) && '0' <= rest[digits] && rest[digits] <= '9' {
		index = index*10 + int32(rest[digits]-'0')
		digits++
	}
	// JSON numbers have no leading zeros, and no response has blocks with six-digit indexes.
	if digits == 0 || digits > 5 || digits > 1 && rest[0] == '0' {
		return otherDelta, 0, nil
	}
	if rest = rest[digits:]; len(rest) < minTail {
		return otherDelta, 0, nil
	}
	switch rest[len(deltaMiddle)+1] { // the second byte distinguishes the types
	case 'e':
		kind = textDelta
	case 'n':
		kind = inputDelta
	case 'h':
		kind = thinkingDelta
	default:
		return otherDelta, 0, nil
	}
	form := deltaForms[kind]
	if len(rest) < len(form) || !hasLongPrefix(rest, form) {
		return otherDelta, 0, nil
	}
	inside, rest = json.CutString(rest[len(form):])
	if inside == nil || !closesTwice(rest) {
		return otherDelta, 0, nil
	}
	return kind, index, inside
}

// hasLongPrefix reports whether s, which is at least as long as prefix, begins with prefix, which has at least 32
// bytes. The comparison that the compiler generates would call a function that compares byte by byte.
func hasLongPrefix(s, prefix []byte) bool {
	n := len(prefix)
	if s = s[:n]; translate.Load8(s) != translate.Load8(prefix) || translate.Load8(s[8:]) != translate.Load8(prefix[8:]) || translate.Load8(s[16:]) != translate.Load8(prefix[16:]) ||
		translate.Load8(s[24:]) != translate.Load8(prefix[24:]) || translate.Load8(s[n-8:]) != translate.Load8(prefix[n-8:]) {
		return false
	}
	for i := 32; i+8 < n; i += 8 {
		if translate.Load8(s[i:]) != translate.Load8(prefix[i:]) {
			return false
		}
	}
	return true
}

// closesTwice reports whether s closes two objects and contains nothing else. The API pads its events with spaces
// before the second brace.
func closesTwice(s []byte) bool {
	n := len(s)
	if n < 2 || s[0] != '}' || s[n-1] != '}' {
		return false
	}
	s = s[1 : n-1]
	for len(s) >= 8 {
		if translate.Load8(s) != eightSpaces {
			return false
		}
		s = s[8:]
	}
	for _, c := range s {
		if c != ' ' {
			return false
		}
	}
	return true
}
