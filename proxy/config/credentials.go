package config

import (
	"slices"
	"strings"
)

// credential is a value that must not reach a plugin, and the variables in it.
type credential struct {
	value string
	vars  []string
}

// minSearch is the minimum length of a credential that is searched for inside strings. Shorter ones may occur in
// ordinary words, and are only compared with whole strings.
const minSearch = 8

// credential records the value of n, which may be empty.
func (l *loader) credential(n *node) {
	c := credential{value: n.text}
	for _, v := range n.vars() {
		c.vars = append(c.vars, v.name)
	}
	l.credentials = append(l.credentials, c)
	if l.secrets != nil {
		l.secrets[n] = true
	}
}

// searchCredentials rejects free tables that contain a credential, since plugins read them. A string with a
// credential's variable is rejected even if the variable is not set.
func (l *loader) searchCredentials() {
	if len(l.d.free) == 0 {
		return
	}
	values, vars := map[string]bool{}, map[string]bool{}
	var long []string
	for _, c := range l.credentials {
		if c.value != "" {
			values[c.value] = true
			if len(c.value) >= minSearch {
				long = append(long, c.value)
			}
		}
		for _, v := range c.vars {
			vars[v] = true
		}
	}
	holds := func(text string) bool {
		return values[text] || slices.ContainsFunc(long, func(v string) bool { return strings.Contains(text, v) })
	}
	var walk func(n *node, where *keyPath)
	walk = func(n *node, where *keyPath) {
		if n.kind == kindString && (holds(n.text) || slices.ContainsFunc(n.vars(), func(v variable) bool { return vars[v.name] })) {
			l.d.fail(n.offset, where.String(), "contains a configured credential, which plugins must not see")
		}
		for i, e := range n.items {
			element := where.element(i)
			walk(e, &element)
		}
		for _, m := range n.names {
			if holds(m.name) {
				l.d.fail(int(m.offset), where.String(), "uses a configured credential as a key, which plugins must not see")
			}
			child := where.child(m.name)
			walk(m.value, &child)
		}
	}
	for _, f := range l.d.free {
		walk(f.n, &f.path)
	}
}
