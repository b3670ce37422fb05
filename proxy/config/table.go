package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// table reads the keys of one table. Looking up a key marks it as known, and finish reports all unknown keys, with the
// nearest key of the reference. A table that is not in the file has a nil node, and behaves like an empty table.
type table struct {
	d    *document
	n    *node
	path *keyPath
}

// exists reports whether the table is in the file.
func (t *table) exists() bool { return t.n != nil }

// fail reports an error about a key, at n, or at the table if n is nil. An error about a reference to a variable in the
// notation of another gateway says how to write it.
func (t *table) fail(n *node, name, format string, args ...any) {
	if n != nil && n.kind == kindString {
		if variable := foreignVariable(n.text); variable != "" {
			format, args = format+"; a variable is written ${%s}", append(args, variable)
		}
	}
	t.d.fail(t.offset(n), t.key(name), format, args...)
}

func (t *table) warn(n *node, name, format string, args ...any) {
	t.d.warn(t.offset(n), t.key(name), format, args...)
}

func (t *table) offset(n *node) int {
	switch {
	case n != nil:
		return n.offset
	case t.n != nil:
		return t.n.offset
	}
	return 0
}

func (t *table) key(name string) string {
	if name == "" {
		return t.path.String()
	}
	p := t.path.child(name)
	return p.String()
}

// elementKey returns the path of an element of an array.
func (t *table) elementKey(name string, i int) string {
	array := t.path.child(name)
	element := array.element(i)
	return element.String()
}

// keyOf returns the path of a key in an array of tables.
func keyOf(array string, i int, name string) string { return fmt.Sprintf("%s[%d].%s", array, i, name) }

func (t *table) position() Position { return t.d.position(t.offset(nil)) }

// lookUpKind returns a key's value if it has the kind, otherwise nil. It reports a value of another kind. A broken
// value has already been reported.
func (t *table) lookUpKind(name string, want kind) *node {
	n := t.lookUp(name)
	switch {
	case n == nil || n.kind == kindBroken:
		return nil
	case n.kind != want:
		p := t.path.child(name)
		t.fail(n, name, "must be %s, not %s%s", want.description(), n.kind.description(), form(&p))
		return nil
	}
	return n
}

// lookUp returns a key's value of any kind, or nil if the key is not set.
func (t *table) lookUp(name string) *node {
	if t.d.lookedUp != nil {
		t.d.lookedUp(t.path.child(name))
	}
	if t.n == nil {
		return nil
	}
	if m := t.n.member(name); m != nil {
		m.known = true
		return m.value
	}
	return nil
}

// has reports whether the key is in the file, broken or not, without marking it as known.
func (t *table) has(name string) bool { return t.n != nil && t.n.member(name) != nil }

// show quotes a value for an error. It does not show the value of a variable, which may be a misplaced credential.
func show(n *node) string {
	if vars := n.vars(); len(vars) > 0 {
		return "the value of ${" + vars[0].name + "}"
	}
	const limit = 80
	if len(n.text) > limit {
		return strconv.Quote(strings.ToValidUTF8(n.text[:limit], "")) + "…"
	}
	return strconv.Quote(n.text)
}

// text returns a string and its node, which is nil if there is no string.
func (t *table) text(name string) (string, *node) {
	n := t.lookUpKind(name, kindString)
	if n == nil {
		return "", nil
	}
	return n.text, n
}

// required is like text, but reports a key that is not set or empty.
func (t *table) required(name string) (string, *node) {
	s, n := t.text(name)
	switch {
	case n == nil && !t.has(name):
		t.fail(nil, name, "is missing")
	case n != nil && s == "":
		t.fail(n, name, "must not be empty")
		return "", nil
	}
	return s, n
}

// choice returns a string that is one of values; the first is the default.
func (t *table) choice(name string, values ...string) string {
	s, n := t.text(name)
	if n == nil {
		return values[0]
	}
	if !slices.Contains(values, s) {
		t.fail(n, name, "%s is invalid: want %s%s", show(n), alternatives(values), suggest(s, values))
		return values[0]
	}
	return s
}

// alternatives returns "a, b or c".
func alternatives(values []string) string {
	last := len(values) - 1
	if last == 0 {
		return values[0]
	}
	return strings.Join(values[:last], ", ") + " or " + values[last]
}

func (t *table) bool(name string, def bool) bool {
	if n := t.lookUpKind(name, kindBool); n != nil {
		return n.bool
	}
	return def
}

func (t *table) integer(name string, def, least, most int64) int64 {
	n := t.lookUpKind(name, kindInteger)
	if n == nil {
		return def
	}
	if n.number < least || n.number > most {
		t.fail(n, name, "must be from %d to %d", least, most)
		return def
	}
	return n.number
}

// share returns a number from 0 to 1.
func (t *table) share(name string, def float64) float64 {
	n := t.lookUp(name)
	switch {
	case n == nil || n.kind == kindBroken:
		return def
	case n.kind != kindInteger && n.kind != kindFloat:
		t.fail(n, name, "must be a number, not %s", n.kind.description())
	case !(n.float >= 0 && n.float <= 1):
		t.fail(n, name, "must be from 0 to 1")
	default:
		return n.float
	}
	return def
}

// duration returns a duration, written as a string such as "1m30s".
func (t *table) duration(name string, def, least, most time.Duration) time.Duration {
	n := t.lookUp(name)
	switch {
	case n == nil || n.kind == kindBroken:
		return def
	case n.kind != kindString:
		t.fail(n, name, `must be a duration such as "60s", not %s`, n.kind.description())
		return def
	}
	v, err := time.ParseDuration(n.text)
	switch {
	case err != nil:
		t.fail(n, name, `%s is not a duration; write one such as "60s", "1m30s" or "500ms"`, show(n))
	case v < least || v > most:
		t.fail(n, name, "must be from %s to %s", least, most)
	default:
		return v
	}
	return def
}

// units are the units of sizes. A unit that is a suffix of others comes after them.
var units = []struct {
	name  string
	bytes int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}}

// size returns a number of bytes, written as an integer or a string such as "32MiB".
func (t *table) size(name string, def, least, most int64) int64 {
	n := t.lookUp(name)
	var v int64
	switch {
	case n == nil || n.kind == kindBroken:
		return def
	case n.kind == kindInteger:
		v = n.number
	case n.kind == kindString:
		var ok bool
		if v, ok = parseSize(n.text); !ok {
			t.fail(n, name, `%s is not a size; write one such as "32MiB"`, show(n))
			return def
		}
	default:
		t.fail(n, name, `must be a size such as "32MiB", not %s`, n.kind.description())
		return def
	}
	if v < least || v > most {
		t.fail(n, name, "must be from %d to %d bytes", least, most)
		return def
	}
	return v
}

func parseSize(s string) (int64, bool) {
	for _, u := range units {
		if number, ok := strings.CutSuffix(s, u.name); ok {
			v, err := strconv.ParseInt(strings.TrimRight(number, " "), 10, 64)
			return v * u.bytes, err == nil && v >= 0 && v <= math.MaxInt64/u.bytes
		}
	}
	v, err := strconv.ParseInt(s, 10, 64)
	return v, err == nil
}

// strings returns the elements of an array of strings. there reports whether the key is in the file.
func (t *table) strings(name string) (elements []*node, there bool) {
	n := t.lookUpKind(name, kindArray)
	if n == nil {
		return nil, t.has(name)
	}
	for i, e := range n.items {
		switch e.kind {
		case kindString:
			elements = append(elements, e)
		case kindBroken:
		default:
			t.d.fail(e.offset, t.elementKey(name, i), "must be a string, not %s", e.kind.description())
		}
	}
	return elements, true
}

// texts is like strings, without positions.
func (t *table) texts(name string) []string {
	var out []string
	elements, _ := t.strings(name)
	for _, e := range elements {
		out = append(out, e.text)
	}
	return out
}

// globs returns an array of patterns of model ids.
func (t *table) globs(name string) (globs []Glob, there bool) {
	elements, there := t.strings(name)
	for _, e := range elements {
		if err := checkGlob(e.text); err != nil {
			t.fail(e, name, "%s: %v", show(e), err)
			continue
		}
		globs = append(globs, Glob(e.text))
	}
	return globs, there
}

// table returns a sub-table.
func (t *table) table(name string) table {
	p := t.path.child(name)
	return table{d: t.d, n: t.lookUpKind(name, kindTable), path: &p}
}

// tables returns the elements of an array of tables, in either syntax.
func (t *table) tables(name string) []table {
	n := t.lookUpKind(name, kindArray)
	if n == nil {
		return nil
	}
	array := t.path.child(name)
	out := make([]table, 0, len(n.items))
	for i, e := range n.items {
		p := array.element(i)
		switch e.kind {
		case kindTable:
			out = append(out, table{d: t.d, n: e, path: &p})
		case kindBroken:
		default:
			t.d.fail(e.offset, p.String(), "must be a table, not %s%s", e.kind.description(), form(&p))
		}
	}
	return out
}

// entry is a sub-table with a name chosen by the operator.
type entry struct {
	name string
	table
}

// entries returns the sub-tables in file order.
func (t *table) entries() []entry {
	if t.n == nil {
		return nil
	}
	out := make([]entry, 0, len(t.n.names))
	for _, m := range t.n.names {
		e := entry{m.name, t.table(m.name)}
		if e.n == nil {
			continue
		}
		if err := checkName(m.name); err != nil {
			path := t.path.child(m.name)
			t.d.fail(int(m.offset), path.String(), "%v", err)
			continue
		}
		out = append(out, e)
	}
	return out
}

// finish reports unknown keys.
func (t *table) finish() {
	if t.n == nil {
		return
	}
	for _, m := range t.n.names {
		if !m.known {
			path := t.path.child(m.name)
			t.d.fail(int(m.offset), path.String(), "unknown key%s", t.hint(m.name))
		}
	}
}

// checkName checks the name of a client key, plugin or provider, which appears in headers, logs and metrics.
func checkName(s string) error {
	ok := s != "" && len(s) <= 64
	for i, c := range []byte(s) {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9'
		ok = ok && (letter || i > 0 && (c == '.' || c == '_' || c == '-'))
	}
	if !ok {
		return invalid("a name has 1 to 64 letters, digits, '.', '_' or '-', and starts with a letter or digit")
	}
	return nil
}
