package apierror_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// TestCodesAreComplete compares the documented codes with those in the code of the gateway.
func TestCodesAreComplete(t *testing.T) {
	documented := map[string]apierror.Code{}
	status := 0
	for _, c := range apierror.Codes() {
		if _, ok := documented[c.Name]; ok {
			t.Errorf("%s is documented twice", c.Name)
		}
		if c.Status < status || !strings.HasSuffix(c.Meaning, ".") || !strings.HasSuffix(c.Action, ".") {
			t.Errorf("%+v: not sorted by status, or a text is not a sentence", c)
		}
		documented[c.Name], status = c, c.Status
	}
	for kind := range abi.FailKind(abi.FailKinds) {
		e := apierror.Fail(kind, "", "", "")
		if c := documented[e.Code]; e.Code != "" && (c.Status != e.Status || e.TryNext && c.Next == apierror.NextNo) {
			t.Errorf("%s has status %d and TryNext %t, but is documented as %+v", e.Code, e.Status, e.TryNext, c)
		}
	}
	used := map[string]bool{}
	for _, u := range usedCodes(t) {
		used[u.name] = true
		switch c, ok := documented[u.name]; {
		case !u.isCode:
		case !ok:
			t.Errorf("%s: the code %s is not documented", u.pos, u.name)
		case u.status != 0 && u.status != c.Status:
			t.Errorf("%s: the code %s has status %d, but is documented with %d", u.pos, u.name, u.status, c.Status)
		}
	}
	for name := range documented {
		if !used[name] {
			t.Errorf("the code %s is documented, but the gateway does not use it", name)
		}
	}
}

// usage is a string literal that may be an error code.
type usage struct {
	name   string
	pos    token.Position
	isCode bool // only an error code can be in this place
	status int  // the status next to it; 0 if unknown
}

// usedCodes returns every string literal of the packages below proxy, except in tests and in the table itself.
func usedCodes(t *testing.T) (all []usage) {
	fset := token.NewFileSet()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || filepath.Base(path) == "codes.go" {
			return err
		}
		f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			add := func(e ast.Expr, isCode bool, status int) {
				if s, ok := stringLiteral(e); ok && s != "" {
					all = append(all, usage{s, fset.Position(e.Pos()), isCode, status})
				}
			}
			switch n := n.(type) {
			case *ast.BasicLit:
				add(n, false, 0)
			case *ast.CompositeLit:
				if lastName(n.Type) == "Error" {
					add(member(n, "Code"), true, intLiteral(member(n, "Status")))
				}
			case *ast.CallExpr:
				switch name := lastName(n.Fun); {
				case name == "Invalid" && len(n.Args) > 2:
					add(n.Args[0], true, 0)
				case name == "Fail" && len(n.Args) == 4:
					add(n.Args[1], true, 0)
				}
			case *ast.ValueSpec:
				for i, name := range n.Names {
					if (strings.HasPrefix(name.Name, "code") || strings.HasPrefix(name.Name, "Code")) && i < len(n.Values) {
						add(n.Values[i], true, 0)
					}
				}
			case *ast.AssignStmt:
				for i, l := range n.Lhs {
					if s, ok := l.(*ast.SelectorExpr); ok && s.Sel.Name == "Code" && len(n.Rhs) == len(n.Lhs) {
						add(n.Rhs[i], true, 0)
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func member(c *ast.CompositeLit, name string) ast.Expr {
	for _, e := range c.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok && lastName(kv.Key) == name {
			return kv.Value
		}
	}
	return nil
}

// lastName returns the last name of an identifier or a selector.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

func stringLiteral(e ast.Expr) (string, bool) {
	if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
		s, err := strconv.Unquote(lit.Value)
		return s, err == nil
	}
	return "", false
}

func intLiteral(e ast.Expr) int {
	if lit, ok := e.(*ast.BasicLit); ok {
		n, _ := strconv.Atoi(lit.Value)
		return n
	}
	return 0
}
