package gemini

import (
	"bytes"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// appendSchema appends a Schema of this API, a subset of OpenAPI 3.0, as a JSON Schema: types become lower case,
// nullable becomes the type null, and integers that protocol buffers encode as strings become numbers.
// propertyOrdering, which has no equivalent, and example are left out.
func (r *Request) appendSchema(v jsondoc.Value) {
	c := &r.chat
	if v.Kind() != jsondoc.Object {
		c.Raw(v)
		return
	}
	nullable, _ := r.field(v, "nullable").Bool()
	c.Literal("{")
	begin := len(c.Dst)
	member := func(name string) {
		if len(c.Dst) > begin {
			c.Literal(",")
		}
		c.Literal(`"`)
		c.Literal(name)
		c.Literal(`":`)
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
			c.Raw(m)
			if nullable && m.Kind() == jsondoc.Array && m.First().Exists() {
				c.Dst = append(bytes.TrimSuffix(c.Dst, []byte("]")), ",null]"...)
			}
		case "minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties":
			member(name)
			if inside := m.Inside(); m.Kind() == jsondoc.String && isDigits(inside) {
				c.Bytes(inside)
			} else {
				c.Raw(m)
			}
		case "ref":
			member("$ref")
			c.Raw(m)
		case "format":
			if !m.Is("enum") { // which only marks a string that has an enum
				member("format")
				c.Raw(m)
			}
		default:
			if len(c.Dst) > begin {
				c.Literal(",")
			}
			c.Raw(m.Name())
			c.Literal(":")
			c.Raw(m)
		}
	}
	c.Literal("}")
}

// appendSchemas appends an array of schemas, or an object of schemas by name.
func (r *Request) appendSchemas(v jsondoc.Value, open, end string) {
	c := &r.chat
	if k := v.Kind(); k != jsondoc.Object && k != jsondoc.Array || (k == jsondoc.Object) != (open == "{") {
		c.Raw(v)
		return
	}
	c.Literal(open)
	for m := v.First(); m.Exists(); m = m.Next() {
		if m != v.First() {
			c.Literal(",")
		}
		if name := m.Name(); name.Exists() {
			c.Raw(name)
			c.Literal(":")
		}
		r.appendSchema(m)
	}
	c.Literal(end)
}

// appendType appends the type of a schema in lower case, together with the type null if the schema is nullable.
func (c *lowering) appendType(v jsondoc.Value, nullable bool) {
	if v.Kind() != jsondoc.String {
		c.Raw(v)
		return
	}
	if nullable {
		c.Literal("[")
	}
	for _, b := range v.Raw() {
		if b >= 'A' && b <= 'Z' {
			b += 'a' - 'A'
		}
		c.Dst = append(c.Dst, b)
	}
	if nullable {
		c.Literal(`,"null"]`)
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
