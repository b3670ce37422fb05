package messages

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// Error codes besides those of clientapi. They appear in the log and in metrics; the bodies of this API's errors have
// no codes.
const (
	codeUnsupported   = "unsupported" // another target may support it
	codeContextLength = "context_length_exceeded"
	codeModelNotFound = "model_not_found"
)

// path returns the path of a value in the request in Anthropic's notation, "messages.3.content.0.tool_result.content":
// names and indices separated by dots, with the type of a union's element after it. It is only computed for errors and
// warnings.
func (r *Request) path(v jsondoc.Value) string { return path(v) }

func path(v jsondoc.Value) string {
	var b strings.Builder
	appendPath(&b, v)
	return b.String()
}

// appendPath appends the path of v.
func appendPath(b *strings.Builder, v jsondoc.Value) {
	foreign := false // at is inside a schema or a tool's input, whose members are not the API's
	for at := v.Root(); at != v; {
		index, c := 0, at.First()
		for ; c.Exists() && c.Offset()+len(c.Raw()) <= v.Offset(); c = c.Next() {
			index++
		}
		if !c.Exists() {
			return
		}
		name := c.Name()
		if !name.Exists() {
			appendSegment(b, strconv.Itoa(index))
			at = c
			continue
		}
		if !foreign && b.Len() > 0 && !name.Is("type") {
			appendTag(b, at)
		}
		foreign = foreign || name.Is("input_schema") || name.Is("input") || name.Is("schema")
		appendSegment(b, quotable(name.Text()))
		at = c
	}
}

// appendTag appends the type of an object that is an element of a union. A tool without a type is a custom tool.
func appendTag(b *strings.Builder, object jsondoc.Value) {
	switch typ := object.Get("type"); {
	case typ.Kind() == jsondoc.String && len(typ.Inside()) > 0:
		appendSegment(b, quotable(typ.Text()))
	case object.Get("input_schema").Exists():
		appendSegment(b, "custom")
	}
}

func appendSegment(b *strings.Builder, s string) {
	if b.Len() > 0 {
		b.WriteByte('.')
	}
	b.WriteString(s)
}

// memberPath returns the path of a member of parent. The member need not exist.
func (r *Request) memberPath(parent jsondoc.Value, member string) string {
	var b strings.Builder
	appendPath(&b, parent)
	if b.Len() > 0 && member != "type" {
		appendTag(&b, parent)
	}
	appendSegment(&b, member)
	return b.String()
}

// quotable prepares a client's value for an error message or a log: it is truncated to 64 bytes, with "…" at the end,
// and everything except printable ASCII is escaped. An empty value becomes a pair of quotes.
func quotable(s string) string {
	if s == "" {
		return `""`
	}
	const longest = 64
	ellipsis := ""
	if len(s) > longest {
		s, ellipsis = s[:longest], "…"
	}
	q := strconv.QuoteToASCII(s)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`) + ellipsis
}

// invalid returns the error for an invalid value.
func (r *Request) invalid(v jsondoc.Value, code, format string, args ...any) *apierror.Error {
	return apierror.Invalid(code, r.path(v), format, args...)
}

// unsupported returns the error for a value that only providers of this API support. It lets the gateway try the next
// target.
func (r *Request) unsupported(v jsondoc.Value, format string, args ...any) *apierror.Error {
	e := r.invalid(v, codeUnsupported, format, args...)
	e.TryNext = true
	return e
}

// missing returns the error for a missing member.
func (r *Request) missing(parent jsondoc.Value, member string) *apierror.Error {
	return apierror.Invalid(clientapi.CodeMissing, r.memberPath(parent, member), "Field required")
}

// wrongType returns the error for a value that does not have the expected type, such as "integer".
func (r *Request) wrongType(v jsondoc.Value, expected string) *apierror.Error {
	return r.invalid(v, clientapi.CodeInvalidType, "Input should be a valid %s", expected)
}

// notOneOf returns the error for a string that is not one of the known values.
func (r *Request) notOneOf(v jsondoc.Value, known ...string) *apierror.Error {
	last := len(known) - 1
	return r.invalid(v, clientapi.CodeInvalidValue, "Input should be '%s' or '%s'", strings.Join(known[:last], "', '"), known[last])
}

// tooMany returns the error for an array with too many elements.
func (r *Request) tooMany(v jsondoc.Value, limit int) *apierror.Error {
	return r.invalid(v, clientapi.CodeArrayAbove, "List should have at most %d items, not %d", limit, v.Len())
}

// present returns an optional member, or an absent value if it is null.
func present(v jsondoc.Value) jsondoc.Value {
	if v.Kind() == jsondoc.Null {
		return jsondoc.Value{}
	}
	return v
}

// keyword returns the text of a string, for comparison with keywords of the API: see clientapi.Keyword.
func (r *Request) keyword(v jsondoc.Value) []byte { return clientapi.Keyword(v, &r.scratch) }

// checkKind checks that an optional member has a kind.
func (r *Request) checkKind(v jsondoc.Value, kind jsondoc.Kind, expected string) *apierror.Error {
	if clientapi.Given(v) && v.Kind() != kind {
		return r.wrongType(v, expected)
	}
	return nil
}

func (r *Request) checkString(v jsondoc.Value) *apierror.Error {
	return r.checkKind(v, jsondoc.String, "string")
}

func (r *Request) checkObject(v jsondoc.Value) *apierror.Error {
	return r.checkKind(v, jsondoc.Object, "dictionary")
}

func (r *Request) checkArray(v jsondoc.Value) *apierror.Error {
	return r.checkKind(v, jsondoc.Array, "list")
}

// needKind checks that a required member has a kind.
func (r *Request) needKind(v, parent jsondoc.Value, member string, kind jsondoc.Kind, expected string) *apierror.Error {
	if !v.Exists() {
		return r.missing(parent, member)
	}
	if v.Kind() != kind {
		return r.wrongType(v, expected)
	}
	return nil
}

func (r *Request) needString(v, parent jsondoc.Value, member string) *apierror.Error {
	return r.needKind(v, parent, member, jsondoc.String, "string")
}

func (r *Request) needObject(v, parent jsondoc.Value, member string) *apierror.Error {
	return r.needKind(v, parent, member, jsondoc.Object, "dictionary")
}

// needID checks that a required member is a string and not empty.
func (r *Request) needID(v, parent jsondoc.Value, member string) *apierror.Error {
	if e := r.needString(v, parent, member); e != nil {
		return e
	}
	if len(v.Inside()) == 0 {
		return r.invalid(v, clientapi.CodeEmptyString, "String should have at least 1 character")
	}
	return nil
}

// needName checks that a required member is a string, and neither empty nor longer than any provider accepts.
func (r *Request) needName(v, parent jsondoc.Value, member string) *apierror.Error {
	if e := r.needID(v, parent, member); e != nil {
		return e
	}
	const longest = 256
	if len(v.Inside()) > longest && len(v.Text()) > longest {
		return r.invalid(v, clientapi.CodeStringAbove, "String should have at most %d characters", longest)
	}
	return nil
}

// checkBool returns the value of an optional boolean.
func (r *Request) checkBool(v jsondoc.Value) (bool, *apierror.Error) {
	if !clientapi.Given(v) {
		return false, nil
	}
	b, ok := v.Bool()
	if !ok {
		return false, r.wrongType(v, "boolean")
	}
	return b, nil
}

// checkInteger returns the value of an optional integer between low and high, 0 if it is absent.
func (r *Request) checkInteger(v jsondoc.Value, low, high int64) (int64, *apierror.Error) {
	if !clientapi.Given(v) {
		return 0, nil
	}
	n, ok := v.Int()
	if !ok {
		raw := v.Raw()
		if v.Kind() != jsondoc.Number || bytes.ContainsAny(raw, ".eE") {
			return 0, r.wrongType(v, "integer")
		}
		if n = high; raw[0] == '-' { // an integer beyond 64 bits
			n = low - 1
		} else {
			n++
		}
	}
	switch {
	case n < low:
		return 0, r.invalid(v, clientapi.CodeIntegerBelow, "Input should be greater than or equal to %d", low)
	case n > high:
		return 0, r.invalid(v, clientapi.CodeIntegerAbove, "Input should be less than or equal to %d", high)
	}
	return n, nil
}

// checkDecimal checks an optional number between low and high.
func (r *Request) checkDecimal(v jsondoc.Value, low, high int64) *apierror.Error {
	if !clientapi.Given(v) {
		return nil
	}
	f, ok := v.Float()
	switch {
	case !ok:
		return r.wrongType(v, "number")
	case f < float64(low):
		return r.invalid(v, clientapi.CodeDecimalBelow, "Input should be greater than or equal to %d", low)
	case f > float64(high):
		return r.invalid(v, clientapi.CodeDecimalAbove, "Input should be less than or equal to %d", high)
	}
	return nil
}
