package sluice_test

import (
	"go/ast"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestMethodsAreTogether limits the number of files over which the methods of a central type are spread.
func TestMethodsAreTogether(t *testing.T) {
	const maxFiles = 4
	central := map[string][]string{"proxy": {"Server", "completion", "attempt"}, "proxy/internal/downstream": {"Conn", "Server"}}
	found := 0
	for _, p := range packages(t) {
		for _, name := range central[p.dir] {
			files := make(map[string]bool)
			for _, f := range p.files {
				for _, d := range f.Decls {
					if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil && receiver(fn) == name {
						files[p.fset.Position(fn.Pos()).Filename] = true
					}
				}
			}
			found += len(files)
			if len(files) > maxFiles {
				t.Errorf("methods of %s.%s are in %d files\nrule: at most %d\nwhy:  a reader must find all of a type's methods", p.dir, name, len(files), maxFiles)
			}
		}
	}
	if found < 4 {
		t.Errorf("found methods in only %d files: the list of types is out of date", found)
	}
}

// TestNumberOfFields limits the number of fields of a struct, except for records of data, such as the configuration.
func TestNumberOfFields(t *testing.T) {
	const maxFields = 25
	records := []string{"telemetry.Record", "responses.members", "messages.members"} // what is read or written, field by field
	found := 0
	for _, p := range packages(t) {
		if !within(p.dir, "proxy") || p.dir == "proxy/config" {
			continue
		}
		for _, f := range p.files {
			ast.Inspect(f, func(n ast.Node) bool {
				spec, ok := n.(*ast.TypeSpec)
				if !ok {
					return true
				}
				s, ok := spec.Type.(*ast.StructType)
				if !ok {
					return true
				}
				switch fields := s.Fields.NumFields(); {
				case fields <= maxFields:
				case slices.Contains(records, p.name+"."+spec.Name.Name):
					found++
				default:
					t.Errorf("%s: %s.%s has %d fields\nrule: at most %d\nwhy:  fields that change together and are used together are a type", p.fset.Position(spec.Pos()), p.name, spec.Name.Name, fields, maxFields)
				}
				return true
			})
		}
	}
	if found != len(records) {
		t.Errorf("found %d of %d records: the list is out of date", found, len(records))
	}
}

// receiver returns the name of a method's receiver type.
func receiver(fn *ast.FuncDecl) string {
	expr := fn.Recv.List[0].Type
	if star, ok := expr.(*ast.StarExpr); ok {
		expr = star.X
	}
	name, _ := expr.(*ast.Ident)
	if name == nil {
		return ""
	}
	return name.Name
}

// TestSequentialPackages checks that packages that the Makefile tests without the race detector start no goroutine.
func TestSequentialPackages(t *testing.T) {
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(makefile), "\nSEQUENTIAL := ")
	list, _, _ = strings.Cut(list, "\n")
	sequential, found := strings.Split(list, "|"), 0
	for _, p := range packages(t) {
		if !slices.Contains(sequential, p.dir) {
			continue
		}
		found++
		for _, f := range p.files {
			ast.Inspect(f, func(n ast.Node) bool {
				starts := false
				switch n := n.(type) {
				case *ast.GoStmt:
					starts = true
				case *ast.SelectorExpr:
					starts = n.Sel.Name == "Go" || n.Sel.Name == "AfterFunc"
				}
				if starts {
					t.Errorf("%s starts a goroutine\nrule: the packages of SEQUENTIAL in the Makefile start none\nwhy:  they are tested without the race detector", p.fset.Position(n.Pos()))
				}
				return true
			})
		}
	}
	if found != len(sequential) {
		t.Errorf("found %d packages of %q", found, sequential)
	}
}
