package gemini

import (
	"bytes"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// The provider's own form of a schema (https://ai.google.dev/api/caching#Schema) has a part of what JSON Schema has. A
// schema is reduced to it: references are written out, a type that may be null becomes nullable, values of an enum
// become strings, and what cannot be said is omitted.

// Bounds of one reduced schema. References that refer to each other can stand for far more than was sent.
const (
	maxNodes  = 4096 // and one more for so many bytes:
	nodeBytes = 16
	maxLevels = 64

	// The result may have growth times the size of the schema and base bytes more, and so many times more may be read.
	growth   = 4
	base     = 8 << 10
	readings = 32
)

// reducer is the state of reducing one schema.
type reducer struct {
	w     *json.Writer
	root  json.Value
	nodes int                              // that are left
	limit int                              // of the bytes that are written
	read  int                              // bytes that were read
	found map[string]map[string]json.Value // what pointers lead into
	refs  [][]byte                         // references that are being written out, outermost first
	lost  bool                             // something that limits values was left out
	wrong string                           // why the schema cannot be reduced, or ""
}

// writeReduced writes a schema in the provider's form. param is what the client calls it.
func (t *translation) writeReduced(schema json.Value, param string) error {
	// The result is put together on the side: what is written out of a reference counts as the plugin's own words, not as
	// a copy of the client's.
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

// generalParam is a path without the numbers in it, so that many of a kind make one warning.
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

// write writes a schema. root says that it is one of parameters or of a response, which is an object unless it says
// something else.
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
		// All but one of the choices was null: what is left is no choice.
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
		c.lost = c.lost || schema.Kind() != json.Bool // true says nothing, and false is never meant
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
			// They limit no value.
		default:
			if i := keywordNamed(name); i >= 0 {
				s.keywords[i] = first(s.keywords[i], r.Raw())
			} else {
				c.lost = true
			}
		}
	}
}

// addUnion adds a choice of schemas. null among them is a member of its own in the provider's form.
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

// addReference adds the target of a reference. A cycle becomes any object: the provider's form has no recursion.
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

// resolve finds what a reference within the document stands for: "#" and a JSON pointer (RFC 6901).
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

// children returns the members of an object or array by name or index, cached by pointer: most references share a
// parent.
func (c *reducer) children(pointer []byte, v json.Value) map[string]json.Value {
	if known, ok := c.found[string(pointer)]; ok {
		return known
	}
	if c.read += len(v); c.read > readings*c.limit {
		return nil
	}
	held := make(map[string]json.Value)
	var r json.Reader
	r.Reset(v)
	if v.Kind() == json.Array {
		for a, n := r.Array(), 0; a.Next(); n++ {
			held[translate.Itoa(n)] = r.Raw()
		}
	} else {
		for o := r.Object(); o.Next(); {
			held[string(r.Name())] = r.Raw()
		}
	}
	if c.found == nil {
		c.found = make(map[string]map[string]json.Value)
	}
	c.found[string(pointer)] = held
	return held
}

// first is the value that was there, else the one that has come.
func first(there, value json.Value) json.Value {
	if there != nil {
		return there
	}
	return value
}
