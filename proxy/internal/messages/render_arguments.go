package messages

import "bytes"

// arguments validates the arguments of a tool call piece by piece and finds their end: the API requires a JSON object,
// and the block of the call is closed as soon as the object is complete. The zero value is ready to use.
//
// The pieces are the inside of a JSON string, so quotes and backslashes of the arguments are escaped. A piece does not
// end inside a character or an escape sequence.
type arguments struct {
	state   argumentState
	depth   uint8
	name    bool                          // the current string is a member's name
	objects [maxArgumentDepth / 64]uint64 // bit set of the levels that are objects, not arrays
	word    string                        // the expected rest of true, false or null
	digits  uint8                         // remaining digits of a \u escape
}

// maxArgumentDepth limits the nesting of arrays and objects.
const maxArgumentDepth = 128

type argumentState uint8

const (
	argumentsStart     argumentState = iota
	argumentsFirstName               // after {
	argumentsName                    // after a comma in an object
	argumentsColon
	argumentsFirstValue // after [
	argumentsValue
	argumentsComma // after a value
	argumentsString
	argumentsEscape
	argumentsHex
	argumentsWord
	argumentsMinus
	argumentsZero
	argumentsInteger
	argumentsPoint
	argumentsFraction
	argumentsExponent
	argumentsExponentSign
	argumentsExponentDigits
	argumentsComplete
	argumentsInvalid
)

// complete reports whether the object is complete.
func (a *arguments) complete() bool { return a.state == argumentsComplete }

// add adds a piece. It reports false if the text so far is not the beginning of a JSON object.
func (a *arguments) add(s []byte) bool {
	for len(s) > 0 {
		if a.state == argumentsString {
			// Only an escape can end the string or be invalid in it.
			at := bytes.IndexByte(s, '\\')
			if at < 0 {
				break
			}
			s = s[at:]
		}
		c, n := unescapeByte(s)
		s = s[n:]
		a.addByte(c)
	}
	return a.state != argumentsInvalid
}

// anyCharacter stands for any non-ASCII character.
const anyCharacter = 0x80

// unescapeByte returns the first character of s, the inside of a JSON string, and its length there in bytes.
func unescapeByte(s []byte) (c byte, n int) {
	if s[0] != '\\' || len(s) < 2 {
		return s[0], 1
	}
	switch s[1] {
	case 'b', 'f':
		return '\b', 2
	case 'n', 'r', 't':
		return '\n', 2
	case 'u':
	default:
		return s[1], 2
	}
	v := uint16(0)
	for _, h := range s[2:min(6, len(s))] {
		switch {
		case h <= '9':
			v = v<<4 | uint16(h-'0')
		default:
			v = v<<4 | uint16(h|0x20-'a'+10)
		}
	}
	if n = min(6, len(s)); v >= anyCharacter {
		return anyCharacter, n
	}
	return byte(v), n
}

// addByte adds one unescaped character.
func (a *arguments) addByte(c byte) {
	switch a.state {
	case argumentsString:
		switch {
		case c == '"' && a.name:
			a.state = argumentsColon
		case c == '"':
			a.state = argumentsComma
		case c == '\\':
			a.state = argumentsEscape
		case c < ' ':
			a.state = argumentsInvalid
		}
		return
	case argumentsEscape:
		switch c {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			a.state = argumentsString
		case 'u':
			a.state, a.digits = argumentsHex, 4
		default:
			a.state = argumentsInvalid
		}
		return
	case argumentsHex:
		switch a.digits--; {
		case !isHex(c):
			a.state = argumentsInvalid
		case a.digits == 0:
			a.state = argumentsString
		}
		return
	case argumentsWord:
		if c != a.word[0] {
			a.state = argumentsInvalid
		} else if a.word = a.word[1:]; a.word == "" {
			a.state = argumentsComma
		}
		return
	}
	if a.state >= argumentsMinus && a.state <= argumentsExponentDigits {
		if a.addToNumber(c) {
			return
		}
		a.state = argumentsComma // c follows the number
	}
	if c == ' ' || c == '\n' || c == '\t' || c == '\r' {
		return
	}
	a.addToken(c)
}

func isHex(c byte) bool { return c-'0' <= 9 || c|0x20-'a' <= 5 }

// addToken adds a character that is neither white space nor part of a string, word or number that has already begun.
func (a *arguments) addToken(c byte) {
	switch s := a.state; {
	case s == argumentsStart && c == '{', (s == argumentsFirstValue || s == argumentsValue) && (c == '{' || c == '['):
		a.openContainer(c == '{')
	case (s == argumentsFirstName || s == argumentsName) && c == '"':
		a.state, a.name = argumentsString, true
	case s == argumentsColon && c == ':':
		a.state = argumentsValue
	case s == argumentsComma && c == ',':
		if a.state = argumentsValue; a.inObject() {
			a.state = argumentsName
		}
	case (s == argumentsFirstName || s == argumentsComma && a.inObject()) && c == '}',
		(s == argumentsFirstValue || s == argumentsComma && !a.inObject()) && c == ']':
		if a.depth--; a.depth == 0 {
			a.state = argumentsComplete
		} else {
			a.state = argumentsComma
		}
	case s == argumentsFirstValue || s == argumentsValue:
		a.beginScalar(c)
	default:
		a.state = argumentsInvalid
	}
}

func (a *arguments) beginScalar(c byte) {
	switch {
	case c == '"':
		a.state, a.name = argumentsString, false
	case c == 't':
		a.state, a.word = argumentsWord, "rue"
	case c == 'f':
		a.state, a.word = argumentsWord, "alse"
	case c == 'n':
		a.state, a.word = argumentsWord, "ull"
	case c == '-':
		a.state = argumentsMinus
	case c == '0':
		a.state = argumentsZero
	case c-'1' <= 8:
		a.state = argumentsInteger
	default:
		a.state = argumentsInvalid
	}
}

// addToNumber adds a character to a number. It reports false if the number is complete and c is not part of it.
func (a *arguments) addToNumber(c byte) bool {
	digit := c-'0' <= 9
	exponent := c|0x20 == 'e'
	switch s := a.state; {
	case s == argumentsMinus && c == '0':
		a.state = argumentsZero
	case s == argumentsMinus && digit, s == argumentsInteger && digit:
		a.state = argumentsInteger
	case (s == argumentsZero || s == argumentsInteger) && c == '.':
		a.state = argumentsPoint
	case (s == argumentsPoint || s == argumentsFraction) && digit:
		a.state = argumentsFraction
	case (s == argumentsZero || s == argumentsInteger || s == argumentsFraction) && exponent:
		a.state = argumentsExponent
	case s == argumentsExponent && (c == '+' || c == '-'):
		a.state = argumentsExponentSign
	case s >= argumentsExponent && digit:
		a.state = argumentsExponentDigits
	case s == argumentsZero && digit, s == argumentsMinus, s == argumentsPoint, s == argumentsExponent, s == argumentsExponentSign:
		a.state = argumentsInvalid
	default:
		return false
	}
	return true
}

func (a *arguments) openContainer(object bool) {
	if a.depth == maxArgumentDepth-1 {
		a.state = argumentsInvalid
		return
	}
	a.depth++
	bit := uint64(1) << (a.depth % 64)
	a.objects[a.depth/64] &^= bit
	a.state = argumentsFirstValue
	if object {
		a.objects[a.depth/64] |= bit
		a.state = argumentsFirstName
	}
}

func (a *arguments) inObject() bool { return a.objects[a.depth/64]&(1<<(a.depth%64)) != 0 }
