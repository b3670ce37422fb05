package response

import "bytes"

// extent finds the end of a JSON text that comes in pieces. It looks at brackets and quotes alone: whether the text is JSON
// is the model's affair, whether it was cut off is the gateway's.
//
// The text is the inside of a JSON string, as a tool call's arguments are held, so each of its own quotes and backslashes
// is an escape. A piece ends with a whole character: see partial.
type extent struct {
	depth   int32
	quoted  bool // within a string of the text
	escaped bool // after a backslash of that string
	begun   bool
	bare    bool // the value is a number or a word, whose end nothing shows
}

// whole reports whether the text is an object, a list or a string that has ended.
func (x *extent) whole() bool { return x.begun && !x.bare && !x.quoted && x.depth == 0 }

func (x *extent) add(s []byte) {
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

// unescape is the character of an escape, as far as it matters to extent: any that is neither ASCII nor printable is a
// control character.
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
