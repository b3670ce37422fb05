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
		c.writeRaw(v)
		return
	}
	nullable, _ := r.field(v, "nullable").Bool()
	c.write("{")
	begin := len(c.dst)
	member := func(name string) {
		if len(c.dst) > begin {
			c.write(",")
		}
		c.write(`"`)
		c.write(name)
		c.write(`":`)
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
			c.writeRaw(m)
			if nullable && m.Kind() == jsondoc.Array && m.First().Exists() {
				c.dst = append(bytes.TrimSuffix(c.dst, []byte("]")), ",null]"...)
			}
		case "minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties":
			member(name)
			if inside := m.Inside(); m.Kind() == jsondoc.String && isDigits(inside) {
				c.dst = append(c.dst, inside...)
			} else {
				c.writeRaw(m)
			}
		case "ref":
			member("$ref")
			c.writeRaw(m)
		case "format":
			if !m.Is("enum") { // which only marks a string that has an enum
				member("format")
				c.writeRaw(m)
			}
		default:
			if len(c.dst) > begin {
				c.write(",")
			}
			c.writeRaw(m.Name())
			c.write(":")
			c.writeRaw(m)
		}
	}
	c.write("}")
}

// appendSchemas appends an array of schemas, or an object of schemas by name.
func (r *Request) appendSchemas(v jsondoc.Value, open, end string) {
	c := &r.chat
	if k := v.Kind(); k != jsondoc.Object && k != jsondoc.Array || (k == jsondoc.Object) != (open == "{") {
		c.writeRaw(v)
		return
	}
	c.write(open)
	for m := v.First(); m.Exists(); m = m.Next() {
		if m != v.First() {
			c.write(",")
		}
		if name := m.Name(); name.Exists() {
			c.writeRaw(name)
			c.write(":")
		}
		r.appendSchema(m)
	}
	c.write(end)
}

// appendType appends the type of a schema in lower case, together with the type null if the schema is nullable.
func (c *lowering) appendType(v jsondoc.Value, nullable bool) {
	if v.Kind() != jsondoc.String {
		c.writeRaw(v)
		return
	}
	if nullable {
		c.write("[")
	}
	for _, b := range v.Raw() {
		if b >= 'A' && b <= 'Z' {
			b += 'a' - 'A'
		}
		c.dst = append(c.dst, b)
	}
	if nullable {
		c.write(`,"null"]`)
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
