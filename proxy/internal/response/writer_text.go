package response

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// Texts are held and rendered as they stand inside a JSON string. What a provider sent as such is copied through as long
// as it is right; what is wrong but harmless (bytes that are not UTF-8, a surrogate without its other half) becomes
// U+FFFD; what would break the frame (a quote, a control character, an escape that JSON does not know) is refused.
//
// A provider may cut a text anywhere, also inside a character. So the rest of a piece that could still become one
// character, a half, waits for the next piece of the same text.

// replacement is U+FFFD.
const replacement = "\uFFFD"

// maxHalf is the length of the longest half: a surrogate pair of escapes without its last digit.
const maxHalf = 11

// half is the beginning of a character, in UTF-8 or as an escape.
type half struct {
	b [maxHalf]byte
	n uint8
}

func (h *half) bytes() []byte { return h.b[:h.n] }

// escape reports whether the half is that of an escape, and not of UTF-8.
func (h *half) escape() bool { return h.n > 0 && h.b[0] == '\\' }

// appendTo appends what the half is if nothing completes it, and returns how many code points that are.
func (h *half) appendTo(dst []byte) (_ []byte, points int) {
	switch {
	case h.n == 0:
		return dst, 0
	case h.escape():
		return append(dst, replacement...), 1
	}
	return jsondoc.AppendEscaped(dst, h.bytes()), int(h.n)
}

func halfOf(p []byte) (h half) {
	h.n = uint8(copy(h.b[:], p))
	return h
}

// cutUTF8 splits s where its last character begins, if that is not whole.
func cutUTF8(s []byte) (whole []byte, rest half) {
	for n := 1; n < utf8.UTFMax && n <= len(s); n++ {
		c := s[len(s)-n]
		if c < utf8.RuneSelf {
			break
		}
		if utf8.RuneStart(c) {
			if !utf8.FullRune(s[len(s)-n:]) {
				return s[:len(s)-n], halfOf(s[len(s)-n:])
			}
			break
		}
	}
	return s, half{}
}

// stop says why a scan ended.
type stop uint8

const (
	stopEnd     stop = iota
	stopHalf         // the rest may be the beginning of a character
	stopMend         // the next bytes stand for no character
	stopRefused      // the next byte must not stand in a string
)

// appendMended appends s, the inside of a JSON string, with replacement characters where it holds no characters. It
// reports false if s must not stand in a string.
func appendMended(dst, s []byte) (_ []byte, points int, rest half, ok bool) {
	for len(s) > 0 {
		w, why := width(s)
		switch why {
		case stopEnd:
			dst = append(dst, s[:w]...)
		case stopMend:
			dst = append(dst, replacement...)
		case stopHalf:
			return dst, points, halfOf(s), true
		case stopRefused:
			return dst, points, half{}, false
		}
		points++
		s = s[w:]
	}
	return dst, points, half{}, true
}

// width is the length of the character that s, the inside of a JSON string, begins with, or of what stands in its place.
func width(s []byte) (int, stop) {
	switch c := s[0]; {
	case c == '\\':
		return escapeWidth(s)
	case c < ' ' || c == '"':
		return 0, stopRefused
	case c < utf8.RuneSelf:
		return 1, stopEnd
	}
	if _, w := utf8.DecodeRune(s); w > 1 {
		return w, stopEnd
	}
	if !utf8.FullRune(s) {
		return 0, stopHalf
	}
	return 1, stopMend
}

// escapeWidth is width where s begins with a backslash. A surrogate pair is one character.
func escapeWidth(s []byte) (int, stop) {
	if len(s) < 2 {
		return 0, stopHalf
	}
	switch s[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2, stopEnd
	case 'u':
	default:
		return 0, stopRefused
	}
	const unit = 6 // the length of one \u escape
	v, digits, ok := hex4(s[2:])
	switch {
	case !ok:
		return 0, stopRefused
	case digits < 4:
		return 0, stopHalf
	case v&0xF800 != 0xD800:
		return unit, stopEnd
	case v >= 0xDC00:
		return unit, stopMend
	}
	low := s[unit:]
	if len(low) > 0 && low[0] != '\\' || len(low) > 1 && low[1] != 'u' {
		return unit, stopMend
	}
	if len(low) < 3 {
		return 0, stopHalf
	}
	// The other half of a pair lies in DC00 to DFFF: two digits are enough to know.
	v, digits, ok = hex4(low[2:])
	switch {
	case !ok, v>>(4*(digits-1)) != 0xD, digits > 1 && v>>(4*(digits-2))&0xF < 0xC:
		return unit, stopMend
	case digits < 4:
		return 0, stopHalf
	}
	return 2 * unit, stopEnd
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

// points counts the code points of valid UTF-8.
func points(s []byte) int { return len(s) - continuations(s) }

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

// escapedPoints counts the code points of the inside of a JSON string that is known to be right.
func escapedPoints(s []byte) int {
	n := points(s)
	for i := 0; i < len(s); {
		at := bytes.IndexByte(s[i:], '\\')
		if at < 0 {
			break
		}
		w, _ := escapeWidth(s[i+at:])
		n -= w - 1
		i += at + w
	}
	return n
}
