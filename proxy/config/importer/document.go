package importer

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// part is a section of the configuration that is written.
type part int

const (
	partServer part = iota
	partStore
	partClients
	partProviders
	partModels
	partRouting
	partOther
	parts
)

var partTitles = [parts]string{"Server", "Limits and budgets of several gateways", "Client keys", "Providers", "Models", "Routing", "Not translated"}

// document is the configuration that is written.
type document struct {
	program string // whose configuration is translated
	prefix  string // of a value that is the name of a variable
	tables  [parts][]*table
	notes   [parts]table // comments that belong to no table
	vars    []Variable
	secrets map[string]string // variables by the literals that they replace
	taken   map[string]bool   // names of variables in the file
}

// table is a table of the configuration, with comments above it.
type table struct {
	header string
	text   []string // comments
	refs   []reference
	keys   []entry
	off    string // why the table is commented out
}

type entry struct {
	name, value string // value may have several lines
	off         string // why the key is commented out
}

// reference is a comment on members of the file.
type reference struct {
	members []string
	text    string
}

func newDocument(program, prefix string, root *node) *document {
	d := &document{program: program, prefix: prefix, secrets: map[string]string{}, taken: map[string]bool{}}
	d.reserve(root)
	return d
}

// reserve collects the names of the variables in the file, so that no other secret gets one of them.
func (d *document) reserve(n *node) {
	if name, ok := d.variable(n.text); ok {
		d.taken[name] = true
	}
	for _, c := range n.nodes {
		d.reserve(c)
	}
}

func (d *document) table(p part, header string) *table {
	t := &table{header: header}
	d.tables[p] = append(d.tables[p], t)
	return t
}

// set adds a key, unless its value is empty.
func (t *table) set(name, value string) {
	if value != "" {
		t.keys = append(t.keys, entry{name: name, value: value})
	}
}

// say adds a comment.
func (t *table) say(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(t.text, text) {
		t.text = append(t.text, text)
	}
}

// about adds a comment on a member. Members with the same comment share it.
func (t *table) about(n *node, text string) {
	name := n.path
	for up := n.up; up != nil; up = up.up {
		if up.home == t && up.path != "" && strings.HasPrefix(name, up.path+".") {
			name = name[len(up.path)+1:]
			break
		}
	}
	t.refer(reference{[]string{fmt.Sprintf("%s (line %d)", name, n.line)}, text})
}

func (t *table) refer(r reference) {
	for i := range t.refs {
		if t.refs[i].text == r.text {
			t.refs[i].members = append(t.refs[i].members, r.members...)
			return
		}
	}
	t.refs = append(t.refs, r)
}

// merge adds the comments of another table.
func (t *table) merge(other *table) {
	for _, text := range other.text {
		t.say("%s", text)
	}
	for _, r := range other.refs {
		t.refer(r)
	}
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// variable returns the name of the variable that a value of the file stands for.
func (d *document) variable(text string) (string, bool) {
	name, ok := strings.CutPrefix(text, d.prefix)
	return name, ok && variableName.MatchString(name)
}

// use adds a variable to those that the configuration needs.
func (d *document) use(name, kind, text string) string {
	if !slices.ContainsFunc(d.vars, func(v Variable) bool { return v.Name == name }) {
		d.vars = append(d.vars, Variable{name, kind, text})
	}
	return "${" + name + "}"
}

// value returns a value of the file for a string of the configuration, without the quotes. A credential becomes a
// variable; so does an address with a password, a query or a fragment. It returns "" for what is not a text. Bifrost
// also has objects with a value or the name of a variable.
func (d *document) value(n *node, variable, kind string, about *table) string {
	if n != nil && n.object {
		for _, member := range []string{"type", "from_env"} {
			n.get(member)
		}
		literal := n.get("value")
		for _, member := range []string{"env_var", "ref"} {
			if c := n.get(member); c != nil && c.scalar {
				c.text = d.prefix + strings.TrimPrefix(c.text, d.prefix)
				literal = c
			}
		}
		if literal == nil && kind == "url" {
			literal = n
		}
		n = literal
	}
	switch {
	case n == nil:
		return ""
	case !n.scalar && kind == "url":
		// Without its address, the provider would send its credential to the default one.
		n.refuse(fmt.Sprintf("is not a text: set %s to the address.", variable))
		return d.use(variable, kind, n.path)
	case !n.scalar:
		n.refuse("is not a text, and was left out.")
		return ""
	}
	from := fmt.Sprintf("%s, line %d", n.path, n.line)
	if name, ok := d.variable(n.text); ok {
		return d.use(name, kind, from)
	}
	switch u, err := url.Parse(n.text); {
	case kind == "secret", kind == "redis", strings.HasPrefix(n.text, "vault."):
	case kind == "url" && (err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Opaque != ""):
	case kind == "url":
		return escape(strings.TrimRight(n.text, "/"))
	default:
		return escape(n.text)
	}
	known, there := d.secrets[kind+" "+n.text]
	if !there {
		known = variable
		for i := 2; d.taken[known]; i++ {
			known = fmt.Sprintf("%s_%d", variable, i)
		}
		d.secrets[kind+" "+n.text], d.taken[known] = known, true
	}
	about.about(n, fmt.Sprintf("the value is not copied: set %s to it.", known))
	return d.use(known, kind, from)
}

// file returns the name of a file with a Google credential: the file's own value, or a variable for it if the file has
// the credential itself.
func (d *document) file(n *node, path bool) string {
	if n == nil {
		return ""
	}
	name, isVariable := d.variable(n.text)
	if path && n.scalar && (isVariable || strings.HasSuffix(n.text, ".json") && !strings.Contains(n.text, "{")) {
		return d.value(n, "", "file", nil)
	}
	markAll(n)
	if !isVariable {
		name = "VERTEX_CREDENTIALS"
	}
	return d.use(name+"_FILE", "file", fmt.Sprintf("%s, line %d: a file with that JSON", n.path, n.line))
}

// quote returns a TOML string. Dollar signs must have been doubled, unless they begin a variable.
func quote(s string) string { return `"` + s + `"` }

// escape returns text for the inside of a TOML string.
func escape(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r == '$':
			b.WriteString("$$")
		case r < ' ' || r == 0x7f || r == 0xfffd:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func plain(s string) string { return quote(escape(s)) }

// list returns an array, on several lines if it is long.
func list(elements []string) string {
	one := "[" + strings.Join(elements, ", ") + "]"
	if len(one) < 100 && !strings.HasPrefix(one, "[{") || len(elements) == 1 {
		return one
	}
	return "[\n  " + strings.Join(elements, ",\n  ") + ",\n]"
}

// inline returns an inline table of names and values, without the empty ones, or "" if all are.
func inline(pairs ...string) string {
	var all []string
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			all = append(all, pairs[i]+" = "+pairs[i+1])
		}
	}
	if all == nil {
		return ""
	}
	return "{ " + strings.Join(all, ", ") + " }"
}

// writer writes the document and remembers to which key each line belongs.
type writer struct {
	b     strings.Builder
	line  int
	owner map[int]*table
	key   map[int]*entry
}

func (w *writer) write(text string) {
	w.b.WriteString(text)
	w.b.WriteByte('\n')
	w.line += 1 + strings.Count(text, "\n")
}

// comment writes text in lines of at most 120 characters.
func (w *writer) comment(indent, text string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len("# ")+len([]rune(line))+1+len([]rune(word)) > 120 {
			w.write("# " + line)
			line = indent + word
			continue
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	w.write("# " + line)
}

func (w *writer) comments(t *table) {
	for _, text := range t.text {
		w.comment("", text)
	}
	for _, r := range t.refs {
		w.comment("  ", strings.Join(r.members, ", ")+": "+r.text)
	}
}

func (w *writer) table(t *table) {
	w.write("")
	w.comments(t)
	mark := ""
	if t.off != "" {
		w.comment("", "Left out: "+t.off)
		mark = "# "
	}
	w.owner[w.line+1] = t
	w.write(mark + t.header)
	width := 0
	for i := range t.keys {
		width = max(width, len(t.keys[i].name))
	}
	for i := range t.keys {
		k := &t.keys[i]
		text := fmt.Sprintf("%-*s = %s", width, k.name, k.value)
		if k.off != "" {
			w.comment("", "Left out: "+k.off)
		}
		if mark != "" || k.off != "" {
			text = "# " + strings.ReplaceAll(text, "\n", "\n# ")
		}
		for n := range 1 + strings.Count(text, "\n") {
			w.owner[w.line+1+n], w.key[w.line+1+n] = t, k
		}
		w.write(text)
	}
}

func (d *document) render() *writer {
	w := &writer{owner: map[int]*table{}, key: map[int]*entry{}}
	w.comment("", fmt.Sprintf("Translated from a configuration of %s by `sluice import`. A comment with the line of a member says what has become of it, and what to do instead; members without one were translated. `sluice check` checks the file.", d.program))
	if len(d.vars) > 0 {
		w.write("#\n# Variables to set:\n#")
		width := 0
		for _, v := range d.vars {
			width = max(width, len(v.Name))
		}
		for _, v := range d.vars {
			w.write(fmt.Sprintf("#   %-*s  %s", width, v.Name, v.Text))
		}
	}
	for p := range parts {
		notes := &d.notes[p]
		if len(d.tables[p]) == 0 && len(notes.refs)+len(notes.text) == 0 {
			continue
		}
		w.write("\n\n# ---- " + partTitles[p] + " " + strings.Repeat("-", 112-len(partTitles[p])))
		if len(notes.refs)+len(notes.text) > 0 {
			w.write("")
			w.comments(notes)
		}
		for _, t := range d.tables[p] {
			w.table(t)
		}
	}
	return w
}
