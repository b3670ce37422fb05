package abi_test

import (
	"flag"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/sluice-gateway/sluice/sdk/abi"
)

//go:generate go test -count=1 -run ^TestGenerated . -update

var update = flag.Bool("update", false, "write the generated files of the kits")

// contract is the input of the generators: this package's constants, and the methods of Host, which name the parameters
// of imports.
type contract struct {
	enums   []enum
	numbers []member // constants without a type
	imports []function
}

// enum is an integer type with its constants.
type enum struct {
	name, doc string
	members   []member
}

type member struct {
	name, doc string // the name of an enum's member, without the prefix that all members share
	value     int64
}

// function is an import with the names and types of its parameters.
type function struct {
	name, phases string
	params       []param
	result       string // as in abi.Import
	status       bool   // the result is a Status
}

// param is a parameter of an import. Its kind is s for a string, d for the destination of a copy (address and
// capacity), and i or I for a number.
type param struct {
	name string
	kind byte
	enum string // the enum that a number belongs to, if any
}

// TestGeneratedKits checks that the generated part of each kit matches this package.
func TestGeneratedKits(t *testing.T) {
	c := readContract(t)
	for name, generate := range map[string]func(*contract) string{
		"../rust/src/abi.rs": generateRust, "../c/sluice_abi.h": generateC, "../assemblyscript/abi.ts": generateAssemblyScript,
	} {
		want := generate(c)
		if *update {
			if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s is out of date; run `go generate ./sdk/abi` (%v)", name, err)
		}
	}
}

// readContract reads the package's source, so that no declaration is missed.
func readContract(t *testing.T) *contract {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range []string{"abi.go", "imports.go"} {
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	info := types.Info{Defs: map[*ast.Ident]types.Object{}}
	pkg, err := new(types.Config).Check("abi", fset, files, &info)
	if err != nil {
		t.Fatal(err)
	}
	c := &contract{}
	docs := map[string]string{}
	for _, f := range files {
		for _, decl := range f.Decls {
			if d, ok := decl.(*ast.GenDecl); ok {
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						docs[s.Name.Name] = strings.Join(strings.Fields(d.Doc.Text()), " ")
					case *ast.ValueSpec:
						c.addConstant(s, &info, docs)
					}
				}
			}
		}
	}
	for n := range c.enums {
		trimPrefix(c.enums[n].members)
	}
	host := pkg.Scope().Lookup("Host").Type().Underlying().(*types.Interface)
	for _, imp := range abi.Imports {
		c.imports = append(c.imports, c.findFunction(t, imp, host))
	}
	return c
}

// omitted reports whether a constant is a mask, which only Go code uses.
func omitted(name string) bool {
	return strings.HasSuffix(name, "Mask") || strings.HasSuffix(name, "Known")
}

// addConstant adds an integer constant to the contract, and to its enum if it has a type.
func (c *contract) addConstant(s *ast.ValueSpec, info *types.Info, docs map[string]string) {
	for _, ident := range s.Names {
		object, ok := info.Defs[ident].(*types.Const)
		if !ok || object.Val().Kind() != constant.Int {
			continue
		}
		name := ident.Name
		m := member{name: name, doc: strings.TrimSpace(s.Comment.Text())}
		m.value, _ = constant.Int64Val(object.Val())
		named, typed := object.Type().(*types.Named)
		switch {
		case !typed && (name == "Major" || name == "Minor" || name == "RetryAfterUnknown" || strings.HasPrefix(name, "Done") || strings.HasPrefix(name, "Max")):
			c.numbers = append(c.numbers, m)
		case typed && named.Obj().Name() != "Phase" && !omitted(name):
			at := slices.IndexFunc(c.enums, func(e enum) bool { return e.name == named.Obj().Name() })
			if at < 0 {
				at = len(c.enums)
				c.enums = append(c.enums, enum{name: named.Obj().Name(), doc: docs[named.Obj().Name()]})
			}
			c.enums[at].members = append(c.enums[at].members, m)
		}
	}
}

// trimPrefix removes the words that all members' names begin with.
func trimPrefix(members []member) {
	prefix := words(members[0].name)
	for _, m := range members {
		w := words(m.name)
		n := 0
		for n < min(len(prefix), len(w)-1) && prefix[n] == w[n] {
			n++
		}
		prefix = prefix[:n]
	}
	for n := range members {
		members[n].name = members[n].name[len(strings.Join(prefix, "")):]
	}
}

// words splits a name in camel case into words: AWSEventStream is AWS, Event and Stream. OpenAI is one word.
func words(name string) (list []string) {
	runes := []rune(name)
	start := 0
	for i := 1; i < len(runes); i++ {
		upper := unicode.IsUpper(runes[i])
		if upper && unicode.IsLower(runes[i-1]) && string(runes[start:]) != "OpenAI" ||
			upper && unicode.IsUpper(runes[i-1]) && i+1 < len(runes) && unicode.IsLower(runes[i+1]) {
			list, start = append(list, string(runes[start:i])), i
		}
	}
	return append(list, string(runes[start:]))
}

func snake(name string) string { return strings.ToLower(strings.Join(words(name), "_")) }

func screaming(name string) string { return strings.ToUpper(snake(name)) }

// camel converts a name from snake case to camel case, as in AssemblyScript.
func camel(name string) string {
	parts := strings.Split(name, "_")
	for i, p := range parts[1:] {
		parts[i+1] = strings.ToUpper(p[:1]) + p[1:]
	}
	return strings.Join(parts, "")
}

// findFunction describes an import, using the parameter names of the method of Host with its name. The types must
// match.
func (c *contract) findFunction(t *testing.T, imp abi.Import, host *types.Interface) function {
	t.Helper()
	f := function{name: imp.Name, phases: importPhases(imp), result: imp.Results}
	for method := range host.Methods() {
		if !strings.EqualFold(method.Name(), strings.ReplaceAll(imp.Name, "_", "")) {
			continue
		}
		signature := method.Type().(*types.Signature)
		var letters strings.Builder
		for v := range signature.Params().Variables() {
			p := param{name: snake(v.Name()), kind: 'i'}
			switch typ := v.Type().(type) {
			case *types.Slice:
				p.kind = 's'
				if v.Name() == "dst" {
					p.kind = 'd'
				}
			case *types.Named:
				p.enum = typ.Obj().Name()
			case *types.Basic:
				if typ.Kind() == types.Int64 {
					p.kind = 'I'
				}
			}
			f.params = append(f.params, p)
			letters.WriteString(strings.Replace(string(p.kind), "d", "ii", 1))
		}
		if r := signature.Results(); r.Len() == 1 {
			f.status = strings.HasSuffix(r.At(0).Type().String(), ".Status")
		}
		if letters.String() != imp.Params {
			t.Errorf("%s has the parameters %s, and the method of Host %s", imp.Name, imp.Params, &letters)
		}
		return f
	}
	t.Errorf("Host has no method for %s", imp.Name)
	return f
}
