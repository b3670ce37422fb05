package jsondoc

import "unicode/utf8"

// checkDepth is the maximum nesting depth of a document that Check accepts.
const checkDepth = 512

// Check checks that body is JSON as Doc.Parse accepts it with Limits.Loose. It builds no index, so it takes half the
// time of Parse and allocates nothing. The error is nil or a *SyntaxError.
func Check(body []byte) error {
	if at, reason := check(body); reason != "" {
		return &SyntaxError{Offset: at, Reason: reason}
	}
	return nil
}

// CheckUTF8 is Check for a document that must be UTF-8 throughout.
func CheckUTF8(body []byte) error {
	if !utf8.Valid(body) {
		at := 0
		for at < len(body) {
			r, n := utf8.DecodeRune(body[at:])
			if r == utf8.RuneError && n == 1 {
				break
			}
			at += n
		}
		return &SyntaxError{Offset: at, Reason: "invalid UTF-8"}
	}
	return Check(body)
}

// check returns where and why b is not JSON. The reason is empty if it is.
func check(b []byte) (at int, reason string) {
	var (
		objects [checkDepth / 64]uint64 // bit set: which of the open containers are objects
		depth   int
		object  bool // the innermost open container is an object
	)
	i := skipSpace(b, 0)
	if i == len(b) {
		return i, "the document is empty"
	}

value:
	if i >= len(b) {
		return i, reasonEnd
	}
	switch c := b[i]; c {
	case '"':
		if i, reason = checkString(b, i); reason != "" {
			return i, reason
		}
	case '{', '[':
		if depth == checkDepth {
			return i, "the document is nested deeper than 512 levels"
		}
		object = c == '{'
		if bit := uint64(1) << (depth % 64); object {
			objects[depth/64] |= bit
		} else {
			objects[depth/64] &^= bit
		}
		depth++
		i = skipSpace(b, i+1)
		if i >= len(b) {
			return i, reasonEnd
		}
		if b[i] == c+2 { // the closing bracket
			goto closed
		}
		if object {
			goto name
		}
		goto value
	case 't', 'f', 'n':
		word := "true"
		if c == 'f' {
			word = "false"
		} else if c == 'n' {
			word = "null"
		}
		if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
			return i, reasonValue
		}
		i += len(word)
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		if i, reason = scanNumber(b, i); reason != "" {
			return i, reason
		}
	default:
		return i, reasonValue
	}

after:
	// A value ends before i.
	i = skipSpace(b, i)
	switch {
	case depth == 0 && i < len(b):
		return i, "there is data after the document"
	case depth == 0:
		return 0, ""
	case i >= len(b):
		return i, reasonEnd
	case b[i] == ',':
		i = skipSpace(b, i+1)
		if object {
			goto name
		}
		goto value
	case object && b[i] != '}' || !object && b[i] != ']':
		return i, reasonMore
	}

closed:
	i++
	if depth--; depth > 0 {
		object = objects[(depth-1)/64]&(1<<((depth-1)%64)) != 0
	}
	goto after

name:
	if i >= len(b) {
		return i, reasonEnd
	}
	if b[i] != '"' {
		return i, reasonName
	}
	if i, reason = checkString(b, i); reason != "" {
		return i, reason
	}
	if i = skipSpace(b, i); i >= len(b) {
		return i, reasonEnd
	}
	if b[i] != ':' {
		return i, "expected a colon"
	}
	i = skipSpace(b, i+1)
	goto value
}

// checkString returns the index after the string at i, or with a reason, the index at which it is rejected.
func checkString(b []byte, i int) (end int, reason string) {
	if end = shortString(b, i+1); end > 0 {
		return end + 1, ""
	}
	if end, _, reason = scanString(b, i+1, true); reason != "" {
		return end, reason
	}
	return end + 1, ""
}

// Outline shows where a document is malformed without revealing its content. It returns at most the last n bytes of the
// document's structure before offset, with each string replaced by "…" and each number by 0.
func Outline(body []byte, offset, n int) string {
	var out []byte
	const text = `"…"`
	for i := 0; i < min(offset, len(body)); {
		switch c := body[i]; {
		case c == '"':
			end, _, reason := scanString(body, i+1, true)
			if reason != "" || end >= offset { // the offset is within this string
				out = append(out, text[:len(text)-1]...)
				i = len(body)
				continue
			}
			out = append(out, text...)
			i = end + 1
		case c == '-', '0' <= c && c <= '9':
			out = append(out, '0')
			for i < len(body) && (body[i] == '-' || body[i] == '+' || body[i] == '.' || body[i]|0x20 == 'e' || '0' <= body[i] && body[i] <= '9') {
				i++
			}
		case c == '{', c == '}', c == '[', c == ']', c == ':', c == ',':
			out = append(out, c)
			i++
		case c <= ' ':
			i++
		default: // a literal, or invalid bytes
			out = append(out, '?')
			for i < len(body) && (body[i]|0x20 >= 'a' && body[i]|0x20 <= 'z' || body[i] >= 0x7f) {
				i++
			}
			if i < len(body) && body[i] == c {
				i++
			}
		}
		if len(out) > 4*n {
			out = append(out[:0], out[len(out)-n:]...)
		}
	}
	if len(out) > n {
		out = out[len(out)-n:]
	}
	for len(out) > 0 && !utf8.RuneStart(out[0]) {
		out = out[1:]
	}
	return string(out)
}
