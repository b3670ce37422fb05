package openai

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// The codes of invalid requests, as clients of the OpenAI API know them.
const (
	codeInvalidType          = "invalid_type"
	codeInvalidValue         = "invalid_value"
	codeMissing              = "missing_required_parameter"
	codeUnknownParameter     = "unknown_parameter"
	codeUnsupportedParameter = "unsupported_parameter"
	codeEmptyArray           = "empty_array"
	codeArrayAbove           = "array_above_max_length"
	codeObjectAbove          = "object_above_max_properties"
	codeEmptyString          = "empty_string"
	codeStringAbove          = "string_above_max_length"
	codeIntegerBelow         = "integer_below_min_value"
	codeIntegerAbove         = "integer_above_max_value"
	codeDecimalBelow         = "decimal_below_min_value"
	codeDecimalAbove         = "decimal_above_max_value"
)

// describe names the kind of a value in a message.
func describe(v jsondoc.Value) string {
	switch v.Kind() {
	case jsondoc.Null:
		return "null"
	case jsondoc.True, jsondoc.False:
		return "a boolean"
	case jsondoc.Number:
		if bytes.ContainsAny(v.Raw(), ".eE") {
			return "a decimal number"
		}
		return "an integer"
	case jsondoc.String:
		return "a string"
	case jsondoc.Object:
		return "an object"
	case jsondoc.Array:
		return "an array"
	}
	return "absent"
}

// path is the place of a value in the request: "messages[2].content[0].type". It is computed only for an error, so reading a
// request need not keep track of it.
func (r *Request) path(v jsondoc.Value) string {
	var b strings.Builder
	at := r.Doc.Root()
	for at != v {
		index, c := 0, at.First()
		for ; c.Exists() && c.Offset()+len(c.Raw()) <= v.Offset(); c = c.Next() {
			index++
		}
		if !c.Exists() {
			break
		}
		if name := c.Name(); !name.Exists() {
			b.WriteByte('[')
			b.WriteString(strconv.Itoa(index))
			b.WriteByte(']')
		} else {
			appendMember(&b, name.Text())
		}
		at = c
	}
	return b.String()
}

// pathOf is the path of a member, which need not exist, of the object at parent.
func (r *Request) pathOf(parent jsondoc.Value, member string) string {
	var b strings.Builder
	b.WriteString(r.path(parent))
	appendMember(&b, member)
	return b.String()
}

// appendMember appends a member's name to a path. Names that clients make up are quoted, cut and escaped.
func appendMember(b *strings.Builder, name string) {
	plain := len(name) > 0 && len(name) <= maxQuoted && strings.Trim(name,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
	switch {
	case !plain:
		b.WriteString("['" + Quotable(name) + "']")
	case b.Len() > 0:
		b.WriteByte('.')
		fallthrough
	default:
		b.WriteString(name)
	}
}

// maxQuoted is the most bytes of a client's value that an error message repeats.
const maxQuoted = 64

// Quotable makes a client's value fit to stand between single quotes in an error message or a log: cut to 64 bytes, with
// "…" where it was, and with everything escaped that is not printable.
func Quotable(s string) string {
	cut := s
	if len(s) > maxQuoted {
		n := maxQuoted
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		cut = s[:n]
	}
	q := strconv.Quote(cut)
	q = strings.ReplaceAll(strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`), "'", `\'`)
	if len(cut) < len(s) {
		q += "…"
	}
	return q
}

// invalid is the error for a value. The path of the value is the first argument of format.
func (r *Request) invalid(v jsondoc.Value, code, format string, args ...any) *apierror.Error {
	path := r.path(v)
	return apierror.Invalid(code, path, format, append([]any{path}, args...)...)
}

// wrongType is the error for a value that is not what it must be, "an integer".
func (r *Request) wrongType(v jsondoc.Value, expected string) *apierror.Error {
	return r.invalid(v, codeInvalidType, "'%s' must be %s, not %s.", expected, describe(v))
}

// missing is the error for a member that must be there.
func (r *Request) missing(parent jsondoc.Value, member string) *apierror.Error {
	path := r.pathOf(parent, member)
	return apierror.Invalid(codeMissing, path, "The required parameter '%s' is missing.", path)
}

// notOneOf is the error for a string that is not one of those that the OpenAI API allows.
func (r *Request) notOneOf(v jsondoc.Value, known ...string) *apierror.Error {
	path, oneOf := r.path(v), "one of "
	if len(known) == 1 {
		oneOf = ""
	}
	return apierror.Invalid(codeInvalidValue, path, "'%s' is '%s', but must be %s'%s'.",
		path, Quotable(v.Text()), oneOf, strings.Join(known, "', '"))
}

// tooMany is the error for an array or an object with too many elements or members.
func (r *Request) tooMany(v jsondoc.Value, limit int) *apierror.Error {
	path, code, what := r.path(v), codeArrayAbove, "elements"
	if v.Kind() == jsondoc.Object {
		code, what = codeObjectAbove, "members"
	}
	return apierror.Invalid(code, path, "'%s' has %d %s, but at most %d are allowed.", path, v.Len(), what, limit)
}

// given reports whether an optional member is there. null counts as absent.
func given(v jsondoc.Value) bool { return v.Kind() > jsondoc.Null }

// keyword is the text of a string that is compared with keywords of the OpenAI API. It is valid until the next call. A string
// that is too long for any of them is returned as it is written.
func (r *Request) keyword(v jsondoc.Value) []byte {
	inside := v.Inside()
	const longest = 64
	if !v.Escaped() || len(inside) > longest*len(`\u0000`) {
		return inside
	}
	r.scratch = v.AppendText(r.scratch[:0])
	return r.scratch
}

// checkKind checks an optional member of one kind.
func (r *Request) checkKind(v jsondoc.Value, kind jsondoc.Kind, expected string) *apierror.Error {
	if given(v) && v.Kind() != kind {
		return r.wrongType(v, expected)
	}
	return nil
}

func (r *Request) checkString(v jsondoc.Value) *apierror.Error {
	return r.checkKind(v, jsondoc.String, "a string")
}

func (r *Request) checkObject(v jsondoc.Value) *apierror.Error {
	return r.checkKind(v, jsondoc.Object, "an object")
}

func (r *Request) checkArray(v jsondoc.Value) *apierror.Error {
	return r.checkKind(v, jsondoc.Array, "an array")
}

// needString checks a member that must be there, and a string.
func (r *Request) needString(v, parent jsondoc.Value, member string) *apierror.Error {
	switch {
	case !v.Exists():
		return r.missing(parent, member)
	case v.Kind() != jsondoc.String:
		return r.wrongType(v, "a string")
	}
	return nil
}

// needObject checks a member that must be there, and an object.
func (r *Request) needObject(v, parent jsondoc.Value, member string) *apierror.Error {
	switch {
	case !v.Exists():
		return r.missing(parent, member)
	case v.Kind() != jsondoc.Object:
		return r.wrongType(v, "an object")
	}
	return nil
}

// needName checks a member that must be there, a string, and not empty or longer than any provider takes.
func (r *Request) needName(v, parent jsondoc.Value, member string) *apierror.Error {
	if e := r.needString(v, parent, member); e != nil {
		return e
	}
	const longest = 256
	switch n := len(v.Inside()); {
	case n == 0:
		return r.invalid(v, codeEmptyString, "'%s' must not be empty.")
	case n > longest && len(v.Text()) > longest:
		return r.invalid(v, codeStringAbove, "'%s' has %d bytes, but at most %d are allowed.", len(v.Text()), longest)
	}
	return nil
}

// checkBool reads an optional boolean.
func (r *Request) checkBool(v jsondoc.Value) (bool, *apierror.Error) {
	if !given(v) {
		return false, nil
	}
	b, ok := v.Bool()
	if !ok {
		return false, r.wrongType(v, "a boolean")
	}
	return b, nil
}

// checkInteger reads an optional integer between low and high; 0 if it is absent.
func (r *Request) checkInteger(v jsondoc.Value, low, high int64) (int64, *apierror.Error) {
	if !given(v) {
		return 0, nil
	}
	n, ok := v.Int()
	if !ok {
		raw := v.Raw()
		if v.Kind() != jsondoc.Number || bytes.ContainsAny(raw, ".eE") {
			return 0, r.wrongType(v, "an integer")
		}
		// An integer beyond 64 bits.
		if raw[0] == '-' {
			return 0, r.outside(v, codeIntegerBelow, "below the smallest value", low)
		}
		return 0, r.outside(v, codeIntegerAbove, "above the largest value", high)
	}
	switch {
	case n < low:
		return 0, r.outside(v, codeIntegerBelow, "below the smallest value", low)
	case n > high:
		return 0, r.outside(v, codeIntegerAbove, "above the largest value", high)
	}
	return n, nil
}

// checkDecimal checks an optional number between low and high.
func (r *Request) checkDecimal(v jsondoc.Value, low, high int64) *apierror.Error {
	if !given(v) {
		return nil
	}
	f, ok := v.Float()
	switch {
	case !ok:
		return r.wrongType(v, "a number")
	case f < float64(low):
		return r.outside(v, codeDecimalBelow, "below the smallest value", low)
	case f > float64(high):
		return r.outside(v, codeDecimalAbove, "above the largest value", high)
	}
	return nil
}

// outside is the error for a number out of its range.
func (r *Request) outside(v jsondoc.Value, code, side string, limit int64) *apierror.Error {
	return r.invalid(v, code, "'%s' is %s, %s, which is %d.", Quotable(string(v.Raw())), side, limit)
}
