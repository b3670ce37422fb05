package response

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// Texts are held and written as they stand inside a JSON string. What a provider sent as such is copied as long as it is
// valid; what is invalid but harmless (bytes that are not UTF-8, an unpaired surrogate) becomes U+FFFD; what would break the
// frame (a quote, a control character, an unknown escape) is refused.
//
// A provider may cut a text anywhere, also inside a character. So the end of a piece that could still become one character
// waits as a partial character for the next piece of the same text.

// replacement is U+FFFD.
const replacement = "\uFFFD"

// maxPartial is the length of the longest partial character: a surrogate pair of escapes without its last digit.
const maxPartial = 11

// partial is the beginning of a character, in UTF-8 or as an escape.
type partial struct {
	b [maxPartial]byte
	n uint8
}

func (p *partial) bytes() []byte { return p.b[:p.n] }

// escape reports whether p is the beginning of an escape, and not of UTF-8.
func (p *partial) escape() bool { return p.n > 0 && p.b[0] == '\\' }

// appendTo appends what p stands for if nothing completes it, and returns how many code points that are.
func (p *partial) appendTo(dst []byte) (_ []byte, points int) {
	switch {
	case p.n == 0:
		return dst, 0
	case p.escape():
		return append(dst, replacement...), 1
	}
	return jsondoc.AppendEscaped(dst, p.bytes()), int(p.n)
}

func newPartial(s []byte) (p partial) {
	p.n = uint8(copy(p.b[:], s))
	return p
}

// cutUTF8 splits s where its last character begins, if that is not whole.
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

// validity is what the bytes at the beginning of a text are.
type validity uint8

const (
	valid     validity = iota // a character
	truncated                 // perhaps the beginning of a character
	invalid                   // no character: replaced
	forbidden                 // a byte that must not stand in a JSON string
)

// appendValid appends s, the inside of a JSON string, with replacement characters for what is invalid. It reports false if
// s holds what must not stand in a string.
func appendValid(dst, s []byte) (_ []byte, points int, rest partial, ok bool) {
	for len(s) > 0 {
		w, is := width(s)
		switch is {
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

// width is the length of the character that s, the inside of a JSON string, begins with, or of what has to be replaced.
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

// escapeWidth is width where s begins with a backslash. A surrogate pair is one character.
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
	// The second of a pair lies in DC00 to DFFF: two digits are enough to know.
	v, digits, ok = hex4(low[2:])
	switch {
	case !ok, v>>(4*(digits-1)) != 0xD, digits > 1 && v>>(4*(digits-2))&0xF < 0xC:
		return unit, invalid
	case digits < 4:
		return 0, truncated
	}
	return 2 * unit, valid
}

// hex4 reads up to four hexadecimal digits. It reports false if it meets something else before the fourth.
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

// continuations counts the bytes that continue a character, eight at a time.
func continuations(s []byte) (n int) {
	const highs = 0x8080808080808080
	for ; len(s) >= 8; s = s[8:] {
		x := binary.LittleEndian.Uint64(s)
		n += bits.OnesCount64(x & ^(x << 1) & highs) // 10xxxxxx
	}
	for _, c := range s {
		if c&0xC0 == 0x80 {
			n++
		}
	}
	return n
}

// CountEscapedPoints counts the code points of the inside of a JSON string that is valid, or ends within a character.
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
