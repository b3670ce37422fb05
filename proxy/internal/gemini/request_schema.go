package gemini

import (
	"bytes"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// appendSchema appends a Schema of this API, a subset of OpenAPI 3.0, as a JSON Schema: types in small letters, null as a type of its
// own, and numbers that protocol buffers write as strings as numbers. The order of properties, which JSON Schema cannot tell,
// and examples are left out.
func (r *Request) appendSchema(v jsondoc.Value) {
	c := &r.chat
	if v.Kind() != jsondoc.Object {
		c.raw(v)
		return
	}
	nullable, _ := r.field(v, "nullable").Bool()
	c.text("{")
	begin := len(c.dst)
	member := func(name string) {
		if len(c.dst) > begin {
			c.text(",")
		}
		c.text(`"`)
		c.text(name)
		c.text(`":`)
	}
	for m := v.First(); m.Exists(); m = m.Next() {
		if m.Kind() == jsondoc.Null && !m.Name().Is("default") {
			continue
		}
		switch name := string(r.fieldName(m)); name {
		case "nullable", "propertyOrdering", "example":
		case "type":
			member("type")
			c.appendType(m, nullable)
		case "items", "additionalProperties":
			member(name)
			r.appendSchema(m)
		case "properties", "defs", "$defs":
			if name == "defs" {
				name = "$defs"
			}
			member(name)
			r.appendSchemas(m, "{", "}")
		case "anyOf", "prefixItems":
			member(name)
			r.appendSchemas(m, "[", "]")
		case "enum":
			member("enum")
			c.raw(m)
			if nullable && m.Kind() == jsondoc.Array && m.First().Exists() {
				c.dst = append(bytes.TrimSuffix(c.dst, []byte("]")), ",null]"...)
			}
		case "minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties":
			member(name)
			if inside := m.Inside(); m.Kind() == jsondoc.String && isDigits(inside) {
				c.dst = append(c.dst, inside...)
			} else {
				c.raw(m)
			}
		case "ref":
			member("$ref")
			c.raw(m)
		case "format":
			if !m.Is("enum") { // that of a string with an enum
				member("format")
				c.raw(m)
			}
		default:
			if len(c.dst) > begin {
				c.text(",")
			}
			c.raw(m.Name())
			c.text(":")
			c.raw(m)
		}
	}
	c.text("}")
}

// appendSchemas appends the schemas of a list, or of an object by their names.
func (r *Request) appendSchemas(v jsondoc.Value, open, end string) {
	c := &r.chat
	if k := v.Kind(); k != jsondoc.Object && k != jsondoc.Array || (k == jsondoc.Object) != (open == "{") {
		c.raw(v)
		return
	}
	c.text(open)
	for m := v.First(); m.Exists(); m = m.Next() {
		if m != v.First() {
			c.text(",")
		}
		if name := m.Name(); name.Exists() {
			c.raw(name)
			c.text(":")
		}
		r.appendSchema(m)
	}
	c.text(end)
}

// appendType appends the type of a schema.
func (c *lowering) appendType(v jsondoc.Value, nullable bool) {
	if v.Kind() != jsondoc.String {
		c.raw(v)
		return
	}
	if nullable {
		c.text("[")
	}
	for _, b := range v.Raw() {
		if b >= 'A' && b <= 'Z' {
			b += 'a' - 'A'
		}
		c.dst = append(c.dst, b)
	}
	if nullable {
		c.text(`,"null"]`)
	}
}

func isDigits(s []byte) bool {
	const most = 18
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(s) > 0 && len(s) <= most && (s[0] != '0' || len(s) == 1)
}
