package responses

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
)

// unwrapper takes the input of a custom tool out of the arguments of the function that stands for it where a provider knows
// functions only: {"input":"…"}, in pieces. Arguments of another form are the input as they are: a model that has not kept
// to the schema meant them so.
//
// Arguments come as the inside of a JSON string, and so does the input leave. What stands in the inner string once the outer
// escapes are undone is the inside of a JSON string itself, so it is copied, and what is not valid in it is repaired.
type unwrapper struct {
	state unwrapState
	held  []byte // unwrapPrefix: the arguments so far, as they came; unwrapInput: an escape that is not complete
	plain []byte // scratch: arguments without the outer escapes
}

type unwrapState uint8

const (
	unwrapPrefix unwrapState = iota // before the first byte of the input
	unwrapInput                     // within it
	unwrapEnd                       // after it
	unwrapRaw                       // the arguments are the input
)

func (u *unwrapper) reset() {
	u.state, u.held, u.plain = unwrapPrefix, response.Reuse(u.held), response.Reuse(u.plain)
}

// add appends to dst what a piece of the arguments adds to the input.
func (u *unwrapper) add(dst, args []byte) []byte {
	switch u.state {
	case unwrapRaw:
		return append(dst, args...)
	case unwrapEnd:
		return dst
	case unwrapInput:
		u.plain = jsondoc.AppendUnescaped(u.plain[:0], args)
		return u.addInput(dst, u.plain)
	}
	u.held = append(u.held, args...)
	u.plain = jsondoc.AppendUnescaped(u.plain[:0], u.held)
	switch at, possible := inputStart(u.plain); {
	case !possible:
		u.state = unwrapRaw
		return append(dst, u.held...)
	case at > 0:
		u.state, u.held = unwrapInput, u.held[:0]
		return u.addInput(dst, u.plain[at:])
	}
	return dst
}

// end appends what is left when the arguments have ended. Arguments without an input have an empty one.
func (u *unwrapper) end(dst []byte) []byte {
	if u.state == unwrapInput && len(u.held) > 0 {
		dst = u.addBroken(dst)
	}
	u.state = unwrapEnd
	return dst
}

// inputStart finds the first byte of the input in the beginning of the arguments: 0 if it has not come. possible is false
// where the arguments have another form.
func inputStart(p []byte) (at int, possible bool) {
	for i, token := range [...]string{"{", `"input"`, ":", `"`} {
		at = len(p) - len(bytes.TrimLeft(p[at:], " \t\r\n"))
		rest := p[at:]
		if i == 1 && len(rest) > 0 && rest[0] == '}' {
			return 0, true
		}
		if n := min(len(rest), len(token)); string(rest[:n]) != token[:n] {
			return 0, false
		} else if n < len(token) {
			return 0, true
		}
		at += len(token)
	}
	return at, true
}

// addInput appends a piece of what stands in the inner string.
func (u *unwrapper) addInput(dst, p []byte) []byte {
	for len(p) > 0 {
		if len(u.held) > 0 {
			var taken bool
			if dst, taken = u.addEscape(dst, p[0]); taken {
				p = p[1:]
			}
			continue
		}
		n := 0
		for n < len(p) && p[n] != '\\' && p[n] != '"' {
			n++
		}
		dst = jsondoc.AppendEscaped(dst, p[:n])
		if n == len(p) {
			break
		}
		if p[n] == '"' {
			u.state = unwrapEnd
			break
		}
		u.held, p = append(u.held, '\\'), p[n+1:]
	}
	return dst
}

// escapeUnit is the length of an escape with a number.
const escapeUnit = len(`\u0000`)

// addEscape adds a byte to the escape that is held, and appends it once it is whole; for the first half of a surrogate pair,
// with the second. taken is false where the byte does not belong to it: then nothing is held any more.
func (u *unwrapper) addEscape(dst []byte, c byte) (_ []byte, taken bool) {
	switch n := len(u.held) % escapeUnit; {
	case n == 0 && c != '\\', n == 1 && len(u.held) > escapeUnit && c != 'u', n > 1 && !hexDigit(c):
		return u.addBroken(dst), false
	case n == 1 && c != 'u':
		if bytes.IndexByte([]byte(`"\/bfnrt`), c) < 0 {
			return u.addBroken(dst), false
		}
		u.held = u.held[:0]
		return append(dst, '\\', c), true
	}
	u.held = append(u.held, c)
	if len(u.held)%escapeUnit > 0 {
		return dst, true
	}
	last := u.held[len(u.held)-escapeUnit:]
	high := codeUnit(last)
	if len(u.held) > escapeUnit {
		if utf16.DecodeRune(codeUnit(u.held), codeUnit(last)) == utf8.RuneError {
			// The second one stands for itself.
			dst = utf8.AppendRune(dst, utf8.RuneError)
			u.held = append(u.held[:0], last...)
		} else {
			high = 0
		}
	}
	switch {
	case high >= 0xD800 && high < 0xDC00:
		return dst, true // the other half may follow
	case utf16.IsSurrogate(high):
		return u.addBroken(dst), true
	}
	dst = append(dst, u.held...)
	u.held = u.held[:0]
	return dst, true
}

// addBroken appends what is held of an escape that is none: a half of a surrogate pair as a replacement character, anything else
// as the characters that it is made of.
func (u *unwrapper) addBroken(dst []byte) []byte {
	p := u.held
	if len(p) >= escapeUnit {
		dst = utf8.AppendRune(dst, utf8.RuneError)
		p = p[escapeUnit:]
	}
	if len(p) > 1 || len(u.held) < escapeUnit {
		dst = jsondoc.AppendEscaped(dst, p)
		p = nil
	}
	u.held = append(u.held[:0], p...) // a backslash after the half may begin another escape
	return dst
}

func hexDigit(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// codeUnit is the number of an escape.
func codeUnit(escape []byte) (r rune) {
	for _, c := range escape[2:escapeUnit] {
		d := rune(c | 0x20)
		if d -= '0'; d > 9 {
			d -= 'a' - '0' - 10
		}
		r = r<<4 | d
	}
	return r
}
