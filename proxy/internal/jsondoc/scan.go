package jsondoc

import (
	"encoding/binary"
	"math/bits"
)

// Strings are scanned eight bytes at a time. special sets the high bit of each byte that is not plain: a quote, a
// backslash, a control character, or not ASCII. It may also set it for plain bytes after the first such byte, because a
// subtraction has borrowed, so only the lowest of these bits counts.
const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

func special(x uint64) uint64 {
	// XOR with 2 moves the quote from 0x22 to 0x20 and leaves only control characters below it, so that one subtraction
	// finds both.
	return ((x ^ 0x02*ones) - 0x21*ones) | ((x ^ '\\'*ones) - ones) | x
}

// shortString returns the index of the closing quote if the string's content, which begins at i, is plain and ends
// within eight bytes, as in most names and many values. Otherwise it returns 0. It is small enough to be inlined.
func shortString(b []byte, i int) int {
	if i+8 > len(b) {
		return 0
	}
	m := special(binary.LittleEndian.Uint64(b[i:])) & highs
	end := i + bits.TrailingZeros64(m)/8
	if m == 0 || b[end] != '"' {
		return 0
	}
	return end
}

// StringEnd returns the index of the closing quote of the string whose content begins at i. ok is false if the string
// is not strictly valid, or has no closing quote.
func StringEnd(b []byte, i int) (end int, ok bool) {
	if end = shortString(b, i); end > 0 {
		return end, true
	}
	end, _, reason := scanString(b, i, false)
	return end, reason == ""
}

// scanString scans the content of a string, which begins at i. It returns the index of the closing quote and the
// string's flags, or with a reason, the index at which the string is rejected. loose is Limits.Loose.
func scanString(b []byte, i int, loose bool) (end int, flags uint8, reason string) {
	for {
		i = skipPlain(b, i)
		if i >= len(b) {
			return i, 0, reasonEnd
		}
		switch c := b[i]; {
		case c == '"':
			return i, flags, ""
		case c == '\\':
			flags |= flagEscaped
			if i+1 < len(b) && shortEscapes[b[i+1]] {
				i += 2
				continue
			}
			end, why := scanEscape(b, i)
			if why != "" {
				if !loose || !unpairedSurrogate(b, i) {
					return end, 0, why
				}
				end = i + 6
			}
			i = end
		case c < ' ':
			return i, 0, "an unescaped control character in a string"
		case c >= 0x80:
			n, ok := scanUTF8(b, i)
			if !ok {
				if !loose {
					return n, 0, "invalid UTF-8"
				}
				n++
			}
			i = n
		default:
			// A plain byte: fewer than eight bytes are left.
			i++
		}
	}
}

// skipPlain returns the index of the first byte from i on that is not plain. It may stop at a plain byte if fewer than
// eight are left.
func skipPlain(b []byte, i int) int {
	for i+16 <= len(b) {
		w := b[i : i+16 : i+16]
		if m := special(binary.LittleEndian.Uint64(w)) & highs; m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
		if m := special(binary.LittleEndian.Uint64(w[8:])) & highs; m != 0 {
			return i + 8 + bits.TrailingZeros64(m)/8
		}
		i += 16
	}
	if i+8 <= len(b) {
		if m := special(binary.LittleEndian.Uint64(b[i:])) & highs; m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
		i += 8
	}
	return i
}

// shortEscapes are the bytes that form a complete escape sequence with a preceding backslash.
var shortEscapes = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

// scanEscape scans the escape sequence at i; a surrogate pair counts as one sequence. It returns the index after it, or
// with a reason, the index at which it is rejected.
func scanEscape(b []byte, i int) (end int, reason string) {
	if i+1 >= len(b) {
		return len(b), reasonEnd
	}
	switch b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2, ""
	case 'u':
		u, ok := hex4(b, i+2)
		switch {
		case !ok:
			return i, "expected four hexadecimal digits after \\u"
		case u < surrogateMin || u > surrogateMax:
			return i + 6, ""
		case u >= surrogateLow:
			return i, reasonLow
		}
		if i+7 < len(b) && b[i+6] == '\\' && b[i+7] == 'u' {
			if low, ok := hex4(b, i+8); ok && low >= surrogateLow && low <= surrogateMax {
				return i + 12, ""
			}
		}
		return i, reasonHigh
	}
	return i, "unknown escape sequence"
}

// unpairedSurrogate reports whether the escape sequence at i, which scanEscape has rejected, is a surrogate.
func unpairedSurrogate(b []byte, i int) bool {
	if i+1 >= len(b) || b[i+1] != 'u' {
		return false
	}
	u, ok := hex4(b, i+2)
	return ok && u >= surrogateMin && u <= surrogateMax
}

// The UTF-16 surrogates: high ones from surrogateMin on, low ones from surrogateLow on.
const (
	surrogateMin = 0xD800
	surrogateLow = 0xDC00
	surrogateMax = 0xDFFF
)

// hex4 parses four hexadecimal digits at i.
func hex4(b []byte, i int) (u rune, ok bool) {
	if i+4 > len(b) {
		return 0, false
	}
	for _, c := range b[i : i+4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		u = u<<4 | rune(c)
	}
	return u, true
}

// scanUTF8 scans the run of non-ASCII characters at i. It returns the index after the run, or with ok false, the index
// of the first invalid sequence: truncated, overlong, a surrogate, beyond U+10FFFF, or a stray continuation byte.
func scanUTF8(b []byte, i int) (end int, ok bool) {
	for i < len(b) && b[i] >= 0x80 {
		// Most non-ASCII characters have two or three bytes, and can be checked with one load of four bytes.
		if i+4 <= len(b) {
			x := binary.LittleEndian.Uint32(b[i:])
			switch {
			case x&0x00C0C0F0 == 0x008080E0 && x&0x200F != 0 && x&0x200F != 0x200D:
				// 1110xxxx 10xxxxxx 10xxxxxx, neither overlong (E0 80-9F) nor a surrogate (ED A0-BF).
				i += 3
				continue
			case x&0xC0E0 == 0x80C0 && x&0x1E != 0:
				// 110xxxxx 10xxxxxx, not overlong (C0, C1).
				i += 2
				continue
			}
		}
		n := utf8Len(b[i:])
		if n == 0 {
			return i, false
		}
		i += n
	}
	return i, true
}

// utf8Len returns the length of the multi-byte UTF-8 sequence at the start of b, or 0 if there is none.
func utf8Len(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	low, high, n := byte(0x80), byte(0xBF), 0
	switch c := b[0]; {
	case c < 0xC2:
		return 0
	case c < 0xE0:
		n = 2
	case c < 0xF0:
		n = 3
		if c == 0xE0 {
			low = 0xA0
		} else if c == 0xED {
			high = 0x9F
		}
	case c < 0xF5:
		n = 4
		if c == 0xF0 {
			low = 0x90
		} else if c == 0xF4 {
			high = 0x8F
		}
	default:
		return 0
	}
	if len(b) < n || b[1] < low || b[1] > high {
		return 0
	}
	for _, c := range b[2:n] {
		if c&0xC0 != 0x80 {
			return 0
		}
	}
	return n
}
