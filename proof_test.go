package sluice_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the last column of the proof tables")

// proofTables are the documents with the proof tables, and the groups of rows in each. A row's ID is the name of its
// group and a number, such as "S15". If the group's name has a digit, a period separates them: "M3.4".
var proofTables = map[string][]string{
	"docs/proof/translation.md": {"S", "A", "T", "R", "G", "B", "O", "V"},
	"docs/proof/faults.md":      {"F"},
	"docs/proof/responses.md":   {"P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9"},
	"docs/proof/abi.md":         {"C"},
	"docs/proof/messages.md":    {"M1", "M2", "M3", "M4", "M5", "M6", "M7", "M8", "M9"},
}

// groupSizes is the number of rows of each group.
var groupSizes = map[string]int{
	"S": 22, "A": 31, "T": 20, "R": 21, "G": 35, "B": 22, "O": 18, "V": 16, "F": 139, "C": 90,
	"M1": 15, "M2": 30, "M3": 29, "M4": 11, "M5": 14, "M6": 10, "M7": 25, "M8": 12, "M9": 7,
	"P1": 9, "P2": 39, "P3": 31, "P4": 9, "P5": 20, "P6": 13, "P7": 20, "P8": 5, "P9": 10,
}

// groupPlugins are the plugins of groups about one plugin. Tests of other plugins do not prove their rows.
var groupPlugins = map[string]string{
	"A": "plugins/anthropic", "T": "plugins/anthropic", "R": "plugins/anthropic", "G": "plugins/gemini", "B": "plugins/bedrock",
	"O": "plugins/openai",
}

// rowID returns the ID of row n of a group.
func rowID(group string, n int) string {
	if len(group) > 1 {
		group += "."
	}
	return group + strconv.Itoa(n)
}

// groupOf returns the group of a row, or "" if there is no such row.
func groupOf(id string) string {
	for i := 1; i < len(id); i++ {
		group := strings.TrimSuffix(id[:i], ".")
		if n, err := strconv.Atoi(id[i:]); err == nil && n >= 1 && n <= groupSizes[group] && id == rowID(group, n) {
			return group
		}
	}
	return ""
}

// maxShown is the number of proofs that the last column names.
const maxShown = 3

var (
	// caseName matches strings that can be the name of a case, but not JSON or HTTP.
	caseName  = regexp.MustCompile(`^[^\x00-\x1f{}<>]*[\pL\d][^\x00-\x1f{}<>]*$`)
	tableRow  = regexp.MustCompile(`(?m)^\| ([A-Z][\d.]+) \| ([^|]*) \|(.*)\|$`)
	decision  = regexp.MustCompile(`(?m)^- (\*\*[A-Z][\d.]+\*\*,? ?)+`)
	decidedID = regexp.MustCompile(`[A-Z][\d.]+`)
)

// TestProofTables checks that every row of the proof tables is covered by a test, a case of a test or a vector, or is
// explained in decisions.md. A test lists the rows that it covers in a comment, "// covers: S15 F18", above the
// function, above the first of several cases or at the end of a case's line. A case may also have a field named covers.
// A vector has the IDs in its folder's name.
func TestProofTables(t *testing.T) {
	decisions, err := os.ReadFile("docs/proof/decisions.md")
	if err != nil {
		t.Fatal(err)
	}
	decided := make(map[string]bool)
	for _, bullet := range decision.FindAllString(string(decisions), -1) {
		for _, id := range decidedID.FindAllString(bullet, -1) {
			decided[id] = true
		}
	}
	proofs := findProofs(t)
	for file, groups := range proofTables {
		t.Run(path.Base(file), func(t *testing.T) { checkTable(t, file, groups, proofs, decided) })
	}
}

// checkTable compares a table with the proofs, and with -update rewrites its last column.
func checkTable(t *testing.T, file string, groups []string, proofs map[string][]proof, decided map[string]bool) {
	old, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	var stale []string
	table := tableRow.ReplaceAllStringFunc(string(old), func(line string) string {
		m := tableRow.FindStringSubmatch(line)
		id, subject := m[1], m[2]
		if seen[id] {
			t.Errorf("%s: duplicate row %s", file, id)
		}
		seen[id] = true
		if len(proofs[id]) == 0 && !decided[id] {
			t.Errorf("%s: no test covers %s (%s)", file, id, subject)
		}
		row := fmt.Sprintf("| %s | %s | %s |", id, subject, formatProofs(proofs[id], decided[id]))
		if row != line {
			stale = append(stale, id)
		}
		return row
	})
	for _, group := range groups {
		for i := range groupSizes[group] {
			if id := rowID(group, i+1); !seen[id] {
				t.Errorf("%s: row %s is missing", file, id)
			}
		}
	}
	if table == string(old) {
		return
	}
	if !*update {
		t.Errorf("%s: last column of %s is out of date: run go test . -run TestProofTables -update", file, strings.Join(stale, ", "))
		return
	}
	if err := os.WriteFile(file, []byte(table), 0o644); err != nil {
		t.Fatal(err)
	}
}

// formatProofs returns the text of a row's last column.
func formatProofs(found []proof, decided bool) string {
	var names []string
	for _, p := range found[:min(len(found), maxShown)] {
		names = append(names, p.String())
	}
	if decided {
		names = append(names, "[decisions.md](decisions.md)")
	}
	if len(names) == 0 {
		return "not proven"
	}
	return strings.Join(names, "<br>")
}

// proof is a test, a case of a test or a vector that covers a row.
type proof struct {
	kind proofKind
	dir  string // slash-separated, relative to the root
	name string
}

type proofKind int

const (
	testProof proofKind = iota
	caseProof
	vectorProof
)

// String returns the proof as it is written in a table.
func (p proof) String() string {
	name := strings.ReplaceAll(p.name, "|", `\|`)
	if p.kind == caseProof {
		return p.dir + " “" + name + "”"
	}
	return p.dir + " `" + name + "`"
}

// findProofs returns the proofs of each row, with tests first, then cases, then vectors.
func findProofs(t *testing.T) map[string][]proof {
	t.Helper()
	proofs := make(map[string][]proof)
	add := func(p proof, ids []string) {
		for _, id := range ids {
			if plugin := groupPlugins[groupOf(id)]; plugin != "" && within(p.dir, "plugins") && !within(p.dir, plugin) {
				continue
			}
			if !slices.Contains(proofs[id], p) {
				proofs[id] = append(proofs[id], p)
			}
		}
	}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		slashed := filepath.ToSlash(name)
		dir, base := path.Split(slashed)
		dir = path.Clean(dir)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && name != "." || d.Name() == "node_modules" || name == "bin"):
			return filepath.SkipDir
		case strings.Contains(slashed, "/testdata/"):
			if d.IsDir() || path.Base(dir) == "requests" {
				add(proof{vectorProof, dir, base}, leadingIDs(base))
			}
		case strings.HasSuffix(name, "_test.go") && dir != ".":
			return proofsInFile(name, dir, add)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range proofs {
		slices.SortFunc(list, func(a, b proof) int {
			if a.kind != b.kind {
				return int(a.kind) - int(b.kind)
			}
			return strings.Compare(a.String(), b.String())
		})
	}
	return proofs
}

// proofsInFile adds the proofs in a test file.
func proofsInFile(name, dir string, add func(proof, []string)) error {
	src, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	return proofsInSource(name, src, func(kind proofKind, name string, ids []string) { add(proof{kind, dir, name}, ids) })
}

// proofsInSource adds the proofs in the source of a test file.
func proofsInSource(name string, src []byte, add func(kind proofKind, name string, ids []string)) error {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("parse tests: %w", err)
	}
	firstName := make(map[int]string) // first string on each line that can be a case's name
	var invalid error
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			line := fset.Position(n.Pos()).Line
			if name, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil && caseName.MatchString(name) && firstName[line] == "" {
				firstName[line] = name
			}
		case *ast.CompositeLit:
			if value, caseName := coversField(n); value != "" {
				ids, err := parseIDs(value)
				if err != nil {
					invalid = fmt.Errorf("%v: %w", fset.Position(n.Pos()), err)
				}
				add(caseProof, caseName, ids)
			}
		}
		return true
	})
	if invalid != nil {
		return invalid
	}
	for _, group := range file.Comments {
		for _, c := range group.List {
			list, ok := strings.CutPrefix(c.Text, "// covers: ")
			if !ok {
				continue
			}
			at := fset.Position(c.Pos())
			ids, err := parseIDs(list)
			if err != nil {
				return fmt.Errorf("%v: %w", at, err)
			}
			f := functionAt(file, c.Pos())
			inDoc := f != nil && c.Pos() < f.Pos()
			name := caseAt(firstName, at.Line)
			switch {
			case name != "" && !inDoc:
				add(caseProof, name, ids)
			case f != nil:
				add(testProof, f.Name.Name, ids)
			default:
				return fmt.Errorf("%v: the comment is not next to a test or a case of a test", at)
			}
		}
	}
	return nil
}

// coversField returns the value of the field named covers of a composite literal, and the first other string in it,
// which is the case's name.
func coversField(n *ast.CompositeLit) (covers, name string) {
	for _, element := range n.Elts {
		value, field := element, ""
		if kv, ok := element.(*ast.KeyValueExpr); ok {
			value = kv.Value
			if key, ok := kv.Key.(*ast.Ident); ok {
				field = key.Name
			}
		}
		literal, ok := value.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			continue
		}
		text, err := strconv.Unquote(literal.Value)
		switch {
		case err != nil:
		case field == "covers":
			covers = text
		case name == "":
			name = text
		}
	}
	return covers, name
}

// functionAt returns the function that has the position in its doc comment or body.
func functionAt(file *ast.File, pos token.Pos) *ast.FuncDecl {
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		start := f.Pos()
		if f.Doc != nil {
			start = f.Doc.Pos()
		}
		if start <= pos && pos < f.End() {
			return f
		}
	}
	return nil
}

// caseAt returns the name of the case that a comment belongs to: the first string on the comment's line or on one of
// the next two.
func caseAt(firstName map[int]string, line int) string {
	for _, n := range []int{line, line + 1, line + 2} {
		if name := firstName[n]; name != "" {
			return name
		}
	}
	return ""
}

// parseIDs parses a list of IDs, such as "S15 F18".
func parseIDs(list string) (ids []string, err error) {
	for _, id := range strings.Fields(list) {
		if groupOf(id) == "" {
			return nil, fmt.Errorf("covers %q, which is not a row of a proof table", id)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// leadingID matches an ID at the start of a vector's name, with or without a leading zero, and its separator.
var leadingID = regexp.MustCompile(`^([A-Z]|[A-Z]\d\.)0?([1-9]\d{0,2})(-|$)`)

// leadingIDs returns the IDs at the start of a vector's name.
func leadingIDs(name string) (ids []string) {
	for {
		m := leadingID.FindStringSubmatch(name)
		if m == nil {
			return ids
		}
		if id := m[1] + m[2]; groupOf(id) != "" {
			ids = append(ids, id)
		}
		name = name[len(m[0]):]
	}
}

func TestLeadingIDs(t *testing.T) {
	for name, want := range map[string]string{
		"A05-parallel-tools":        "A5",
		"T16-T17-foreign-reasoning": "T16 T17",
		"O10":                       "O10",
		"M3.4-M4.11-failed-tools":   "M3.4 M4.11",
		"M3.30-unknown-row":         "",
		"S23-unknown-row":           "",
		"S0-unknown-row":            "",
		"streams":                   "",
		"B2B":                       "",
		"G21-whole-call-G22":        "G21",
	} {
		if got := strings.Join(leadingIDs(name), " "); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestProofsInSource(t *testing.T) {
	const source = `package p

// TestOne has a sentence.
//
// covers: S1 F2
func TestOne(t *testing.T) {
	for _, c := range []struct{ name, covers string }{
		{"first", ""}, // covers: F3
		// covers: F4
		{
			name: "second",
		},
		{"third", ""},
		{name: "fourth", covers: "F5 V1"},
	} {
		// covers: F6
		run(c)


		_ = "far away"
	}
}

// covers: F7 M3.29
func FuzzTwo(f *testing.F) {}
`
	got := make(map[string]string)
	err := proofsInSource("p_test.go", []byte(source), func(_ proofKind, name string, ids []string) {
		got[strings.Join(ids, " ")] = name
	})
	if err != nil {
		t.Fatal(err)
	}
	for ids, name := range map[string]string{
		"S1 F2": "TestOne", "F3": "first", "F4": "second", "F5 V1": "fourth", "F6": "TestOne", "F7 M3.29": "FuzzTwo",
	} {
		if got[ids] != name {
			t.Errorf("%s: covered by %q, want %q", ids, got[ids], name)
		}
	}
	for _, bad := range []string{
		"package p\n\n// covers: F1\nvar x = 1\n",
		"package p\n\n// covers: F140\nfunc TestX() {}\n",
		"package p\n\n// covers: F01\nfunc TestX() {}\n",
		"package p\n\n// covers: M1\nfunc TestX() {}\n",
		"package p\n\n// covers: M1.16\nfunc TestX() {}\n",
		"package p\n\n// covers: F.1\nfunc TestX() {}\n",
		"package p\n\n// covers: F1, F2\nfunc TestX() {}\n",
		"package p\n\nvar x = []c{{name: \"a\", covers: \"F0\"}}\n",
	} {
		if err := proofsInSource("p_test.go", []byte(bad), func(proofKind, string, []string) {}); err == nil {
			t.Errorf("accepted invalid source:\n%s", bad)
		}
	}
}
