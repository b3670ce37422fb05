package sluice_test

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// namedProofs adds the tests and cases whose name begins with IDs.
func namedProofs(file *ast.File, add func(kind proofKind, name string, ids []string)) error {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv == nil && strings.HasPrefix(n.Name.Name, "Test") {
				add(testProof, n.Name.Name, idsInName(n.Name.Name))
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
				add(caseProof, s, idsInName(s))
			}
		}
		return true
	})
	return nil
}

var (
	leading = regexp.MustCompile(`^([SATRGBOVF])0?([1-9]\d{0,2})([ _/:,+-]+|$)`)
	fault   = regexp.MustCompile(`\bfaults/([1-9]\d{0,2})\b`)
	bare    = regexp.MustCompile(`^([SATRGBOVF]\d+[ _/:,+-]*)*$`)
)

// idsInName returns the rows that a name begins with, and the rows of faults.md that it has anywhere.
func idsInName(name string) (list []string) {
	for _, m := range fault.FindAllStringSubmatch(name, -1) {
		if n, err := strconv.Atoi(m[1]); err == nil && n <= groupSizes['F'] {
			list = append(list, "F"+m[1])
		}
	}
	rest := strings.TrimPrefix(name, "Test")
	for {
		m := leading.FindStringSubmatch(rest)
		if m == nil {
			return list
		}
		if n, err := strconv.Atoi(m[2]); err == nil && n <= groupSizes[m[1][0]] {
			list = append(list, m[1]+m[2])
		}
		rest = rest[len(m[0]):]
	}
}
