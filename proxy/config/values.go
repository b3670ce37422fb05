package config

import (
	"strconv"
	"strings"
)

// Value is a key that is set, with its effective value and the position of that value.
type Value struct {
	Key  string // path of the key
	Text string // the value as TOML, with credentials and the values of variables redacted
	Pos  Position
}

// values appends the scalars and arrays of a tree to out. The loader must have read the tree, so that it knows the
// credentials.
func (l *loader) values(n *node, where *keyPath, out []Value) []Value {
	for i := range n.names {
		m := &n.names[i]
		path := where.child(m.name)
		switch {
		case m.value.kind == kindTable && len(m.value.names) > 0:
			out = l.values(m.value, &path, out)
		case m.value.kind == kindArray && hasTable(m.value):
			for j, e := range m.value.items {
				element := path.element(j)
				if e.kind == kindTable {
					out = l.values(e, &element, out)
				} else {
					out = append(out, Value{element.String(), l.valueText(e), l.d.position(e.offset)})
				}
			}
		default:
			out = append(out, Value{path.String(), l.valueText(m.value), l.d.position(m.value.offset)})
		}
	}
	return out
}

func hasTable(array *node) bool {
	for _, e := range array.items {
		if e.kind == kindTable {
			return true
		}
	}
	return false
}

// valueText returns a value as TOML.
func (l *loader) valueText(n *node) string {
	switch n.kind {
	case kindString:
		switch vars := n.vars(); {
		case l.secrets[n]:
			return redacted
		case len(vars) > 0:
			return "the value of ${" + vars[0].name + "}"
		}
		return strconv.Quote(n.text)
	case kindArray:
		var texts []string
		for _, e := range n.items {
			texts = append(texts, l.valueText(e))
		}
		return "[" + strings.Join(texts, ", ") + "]"
	case kindTable:
		return "{ }"
	}
	return n.text
}
