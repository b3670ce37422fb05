package responses

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
)

// unwrapper extracts the input of a custom tool call from arguments in pieces: where a provider only supports
// functions, a function with the arguments {"input":"…"} stands for the custom tool. Arguments that do not have this
// form are taken as the input themselves, because a model that ignores the schema usually writes the input directly.
//
// The arguments arrive as the inside of a JSON string, and the input is returned as one. After the outer level of
// escapes has been removed, the inner string is the inside of a JSON string itself, so it is copied, with invalid
// escapes repaired.
type unwrapper struct {
	state unwrapState
	held  []byte // unwrapPrefix: the arguments so far, unchanged; unwrapInput: an incomplete escape
	plain []byte // scratch buffer for arguments without the outer escapes
}

type unwrapState uint8

const (
	unwrapPrefix unwrapState = iota // before the first byte of the input
	unwrapInput                     // inside the input
	unwrapEnd                       // after the input
	unwrapRaw                       // the arguments themselves are the input
)

func (u *unwrapper) reset() {
	u.state, u.held, u.plain = unwrapPrefix, response.Reuse(u.held), response.Reuse(u.plain)
}

// add adds a piece of the arguments, and appends the resulting piece of the input to dst.
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

// end ends the arguments, and appends what is left of the input. Without an input in the arguments, the input is empty.
func (u *unwrapper) end(dst []byte) []byte {
	if u.state == unwrapInput && len(u.held) > 0 {
		dst = u.addBroken(dst)
	}
	u.state = unwrapEnd
	return dst
}

// inputStart returns the offset of the input in the beginning of the arguments, 0 if p is too short to contain it.
// possible is false if the arguments do not have the expected form.
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

// addInput appends a piece of the inner string.
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

// escapeUnit is the length of a \u escape.
const escapeUnit = len(`\u0000`)

// addEscape adds a byte to the held escape, and appends the escape once it is complete. The first half of a surrogate
// pair is held until the second half is complete, too. taken is false if the byte is not part of the escape, in which
// case nothing is held any more.
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
			// Not a pair: replace the first, and continue with the second.
			dst = utf8.AppendRune(dst, utf8.RuneError)
			u.held = append(u.held[:0], last...)
		} else {
			high = 0
		}
	}
	switch {
	case high >= 0xD800 && high < 0xDC00:
		return dst, true // the second half may follow
	case utf16.IsSurrogate(high):
		return u.addBroken(dst), true
	}
	dst = append(dst, u.held...)
	u.held = u.held[:0]
	return dst, true
}

// addBroken appends the held bytes of an invalid escape: half of a surrogate pair as a replacement character, anything
// else literally.
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
	u.held = append(u.held[:0], p...) // a backslash after half of a pair can begin another escape
	return dst
}

func hexDigit(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// codeUnit returns the UTF-16 code unit of a \u escape.
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
