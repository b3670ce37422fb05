package json

import "math/bits"

// Masks for searching the eight bytes (lanes) of a word at once.
const (
	lanes    = 0x0101010101010101
	highBits = 0x80 * lanes
	quotes   = '"' * lanes
	slashes  = '\\' * lanes
	spaces   = ' ' * lanes
)

// load8 loads eight bytes at i as a little-endian word. The caller has checked the bounds. It compiles to one load.
func load8(b []byte, i int) uint64 {
	b = b[i : i+8 : i+8]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

// special sets the high bit of each lane that contains a quote, a backslash or a control character. Lanes above the
// first marked one may be wrong because of borrows. Non-ASCII bytes are never marked.
func special(w uint64) uint64 {
	return ((w - spaces) | (w ^ quotes - lanes) | (w ^ slashes - lanes)) & (w&highBits ^ highBits)
}

// stringEnd returns the index of the closing quote of the string whose first byte after the opening quote is at i, and
// whether the string has escapes. end is -1 if the string is invalid or not closed.
func stringEnd(b []byte, i int) (end int, escaped bool) {
	for {
		for i+8 <= len(b) {
			if m := special(load8(b, i)); m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				goto found
			}
			i += 8
		}
		for ; i < len(b); i++ {
			if c := b[i]; c == '"' || c == '\\' || c < ' ' {
				goto found
			}
		}
		return -1, false
	found:
		switch b[i] {
		case '"':
			return i, escaped
		case '\\':
			if uint(i+1) < uint(len(b)) && unescaped[b[i+1]] != 0 {
				escaped = true
				i += 2
				continue
			}
			n := escapeLen(b[i:])
			if n == 0 {
				return -1, false
			}
			escaped = true
			i += n
		default:
			return -1, false
		}
	}
}

// checkedEnd is stringEnd for a string that is known to be valid: it ends at the first quote that follows an even
// number of backslashes.
func checkedEnd(b []byte, i int) int {
	for start := i; ; i++ {
		m := uint64(0)
		if i+8 <= len(b) {
			// After an escaped quote the next quote is usually close.
			if m = quote(load8(b, i)); m != 0 {
				i += bits.TrailingZeros64(m) >> 3
			} else {
				i += 8
			}
		}
		for ; m == 0 && i+64 <= len(b); i += 64 {
			p := b[i : i+64 : i+64]
			m0, m1, m2, m3 := quote(load8(p, 0)), quote(load8(p, 8)), quote(load8(p, 16)), quote(load8(p, 24))
			m4, m5, m6, m7 := quote(load8(p, 32)), quote(load8(p, 40)), quote(load8(p, 48)), quote(load8(p, 56))
			if m0|m1|m2|m3|m4|m5|m6|m7 == 0 {
				continue
			}
			if m = m0; m != 0 {
			} else if m = m1; m != 0 {
				i += 8
			} else if m = m2; m != 0 {
				i += 16
			} else if m = m3; m != 0 {
				i += 24
			} else if m = m4; m != 0 {
				i += 32
			} else if m = m5; m != 0 {
				i += 40
			} else if m = m6; m != 0 {
				i += 48
			} else {
				m, i = m7, i+56
			}
			i += bits.TrailingZeros64(m) >> 3
			break
		}
		for ; m == 0; i++ {
			if i >= len(b) {
				return -1
			}
			if b[i] == '"' {
				break
			}
		}
		if i == start || b[i-1] != '\\' {
			return i
		}
		slash := i - 1
		for slash > start && b[slash-1] == '\\' {
			slash--
		}
		if (i-slash)&1 == 0 {
			return i
		}
	}
}

// quote sets the high bit of each lane that contains a quote. As in special, only the first marked lane is reliable.
func quote(w uint64) uint64 {
	w ^= quotes
	return (w - lanes) &^ w & highBits
}

// escapeLen returns the length of the escape sequence at the beginning of b, or 0 if it is invalid.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	if unescaped[b[1]] != 0 {
		return 2
	}
	if b[1] == 'u' {
		if _, ok := hex4(b[2:]); ok {
			return 6
		}
	}
	return 0
}

// hex4 parses four hexadecimal digits.
func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	for _, c := range b[:4] {
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
		r = r<<4 | rune(c)
	}
	return r, true
}

// numberEnd returns the end of the number at i, or -1 if there is none.
func numberEnd(b []byte, i int) int {
	if i < len(b) && b[i] == '-' {
		i++
	}
	switch {
	case i >= len(b):
		return -1
	case b[i] == '0':
		i++
	case '1' <= b[i] && b[i] <= '9':
		i = digitsEnd(b, i)
	default:
		return -1
	}
	if i < len(b) && b[i] == '.' {
		j := digitsEnd(b, i+1)
		if j == i+1 {
			return -1
		}
		i = j
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		j := digitsEnd(b, i)
		if j == i {
			return -1
		}
		i = j
	}
	return i
}

func digitsEnd(b []byte, i int) int {
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	return i
}

// wordEnd returns the end of word if it is at i, otherwise -1.
func wordEnd(b []byte, i int, word string) int {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

// scalarEnd returns the end of the string, number or literal at i, or -1 if there is none.
func scalarEnd(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		end, _ := stringEnd(b, i+1)
		if end < 0 {
			return -1
		}
		return end + 1
	case 't':
		return wordEnd(b, i, "true")
	case 'f':
		return wordEnd(b, i, "false")
	case 'n':
		return wordEnd(b, i, "null")
	}
	return numberEnd(b, i)
}

// nextByte skips white space and returns the index and the byte after it, which is zero at the end of the document. It
// is not inlined, because white space is rare and callers should stay small.
//
//go:noinline
func nextByte(b []byte, i int) (int, byte) {
	i = skipSpace(b, i)
	if i < len(b) {
		return i, b[i]
	}
	return i, 0
}

// skipSpace returns the index of the first byte at or after i that is not white space.
func skipSpace(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}
