package json

import (
	"math/bits"
	"unicode/utf8"
)

// AppendText unescapes inside, the bytes between the quotes of a string, and appends the text to dst. Unpaired
// surrogates and invalid escapes become U+FFFD.
func AppendText(dst, inside []byte) []byte {
	for {
		// Whole words are copied, so dst needs space for one more. If the text is a JSON document itself, spare
		// capacity makes it faster to read; see the package comment.
		if cap(dst)-len(dst) < len(inside)+8 {
			dst = append(dst, make([]byte, len(inside)+64)...)[:len(dst)]
		}
		out, i, j := dst[len(dst):cap(dst)], 0, 0
		for i+8 <= len(inside) && j+8 <= len(out) {
			w := load8(inside, i)
			store8(out, j, w)
			s := w ^ slashes
			m := (s - lanes) &^ s & highBits
			if m == 0 {
				i, j = i+8, j+8
				continue
			}
			n := bits.TrailingZeros64(m) >> 3
			if n == 7 {
				i, j = i+7, j+7 // the escaped byte is in the next word
				if i+8 > len(inside) {
					break
				}
				n = 0
			}
			c := unescaped[inside[i+n+1]]
			i, j = i+n, j+n
			if c == 0 {
				break
			}
			out[j] = c
			i, j = i+2, j+1
		}
		for i < len(inside) && inside[i] != '\\' && j < len(out) {
			out[j] = inside[i]
			i, j = i+1, j+1
		}
		dst, inside = dst[:len(dst)+j], inside[i:]
		if len(inside) == 0 {
			return dst
		}
		var n int
		dst, n = appendEscape(dst, inside)
		inside = inside[n:]
		if len(inside) == 0 {
			return dst
		}
	}
}

// CutString reads the string at the beginning of b. It returns the bytes between its quotes, still escaped, and the
// bytes after it. inside is nil if b does not begin with a string.
func CutString(b []byte) (inside, rest []byte) {
	if len(b) == 0 || b[0] != '"' {
		return nil, nil
	}
	end, _ := stringEnd(b, 1)
	if end < 0 {
		return nil, nil
	}
	return b[1:end:end], b[end+1:]
}

// unescaped maps the byte after a backslash to the byte that the two-byte escape stands for, or 0 if it is not such an
// escape.
var unescaped = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// store8 is the inverse of load8.
func store8(b []byte, i int, w uint64) {
	b = b[i : i+8 : i+8]
	b[0], b[1], b[2], b[3] = byte(w), byte(w>>8), byte(w>>16), byte(w>>24)
	b[4], b[5], b[6], b[7] = byte(w>>32), byte(w>>40), byte(w>>48), byte(w>>56)
}

// indexSlash returns the index of the first backslash, or len(b) if there is none.
func indexSlash(b []byte) int {
	i := 0
	for ; i+8 <= len(b); i += 8 {
		s := load8(b, i) ^ slashes
		if m := (s - lanes) &^ s & highBits; m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	for ; i < len(b); i++ {
		if b[i] == '\\' {
			return i
		}
	}
	return i
}

// appendEscape appends the character of the escape at the beginning of b, and returns the length of the escape.
func appendEscape(dst, b []byte) ([]byte, int) {
	if len(b) < 2 {
		return utf8.AppendRune(dst, utf8.RuneError), len(b)
	}
	if c := unescaped[b[1]]; c != 0 {
		return append(dst, c), 2
	}
	if b[1] == 'u' {
		r, ok := hex4(b[2:])
		if !ok {
			return utf8.AppendRune(dst, utf8.RuneError), 2
		}
		if r < 0xD800 || r > 0xDFFF {
			return utf8.AppendRune(dst, r), 6
		}
		if r < 0xDC00 && len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
			if low, ok := hex4(b[8:]); ok && low >= 0xDC00 && low <= 0xDFFF {
				return utf8.AppendRune(dst, (r-0xD800)<<10|(low-0xDC00)+0x10000), 12
			}
		}
		return utf8.AppendRune(dst, utf8.RuneError), 6
	}
	return utf8.AppendRune(dst, utf8.RuneError), 2
}

const hexDigits = "0123456789abcdef"

// AppendInside escapes text for a JSON string and appends it, without quotes. Invalid UTF-8 becomes U+FFFD.
func AppendInside(dst, text []byte) []byte {
	for len(text) > 0 {
		i := plainLen(text)
		dst = append(dst, text[:i]...)
		if text = text[i:]; len(text) == 0 {
			break
		}
		c := text[0]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRune(text)
			dst = utf8.AppendRune(dst, r)
			text = text[n:]
			continue
		}
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		text = text[1:]
	}
	return dst
}

// plainLen returns the number of ASCII bytes at the beginning of text that need no escape.
func plainLen(text []byte) int {
	i := 0
	for ; i+8 <= len(text); i += 8 {
		w := load8(text, i)
		if m := special(w) | w&highBits; m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	for ; i < len(text); i++ {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			break
		}
	}
	return i
}

// AppendString appends text as a JSON string with quotes.
func AppendString(dst, text []byte) []byte {
	return append(AppendInside(append(dst, '"'), text), '"')
}
