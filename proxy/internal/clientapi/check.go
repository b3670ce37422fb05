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

// The error codes of invalid requests in the OpenAI APIs.
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

// describe returns the kind of a value for an error message.
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

// Path returns the path of a value in the request, for example "messages[2].content[0].type". It searches the document,
// so that only requests with errors pay for paths.
func Path(v jsondoc.Value) string {
	var b strings.Builder
	ancestor := v.Root()
	for ancestor != v {
		index, c := 0, ancestor.First()
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
		ancestor = c
	}
	return b.String()
}

// memberPath returns the path of a member of parent, which need not exist.
func memberPath(parent jsondoc.Value, member string) string {
	var b strings.Builder
	b.WriteString(Path(parent))
	appendMember(&b, member)
	return b.String()
}

// appendMember appends a member's name to a path. Unusual names, which are the client's own, are quoted, cut and
// escaped.
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

// maxQuoted is the maximum number of bytes that an error message quotes of a client's value.
const maxQuoted = 64

// Quotable prepares a client's value for single quotes in an error message or a log: it cuts the value to 64 bytes,
// marks the cut with "…", and escapes everything that is not printable.
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

// InvalidValue returns an error about a value. The path of the value is the first argument of format.
func InvalidValue(v jsondoc.Value, code, format string, args ...any) *apierror.Error {
	path := Path(v)
	return apierror.Invalid(code, path, format, append([]any{path}, args...)...)
}

// WrongType returns the error for a value of the wrong type. expected is a phrase like "an integer".
func WrongType(v jsondoc.Value, expected string) *apierror.Error {
	return InvalidValue(v, CodeInvalidType, "'%s' must be %s, not %s.", expected, describe(v))
}

// Missing returns the error for a required member that is absent.
func Missing(parent jsondoc.Value, member string) *apierror.Error {
	path := memberPath(parent, member)
	return apierror.Invalid(CodeMissing, path, "The required parameter '%s' is missing.", path)
}

// NotOneOf returns the error for a string that is not one of the allowed values.
func NotOneOf(v jsondoc.Value, known ...string) *apierror.Error {
	path, oneOf := Path(v), "one of "
	if len(known) == 1 {
		oneOf = ""
	}
	return apierror.Invalid(CodeInvalidValue, path, "'%s' is '%s', but must be %s'%s'.",
		path, Quotable(v.Text()), oneOf, strings.Join(known, "', '"))
}

// TooMany returns the error for an array with too many elements or an object with too many members.
func TooMany(v jsondoc.Value, limit int) *apierror.Error {
	path, code, what := Path(v), CodeArrayAbove, "elements"
	if v.Kind() == jsondoc.Object {
		code, what = CodeObjectAbove, "members"
	}
	return apierror.Invalid(code, path, "'%s' has %d %s, but at most %d are allowed.", path, v.Len(), what, limit)
}

// EmptyArray returns the error for an array that must not be empty.
func EmptyArray(v jsondoc.Value) *apierror.Error {
	return InvalidValue(v, CodeEmptyArray, "'%s' must have at least one element.")
}

// Given reports whether an optional member is present. null counts as absent.
func Given(v jsondoc.Value) bool { return v.Kind() > jsondoc.Null }

// Keyword returns the text of a string for comparison with keywords of the API. It may use scratch for the result. It
// does not unescape strings that are longer than any keyword.
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

// NeedString checks a required string.
func NeedString(v, parent jsondoc.Value, member string) *apierror.Error {
	switch {
	case !v.Exists():
		return Missing(parent, member)
	case v.Kind() != jsondoc.String:
		return WrongType(v, "a string")
	}
	return nil
}

// NeedObject checks a required object.
func NeedObject(v, parent jsondoc.Value, member string) *apierror.Error {
	switch {
	case !v.Exists():
		return Missing(parent, member)
	case v.Kind() != jsondoc.Object:
		return WrongType(v, "an object")
	}
	return nil
}

// NeedName checks a required string that must be neither empty nor longer than any provider accepts.
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

// CheckInteger reads an optional integer between low and high. It returns 0 if the integer is absent.
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
		// The integer exceeds 64 bits.
		if raw[0] == '-' {
			return 0, outOfRange(v, CodeIntegerBelow, "below the minimum", low)
		}
		return 0, outOfRange(v, CodeIntegerAbove, "above the maximum", high)
	}
	switch {
	case n < low:
		return 0, outOfRange(v, CodeIntegerBelow, "below the minimum", low)
	case n > high:
		return 0, outOfRange(v, CodeIntegerAbove, "above the maximum", high)
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
		return outOfRange(v, CodeDecimalBelow, "below the minimum", low)
	case f > float64(high):
		return outOfRange(v, CodeDecimalAbove, "above the maximum", high)
	}
	return nil
}

// outOfRange returns the error for a number outside of its range.
func outOfRange(v jsondoc.Value, code, side string, limit int64) *apierror.Error {
	return InvalidValue(v, code, "'%s' is %s, %s of %d.", Quotable(string(v.Raw())), side, limit)
}

// ReadDocument strictly parses the body of a request of an OpenAI API, and returns its root, which must be an object
// without ambiguous names. It repairs unpaired surrogates in place, with a warning. They are not characters, and are left over when a client
// cuts a text within a pair.
func ReadDocument(d *jsondoc.Doc, body []byte, l *Limits, f *Facts, s Spelling) (jsondoc.Value, *apierror.Error) {
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
	return root, checkNames(root, s)
}

// Unreadable returns the error for a body that is not a JSON document, or not one that the gateway accepts.
func Unreadable(err error) *apierror.Error {
	var syntax *jsondoc.SyntaxError
	errors.As(err, &syntax)
	e := apierror.Invalid("", "", "The request body could not be parsed as JSON: %s (at byte %d).", syntax.Reason, syntax.Offset)
	e.Cause = err
	return e
}
