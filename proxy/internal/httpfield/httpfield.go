// Package httpfield checks and compares the names and values of HTTP header fields. Its rules are those of
// golang.org/x/net/http/httpguts, which only accepts strings.
//
// Concurrency: all functions are safe for concurrent use.
package httpfield

import "golang.org/x/net/http/httpguts"

// Text is a string or a byte slice.
type Text interface{ ~string | ~[]byte }

// ValidName reports whether name is a valid field name: a token (RFC 9110, 5.6.2).
func ValidName[T Text](name T) bool {
	for i := range len(name) {
		if !httpguts.IsTokenRune(rune(name[i])) {
			return false
		}
	}
	return len(name) > 0
}

// ValidValue reports whether value is a valid field value: no control characters except tab (RFC 9110, 5.5).
func ValidValue[T Text](value T) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// ASCII reports whether text consists of ASCII characters.
func ASCII[T Text](text T) bool {
	for i := range len(text) {
		if text[i] >= 0x80 {
			return false
		}
	}
	return true
}

// VisibleASCII reports whether text consists of visible ASCII characters without spaces, so that it is one word in a
// header and in the log.
func VisibleASCII[T Text](text T) bool {
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}

// EqualFold reports whether text equals lower, which must be in lower case, ignoring the case of ASCII letters. Unlike
// bytes.EqualFold, it does not fold other characters, such as the Kelvin sign to k.
func EqualFold[T Text](text T, lower string) bool {
	if len(text) != len(lower) {
		return false
	}
	for i := range len(text) {
		if toLower(text[i]) != lower[i] {
			return false
		}
	}
	return true
}

// AppendLower appends name to dst with ASCII letters in lower case.
func AppendLower[T Text](dst []byte, name T) []byte {
	for i := range len(name) {
		dst = append(dst, toLower(name[i]))
	}
	return dst
}

func toLower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
