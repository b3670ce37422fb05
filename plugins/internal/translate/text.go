package translate

import (
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/sdk/json"
)

// spaceLen returns the length in bytes of the white space character at the beginning of s, the escaped content of a
// string, or 0 if there is none.
func spaceLen(s []byte) int {
	switch c := s[0]; {
	case c == ' ':
		return 1
	case c == '\\' && len(s) > 1:
		switch s[1] {
		case 'n', 't', 'r', 'f':
			return 2
		case 'u':
			var buf [utf8.UTFMax]byte
			n := min(len(s), len(`\u0020`))
			if r, _ := utf8.DecodeRune(json.AppendText(buf[:0], s[:n])); whiteSpace(r) {
				return n
			}
		}
	case c >= utf8.RuneSelf:
		if r, n := utf8.DecodeRune(s); whiteSpace(r) {
			return n
		}
	}
	return 0
}

// whiteSpace reports whether a character has the Unicode property White_Space or is one of the ASCII separators 1C to
// 1F.
func whiteSpace(r rune) bool {
	switch {
	case r <= ' ':
		return r == ' ' || '\t' <= r && r <= '\r' || r >= 0x1C
	case 0x2000 <= r && r <= 0x200A:
		return true
	}
	switch r {
	case 0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000:
		return true
	}
	return false
}

// Blank reports whether a string, given as escaped content, is empty or consists of white space. Providers reject such
// texts.
func Blank(inside []byte) bool {
	if len(inside) > 0 && ' ' < inside[0] && inside[0] < utf8.RuneSelf && inside[0] != '\\' {
		return false
	}
	return allSpace(inside)
}

func allSpace(inside []byte) bool {
	for len(inside) > 0 {
		n := spaceLen(inside)
		if n == 0 {
			return false
		}
		inside = inside[n:]
	}
	return true
}

// TrimSpaceEnd trims white space at the end of escaped string content.
func TrimSpaceEnd(inside []byte) []byte {
	// No escape is longer than \u0020.
	if n := len(inside); n > 0 && ' ' < inside[n-1] && inside[n-1] < utf8.RuneSelf && !hasBackslash(inside[max(n-6, 0):]) {
		return inside
	}
	end := 0
	for i := 0; i < len(inside); {
		if n := spaceLen(inside[i:]); n > 0 {
			i += n
			continue
		}
		if inside[i] == '\\' {
			i++
		}
		i++
		end = min(i, len(inside))
	}
	return inside[:end]
}

func hasBackslash(s []byte) bool {
	for _, c := range s {
		if c == '\\' {
			return true
		}
	}
	return false
}

// ContainsFold reports whether name contains part, which is in lower case, ignoring case.
func ContainsFold(name []byte, part string) bool {
	for i := 0; i+len(part) <= len(name); i++ {
		n := 0
		for n < len(part) && lower(name[i+n]) == part[n] {
			n++
		}
		if n == len(part) {
			return true
		}
	}
	return false
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// NameByte reports whether a byte is allowed in names and IDs of tools: letters, digits, _ and -.
func NameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// ValidName reports whether s consists of bytes allowed in the name or ID of a tool. The plugin checks the length.
func ValidName(s []byte) bool {
	if n := len(s); n >= 8 {
		// The last word overlaps the preceding one.
		for i := 0; i+8 < n; i += 8 {
			if nameLanes(Load8(s[i:])) != highBits {
				return false
			}
		}
		return nameLanes(Load8(s[n-8:])) == highBits
	}
	for _, c := range s {
		if !NameByte(c) {
			return false
		}
	}
	return len(s) > 0
}

// FailedText returns the result of a failed tool, escaped string content, for a provider without a member for failures:
// the text then begins with "Error:".
func FailedText(inside []byte) []byte {
	const mark = "Error:"
	if len(inside) >= len(mark) && string(inside[:len(mark)]) == mark {
		return inside
	}
	return append([]byte(mark+" "), inside...)
}
