package bedrock

import (
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/sdk/json"
)

// decodeRune decodes the first character of s, non-empty escaped string content, and returns its length in bytes.
func decodeRune(s []byte) (r rune, n int) {
	if s[0] != '\\' {
		return utf8.DecodeRune(s)
	}
	n = min(2, len(s))
	if n == 2 && s[1] == 'u' {
		n = min(len(`\u0020`), len(s))
	}
	var buf [utf8.UTFMax]byte
	r, _ = utf8.DecodeRune(json.AppendText(buf[:0], s[:n]))
	return r, n
}

// whiteSpace reports whether a character has the property White_Space of Unicode, or separates as ASCII's 1C to 1F do.
func whiteSpace(r rune) bool {
	switch {
	case r < 0x80:
		return r == ' ' || '\t' <= r && r <= '\r' || 0x1C <= r && r <= 0x1F
	case 0x2000 <= r && r <= 0x200A:
		return true
	}
	switch r {
	case 0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000:
		return true
	}
	return false
}

// blank reports whether a string, given as escaped content, holds nothing but white space. The provider refuses such
// texts.
func blank(inside []byte) bool {
	for len(inside) > 0 {
		r, n := decodeRune(inside)
		if !whiteSpace(r) {
			return false
		}
		inside = inside[n:]
	}
	return true
}

// trimSpaceEnd trims white space at the end of escaped string content.
func trimSpaceEnd(inside []byte) []byte {
	end := 0
	for i := 0; i < len(inside); {
		r, n := decodeRune(inside[i:])
		if i += n; !whiteSpace(r) {
			end = i
		}
	}
	return inside[:end]
}
