// Package sluice_test checks what no single package can: that every row of CHECKLIST.md and FAULTS.md is proven somewhere.
package sluice_test

import (
	"bytes"
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

var update = flag.Bool("update", false, "write the last column of CHECKLIST.md and FAULTS.md")

// rows is how many rows each group of the lists has. F is FAULTS.md.
var rows = map[byte]int{'S': 22, 'A': 31, 'T': 20, 'R': 21, 'G': 35, 'B': 22, 'O': 18, 'V': 16, 'F': 139}

// lists are the documents and the groups that stand in each.
var lists = map[string]string{"CHECKLIST.md": "SATRGBOV", "FAULTS.md": "F"}

// homes are the plugins that some groups are about. What another plugin's tests say of such a row is no proof of it.
var homes = map[byte]string{
	'A': "plugins/anthropic", 'T': "plugins/anthropic", 'R': "plugins/anthropic", 'G': "plugins/gemini", 'B': "plugins/bedrock",
	'O': "plugins/openai",
}

// open are rows that are not proven yet. A row leaves the list with its proof.
var open = []string{}

// shown is how many proofs of a row CHECKLIST.md names.
const shown = 3

// row is a line of a list.
var row = regexp.MustCompile(`(?m)^\| ([A-Z]\d+) \| ([^|]*) \|(.*)\|$`)

// decided is a line of docs/proof/decisions.md about a row that does not apply or is met in another way.
var decided = regexp.MustCompile(`(?m)^- \*\*([SATRGBOVF]\d+)\*\*`)

func TestEveryRowIsProven(t *testing.T) {
	rationale, err := os.ReadFile("docs/proof/decisions.md")
	if err != nil {
		t.Fatal(err)
	}
	otherwise := make(map[string]bool)
	for _, m := range decided.FindAllStringSubmatch(string(rationale), -1) {
		otherwise[m[1]] = true
	}
	proofs := search(t)
	for file, groups := range lists {
		t.Run(file, func(t *testing.T) { checkRows(t, file, groups, proofs, otherwise) })
	}
}

// checkRows holds one list against the proofs that there are.
func checkRows(t *testing.T, file, groups string, proofs map[string][]proof, otherwise map[string]bool) {
	list, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	written := row.ReplaceAllStringFunc(string(list), func(line string) string {
		m := row.FindStringSubmatch(line)
		id, what, named := m[1], m[2], strings.TrimSpace(m[3])
		if seen[id] {
			t.Errorf("%s stands twice in %s", id, file)
		}
		seen[id] = true
		found := proofs[id]
		switch {
		case len(found) == 0 && !otherwise[id] && !slices.Contains(open, id):
			t.Errorf("%s (%s) has no test", id, what)
		case len(found) > 0 && slices.Contains(open, id):
			t.Logf("%s has a test and can leave the list of open rows", id)
		}
		if !*update {
			for _, p := range strings.Split(named, "<br>") {
				if p != "" && !slices.ContainsFunc(found, func(f proof) bool { return f.String() == p }) && !strings.HasPrefix(p, "RATIONALE") {
					t.Errorf("%s: %s names %s, which is not there; write it anew with -update", id, file, p)
				}
			}
			if named == "" && len(found) > 0 && !slices.Contains(open, id) {
				t.Errorf("%s: %s names no test; write it anew with -update", id, file)
			}
		}
		return fmt.Sprintf("| %s | %s | %s |", id, what, column(found, otherwise[id]))
	})
	for _, group := range []byte(groups) {
		for i := range rows[group] {
			if id := string(group) + strconv.Itoa(i+1); !seen[id] {
				t.Errorf("%s lacks %s", file, id)
			}
		}
	}
	if *update && written != string(list) {
		if err := os.WriteFile(file, []byte(written), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// column is the last column of a row.
func column(found []proof, otherwise bool) string {
	var names []string
	for _, p := range found[:min(len(found), shown)] {
		names = append(names, p.String())
	}
	if otherwise {
		names = append(names, "RATIONALE.md")
	}
	return strings.Join(names, "<br>")
}

// proof is something whose name begins with the ID of a row.
type proof struct {
	kind kind
	dir  string // where it is
	name string
}

type kind int

const (
	test kind = iota
	testCase
	vector
)

// String is how CHECKLIST.md names a proof.
func (p proof) String() string {
	name := "`" + strings.ReplaceAll(p.name, "|", `\|`) + "`"
	if p.kind == testCase {
		name = "“" + strings.ReplaceAll(p.name, "|", `\|`) + "”"
	}
	return p.dir + " " + name
}

// search finds the proofs of each row, tests first.
func search(t *testing.T) map[string][]proof {
	t.Helper()
	proofs := make(map[string][]proof)
	add := func(p proof) {
		for _, id := range ids(p.name) {
			if home := homes[id[0]]; home != "" && strings.HasPrefix(p.dir, "plugins/") && !strings.HasPrefix(p.dir+"/", home+"/") {
				continue
			}
			if !slices.Contains(proofs[id], p) {
				proofs[id] = append(proofs[id], p)
			}
		}
	}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		slashed := filepath.ToSlash(name)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && name != "." || d.Name() == "node_modules" || name == "bin"):
			return filepath.SkipDir
		case strings.Contains(slashed, "/testdata/"):
			if d.IsDir() || path.Base(path.Dir(slashed)) == "requests" {
				add(proof{vector, path.Dir(slashed), path.Base(slashed)})
			}
		case strings.HasSuffix(name, "_test.go") && path.Dir(slashed) != ".":
			return inFile(name, path.Dir(slashed), add)
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

// inFile finds the tests of a file, and the names of their cases: the strings that are not said to a person.
func inFile(name, dir string, add func(proof)) error {
	src, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if !bytes.Contains(src, []byte("testing")) {
		return nil
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv == nil && strings.HasPrefix(n.Name.Name, "Test") {
				add(proof{test, dir, n.Name.Name})
			}
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok {
				switch s.Sel.Name {
				case "Error", "Errorf", "Fatal", "Fatalf", "Log", "Logf":
					return false
				}
			}
		case *ast.BasicLit:
			if n.Kind != token.STRING {
				break
			}
			s, err := strconv.Unquote(n.Value)
			if err == nil && len(s) < 120 && !strings.ContainsAny(s, "\n`{") && !bare.MatchString(s) {
				add(proof{testCase, dir, s})
			}
		}
		return true
	})
	return nil
}

// leading is one ID at the beginning of a name, with a zero before its digits or without, and what stands behind it.
var leading = regexp.MustCompile(`^([SATRGBOVF])0?([1-9]\d{0,2})([ _/:,+-]+|$)`)

// fault is how the cases of a table name a row of FAULTS.md.
var fault = regexp.MustCompile(`\bfaults/([1-9]\d{0,2})\b`)

// bare is a string that is nothing but IDs, which could be anything. Of a folder that is enough.
var bare = regexp.MustCompile(`^([SATRGBOVF]\d+[ _/:,+-]*)*$`)

// ids are the rows that a name begins with, and the rows of FAULTS.md that it speaks of.
func ids(name string) (list []string) {
	for _, m := range fault.FindAllStringSubmatch(name, -1) {
		if n, err := strconv.Atoi(m[1]); err == nil && n <= rows['F'] {
			list = append(list, "F"+m[1])
		}
	}
	rest := strings.TrimPrefix(name, "Test")
	for {
		m := leading.FindStringSubmatch(rest)
		if m == nil {
			return list
		}
		if n, err := strconv.Atoi(m[2]); err == nil && n <= rows[m[1][0]] {
			list = append(list, m[1]+m[2])
		}
		rest = rest[len(m[0]):]
	}
}

func TestIDs(t *testing.T) {
	for name, want := range map[string]string{
		"TestS10_TruncatedStream":     "S10",
		"TestR8_R9_R10_ToolCalls":     "R8 R9 R10",
		"A05 parallel-tools":          "A5",
		"A30 T15 stream-thinking":     "A30 T15",
		"T16-T17-foreign-reasoning":   "T16 T17",
		"V5/unknown role":             "V5",
		"O10":                         "O10",
		"S23 no such row":             "",
		"S0/nor this":                 "",
		"TestStreams":                 "",
		"B2B":                         "",
		"S14 faults/59 an error":      "F59 S14",
		"TestF36_F37_DiesMidway":      "F36 F37",
		"faults/140 no such row":      "",
		"TestG21_ACallThatLeaves_G22": "G21",
	} {
		if got := strings.Join(ids(name), " "); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
