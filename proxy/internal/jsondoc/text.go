package jsondoc

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// AppendUnescaped appends the text of a string. inside is the string as it is written between the quotes; it must be
// valid.
func AppendUnescaped(dst, inside []byte) []byte {
	for {
		n := plainLen(inside)
		dst = append(dst, inside[:n]...)
		if n == len(inside) {
			return dst
		}
		r, size := decodeEscape(inside[n:])
		dst = utf8.AppendRune(dst, r)
		inside = inside[n+size:]
	}
}

// equalText reports whether the string written as inside, which has been checked before, has this text.
func equalText[T []byte | string](inside []byte, text T) bool {
	for {
		n := plainLen(inside)
		if n > len(text) || string(inside[:n]) != string(text[:n]) {
			return false
		}
		inside, text = inside[n:], text[n:]
		if len(inside) == 0 {
			return len(text) == 0
		}
		r, size := decodeEscape(inside)
		var buf [utf8.UTFMax]byte
		n = utf8.EncodeRune(buf[:], r)
		if n > len(text) || string(buf[:n]) != string(text[:n]) {
			return false
		}
		inside, text = inside[size:], text[n:]
	}
}

// plainLen returns the number of bytes before the first backslash.
func plainLen(inside []byte) int {
	i := 0
	for ; i+8 <= len(inside); i += 8 {
		x := binary.LittleEndian.Uint64(inside[i:]) ^ '\\'*ones
		if m := (x - ones) & ^x & highs; m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for i < len(inside) && inside[i] != '\\' {
		i++
	}
	return i
}

// decodeEscape decodes the valid escape sequence at the start of s. size is its length in bytes. An unpaired surrogate
// decodes to U+FFFD.
func decodeEscape(s []byte) (r rune, size int) {
	switch s[1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		r, _ = hex4(s, 2)
		if r < surrogateMin || r > surrogateMax {
			return r, 6
		}
		low, ok := hex4(s, 8)
		if r >= surrogateLow || !ok || s[6] != '\\' || s[7] != 'u' || low < surrogateLow || low > surrogateMax {
			return utf8.RuneError, 6 // only accepted with Limits.Loose
		}
		return (r-surrogateMin)<<10 | (low - surrogateLow) + 0x10000, 12
	}
	return rune(s[1]), 2
}

// AppendEscaped appends text, escaped for a JSON string. Invalid UTF-8 becomes U+FFFD.
func AppendEscaped(dst, text []byte) []byte {
	for len(text) > 0 {
		// Find the longest run that can be copied: nothing in it needs to be escaped, and it is valid UTF-8.
		n := 0
		for n < len(text) {
			if n+8 <= len(text) {
				m := special(binary.LittleEndian.Uint64(text[n:])) & highs
				if m == 0 {
					n += 8
					continue
				}
				n += bits.TrailingZeros64(m) / 8
			}
			c := text[n]
			if c < ' ' || c == '"' || c == '\\' {
				break
			}
			if c < utf8.RuneSelf {
				n++
				continue
			}
			end, ok := scanUTF8(text, n)
			n = end
			if !ok {
				break
			}
		}
		dst = append(dst, text[:n]...)
		if n == len(text) {
			break
		}
		dst = appendEscape(dst, text[n])
		text = text[n+1:]
	}
	return dst
}

// appendEscape appends the escape sequence of a byte that must be escaped, or U+FFFD for a byte that is not valid
// UTF-8.
func appendEscape(dst []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch {
	case c >= utf8.RuneSelf:
		return utf8.AppendRune(dst, utf8.RuneError)
	case c == '"' || c == '\\':
		return append(dst, '\\', c)
	}
	switch c {
	case '\b':
		c = 'b'
	case '\f':
		c = 'f'
	case '\n':
		c = 'n'
	case '\r':
		c = 'r'
	case '\t':
		c = 't'
	default:
		return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
	}
	return append(dst, '\\', c)
}

// CheckEscaped reports whether s is valid between the quotes of a JSON string: no bare quotes, no control characters,
// complete and known escape sequences, no unpaired surrogates, valid UTF-8. A sequence that is truncated at the end is
// invalid.
func CheckEscaped(s []byte) bool {
	for i := 0; i < len(s); {
		if i+8 <= len(s) {
			m := special(binary.LittleEndian.Uint64(s[i:])) & highs
			if m == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(m) / 8
		}
		switch c := s[i]; {
		case c == '\\':
			end, reason := scanEscape(s, i)
			if reason != "" {
				return false
			}
			i = end
		case c >= utf8.RuneSelf:
			end, ok := scanUTF8(s, i)
			if !ok {
				return false
			}
			i = end
		case c < ' ' || c == '"':
			return false
		default:
			i++
		}
	}
	return true
}
