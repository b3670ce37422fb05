package config

import (
	"bytes"
	"fmt"
	"strings"
)

// variable is a ${NAME} in a value.
type variable struct {
	name string
	set  bool // the variable is set and not empty
}

// expand replaces ${NAME}, ${NAME:-default} and $$ in a string. As in a shell, the default replaces a variable that is
// unset or empty. ${NAME} must be set, so that a missing variable does not become an empty credential by accident; an
// optional variable is written ${NAME:-}. raw is the string as written in the file, for positions.
func (d *document) expand(n *node, raw []byte, where *keyPath) {
	if !strings.Contains(n.text, "$") {
		return
	}
	// An expression written with escapes is not found in raw. Its error has the string's position instead.
	fail := func(expression, format string, args ...any) {
		at := d.position(n.offset + max(0, bytes.Index(raw, []byte(expression))))
		d.unset = append(d.unset, unsetVariable{n, newError(d.file, at, where.String(), fmt.Sprintf(format, args...))})
		n.kind = kindBroken
	}
	var out strings.Builder
	rest := n.text
	for {
		before, after, found := strings.Cut(rest, "$")
		out.WriteString(before)
		if !found {
			break
		}
		switch {
		case strings.HasPrefix(after, "$"):
			out.WriteByte('$')
			rest = after[1:]
		case strings.HasPrefix(after, "{"):
			inner, tail, closed := strings.Cut(after[1:], "}")
			name, fallback, optional := strings.Cut(inner, ":-")
			switch {
			case !closed:
				fail("$"+after, "${ without a closing }; write $$ for a dollar sign")
				return
			case !variableName(name):
				fail("${"+inner, "a variable name has only letters, digits and _; write $$ for a dollar sign")
			case strings.Contains(fallback, "${"):
				fail("${"+inner, "a default cannot contain another variable")
			default:
				value, ok := d.env(name)
				set := ok && value != ""
				if n.rare == nil {
					n.rare = new(rare)
				}
				n.rare.vars = append(n.rare.vars, variable{name, set})
				switch {
				case optional && !set:
					value = strings.ReplaceAll(fallback, "$$", "$")
				case !ok:
					fail("${"+inner, "%s is not set; write ${%s:-} if it is optional", name, name)
				}
				out.WriteString(value)
			}
			rest = tail
		default:
			out.WriteByte('$')
			rest = after
		}
	}
	n.text = out.String()
}

// foreignVariable returns the name of the environment variable that a value refers to in the notation of LiteLLM,
// os.environ/NAME, or of Bifrost, env.NAME, and "" for all other values.
func foreignVariable(s string) string {
	name, found := strings.CutPrefix(s, "os.environ/")
	if !found {
		name, found = strings.CutPrefix(s, "env.")
		found = found && name == strings.ToUpper(name)
	}
	if !found || !variableName(name) {
		return ""
	}
	return name
}

func variableName(s string) bool {
	for i, c := range []byte(s) {
		letter := c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// whyEmpty returns the reason why a value is empty: its unset variables, or the value itself, which what names.
func (n *node) whyEmpty(what string) string {
	var names []string
	for _, v := range n.vars() {
		if !v.set {
			names = append(names, v.name)
		}
	}
	switch len(names) {
	case 0:
		return what + " is empty"
	case 1:
		return names[0] + " is not set"
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1] + " are not set"
}
