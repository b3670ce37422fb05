package abi_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/sdk/abi"
)

const witFile = "sluice.wit"

// TestGeneratedWIT checks that the description of the contract in WIT matches this package.
//
// covers: C33
func TestGeneratedWIT(t *testing.T) {
	source, err := os.ReadFile("abi.go")
	if err != nil {
		t.Fatal(err)
	}
	want := generateWIT(t, readContract(t), string(source))
	if *update {
		if err := os.WriteFile(witFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(witFile); err != nil || string(got) != want {
		t.Errorf("%s is out of date; run `go generate ./sdk/abi` (%v)", witFile, err)
	}
}

// witWords are keywords of WIT that are likely names in the contract.
var witWords = []string{"as", "async", "enum", "export", "flags", "from", "future", "import", "list", "map", "option", "record", "resource", "result", "stream", "string", "type", "use", "with"}

// kebab converts a name in snake case or camel case. Each of its words begins with a letter, as WIT requires.
func kebab(name string) string {
	if strings.ToLower(name) != name {
		name = snake(name)
	}
	name = regexp.MustCompile(`_(\d)`).ReplaceAllString(name, "$1")
	if name = strings.ReplaceAll(name, "_", "-"); slices.Contains(witWords, name) {
		return "%" + name
	}
	return name
}

// witExport matches the constant of an export, with its parameters and result in the comment.
var witExport = regexp.MustCompile(`(?m)^\tExport\w+ += "(\w+)" +// \((.*?)\)(?: -> (\w+))?( ; optional)?$`)

// witResults are the types of results of exports. Every other one is a status, of which 0 is success.
var witResults = map[string]string{
	"provider_reads": "summary-parts", "router_reads": "router-parts", "filter_reads": "filter-parts", "sluice_forms": "forms", "sluice_plugin": "plugin-kind",
}

// witTypesOfExports are the types of parameters of exports that are not plain numbers.
var witTypesOfExports = map[string]string{"kind": "event-kind", "what": "what", "flags": "text-flags"}

func generateWIT(t *testing.T, c *contract, source string) string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("// %s", generatedBy)
	p("//\n// The plugin ABI in WIT: its functions, and the numbers of their arguments. README.md specifies them. A plugin is a core module and")
	p("// no component: all numbers are i32, except those of 64 bits; a list<u8> of an import is an address and a length, that of an export")
	p("// a length in the input buffer; and `copied` is the destination of a copy, an address and a capacity. The functions have the names in")
	p("// README.md, with _ in place of -.\n")
	p("package sluice:plugin@%d.%d.0;\n\ninterface types {", abi.Major, abi.Minor)
	p("  /// What a copy from the host returns: the full length of the value, or a negative status, and the bytes that fit the capacity.")
	p("  record copied {\n    length: s32,\n    bytes: list<u8>,\n  }")
	for _, e := range c.enums {
		contiguous := true
		for n, m := range e.members {
			contiguous = contiguous && m.value == int64(n)
		}
		p("\n  /// %s", e.doc)
		for _, m := range e.members {
			if !contiguous {
				p("  /// %d: %s", m.value, witDoc(m))
			}
		}
		if !contiguous {
			p("  type %s = s32;", kebab(e.name))
			continue
		}
		p("  enum %s {", kebab(e.name))
		for _, m := range e.members {
			p("    /// %d%s\n    %s,", m.value, strings.TrimSuffix(": "+m.doc, ": "), kebab(m.name))
		}
		p("  }")
	}
	p("\n  // Numbers without a type:")
	for _, m := range c.numbers {
		p("  // %d: %s", m.value, witDoc(m))
	}
	p("}\n\n/// The imports, which the host provides.\ninterface host {")
	p("  use types.{%s};", strings.Join(c.witTypes(), ", "))
	for _, f := range c.imports {
		p("\n  /// %s\n  %s", f.calls(), f.wit())
	}
	p("}")
	groups := []struct{ prefix, name, doc string }{
		{"sluice", "plugin", "The exports of every plugin, in addition to its memory and `sluice-buffer`, which returns an address."},
		{"provider", "provider", "The exports of a provider."}, {"router", "router", "The exports of a router."}, {"filter", "filter", "The exports of a filter."},
	}
	exports := witExport.FindAllStringSubmatch(source, -1)
	for _, g := range groups {
		p("\n/// %s\ninterface %s {", g.doc, g.name)
		var used []string
		var functions strings.Builder
		for _, m := range exports {
			if !strings.HasPrefix(m[1], g.prefix+"_") || m[1] == abi.ExportBuffer {
				continue
			}
			result := " -> s32"
			if typ := witResults[m[1]]; typ != "" {
				used, result = append(used, typ), " -> "+typ
			} else if m[3] == "" {
				result = ""
			}
			if m[4] != "" {
				functions.WriteString("\n  /// Optional.")
			}
			fmt.Fprintf(&functions, "\n  %s: func(%s)%s;\n", kebab(m[1]), witParams(m[2], &used), result)
		}
		if len(used) > 0 {
			p("  use types.{%s};", strings.Join(used, ", "))
		}
		p("%s}", functions.String())
	}
	for _, g := range groups[1:] {
		p("\nworld %s-plugin {\n  import host;\n  export plugin;\n  export %s;\n}", g.name, g.name)
	}
	if n := len(exports) + 1; n != strings.Count(source, "\n\tExport") { // the memory has no type
		t.Errorf("%d exports have a type, of %d", n, strings.Count(source, "\n\tExport"))
	}
	return b.String()
}

func witDoc(m member) string {
	return strings.TrimSuffix(strings.TrimPrefix(kebab(m.name), "%")+", "+m.doc, ", ")
}

// witParams returns the parameters of an export. A length in the input buffer stands for the input.
func witParams(list string, used *[]string) string {
	var params []string
	for _, name := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' }) {
		typ := "s32"
		switch {
		case name == "length":
			name, typ = "input", "list<u8>"
		case strings.HasSuffix(name, "_length"):
			name, typ = strings.TrimSuffix(name, "_length"), "list<u8>"
		case witTypesOfExports[name] != "":
			typ = witTypesOfExports[name]
			*used = append(*used, typ)
		}
		params = append(params, kebab(name)+": "+typ)
	}
	return strings.Join(params, ", ")
}

// witTypes returns the types that imports use.
func (c *contract) witTypes() []string {
	types := []string{"copied", "status"}
	for _, f := range c.imports {
		for _, a := range f.params {
			if a.enum != "" {
				types = append(types, kebab(a.enum))
			}
		}
	}
	slices.Sort(types)
	return slices.Compact(types)
}

// wit returns the declaration of an import.
func (f *function) wit() string {
	result := map[string]string{"": "", "i": " -> s32", "I": " -> s64"}[f.result]
	if f.status {
		result = " -> status"
	}
	var params []string
	for _, a := range f.params {
		typ := map[byte]string{'s': "list<u8>", 'I': "s64", 'i': "s32"}[a.kind]
		switch {
		case a.kind == 'd':
			a.name, typ, result = "capacity", "u32", " -> copied"
		case a.enum != "":
			typ = kebab(a.enum)
		}
		params = append(params, kebab(a.name)+": "+typ)
	}
	return fmt.Sprintf("%s: func(%s)%s;", kebab(f.name), strings.Join(params, ", "), result)
}
