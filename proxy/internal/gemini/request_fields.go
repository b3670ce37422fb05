package gemini

import (
	"bytes"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// fieldName returns the name of a member in camel case, the spelling that the API documents. It is valid until the next
// call. A name that is neither in camel case nor in snake case, which providers do not know, is returned as it is.
func (r *Request) fieldName(v jsondoc.Value) []byte {
	name := clientapi.Keyword(v.Name(), &r.scratch)
	if len(name) < 2 || bytes.IndexByte(name[1:], '_') < 0 {
		return name
	}
	r.camel = append(r.camel[:0], name[0])
	upper := false
	for _, c := range name[1:] {
		letter := c >= 'a' && c <= 'z'
		switch {
		case upper && !letter, c >= 'A' && c <= 'Z':
			return name
		case c == '_':
			upper = true
			continue
		case upper:
			c -= 'a' - 'A'
		}
		upper = false
		r.camel = append(r.camel, c)
	}
	if upper {
		return name
	}
	return r.camel
}

// field returns a member of an object by its name in camel case. A member that is null counts as absent. A member in two
// spellings is recorded in r.twice.
func (r *Request) field(object jsondoc.Value, name string) (found jsondoc.Value) {
	if object.Kind() != jsondoc.Object {
		return found
	}
	for v := object.First(); v.Exists(); v = v.Next() {
		if string(r.fieldName(v)) != name {
			continue
		}
		if found.Exists() {
			r.twice = v
		}
		found = v
	}
	return present(found)
}

// present returns v, or an absent value if v is null.
func present(v jsondoc.Value) jsondoc.Value {
	if !clientapi.Given(v) {
		return jsondoc.Value{}
	}
	return v
}

// set records a member unless it is null. It fails if the member has already been recorded in another spelling.
func set(at *jsondoc.Value, v jsondoc.Value) *apierror.Error {
	if at.Exists() {
		return givenTwice(v)
	}
	*at = present(v)
	return nil
}

// givenTwice returns the error for the second member of an object with the same name, in another spelling.
func givenTwice(v jsondoc.Value) *apierror.Error {
	return clientapi.InvalidValue(v, clientapi.CodeInvalidValue, "'%s' is given twice, in two spellings of its name.")
}

// element is an element of a repeated field, which is an array or, if it has one element, may be that element alone.
type element struct {
	jsondoc.Value
	single bool // the field is this element, not an array
}

// elements returns the first element of a repeated field.
func elements(field jsondoc.Value) element {
	if field.Kind() == jsondoc.Array {
		return element{field.First(), false}
	}
	return element{field, true}
}

// next returns the element after e.
func (e element) next() element {
	if e.single {
		return element{}
	}
	return element{e.Next(), false}
}

// checkObjects checks that a repeated field holds objects.
func checkObjects(field jsondoc.Value) *apierror.Error {
	for v := elements(field); v.Exists(); v = v.next() {
		if v.Kind() != jsondoc.Object {
			return clientapi.WrongType(v.Value, "an object")
		}
	}
	return nil
}

// checkStrings checks that a repeated field holds strings.
func checkStrings(field jsondoc.Value) *apierror.Error {
	for v := elements(field); v.Exists(); v = v.next() {
		if v.Kind() != jsondoc.String {
			return clientapi.WrongType(v.Value, "a string")
		}
	}
	return nil
}

// text returns the unescaped text of a string. It is valid until the next call.
func (r *Request) text(v jsondoc.Value) []byte {
	if !v.Escaped() {
		return v.Inside()
	}
	r.scratch = v.AppendText(r.scratch[:0])
	return r.scratch
}

// unsupported returns the error for a value that only a provider of this API can support.
func unsupported(v jsondoc.Value, format string, args ...any) *apierror.Error {
	path := clientapi.Path(v)
	e := apierror.Invalid("unsupported", path, format, args...)
	e.TryNext = true
	return e
}
