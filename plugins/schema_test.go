package plugins_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/plugins"
	"github.com/sluice-gateway/sluice/proxy/config"
)

// optionSchema contains the keywords of a schema that the tests check.
type optionSchema struct {
	Properties           map[string]optionSchema
	AdditionalProperties any
	Items                *optionSchema
	Enum                 []string
	Description          string
}

func schemaOf(t *testing.T, plugin string) optionSchema {
	t.Helper()
	data := plugins.FS().OptionsSchema(plugin)
	if err := config.CheckOptionsSchema(data); err != nil {
		t.Fatalf("%s: %v", plugin, err)
	}
	var s optionSchema
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatalf("%s: %v", plugin, err)
	}
	return s
}

// TestSchemasHaveOptionsOfCode checks that each schema has the options that the plugin's code reads, and that each
// value of an enumeration occurs in the code.
func TestSchemasHaveOptionsOfCode(t *testing.T) {
	for _, plugin := range plugins.Names() {
		s := schemaOf(t, plugin)
		if s.AdditionalProperties != false {
			t.Errorf("%s: unknown options are not errors", plugin)
		}
		read, literals := optionsInCode(t, plugin)
		if plugin == "router" {
			read = []string{"max_latency", "measurement", "strategy"} // the code reads these without a switch
		}
		if diff := cmp.Diff(read, slices.Sorted(maps.Keys(s.Properties))); diff != "" {
			t.Errorf("%s: options in the schema (-code +schema):\n%s", plugin, diff)
		}
		for name, p := range s.Properties {
			if p.Description == "" {
				t.Errorf("%s: %s has no description", plugin, name)
			}
			values := p.Enum
			if p.Items != nil {
				values = append(values, p.Items.Enum...)
			}
			for _, v := range values {
				if !literals[v] {
					t.Errorf("%s: %s = %q does not occur in the code", plugin, name, v)
				}
			}
		}
	}
}

// optionsInCode returns the cases of switches over the names of options, and all string literals.
func optionsInCode(t *testing.T, plugin string) (options []string, literals map[string]bool) {
	t.Helper()
	files, err := filepath.Glob(plugin + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	literals = map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil {
					literals[text] = true
				}
			case *ast.SwitchStmt:
				if filepath.Base(file) == "options.go" && namesOption(n.Tag) {
					for _, c := range n.Body.List {
						for _, e := range c.(*ast.CaseClause).List {
							if lit, ok := e.(*ast.BasicLit); ok {
								text, _ := strconv.Unquote(lit.Value)
								options = append(options, text)
							}
						}
					}
				}
			}
			return true
		})
	}
	slices.Sort(options)
	return options, literals
}

// namesOption reports whether an expression is name or string(r.Name()).
func namesOption(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name == "name"
	case *ast.CallExpr:
		if len(e.Args) != 1 {
			return false
		}
		call, ok := e.Args[0].(*ast.CallExpr)
		if !ok {
			return false
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		r, ok := method.X.(*ast.Ident)
		return ok && r.Name == "r" && method.Sel.Name == "Name"
	}
	return false
}

// TestPresetsHaveKnownOptions checks the options of the presets against the schemas of their plugins.
func TestPresetsHaveKnownOptions(t *testing.T) {
	presets, err := os.ReadFile("../proxy/config/presets.toml")
	if err != nil {
		t.Fatal(err)
	}
	// Each preset's options become the options of a provider.
	var text strings.Builder
	plugin := ""
	for line := range strings.Lines(string(presets)) {
		if name, ok := strings.CutPrefix(line, "plugin = "); ok {
			plugin = name
		}
		if name, ok := strings.CutPrefix(line, "[presets."); ok && strings.HasSuffix(name, ".options]\n") {
			name = strings.TrimSuffix(name, ".options]\n")
			text.WriteString("[providers." + name + "]\nplugin = " + plugin + "[providers." + name + ".options]\n")
			continue
		}
		if strings.HasPrefix(line, "[") {
			text.WriteString("[ignored." + strings.Trim(line, "[]\n") + "]\n")
			continue
		}
		text.WriteString(line)
	}
	_, err = config.Parse("presets.toml", []byte(text.String()), config.Options{Bundled: plugins.Names(), OptionsSchema: func(_ *config.Config, p *config.Plugin) []byte {
		return plugins.FS().OptionsSchema(p.Name)
	}})
	var invalid config.Errors
	if list, ok := err.(config.Errors); ok {
		invalid = list
	}
	if len(invalid) != 1 || !strings.HasPrefix(invalid[0].Key, "ignored") {
		t.Errorf("errors %v, want only the one about ignored options", err)
	}
}

func TestNoSchemaOfUnknownPlugin(t *testing.T) {
	if s := plugins.FS().OptionsSchema("../proxy/config"); s != nil {
		t.Errorf("got %s, want no schema", s)
	}
}
