package docs_test

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"

	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

const readme = "../README.md"

func TestReadmeHoldsThePluginThatIsTested(t *testing.T) {
	source := read(t, "plugins/echo/echo.go")
	if !strings.Contains(read(t, readme), "```go\n"+source+"```\n") {
		t.Error("README.md shows another plugin than examples/plugins/echo/echo.go")
	}
}

// TestLinksLeadSomewhere follows the relative links of every page.
func TestLinksLeadSomewhere(t *testing.T) {
	pages, err := filepath.Glob("*/README.md")
	if err != nil {
		t.Fatal(err)
	}
	deeper, err := filepath.Glob("*/*/README.md")
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, page := range append(append(pages, deeper...), readme, "../RATIONALE.md") {
		text := read(t, page)
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			switch {
			case strings.Contains(target, "://"):
			case target == "":
				if !slices.Contains(anchors(text), anchor) {
					t.Errorf("%s: there is no heading for #%s", page, anchor)
				}
			default:
				if _, err := os.Stat(filepath.Join(filepath.Dir(page), target)); err != nil {
					t.Errorf("%s: %v", page, err)
				}
			}
		}
	}
}

// anchors are those of the headings of a page.
func anchors(text string) (names []string) {
	drop := regexp.MustCompile("[^a-z0-9 _-]")
	for line := range strings.Lines(text) {
		if heading := strings.TrimLeft(line, "#"); heading != line {
			name := drop.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
			names = append(names, strings.ReplaceAll(name, " ", "-"))
		}
	}
	return names
}

// member is a row of one of README's tables of the configuration.
type member struct{ name, standard string }

// members reads the table under a heading.
func members(t *testing.T, heading string) (rows []member) {
	t.Helper()
	_, section, ok := strings.Cut(read(t, readme), "\n#### `"+heading+"`\n")
	if !ok {
		t.Fatalf("README.md has no heading %s", heading)
	}
	section, _, _ = strings.Cut(section, "\n#")
	row := regexp.MustCompile("(?m)^\\| `([a-z_.0-9]+)` \\| (?:`([^|]*)`)? ?\\|")
	for _, m := range row.FindAllStringSubmatch(section, -1) {
		rows = append(rows, member{m[1], m[2]})
	}
	if len(rows) == 0 {
		t.Fatalf("README.md has no table under %s", heading)
	}
	return rows
}

// tables are the tables of the configuration: README's heading, the members that are tables themselves as a prefix of the
// names there, how such a table is opened, and the least that is valid with members of it left to write.
var tables = []struct{ heading, prefix, open, valid string }{
	{"[server]", "", "[server]\n", "[server]\n"},
	{"[server]", "tls.", "[server.tls]\n", "[server]\n"},
	{"[admin]", "", "[admin]\n", "[admin]\n"},
	{"[[keys]]", "", "[[keys]]\n", "[[keys]]\nname = \"k\"\nsecret = \"sk-0123456789abcdef\"\n"},
	{"[[keys]]", "limits.", "[[keys]]\n[keys.limits]\n", "[[keys]]\nname = \"k\"\nsecret = \"sk-0123456789abcdef\"\n[keys.limits]\n"},
	{"[plugins.NAME]", "", "[plugins.mine]\n", "[plugins.mine]\nfile = \"m.wasm\"\nsha256 = \"" + digest + "\"\n"},
	{"[providers.NAME]", "", "[providers.p]\n", provider},
	{"[providers.NAME]", "auth.", "[providers.p.auth]\n", provider + "[providers.p.auth]\nsecret = \"s\"\n"},
	{"[providers.NAME]", "auth.aws.", "[providers.p.auth.aws]\n", provider + "[providers.p.auth.aws]\nregion = \"r\"\naccess_key_id = \"a\"\nsecret_access_key = \"s\"\n"},
	{"[providers.NAME]", "auth.google.", "[providers.p.auth.google]\n", provider + "[providers.p.auth.google]\ncredentials_file = \"f\"\n"},
	{"[providers.NAME]", "timeout.", "[providers.p.timeout]\n", provider + "[providers.p.timeout]\n"},
	{"[providers.NAME]", "breaker.", "[providers.p.breaker]\n", provider + "[providers.p.breaker]\n"},
	{"[providers.NAME]", "list_models.", "[providers.p.list_models]\n", provider + "[providers.p.list_models]\n"},
	{"[[models]]", "", "[[models]]\n", provider + "[[models]]\nid = \"m\"\ntargets = [{ provider = \"p\" }]\n"},
	{"[[models]]", "pricing.", "[[models]]\n[models.pricing]\n", provider + "[[models]]\nid = \"m\"\ntargets = [{ provider = \"p\" }]\n[models.pricing]\n"},
	{"[[models]]", "targets.", "[[models]]\n[[models.targets]]\n", provider + "[[models]]\nid = \"m\"\n[[models.targets]]\nprovider = \"p\"\n"},
}

const (
	digest   = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	provider = "[providers.p]\nplugin = \"openai\"\nbase_url = \"https://example.com\"\n"
)

func parse(text string) (*config.Config, error) {
	return config.Parse("f", []byte(text), config.Options{Bundled: []string{"openai"}})
}

// TestReadmeNamesTheMembersOfTheConfiguration compares README's tables with what the parser takes. A member that it takes
// is a string somewhere in its source, so all of these strings are tried in every table.
func TestReadmeNamesTheMembersOfTheConfiguration(t *testing.T) {
	candidates := literals(t, "../proxy/config")
	if len(candidates) < 60 {
		t.Fatalf("only %d candidates", len(candidates))
	}
	for _, table := range tables {
		t.Run(table.heading+table.prefix, func(t *testing.T) {
			var documented, accepted []string
			for _, m := range members(t, table.heading) {
				if name, ok := strings.CutPrefix(m.name, table.prefix); ok && !strings.Contains(name, ".") {
					documented = append(documented, name)
				}
			}
			for _, name := range candidates {
				if takes(t, table.open, name) {
					accepted = append(accepted, name)
				}
			}
			slices.Sort(documented)
			if diff := cmp.Diff(accepted, documented); diff != "" {
				t.Errorf("accepted (-), in README.md (+):\n%s", diff)
			}
		})
	}
	for _, name := range candidates {
		if _, err := parse("[providers.p]\npreset = \"" + name + "\"\nbase_url = \"https://example.com\"\n"); err == nil && !strings.Contains(read(t, readme), "`"+name+"`") {
			t.Errorf("README.md does not name the preset %s", name)
		}
	}
	for _, name := range []string{"server", "admin", "keys", "plugins", "providers", "models", "router"} {
		if !takes(t, "", name) {
			t.Errorf("there is no table %s", name)
		}
	}
}

// takes tells whether a table knows a member.
func takes(t *testing.T, open, name string) bool {
	t.Helper()
	_, err := parse(open + name + " = {}\n")
	list, ok := err.(config.Errors)
	if err != nil && !ok {
		t.Fatal(err)
	}
	for _, e := range list {
		if e.Key != name && !strings.HasSuffix(e.Key, "."+name) {
			continue
		}
		// A file in a provider's table is known only so that the error can say where it belongs.
		if strings.HasPrefix(e.Text, "unknown member") || strings.Contains(e.Text, "is declared in [plugins.NAME]") {
			return false
		}
	}
	return true
}

// literals are the strings in a package's source that can be the name of a member.
func literals(t *testing.T, dir string) []string {
	t.Helper()
	names := map[string]bool{}
	form := regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)
	for _, file := range sources(t, dir) {
		ast.Inspect(file, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				if s, err := strconv.Unquote(l.Value); err == nil && form.MatchString(s) {
					names[s] = true
				}
			}
			return true
		})
	}
	return slices.Sorted(maps.Keys(names))
}

// sources parses the files of a package that are not tests.
func sources(t *testing.T, dir string) (files []*ast.File) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

// TestDefaultsOfReadmeAreTheDefaults writes each default into a configuration, which must not change by it.
func TestDefaultsOfReadmeAreTheDefaults(t *testing.T) {
	same := cmp.Comparer(func(a, b config.Position) bool { return true })
	tried := 0
	for _, table := range tables {
		base, err := parse(table.valid)
		if err != nil {
			t.Fatalf("%s%s: %v", table.heading, table.prefix, err)
		}
		for _, m := range members(t, table.heading) {
			name, ok := strings.CutPrefix(m.name, table.prefix)
			if !ok || strings.Contains(name, ".") || m.standard == "" {
				continue
			}
			tried++
			said, err := parse(table.valid + name + " = " + m.standard + "\n")
			if err != nil {
				t.Errorf("%s: %v", m.name, err)
				continue
			}
			if diff := cmp.Diff(base, said, same); diff != "" {
				t.Errorf("%s %s: %s is not the default:\n%s", table.heading, m.name, m.standard, diff)
			}
		}
	}
	if tried < 25 {
		t.Errorf("only %d defaults were found", tried)
	}
}

// TestReadmeNamesTheErrors compares the table of errors with the codes in the gateway's source, and the rows of providers'
// errors with the statuses that they have.
func TestReadmeNamesTheErrors(t *testing.T) {
	_, section, _ := strings.Cut(read(t, readme), "\n## Errors\n")
	section, _, _ = strings.Cut(section, "\n## ")
	documented := map[string][]string{} // statuses and whether another target is tried, by code
	row := regexp.MustCompile(`(?m)^\| ([0-9]{3}) \| ([^|]+) \| (yes|no) \|`)
	code := regexp.MustCompile("`([a-z_]+)`")
	for _, m := range row.FindAllStringSubmatch(section, -1) {
		for _, c := range code.FindAllStringSubmatch(m[2], -1) {
			documented[c[1]] = append(documented[c[1]], m[1]+" "+m[3])
		}
	}
	known := map[string]bool{}
	for _, dir := range []string{"../proxy", "../proxy/internal/access", "../proxy/internal/apierror", "../proxy/internal/response", "../proxy/internal/openai", "../proxy/internal/plugin"} {
		for _, name := range literals(t, dir) {
			known[name] = true
		}
	}
	for c := range documented {
		if !known[c] {
			t.Errorf("nothing in the gateway says %s", c)
		}
	}
	for kind := range abi.FailKind(abi.FailKinds) {
		e := apierror.Fail(kind, "", "", "")
		if e.Code == "" {
			continue
		}
		want := strconv.Itoa(e.Status) + map[bool]string{true: " yes", false: " no"}[e.TryNext]
		// A code that the gateway uses for its own errors, too, has a row for those.
		if !slices.Contains(documented[e.Code], want) && e.Code != "model_not_found" {
			t.Errorf("%s: README.md says %v, it is %s", e.Code, documented[e.Code], want)
		}
	}
	for _, dir := range []string{"../proxy", "../proxy/internal/access"} {
		for _, file := range sources(t, dir) {
			for _, c := range codes(file) {
				if documented[c] == nil && !strings.Contains(section, "`"+c+"`") {
					t.Errorf("README.md does not name %s", c)
				}
			}
		}
	}
}

// codes are the codes of the errors that a file makes: what stands in a field Code, and first in a call of Invalid.
func codes(file *ast.File) (all []string) {
	add := func(e ast.Expr) {
		if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
			if s, err := strconv.Unquote(l.Value); err == nil && s != "" {
				all = append(all, s)
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if k, ok := n.Key.(*ast.Ident); ok && k.Name == "Code" {
				add(n.Value)
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Invalid" && len(n.Args) > 0 {
				add(n.Args[0])
			}
		case *ast.AssignStmt:
			for i, l := range n.Lhs {
				if f, ok := l.(*ast.SelectorExpr); ok && f.Sel.Name == "Code" && i < len(n.Rhs) {
					add(n.Rhs[i])
				}
			}
		}
		return true
	})
	return all
}

// TestReadmeNamesTheHeaders compares the headers of answers with those that the gateway's source sets.
func TestReadmeNamesTheHeaders(t *testing.T) {
	_, section, _ := strings.Cut(read(t, readme), "\n## Headers\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var set []string
	for _, file := range sources(t, "../proxy") {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 2 {
				return true
			}
			name := ""
			switch f := call.Fun.(type) {
			case *ast.SelectorExpr:
				name = f.Sel.Name
			case *ast.Ident:
				name = f.Name
			}
			if l, ok := call.Args[0].(*ast.BasicLit); ok && l.Kind == token.STRING && (name == "Set" || name == "set") {
				if s, err := strconv.Unquote(l.Value); err == nil {
					set = append(set, s)
				}
			}
			return true
		})
	}
	var documented []string
	name := regexp.MustCompile("`([a-z-]+)`")
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \|`).FindAllStringSubmatch(section, -1) {
		for _, m := range name.FindAllStringSubmatch(row[1], -1) {
			documented = append(documented, m[1])
		}
	}
	for _, name := range set {
		// These say of a 401 and a 405 what HTTP asks for.
		if name != "www-authenticate" && name != "allow" && !slices.Contains(documented, name) {
			t.Errorf("README.md does not name %s", name)
		}
	}
	for _, name := range documented {
		if !slices.Contains(set, name) {
			t.Errorf("nothing sets %s", name)
		}
	}
}

// TestReadmeNamesTheCommands compares the table of commands and the targets of make with the source.
func TestReadmeNamesTheCommands(t *testing.T) {
	text := read(t, readme)
	var source bytes.Buffer
	paths, err := filepath.Glob("../cmd/sluice/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if !strings.HasSuffix(path, "_test.go") {
			source.WriteString(read(t, path))
		}
	}
	_, section, _ := strings.Cut(text, "\n## Command line\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, m := range regexp.MustCompile(`Use:\s+"([a-z]+)`).FindAllStringSubmatch(source.String(), -1) {
		if m[1] != "sluice" && m[1] != "help" && !strings.Contains(section, "sluice "+m[1]) && !strings.Contains(section, " "+m[1]) {
			t.Errorf("README.md does not name the command %s", m[1])
		}
	}
	for _, m := range regexp.MustCompile("`sluice ([a-z]+)").FindAllStringSubmatch(text, -1) {
		if !strings.Contains(source.String(), `"`+m[1]) {
			t.Errorf("there is no command %s", m[1])
		}
	}
	for _, m := range regexp.MustCompile("`--([a-z-]+)").FindAllStringSubmatch(section, -1) {
		if !strings.Contains(source.String(), `"`+m[1]+`"`) {
			t.Errorf("there is no flag --%s", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`VarP?\([^"\n]*"([a-z-]+)"`).FindAllStringSubmatch(source.String(), -1) {
		if !strings.Contains(section, "--"+m[1]) {
			t.Errorf("README.md does not name the flag --%s", m[1])
		}
	}
	makefile := read(t, "../Makefile")
	for _, m := range regexp.MustCompile("(?m)(?:^|`)make ([a-z]+)").FindAllStringSubmatch(text, -1) {
		if !strings.Contains(makefile, "\n"+m[1]+":") {
			t.Errorf("make has no target %s", m[1])
		}
	}
}
