package jsondoc_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// tree is a value of a document in a slow reference implementation of Edits.
type tree struct {
	kind  jsontext.Kind
	raw   string   // the text of a scalar
	names []string // the names of an object's members, as written
	kids  []*tree  // elements, or values of members

	// The effect of the edits so far.
	remove  bool
	set     *string
	rename  *string
	renames []string // all new names, including those that a later rename replaced
	added   []member // new members or elements, after the kids
}

type member struct{ name, value string }

func buildTree(t *testing.T, d *jsontext.Decoder) *tree {
	next := func() string {
		raw, err := d.ReadValue()
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	bracket := func() {
		if _, err := d.ReadToken(); err != nil {
			t.Fatal(err)
		}
	}
	v := &tree{kind: d.PeekKind()}
	if v.kind != '{' && v.kind != '[' {
		v.raw = next()
		return v
	}
	for bracket(); d.PeekKind() != v.kind+2; {
		if v.kind == '{' {
			v.names = append(v.names, next())
		}
		v.kids = append(v.kids, buildTree(t, d))
	}
	bracket()
	return v
}

func unquote(s string) string {
	text, err := jsontext.AppendUnquote(nil, s)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func quote(s string) string {
	q, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		panic(err)
	}
	return string(q)
}

func (v *tree) index(name string) int {
	for i, n := range v.names {
		if unquote(n) == name {
			return i
		}
	}
	return -1
}

// render writes v with its edits applied.
func (v *tree) render(b *strings.Builder) {
	switch {
	case v.set != nil:
		b.WriteString(*v.set)
		return
	case v.kind != '{' && v.kind != '[':
		b.WriteString(v.raw)
		return
	}
	b.WriteByte(byte(v.kind))
	first := true
	comma := func() {
		if !first {
			b.WriteByte(',')
		}
		first = false
	}
	for i, kid := range v.kids {
		if kid.remove {
			continue
		}
		comma()
		if v.kind == '{' {
			name := v.names[i]
			if kid.rename != nil {
				name = quote(*kid.rename)
			}
			b.WriteString(name + ":")
		}
		kid.render(b)
	}
	for i, m := range v.added {
		replaced := false
		for _, later := range v.added[i+1:] {
			replaced = replaced || later.name == m.name
		}
		if v.kind == '{' && replaced {
			continue
		}
		comma()
		if v.kind == '{' {
			b.WriteString(quote(m.name) + ":")
		}
		b.WriteString(m.value)
	}
	b.WriteByte(byte(v.kind) + 2)
}

// place is the target of an edit's path: a value, or a container and the name of an absent member.
type place struct {
	parent, value *tree
	missing       string
}

// places returns the targets of a path below v.
func (v *tree) places(parent *tree, tokens []string) (found []place) {
	if len(tokens) == 0 {
		return []place{{parent: parent, value: v}}
	}
	token, rest := tokens[0], tokens[1:]
	switch v.kind {
	case '{':
		name := strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		if i := v.index(name); i >= 0 {
			return v.kids[i].places(v, rest)
		}
		if len(rest) == 0 {
			return []place{{parent: v, missing: name}}
		}
	case '[':
		if token == "*" {
			for _, kid := range v.kids {
				found = append(found, kid.places(v, rest)...)
			}
			return found
		}
		if token == "-" && len(rest) == 0 {
			return []place{{parent: v}}
		}
		if i, err := strconv.Atoi(token); err == nil && strconv.Itoa(i) == token && i >= 0 && i < len(v.kids) {
			return v.kids[i].places(v, rest)
		}
	}
	return nil
}

// nameUsed reports whether an earlier edit renamed a member of v other than value to name, or added a member with that
// name and value is not nil.
func (v *tree) nameUsed(value *tree, name string) bool {
	for _, kid := range v.kids {
		for _, n := range kid.renames {
			if kid != value && n == name {
				return true
			}
		}
	}
	for _, m := range v.added {
		if value != nil && m.name == name {
			return true
		}
	}
	return false
}

// apply performs one edit at one place, and returns its status.
func (p place) apply(op, name, value, old string) abi.Status {
	switch {
	case p.value == nil:
		if op != "set" {
			return abi.StatusAbsent
		}
		if p.parent.kind == '{' && p.parent.nameUsed(nil, p.missing) {
			return abi.StatusRefused
		}
		p.parent.added = append(p.parent.added, member{p.missing, value})
	case op == "set":
		p.value.set, p.value.remove = &value, false
	case op == "replace":
		if !equalModel(p.value, old) {
			return abi.StatusAbsent
		}
		p.value.set, p.value.remove = &value, false
	case op == "delete":
		if p.parent == nil {
			return abi.StatusRefused
		}
		p.value.remove = true
	case op == "rename":
		if p.parent == nil || p.parent.kind != '{' {
			return abi.StatusRefused
		}
		if i := p.parent.index(name); i >= 0 && p.parent.kids[i] != p.value || p.parent.nameUsed(p.value, name) {
			return abi.StatusRefused
		}
		p.value.rename = &name
		p.value.renames = append(p.value.renames, name)
	}
	return abi.StatusOK
}

func equalModel(v *tree, old string) bool {
	kind := jsontext.Value(old).Kind()
	if v.kind != kind {
		return false
	}
	switch kind {
	case '"':
		return unquote(v.raw) == unquote(old)
	case '0':
		a, _ := strconv.ParseFloat(v.raw, 64)
		b, _ := strconv.ParseFloat(old, 64)
		return v.raw == old || a == b && math.Abs(a) < 1<<53
	}
	return true
}

func validJSON(s string) bool {
	return jsontext.Value(s).IsValid() && numbersAgree([]byte(s))
}

// edit performs one edit on the model.
func (v *tree) edit(op, path, a, b string) abi.Status {
	value, name := a, a
	if op == "replace" {
		value = b
		if !validJSON(a) || strings.ContainsAny(string(jsontext.Value(a).Kind()), "{[") {
			return abi.StatusRefused
		}
		a = strings.Trim(a, " \t\r\n")
	}
	tokens := strings.Split(path, "/")
	if tokens[0] != "" {
		return abi.StatusRefused
	}
	for _, token := range tokens {
		if strings.Contains(strings.NewReplacer("~0", "", "~1", "").Replace(token), "~") {
			return abi.StatusRefused
		}
	}
	if (op == "set" || op == "replace") && !validJSON(value) {
		return abi.StatusRefused
	}
	var compact bytes.Buffer
	if json.Compact(&compact, []byte(value)) == nil {
		value = compact.String()
	}
	status := abi.StatusAbsent
	for _, p := range v.places(nil, tokens[1:]) {
		if s := p.apply(op, name, value, a); s == abi.StatusOK || status == abi.StatusAbsent {
			status = s
		}
	}
	return status
}

// FuzzEdits compares Edits with the model. Each line of the script is an edit: its name, a path and values.
//
// covers: C48
func FuzzEdits(f *testing.F) {
	for _, doc := range seeds {
		f.Add(doc, "set /a 1\ndelete /messages/0\nrename /model m\nreplace /messages/*/role \"developer\" \"system\"\nset /messages/*/content []\nset /z 1")
	}
	f.Add(`{"a":[{"b":1},{"b":2,"c":3},{}],"d":{"e":{"f":1}}}`, "delete /a/*/b\nrename /a/*/c b\nset /a/*/b 7\nset /d 1\nset /d/e/f 2\nset /a/- 4\ndelete /a/0")
	f.Add(`{"a":1,"b":2}`, "rename /a c\nrename /b c\nset /c 1\ndelete /a\nset /a 3\nset /q 1\nset /q 2\nrename /b q")
	f.Add(`[1,1.0,"1",null,[1]]`, "replace /* 1 2\nreplace /* null {}\ndelete /1\nset /4/0 5\ndelete /4\nset  {\"x\":1}")
	f.Fuzz(func(t *testing.T, doc, script string) {
		var d jsondoc.Doc
		if len(doc) > 4096 || d.Parse([]byte(doc), jsondoc.Limits{}) != nil {
			return
		}
		model := buildTree(t, jsontext.NewDecoder(strings.NewReader(doc)))
		var e jsondoc.Edits
		e.Reset(&d)
		for i, line := range strings.Split(script, "\n") {
			w := strings.SplitN(line, " ", 4)
			if i == 24 || len(line) > 200 {
				break
			}
			for len(w) < 4 {
				w = append(w, "")
			}
			op, path, a, b := w[0], w[1], w[2], w[3]
			if !jsontext.Value(quoteLossy(path)).IsValid() || !jsontext.Value(quoteLossy(a)).IsValid() {
				continue
			}
			var got abi.Status
			switch op {
			case "set":
				got = e.Set([]byte(path), []byte(a))
			case "delete":
				got = e.Delete([]byte(path))
			case "rename":
				got = e.Rename([]byte(path), []byte(a))
			case "replace":
				got = e.Replace([]byte(path), []byte(a), []byte(b))
			default:
				continue
			}
			if want := model.edit(op, path, a, b); got != want {
				t.Fatalf("%q: status %d, want %d as in the model", line, got, want)
			}
		}
		out, err := e.Apply(nil)
		if err != nil {
			t.Fatal(err)
		}
		var want strings.Builder
		model.render(&want)
		var compact bytes.Buffer
		if err := json.Compact(&compact, out); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if compact.String() != want.String() {
			t.Fatalf("got  %s\nwant %s", compact.String(), want.String())
		}
		if err := d.Parse(out, jsondoc.Limits{Depth: 4 * jsondoc.DefaultDepth}); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	})
}

// quoteLossy puts s in quotes without escaping it. The result is valid only if s is UTF-8 without control characters
// and quotes.
func quoteLossy(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
