package gemini

import (
	"bytes"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// The provider's own schema format (https://ai.google.dev/api/caching#Schema) is a subset of JSON Schema. A schema is
// reduced to it: references are expanded, a type that allows null becomes nullable, enum values become strings, and
// what the format cannot express is omitted.

// Limits for one reduced schema. References that refer to each other can expand to far more than the client sent.
const (
	maxNodes  = 4096 // plus one for every nodeBytes bytes of the schema
	nodeBytes = 16
	maxLevels = 64 // levels of nesting

	// The reducer may write growth times the size of the schema plus base bytes, and read readings times as many.
	growth   = 4
	base     = 8 << 10
	readings = 32
)

// reducer is the state of the reduction of one schema.
type reducer struct {
	w     *json.Writer
	root  json.Value
	nodes int                              // number of nodes left
	limit int                              // maximum number of bytes to write
	read  int                              // number of bytes read
	found map[string]map[string]json.Value // members of objects and arrays, by JSON pointer; see children
	refs  [][]byte                         // references that are being expanded, outermost first
	lost  bool                             // a constraint was omitted
	wrong string                           // why the schema cannot be reduced; empty if it can
}

// writeReduced writes a schema in the provider's format. param is its path in the client's request.
func (t *translation) writeReduced(schema json.Value, param string) error {
	// The result is built in a buffer of its own, because text that is expanded from references cannot be passed to the
	// gateway as a range of the client's body.
	t.scratch.Reset()
	c := reducer{w: &t.scratch, root: schema, nodes: maxNodes + len(schema)/nodeBytes, limit: growth*len(schema) + base}
	c.write(schema, true, 0)
	switch {
	case c.wrong != "":
		return sdk.Refuse(param, c.wrong)
	case c.lost:
		t.r.Warn(abi.WarnChanged, generalParam(param))
	}
	t.w.Raw(t.scratch.Buf)
	return nil
}

// generalParam returns a path without its indexes, so that similar members cause a single warning.
func generalParam(param string) string {
	out := make([]byte, 0, len(param))
	for i := range len(param) {
		if param[i] < '0' || param[i] > '9' {
			out = append(out, param[i])
		}
	}
	return string(out)
}

func (c *reducer) fail(why string) {
	if c.wrong == "" {
		c.wrong = why
	}
}

// write writes a schema. root marks the schema of parameters or of a response, which is an object by default.
func (c *reducer) write(schema json.Value, root bool, level int) {
	c.nodes--
	switch {
	case c.wrong != "":
		return
	case c.nodes < 0 || level > maxLevels || len(c.w.Buf) > c.limit:
		c.fail("The schema is too large for this provider after expanding its references.")
		return
	}
	open := len(c.refs)
	var s shape
	c.add(&s, schema, 0)
	for s.union != nil && s.members < 2 {
		// All alternatives but one were null, so there is no union any more.
		only := s.only
		s.union, s.only, s.members = nil, nil, 0
		if only != nil {
			c.add(&s, only, 0)
		}
	}
	if root && s.types == 0 && s.union == nil && !s.cycle {
		s.types |= typeObject
	}
	c.writeShape(&s, level)
	c.refs = c.refs[:open]
}

// add merges a schema into a shape, with its references and allOf.
func (c *reducer) add(s *shape, schema json.Value, level int) {
	c.read += len(schema)
	if c.nodes--; c.nodes < 0 || level > maxLevels || c.read > readings*c.limit {
		c.fail("The schema is too large for this provider after expanding its references.")
		return
	}
	if schema.Kind() != json.Object {
		c.lost = c.lost || schema.Kind() != json.Bool // true allows anything, and false is not used in practice
		return
	}
	var r json.Reader
	r.Reset(schema)
	for o := r.Object(); o.Next(); {
		switch name := string(r.Name()); name {
		case "$ref":
			c.addReference(s, r.Text(), level)
		case "allOf":
			for a := r.Array(); a.Next(); {
				c.add(s, r.Raw(), level+1)
			}
		case "anyOf", "oneOf":
			c.addUnion(s, r.Raw())
		case "type":
			s.addTypes(&r)
		case "nullable":
			null, _ := r.Bool()
			s.nullable = s.nullable || null
		case "enum":
			s.enum = first(s.enum, r.Raw())
		case "const":
			s.constant = first(s.constant, r.Raw())
		case "properties":
			s.properties = append(s.properties, r.Raw())
		case "required":
			s.required = append(s.required, r.Raw())
		case "items":
			if s.items = first(s.items, r.Raw()); s.items.Kind() != json.Object {
				s.items, c.lost = nil, true
			}
		case "format":
			s.format = first(s.format, r.Raw())
		case "additionalProperties":
			if some := json.Value(r.Raw()); some.Kind() == json.Object && len(some) > len("{}") {
				c.lost = true
			}
		case "$schema", "$id", "$anchor", "$comment", "$defs", "definitions", "examples", "deprecated", "readOnly", "writeOnly":
			// These do not constrain values.
		default:
			if i := findKeyword(name); i >= 0 {
				s.keywords[i] = first(s.keywords[i], r.Raw())
			} else {
				c.lost = true
			}
		}
	}
}

// addUnion adds a union of schemas. null is a separate member in the provider's format.
func (c *reducer) addUnion(s *shape, union json.Value) {
	if s.union != nil {
		c.lost = true
		return
	}
	s.union = union
	var r json.Reader
	r.Reset(union)
	for a := r.Array(); a.Next(); {
		if one := json.Value(r.Raw()); isNull(one) {
			s.nullable = true
		} else {
			s.only = one
			s.members++
		}
	}
}

func isNull(schema json.Value) bool { return schema.Get("type").Is("null") }

// addReference adds the target of a reference. A cycle becomes an arbitrary object, because the provider's format has
// no recursion.
func (c *reducer) addReference(s *shape, ref []byte, level int) {
	for _, open := range c.refs {
		if bytes.Equal(open, ref) {
			s.cycle, c.lost = true, true
			return
		}
	}
	target, ok := c.resolve(ref)
	if !ok {
		c.fail("The schema has a $ref without a target.")
		return
	}
	c.refs = append(c.refs, ref)
	c.add(s, target, level+1)
}

// resolve returns the target of a reference within the document, which is "#" and a JSON pointer (RFC 6901).
func (c *reducer) resolve(ref []byte) (json.Value, bool) {
	pointer, ok := bytes.CutPrefix(ref, []byte{'#'})
	if !ok || len(pointer) > 0 && pointer[0] != '/' {
		return nil, false
	}
	at := c.root
	for from := 0; from < len(pointer); {
		to := len(pointer)
		if i := bytes.IndexByte(pointer[from+1:], '/'); i >= 0 {
			to = from + 1 + i
		}
		token := bytes.ReplaceAll(pointer[from+1:to], []byte("~1"), []byte("/"))
		token = bytes.ReplaceAll(token, []byte("~0"), []byte("~"))
		if at = c.children(pointer[:from], at)[string(token)]; at == nil {
			return nil, false
		}
		from = to
	}
	return at, true
}

// children returns the members of an object or array by name or index. They are cached by pointer, because most
// references have the same parent.
func (c *reducer) children(pointer []byte, v json.Value) map[string]json.Value {
	if known, ok := c.found[string(pointer)]; ok {
		return known
	}
	if c.read += len(v); c.read > readings*c.limit {
		return nil
	}
	members := make(map[string]json.Value)
	var r json.Reader
	r.Reset(v)
	if v.Kind() == json.Array {
		for a, n := r.Array(), 0; a.Next(); n++ {
			members[translate.Itoa(n)] = r.Raw()
		}
	} else {
		for o := r.Object(); o.Next(); {
			members[string(r.Name())] = r.Raw()
		}
	}
	if c.found == nil {
		c.found = make(map[string]map[string]json.Value)
	}
	c.found[string(pointer)] = members
	return members
}

// first returns the earlier value if there is one, otherwise the new one.
func first(earlier, value json.Value) json.Value {
	if earlier != nil {
		return earlier
	}
	return value
}
