package jsondoc

import (
	"unicode"
	"unicode/utf8"
)

// Parsers that ignore case, like Go's encoding/json, take a member name for any other with the same fold. A name is cased
// if it can fold to another name: it has an upper-case letter, a character that is not ASCII, or an escape sequence. Most
// names are not, so a search for those that are skips most of a document.

// upperBytes sets the high bit of each byte that is an upper-case letter or not ASCII.
func upperBytes(x uint64) uint64 {
	low := x &^ highs
	return ((low+(0x80-'A')*ones)&^(low+(0x80-'Z'-1)*ones) | x) & highs
}

// Cased reports whether a member name is cased, or whether an array or object may have a cased member name at any depth.
func (v Value) Cased() bool {
	if v.d == nil {
		return false
	}
	n := v.node()
	if n.flags&flagName == 0 {
		return n.flags&flagCased != 0
	}
	if n.flags&flagEscaped != 0 {
		return true
	}
	for _, c := range v.Inside() {
		if c >= 'A' && c <= 'Z' || c >= utf8.RuneSelf {
			return true
		}
	}
	return false
}

// AppendFolded appends the fold of a name, by which encoding/json matches names regardless of case: each character
// becomes the first one that differs from it only in case. The long s (U+017F) and the Kelvin sign (U+212A) become S and
// K.
func AppendFolded(dst, name []byte) []byte {
	for i := 0; i < len(name); {
		if c := name[i]; c < utf8.RuneSelf {
			if 'a' <= c && c <= 'z' {
				c -= 'a' - 'A'
			}
			dst = append(dst, c)
			i++
			continue
		}
		r, n := utf8.DecodeRune(name[i:])
		for next := unicode.SimpleFold(r); ; next = unicode.SimpleFold(r) {
			if next <= r {
				r = next
				break
			}
			r = next
		}
		dst = utf8.AppendRune(dst, r)
		i += n
	}
	return dst
}
