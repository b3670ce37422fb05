package main

import (
	"bytes"

	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// The provider's own form of a schema (https://ai.google.dev/api/caching#Schema) has a part of what JSON Schema has. A
// schema is reduced to it: references are written out, a type that may be null becomes nullable, values of an enum
// become strings, and what cannot be said is left out.

// Bounds of one reduced schema. References that refer to each other can stand for far more than was sent.
const (
	maxNodes  = 4096
	maxLevels = 64

	// The result may have growth times the size of the schema and base bytes more, and so many times more may be read.
	growth   = 4
	base     = 8 << 10
	readings = 32
)

// reducer is the work on one schema.
type reducer struct {
	w     *json.Writer
	root  json.Value
	nodes int
	limit int                   // of the bytes that are written
	read  int                   // bytes that were read
	found map[string]json.Value // what references stand for
	refs  [][]byte              // references that are being written out, outermost first
	lost  bool                  // something that limits values was left out
	wrong string                // why the schema cannot be reduced, or ""
}

// writeReduced writes a schema in the provider's form. param is what the client calls it.
func (t *translation) writeReduced(schema json.Value, param string) error {
	// The result is put together on the side: what is written out of a reference counts as the plugin's own words, not as
	// a copy of the client's.
	t.scratch.Reset()
	c := reducer{w: &t.scratch, root: schema, limit: growth*len(schema) + base}
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

// write writes a schema. root says that it is one of parameters or of an answer, which is an object unless it says
// something else.
func (c *reducer) write(schema json.Value, root bool, level int) {
	c.nodes++
	switch {
	case c.wrong != "":
		return
	case c.nodes > maxNodes || level > maxLevels || len(c.w.Buf) > c.limit:
		c.fail("The schema is larger than this provider takes when its references are written out.")
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

// add adds what a schema says to a shape, with what it refers to and what else it must be.
func (c *reducer) add(s *shape, schema json.Value, level int) {
	c.read += len(schema)
	if c.nodes++; c.nodes > maxNodes || level > maxLevels || c.read > readings*c.limit {
		c.fail("The schema is larger than this provider takes when its references are written out.")
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
			c.refer(s, r.Text(), level)
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

// refer adds what a reference stands for. One that leads back to itself stands for any object: the provider's form has
// no end for it.
func (c *reducer) refer(s *shape, ref []byte, level int) {
	for _, open := range c.refs {
		if bytes.Equal(open, ref) {
			s.cycle, c.lost = true, true
			return
		}
	}
	target, ok := c.resolve(ref)
	if !ok {
		c.fail("The schema holds a $ref to something that is not in it.")
		return
	}
	c.refs = append(c.refs, ref)
	c.add(s, target, level+1)
}

// resolve finds what a reference within the document stands for: "#" and a JSON pointer (RFC 6901).
func (c *reducer) resolve(ref []byte) (json.Value, bool) {
	if known, ok := c.found[string(ref)]; ok {
		return known, true
	}
	c.read += len(c.root)
	pointer, ok := bytes.CutPrefix(ref, []byte{'#'})
	if !ok || len(pointer) > 0 && pointer[0] != '/' {
		return nil, false
	}
	at := c.root
	for len(pointer) > 0 {
		var token []byte
		token, pointer, ok = bytes.Cut(pointer[1:], []byte{'/'})
		if ok {
			// The slash begins the next token.
			pointer = append([]byte{'/'}, pointer...)
		}
		token = bytes.ReplaceAll(token, []byte("~1"), []byte("/"))
		token = bytes.ReplaceAll(token, []byte("~0"), []byte("~"))
		if at = element(at, token); !at.Exists() {
			return nil, false
		}
	}
	if c.found == nil {
		c.found = make(map[string]json.Value)
	}
	c.found[string(ref)] = at
	return at, true
}

// element is the member of an object, or the element of an array, that a token of a pointer names.
func element(v json.Value, token []byte) json.Value {
	if v.Kind() != json.Array {
		return v.Get(string(token))
	}
	n, ok := json.Value(token).Int()
	if !ok {
		return nil
	}
	var r json.Reader
	r.Reset(v)
	for a := r.Array(); a.Next(); n-- {
		if n == 0 {
			return r.Raw()
		}
	}
	return nil
}

// first is the value that was there, else the one that has come.
func first(there, value json.Value) json.Value {
	if there != nil {
		return there
	}
	return value
}
