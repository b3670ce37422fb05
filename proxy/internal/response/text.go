package response

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// Texts are kept and written as the contents of a JSON string. Valid input in that form is copied. Invalid but harmless
// input (bytes that are not UTF-8, an unpaired surrogate) becomes U+FFFD. Input that would break the frame (a quote, a
// control character, an unknown escape) is rejected.
//
// A provider may split a text anywhere, even inside a character. If a piece ends with the start of a character, that
// start is held as a partial until the next piece of the same text arrives.

// replacement is U+FFFD.
const replacement = "\uFFFD"

// maxPartial is the length of the longest partial: a surrogate pair of escapes without its last digit.
const maxPartial = 11

// partial is the start of a character, in UTF-8 or as an escape.
type partial struct {
	b [maxPartial]byte
	n uint8
}

func (p *partial) bytes() []byte { return p.b[:p.n] }

// isEscape reports whether p is the start of an escape, as opposed to UTF-8.
func (p *partial) isEscape() bool { return p.n > 0 && p.b[0] == '\\' }

// appendTo appends replacement characters for a partial that was not completed, and returns their number.
func (p *partial) appendTo(dst []byte) (_ []byte, points int) {
	switch {
	case p.n == 0:
		return dst, 0
	case p.isEscape():
		return append(dst, replacement...), 1
	}
	return jsondoc.AppendEscaped(dst, p.bytes()), int(p.n)
}

func newPartial(s []byte) (p partial) {
	p.n = uint8(copy(p.b[:], s))
	return p
}

// cutUTF8 splits s before its last character if that is incomplete.
func cutUTF8(s []byte) (whole []byte, rest partial) {
	for n := 1; n < utf8.UTFMax && n <= len(s); n++ {
		c := s[len(s)-n]
		if c < utf8.RuneSelf {
			break
		}
		if utf8.RuneStart(c) {
			if !utf8.FullRune(s[len(s)-n:]) {
				return s[:len(s)-n], newPartial(s[len(s)-n:])
			}
			break
		}
	}
	return s, partial{}
}

// validity classifies the first bytes of a text.
type validity uint8

const (
	valid     validity = iota // a complete character
	truncated                 // possibly the start of a character
	invalid                   // not a character, to be replaced
	forbidden                 // not allowed in a JSON string
)

// appendValid appends s, the contents of a JSON string, with replacement characters for invalid bytes and surrogates.
// It reports false if s contains anything that is not allowed in a string.
func appendValid(dst, s []byte) (_ []byte, points int, rest partial, ok bool) {
	for len(s) > 0 {
		w, class := width(s)
		switch class {
		case valid:
			dst = append(dst, s[:w]...)
		case invalid:
			dst = append(dst, replacement...)
		case truncated:
			return dst, points, newPartial(s), true
		case forbidden:
			return dst, points, partial{}, false
		}
		points++
		s = s[w:]
	}
	return dst, points, partial{}, true
}

// width returns the length of the first character of s, the contents of a JSON string, or of the bytes to be replaced.
func width(s []byte) (int, validity) {
	switch c := s[0]; {
	case c == '\\':
		return escapeWidth(s)
	case c < ' ' || c == '"':
		return 0, forbidden
	case c < utf8.RuneSelf:
		return 1, valid
	}
	if _, w := utf8.DecodeRune(s); w > 1 {
		return w, valid
	}
	if !utf8.FullRune(s) {
		return 0, truncated
	}
	return 1, invalid
}

// escapeWidth is width for an s that starts with a backslash. A surrogate pair is one character.
func escapeWidth(s []byte) (int, validity) {
	if len(s) < 2 {
		return 0, truncated
	}
	switch s[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2, valid
	case 'u':
	default:
		return 0, forbidden
	}
	const unit = 6 // the length of one \u escape
	v, digits, ok := hex4(s[2:])
	switch {
	case !ok:
		return 0, forbidden
	case digits < 4:
		return 0, truncated
	case v&0xF800 != 0xD800:
		return unit, valid
	case v >= 0xDC00:
		return unit, invalid
	}
	low := s[unit:]
	if len(low) > 0 && low[0] != '\\' || len(low) > 1 && low[1] != 'u' {
		return unit, invalid
	}
	if len(low) < 3 {
		return 0, truncated
	}
	// The second surrogate is in DC00 to DFFF, so its first two digits are enough to recognise it.
	v, digits, ok = hex4(low[2:])
	switch {
	case !ok, v>>(4*(digits-1)) != 0xD, digits > 1 && v>>(4*(digits-2))&0xF < 0xC:
		return unit, invalid
	case digits < 4:
		return 0, truncated
	}
	return 2 * unit, valid
}

// hex4 reads up to four hexadecimal digits. It reports false if it finds anything else before the fourth.
func hex4(s []byte) (v uint32, digits int, ok bool) {
	for digits < 4 && digits < len(s) {
		c := s[digits]
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return v, digits, false
		}
		v = v<<4 | uint32(c)
		digits++
	}
	return v, digits, true
}

// CountPoints counts the code points of valid UTF-8.
func CountPoints(s []byte) int { return len(s) - continuations(s) }

// continuations counts UTF-8 continuation bytes, eight at a time.
func continuations(s []byte) (n int) {
	const highBits = 0x8080808080808080
	for ; len(s) >= 8; s = s[8:] {
		x := binary.LittleEndian.Uint64(s)
		n += bits.OnesCount64(x & ^(x << 1) & highBits) // 10xxxxxx
	}
	for _, c := range s {
		if c&0xC0 == 0x80 {
			n++
		}
	}
	return n
}

// CountEscapedPoints counts the code points of the contents of a JSON string, which must be valid but may end within a
// character.
func CountEscapedPoints(s []byte) int {
	n := CountPoints(s)
	for i := 0; i < len(s); {
		at := bytes.IndexByte(s[i:], '\\')
		if at < 0 {
			break
		}
		i += at
		w, _ := escapeWidth(s[i:])
		if w == 0 {
			w = len(s) - i
		}
		n -= w - 1
		i += w
	}
	return n
}
