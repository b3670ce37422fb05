package gemini

import (
	"github.com/sluice-gateway/sluice/sdk/json"
)

// shape is the combination of a schema with its references and allOf. If several of them have the same keyword, the
// first one counts.
type shape struct {
	types      typeSet
	nullable   bool
	cycle      bool // the schema refers to itself
	enum       json.Value
	constant   json.Value
	format     json.Value
	items      json.Value
	properties []json.Value
	required   []json.Value
	keywords   [len(keywords)]json.Value

	union   json.Value // anyOf or oneOf
	only    json.Value // the last alternative that is not null
	members int        // number of alternatives that are not null
}

// typeSet is a set of types.
type typeSet uint8

const (
	typeString typeSet = 1 << iota
	typeNumber
	typeInteger
	typeBoolean
	typeArray
	typeObject
)

// typeWords are the names of types in JSON Schema and in the provider's format, by bit.
var typeWords = [...]struct{ schema, wire string }{
	{"string", "STRING"}, {"number", "NUMBER"}, {"integer", "INTEGER"},
	{"boolean", "BOOLEAN"}, {"array", "ARRAY"}, {"object", "OBJECT"},
}

// keywords are the members that both formats have, with the types that they apply to; 0 means all.
var keywords = [...]struct {
	name  string
	types typeSet
}{
	{"title", 0}, {"description", 0}, {"default", 0}, {"example", 0},
	{"minLength", typeString}, {"maxLength", typeString}, {"pattern", typeString},
	{"minimum", typeNumber | typeInteger}, {"maximum", typeNumber | typeInteger},
	{"minItems", typeArray}, {"maxItems", typeArray},
	{"minProperties", typeObject}, {"maxProperties", typeObject}, {"propertyOrdering", typeObject},
}

func findKeyword(name string) int {
	for i := range keywords {
		if keywords[i].name == name {
			return i
		}
	}
	return -1
}

// addTypes reads a type, or an array of types.
func (s *shape) addTypes(r *json.Reader) {
	if r.Kind() != json.Array {
		s.addType(r.Text())
		return
	}
	for a := r.Array(); a.Next(); {
		s.addType(r.Text())
	}
}

// addType adds a type by its name in JSON Schema or in the provider's format.
func (s *shape) addType(word []byte) {
	for i := range typeWords {
		if typeWords[i].schema == string(word) || typeWords[i].wire == string(word) {
			s.types |= 1 << i
		}
	}
	if string(word) == "null" {
		s.nullable = true
	}
}

// inferType sets the type if other keywords imply it.
func (s *shape) inferType() {
	switch {
	case s.types != 0 || s.union != nil:
	case s.properties != nil || s.cycle:
		s.types = typeObject
	case s.items != nil:
		s.types = typeArray
	}
}

// writeShape writes a shape in the provider's format.
func (c *reducer) writeShape(s *shape, level int) {
	w := c.w
	s.inferType()
	if s.constant != nil {
		c.lost = c.lost || s.enum != nil
		s.enum = append(append(json.Value{'['}, s.constant...), ']')
	}
	if s.enum != nil {
		s.types = typeString // the provider's format only has enums of strings
	}
	w.Object()
	switch {
	case s.union != nil:
		w.Name("anyOf")
		w.Array()
		var r json.Reader
		r.Reset(s.union)
		for a := r.Array(); a.Next(); {
			if one := json.Value(r.Raw()); !isNull(one) {
				c.write(one, false, level+1)
			}
		}
		w.EndArray()
		c.writeKeywords(s, 0)
	case s.types&(s.types-1) != 0:
		w.Name("anyOf")
		w.Array()
		for bit := typeString; bit <= typeObject; bit <<= 1 {
			if s.types&bit != 0 {
				w.Object()
				c.writeTyped(s, bit, level)
				w.EndObject()
			}
		}
		w.EndArray()
		c.writeKeywords(s, 0)
	default:
		c.writeTyped(s, s.types, level)
		c.writeKeywords(s, 0)
	}
	if s.nullable {
		w.Name("nullable")
		w.Bool(true)
	}
	w.EndObject()
}

// writeTyped writes the members of a shape that apply to values of one type.
func (c *reducer) writeTyped(s *shape, t typeSet, level int) {
	w := c.w
	for i := range typeWords {
		if t == 1<<i {
			w.Name("type")
			w.String(typeWords[i].wire)
		}
	}
	if t != 0 {
		c.writeKeywords(s, t)
	}
	c.writeFormat(s, t)
	switch t {
	case typeString:
		c.writeEnum(s)
	case typeArray:
		w.Name("items")
		if s.items == nil {
			// The provider rejects an array without a type of its elements.
			w.Raw([]byte(`{"type":"STRING"}`))
			c.lost = true
		} else {
			c.write(s.items, false, level+1)
		}
	case typeObject:
		c.writeProperties(s, level)
	}
}

// writeKeywords writes the keywords that apply to these types, or with 0 the keywords that apply to all types.
func (c *reducer) writeKeywords(s *shape, t typeSet) {
	for i, k := range keywords {
		if s.keywords[i] != nil && (k.types == t || k.types&t != 0) {
			c.w.Name(k.name)
			c.w.Raw(s.keywords[i])
		}
	}
}

// formats are the formats that the provider accepts.
var formats = [...]struct {
	name  string
	types typeSet
}{
	{"date-time", typeString}, {"enum", typeString},
	{"float", typeNumber}, {"double", typeNumber}, {"int32", typeInteger}, {"int64", typeInteger},
}

func (c *reducer) writeFormat(s *shape, t typeSet) {
	if s.format == nil {
		return
	}
	for _, f := range formats {
		if f.types == t && s.format.Is(f.name) {
			c.w.Name("format")
			c.w.String(f.name)
			return
		}
	}
	c.lost = true
}

// writeEnum writes the values of an enum, converted to strings.
func (c *reducer) writeEnum(s *shape) {
	if s.enum == nil {
		return
	}
	w := c.w
	var r json.Reader
	r.Reset(s.enum)
	open := false
	for a := r.Array(); a.Next(); {
		kind := r.Kind()
		value := json.Value(r.Raw())
		switch {
		case kind == json.Null:
			s.nullable = true
			continue
		case kind == json.String && len(value) == len(`""`):
			c.lost = true // the provider rejects an empty string
			continue
		}
		if !open {
			open = true
			w.Name("enum")
			w.Array()
		}
		if kind == json.String {
			w.Raw(value)
		} else {
			w.Text(value)
			c.lost = true
		}
	}
	if open {
		w.EndArray()
	}
}

// writeProperties writes the members of an object. Of several with the same name the first one counts. required lists
// only existing names, because the provider rejects others.
func (c *reducer) writeProperties(s *shape, level int) {
	w := c.w
	names := make(map[string]bool)
	for _, properties := range s.properties {
		var r json.Reader
		r.Reset(properties)
		for o := r.Object(); o.Next(); {
			name := r.Name()
			if names[string(name)] {
				c.lost = true
				continue
			}
			if len(names) == 0 {
				w.Name("properties")
				w.Object()
			}
			names[string(name)] = true
			w.NameText(name)
			c.write(r.Raw(), false, level+1)
		}
	}
	if len(names) > 0 {
		w.EndObject()
	}
	open := false
	for _, required := range s.required {
		var r json.Reader
		r.Reset(required)
		for a := r.Array(); a.Next(); {
			name := r.Text()
			if !names[string(name)] {
				c.lost = true
				continue
			}
			if !open {
				open = true
				w.Name("required")
				w.Array()
			}
			w.Text(name)
		}
	}
	if open {
		w.EndArray()
	}
}
