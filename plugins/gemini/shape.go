package gemini

import (
	"github.com/sluice-gateway/sluice/sdk/json"
)

// shape is what a schema, what it refers to and what else it must be say together. Of what several of them say once each,
// the first counts.
type shape struct {
	types      typeSet
	nullable   bool
	cycle      bool // it leads back to itself
	enum       json.Value
	constant   json.Value
	format     json.Value
	items      json.Value
	properties []json.Value
	required   []json.Value
	keywords   [len(keywords)]json.Value

	union   json.Value // anyOf or oneOf
	only    json.Value // the latest of its members that is not null
	members int        // how many of those there are
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

// typeWords are the words for types, by bit.
var typeWords = [...]struct{ schema, wire string }{
	{"string", "STRING"}, {"number", "NUMBER"}, {"integer", "INTEGER"},
	{"boolean", "BOOLEAN"}, {"array", "ARRAY"}, {"object", "OBJECT"},
}

// keywords are the members that both forms have, with the types that they are about; 0 is all.
var keywords = [...]struct {
	name string
	of   typeSet
}{
	{"title", 0}, {"description", 0}, {"default", 0}, {"example", 0},
	{"minLength", typeString}, {"maxLength", typeString}, {"pattern", typeString},
	{"minimum", typeNumber | typeInteger}, {"maximum", typeNumber | typeInteger},
	{"minItems", typeArray}, {"maxItems", typeArray},
	{"minProperties", typeObject}, {"maxProperties", typeObject}, {"propertyOrdering", typeObject},
}

func keywordNamed(name string) int {
	for i := range keywords {
		if keywords[i].name == name {
			return i
		}
	}
	return -1
}

// addTypes reads a type, or a list of them.
func (s *shape) addTypes(r *json.Reader) {
	if r.Kind() != json.Array {
		s.addType(r.Text())
		return
	}
	for a := r.Array(); a.Next(); {
		s.addType(r.Text())
	}
}

// addType reads a word for a type, in the small letters of JSON Schema or in the capitals of the provider's form.
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

// inferType sets a type that is implied.
func (s *shape) inferType() {
	switch {
	case s.types != 0 || s.union != nil:
	case s.properties != nil || s.cycle:
		s.types = typeObject
	case s.items != nil:
		s.types = typeArray
	}
}

// writeShape writes what a schema says in the provider's form.
func (c *reducer) writeShape(s *shape, level int) {
	w := c.w
	s.inferType()
	if s.constant != nil {
		c.lost = c.lost || s.enum != nil
		s.enum = append(append(json.Value{'['}, s.constant...), ']')
	}
	if s.enum != nil {
		s.types = typeString // the only type that the provider's form has values for
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

// writeTyped writes what a schema says of the values of one type.
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
			// The provider refuses a list of it does not know what.
			w.Raw([]byte(`{"type":"STRING"}`))
			c.lost = true
		} else {
			c.write(s.items, false, level+1)
		}
	case typeObject:
		c.writeProperties(s, level)
	}
}

// writeKeywords writes the members that both forms have and that are about these types; 0 for those about all.
func (c *reducer) writeKeywords(s *shape, t typeSet) {
	for i, k := range keywords {
		if s.keywords[i] != nil && (k.of == t || k.of&t != 0) {
			c.w.Name(k.name)
			c.w.Raw(s.keywords[i])
		}
	}
}

// formats are those that the provider takes.
var formats = [...]struct {
	name string
	of   typeSet
}{
	{"date-time", typeString}, {"enum", typeString},
	{"float", typeNumber}, {"double", typeNumber}, {"int32", typeInteger}, {"int64", typeInteger},
}

func (c *reducer) writeFormat(s *shape, t typeSet) {
	if s.format == nil {
		return
	}
	for _, f := range formats {
		if f.of == t && s.format.Is(f.name) {
			c.w.Name("format")
			c.w.String(f.name)
			return
		}
	}
	c.lost = true
}

// writeEnum writes the values that there are. Those that are no strings become strings.
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
			c.lost = true // the provider refuses an empty one
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

// writeProperties writes the members of an object. Of those with the same name the first counts, and only names that are
// there are required: the provider refuses any other.
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
