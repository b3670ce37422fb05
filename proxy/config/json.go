package config

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// object is a JSON object that preserves the order of its members.
type object []field

type field struct {
	name string
	json []byte
}

// over returns o with the members of top overriding its own. Neither is changed.
func (o object) over(top object) object {
	if len(top) == 0 {
		return o
	}
	out := make(object, len(o), len(o)+len(top))
	copy(out, o)
next:
	for _, f := range top {
		for i := range o {
			if out[i].name == f.name {
				out[i] = f
				continue next
			}
		}
		out = append(out, f)
	}
	return out
}

// raw returns the object as JSON.
func (o object) raw() json.RawMessage {
	b := []byte{'{'}
	for i, f := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, f.name), ':')
		b = append(b, f.json...)
	}
	return append(b, '}')
}

// freeMember is a key of a free table, which must not contain a credential.
type freeMember struct {
	n    *node
	path keyPath
}

// free reads a table of settings for a plugin, which may have any keys. skip names keys that are not settings.
func (t *table) free(skip ...string) object {
	if t.n == nil {
		return nil
	}
	var o object
next:
	for i := range t.n.names {
		m := &t.n.names[i]
		for _, s := range skip {
			if m.name == s {
				continue next
			}
		}
		m.known = true
		path := t.path.child(m.name)
		t.d.free = append(t.d.free, freeMember{m.value, path})
		o = append(o, field{m.name, t.d.appendJSON(nil, m.value, &path)})
	}
	return o
}

// appendJSON appends a value as JSON. Dates become strings, and keys keep the order of the file.
func (d *document) appendJSON(b []byte, n *node, where *keyPath) []byte {
	switch n.kind {
	case kindString, kindDate:
		return appendString(b, n.text)
	case kindBool:
		return strconv.AppendBool(b, n.bool)
	case kindInteger:
		return strconv.AppendInt(b, n.number, 10)
	case kindFloat:
		if math.IsInf(n.float, 0) || math.IsNaN(n.float) {
			d.fail(n.offset, where.String(), "%s cannot be represented in JSON, in which plugins get their settings", n.text)
			return append(b, "null"...)
		}
		return appendFloat(b, n.float)
	case kindArray:
		b = append(b, '[')
		for i, e := range n.items {
			if i > 0 {
				b = append(b, ',')
			}
			element := where.element(i)
			b = d.appendJSON(b, e, &element)
		}
		return append(b, ']')
	case kindTable:
		b = append(b, '{')
		for i, m := range n.names {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, m.name), ':')
			child := where.child(m.name)
			b = d.appendJSON(b, m.value, &child)
		}
		return append(b, '}')
	}
	// A broken value has been reported, so this JSON is never used.
	return append(b, "null"...)
}

// appendFloat appends a number so that it is recognizable as a float.
func appendFloat(b []byte, f float64) []byte {
	at := len(b)
	b = strconv.AppendFloat(b, f, 'g', -1, 64)
	if !strings.ContainsAny(string(b[at:]), ".e") {
		b = append(b, ".0"...)
	}
	return b
}

func appendString(b []byte, s string) []byte {
	// Marshaling a string cannot fail.
	q, _ := json.Marshal(s)
	return append(b, q...)
}
