package clientapi

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// The codes of invalid requests, as clients of the OpenAI APIs know them.
const (
	CodeInvalidType          = "invalid_type"
	CodeInvalidValue         = "invalid_value"
	CodeMissing              = "missing_required_parameter"
	CodeUnknownParameter     = "unknown_parameter"
	CodeUnsupportedParameter = "unsupported_parameter"
	CodeEmptyArray           = "empty_array"
	CodeArrayAbove           = "array_above_max_length"
	CodeObjectAbove          = "object_above_max_properties"
	CodeEmptyString          = "empty_string"
	CodeStringAbove          = "string_above_max_length"
	CodeIntegerBelow         = "integer_below_min_value"
	CodeIntegerAbove         = "integer_above_max_value"
	CodeDecimalBelow         = "decimal_below_min_value"
	CodeDecimalAbove         = "decimal_above_max_value"
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

// Path is the place of a value in the request: "messages[2].content[0].type". It is computed only for an error, so reading a
// request need not keep track of it.
func Path(v jsondoc.Value) string {
	var b strings.Builder
	at := v.Root()
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

// PathOf is the path of a member, which need not exist, of the object at parent.
func PathOf(parent jsondoc.Value, member string) string {
	var b strings.Builder
	b.WriteString(Path(parent))
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

// InvalidValue is the error for a value. The path of the value is the first argument of format.
func InvalidValue(v jsondoc.Value, code, format string, args ...any) *apierror.Error {
	path := Path(v)
	return apierror.Invalid(code, path, format, append([]any{path}, args...)...)
}

// WrongType is the error for a value that is not what it must be, "an integer".
func WrongType(v jsondoc.Value, expected string) *apierror.Error {
	return InvalidValue(v, CodeInvalidType, "'%s' must be %s, not %s.", expected, describe(v))
}

// Missing is the error for a member that must be there.
func Missing(parent jsondoc.Value, member string) *apierror.Error {
	path := PathOf(parent, member)
	return apierror.Invalid(CodeMissing, path, "The required parameter '%s' is missing.", path)
}

// NotOneOf is the error for a string that is not one of those that the OpenAI API allows.
func NotOneOf(v jsondoc.Value, known ...string) *apierror.Error {
	path, oneOf := Path(v), "one of "
	if len(known) == 1 {
		oneOf = ""
	}
	return apierror.Invalid(CodeInvalidValue, path, "'%s' is '%s', but must be %s'%s'.",
		path, Quotable(v.Text()), oneOf, strings.Join(known, "', '"))
}

// TooMany is the error for an array or an object with too many elements or members.
func TooMany(v jsondoc.Value, limit int) *apierror.Error {
	path, code, what := Path(v), CodeArrayAbove, "elements"
	if v.Kind() == jsondoc.Object {
		code, what = CodeObjectAbove, "members"
	}
	return apierror.Invalid(code, path, "'%s' has %d %s, but at most %d are allowed.", path, v.Len(), what, limit)
}

// EmptyArray is the error for an array that must not be empty.
func EmptyArray(v jsondoc.Value) *apierror.Error {
	return InvalidValue(v, CodeEmptyArray, "'%s' must have at least one element.")
}

// Given reports whether an optional member is there. null counts as absent.
func Given(v jsondoc.Value) bool { return v.Kind() > jsondoc.Null }

// Keyword is the text of a string that is compared with keywords of the API. It is valid until scratch is used again. A string
// that is too long for any of them is returned as it is written.
func Keyword(v jsondoc.Value, scratch *[]byte) []byte {
	inside := v.Inside()
	const longest = 64
	if !v.Escaped() || len(inside) > longest*len(`\u0000`) {
		return inside
	}
	*scratch = v.AppendText((*scratch)[:0])
	return *scratch
}

// CheckKind checks an optional member of one kind.
func CheckKind(v jsondoc.Value, kind jsondoc.Kind, expected string) *apierror.Error {
	if Given(v) && v.Kind() != kind {
		return WrongType(v, expected)
	}
	return nil
}

// CheckString checks an optional string.
func CheckString(v jsondoc.Value) *apierror.Error {
	return CheckKind(v, jsondoc.String, "a string")
}

// CheckObject checks an optional object.
func CheckObject(v jsondoc.Value) *apierror.Error {
	return CheckKind(v, jsondoc.Object, "an object")
}

// CheckArray checks an optional array.
func CheckArray(v jsondoc.Value) *apierror.Error {
	return CheckKind(v, jsondoc.Array, "an array")
}

// CheckStrings checks that an array's elements, or an object's members, are strings.
func CheckStrings(v jsondoc.Value) *apierror.Error {
	for c := v.First(); c.Exists(); c = c.Next() {
		if c.Kind() != jsondoc.String {
			return WrongType(c, "a string")
		}
	}
	return nil
}

// CheckObjects checks an optional array of objects.
func CheckObjects(v jsondoc.Value) *apierror.Error {
	if e := CheckArray(v); e != nil {
		return e
	}
	for c := v.First(); c.Exists(); c = c.Next() {
		if c.Kind() != jsondoc.Object {
			return WrongType(c, "an object")
		}
	}
	return nil
}

// NeedString checks a member that must be there, and a string.
func NeedString(v, parent jsondoc.Value, member string) *apierror.Error {
	switch {
	case !v.Exists():
		return Missing(parent, member)
	case v.Kind() != jsondoc.String:
		return WrongType(v, "a string")
	}
	return nil
}

// NeedObject checks a member that must be there, and an object.
func NeedObject(v, parent jsondoc.Value, member string) *apierror.Error {
	switch {
	case !v.Exists():
		return Missing(parent, member)
	case v.Kind() != jsondoc.Object:
		return WrongType(v, "an object")
	}
	return nil
}

// NeedName checks a member that must be there, a string, and not empty or longer than any provider takes.
func NeedName(v, parent jsondoc.Value, member string) *apierror.Error {
	if e := NeedString(v, parent, member); e != nil {
		return e
	}
	const longest = 256
	switch n := len(v.Inside()); {
	case n == 0:
		return InvalidValue(v, CodeEmptyString, "'%s' must not be empty.")
	case n > longest && len(v.Text()) > longest:
		return InvalidValue(v, CodeStringAbove, "'%s' has %d bytes, but at most %d are allowed.", len(v.Text()), longest)
	}
	return nil
}

// CheckBool reads an optional boolean.
func CheckBool(v jsondoc.Value) (bool, *apierror.Error) {
	if !Given(v) {
		return false, nil
	}
	b, ok := v.Bool()
	if !ok {
		return false, WrongType(v, "a boolean")
	}
	return b, nil
}

// CheckInteger reads an optional integer between low and high; 0 if it is absent.
func CheckInteger(v jsondoc.Value, low, high int64) (int64, *apierror.Error) {
	if !Given(v) {
		return 0, nil
	}
	n, ok := v.Int()
	if !ok {
		raw := v.Raw()
		if v.Kind() != jsondoc.Number || bytes.ContainsAny(raw, ".eE") {
			return 0, WrongType(v, "an integer")
		}
		// An integer beyond 64 bits.
		if raw[0] == '-' {
			return 0, outside(v, CodeIntegerBelow, "below the smallest value", low)
		}
		return 0, outside(v, CodeIntegerAbove, "above the largest value", high)
	}
	switch {
	case n < low:
		return 0, outside(v, CodeIntegerBelow, "below the smallest value", low)
	case n > high:
		return 0, outside(v, CodeIntegerAbove, "above the largest value", high)
	}
	return n, nil
}

// CheckDecimal checks an optional number between low and high.
func CheckDecimal(v jsondoc.Value, low, high int64) *apierror.Error {
	if !Given(v) {
		return nil
	}
	f, ok := v.Float()
	switch {
	case !ok:
		return WrongType(v, "a number")
	case f < float64(low):
		return outside(v, CodeDecimalBelow, "below the smallest value", low)
	case f > float64(high):
		return outside(v, CodeDecimalAbove, "above the largest value", high)
	}
	return nil
}

// outside is the error for a number out of its range.
func outside(v jsondoc.Value, code, side string, limit int64) *apierror.Error {
	return InvalidValue(v, code, "'%s' is %s, %s, which is %d.", Quotable(string(v.Raw())), side, limit)
}

// ReadDocument parses the body of a request of an OpenAI API, strictly, and returns the object that it must be. Unpaired
// surrogates are repaired in place, with a warning: half of a pair is what is left where a client cuts a text, and means no
// character.
func ReadDocument(d *jsondoc.Doc, body []byte, l *Limits, f *Facts) (jsondoc.Value, *apierror.Error) {
	err := d.Parse(body, l.Document())
	if syntax, ok := errors.AsType[*jsondoc.SyntaxError](err); ok && syntax.Surrogate {
		offsets := jsondoc.RepairSurrogates(body)
		if err = d.Parse(body, l.Document()); err == nil {
			for _, offset := range offsets {
				f.Warn(abi.WarnChanged, Path(d.At(offset)))
			}
		}
	}
	if err != nil {
		return jsondoc.Value{}, Unreadable(err)
	}
	root := d.Root()
	if root.Kind() != jsondoc.Object {
		return root, apierror.Invalid(CodeInvalidType, "", "The request body must be a JSON object, not %s.", describe(root))
	}
	return root, nil
}

// Unreadable is the error for a body that is not a JSON document, or not one that the gateway accepts.
func Unreadable(err error) *apierror.Error {
	var syntax *jsondoc.SyntaxError
	errors.As(err, &syntax)
	e := apierror.Invalid("", "", "The request body could not be parsed as JSON: %s (at byte %d).", syntax.Reason, syntax.Offset)
	e.Cause = err
	return e
}
