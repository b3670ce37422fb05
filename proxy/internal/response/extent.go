package response

import "bytes"

// Extent finds the end of a JSON text that arrives in pieces. It only tracks brackets and quotes, because it has to
// detect truncation: models may produce invalid JSON, which is passed on.
//
// The text is the contents of a JSON string, like a tool call's arguments, so its own quotes and backslashes are
// escaped. Each piece ends with a complete character (see partial). The zero value is ready to use.
type Extent struct {
	depth   int32
	quoted  bool // inside a string of the text
	escaped bool // after a backslash in that string
	begun   bool
	bare    bool // the value is a number or a literal, which has no closing delimiter
}

// Whole reports whether the text is an object, an array or a string that has ended.
func (x *Extent) Whole() bool { return x.begun && !x.bare && !x.quoted && x.depth == 0 }

// Add adds a piece.
func (x *Extent) Add(s []byte) {
	for len(s) > 0 {
		if x.quoted && !x.escaped {
			// Only an escape can end the string.
			at := bytes.IndexByte(s, '\\')
			if at < 0 {
				return
			}
			s = s[at:]
		}
		c, n := s[0], 1
		if c == '\\' {
			n, _ = escapeWidth(s)
			c = unescape(s[:n])
		}
		s = s[max(n, 1):]
		switch {
		case x.escaped:
			x.escaped = false
		case x.quoted:
			x.escaped, x.quoted = c == '\\', c != '"'
		case c == '"':
			x.begun, x.quoted = true, true
		case c == '{', c == '[':
			x.begun = true
			x.depth++
		case c == '}', c == ']':
			x.depth--
		case c > ' ' && x.depth == 0:
			x.begun, x.bare = true, true
		}
	}
}

// unescape returns the character of an escape if it is ASCII, or 0. Escapes like \n become 0 too, because Extent treats
// all control characters alike.
func unescape(escape []byte) byte {
	if len(escape) < 2 {
		return 0
	}
	switch c := escape[1]; c {
	case '"', '\\', '/':
		return c
	case 'u':
		if v, digits, ok := hex4(escape[2:]); ok && digits == 4 && v < 0x80 {
			return byte(v)
		}
	}
	return 0
}
