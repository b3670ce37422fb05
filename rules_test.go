// Package sluice_test holds the rules of the repository as a whole: which package may import what, and what no file may
// hold. Each failure says the rule and the reason for it.
package sluice_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/sluice-gateway/sluice/"

// pkg is a package of the repository without its tests. All files count, whatever system they are for.
type pkg struct {
	dir     string // from the root, "proxy/internal/openai"
	name    string
	comment string
	files   []*ast.File
	fset    *token.FileSet
}

// imported is one import of a package. Path is without the module's own prefix: "proxy/internal/openai".
type imported struct {
	path string
	own  bool // of this module
	at   token.Position
}

func (p *pkg) imports() (list []imported) {
	for _, f := range p.files {
		for _, spec := range f.Imports {
			text, _ := strconv.Unquote(spec.Path.Value)
			local, own := strings.CutPrefix(text, module)
			if text+"/" == module {
				local, own = ".", true
			}
			list = append(list, imported{local, own, p.fset.Position(spec.Pos())})
		}
	}
	return list
}

// within tells whether a path is one of these folders or lies below it.
func within(at string, dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return at == dir || strings.HasPrefix(at, dir+"/") })
}

// forTests tells whether a package is there for the tests of others. By convention its name says so.
func (p *pkg) forTests() bool { return strings.HasSuffix(p.dir, "test") }

// guest tells whether a package is a plugin: all that ship, and the examples that are written with the SDK.
func (p *pkg) guest() bool {
	return within(p.dir, "plugins") && p.dir != "plugins" ||
		within(p.dir, "examples/plugins") && slices.ContainsFunc(p.imports(), func(i imported) bool { return i.own && within(i.path, "sdk") })
}

// bundles tells whether a package puts a plugin that ships into the module of all of them.
func (p *pkg) bundles(i imported) bool {
	return p.dir == "plugins/all" && i.own && within(i.path, "plugins") && i.path != "plugins"
}

// shares tells whether an import is of what the plugins that ship share. The SDK and the examples do without.
func (p *pkg) shares(i imported) bool {
	return within(p.dir, "plugins") && i.own && i.path == "plugins/internal/translate"
}

// ofGuests tells whether a package becomes a part of plugins.
func (p *pkg) ofGuests() bool {
	return p.guest() || within(p.dir, "sdk") && !p.forTests() && p.dir != "sdk/native" // which is never a part of a module
}

// standard tells whether an import is of the standard library.
func standard(i imported) bool {
	first, _, _ := strings.Cut(i.path, "/")
	return !i.own && !strings.Contains(first, ".")
}

// heavy is what no plugin imports: each makes the module larger and its start slower, or promises something that a
// sandbox does not have.
var heavy = []string{"fmt", "encoding/json", "reflect", "net", "os", "time", "log", "context", "syscall"}

// importRules say what is wrong with an import, "" where nothing is.
var importRules = []struct {
	rule, why string
	broken    func(p *pkg, i imported) bool
}{
	{
		"plugins, and what they are made of, import only sdk, what they share (plugins/internal/translate) and light parts of the standard library; plugins/all imports plugins",
		"a plugin is what an outsider can write: it has nothing but the SDK, and every megabyte counts in each instance",
		func(p *pkg, i imported) bool {
			light := standard(i) && !within(i.path, heavy...)
			return p.ofGuests() && !light && !p.bundles(i) && !p.shares(i) && !(i.own && within(i.path, "sdk"))
		},
	},
	{
		"of sdk, proxy imports only sdk/abi, and plugintest sdk/native",
		"the host and the SDK share the contract and no code, so that neither can lean on how the other does it; plugintest runs plugins natively",
		func(p *pkg, i imported) bool {
			return within(p.dir, "proxy") && i.own && within(i.path, "sdk") && i.path != "sdk/abi" && !(p.dir == "proxy/plugintest" && i.path == "sdk/native")
		},
	},
	{
		"only proxy/internal/plugin/engine imports wazero, and packages for tests",
		"the runtime can be replaced in one place, and every way into a guest is metered there",
		func(p *pkg, i imported) bool {
			return within(i.path, "github.com/tetratelabs/wazero") && p.dir != "proxy/internal/plugin/engine" && !p.forTests()
		},
	},
	{
		"of the leaves of proxy/internal/plugin, wasm and fairqueue import nothing of this module, compilecost and goopt only wasm, fuel wasm and compilecost",
		"the sandbox is read and audited by itself: it does not know the optimiser",
		func(p *pkg, i imported) bool {
			const plugin = "proxy/internal/plugin/"
			switch p.dir {
			case plugin + "wasm", plugin + "fairqueue":
				return i.own
			case plugin + "compilecost", plugin + "goopt":
				return i.own && i.path != plugin+"wasm"
			case plugin + "fuel":
				return i.own && i.path != plugin+"wasm" && i.path != plugin+"compilecost"
			}
			return false
		},
	},
	{
		"only proxy, for its OptimizeModule, plugindev/project and testing/buildtest import proxy/internal/plugin/goopt",
		"modules are optimised when they are built, and run as they are: what a plugin is charged does not depend on the gateway's version",
		func(p *pkg, i imported) bool {
			return i.own && within(i.path, "proxy/internal/plugin/goopt") && p.dir != "proxy" && p.dir != "proxy/plugindev/project" && p.dir != "proxy/internal/testing/buildtest"
		},
	},
	{
		"only proxy, proxy/internal/endpoint and proxy/internal/admission, which read its heads, proxy/internal/upstream, proxy/internal/admin and cmd/bench/bare import fasthttp",
		"its values are reused after a handler returns: what they lend must not spread; the bare proxy is what the gateway is compared with",
		func(p *pkg, i imported) bool {
			return within(i.path, "github.com/valyala/fasthttp") && !slices.Contains([]string{"proxy", "proxy/internal/endpoint", "proxy/internal/admission", "proxy/internal/upstream", "proxy/internal/admin", "cmd/bench/bare"}, p.dir)
		},
	},
	{
		"only proxy/internal/spend/redisstore imports rueidis",
		"what is shared between gateways is behind spend.Store, which a test can replace",
		func(p *pkg, i imported) bool {
			return within(i.path, "github.com/redis/rueidis") && p.dir != "proxy/internal/spend/redisstore"
		},
	},
	{
		"below proxy/internal/upstream only configured imports proxy/config, and below proxy/internal/routing only policies and catalog/listing import plugins and upstreams",
		"connecting and deciding are read and tested without a configuration and without plugins; these packages bind them",
		func(p *pkg, i imported) bool {
			const upstream, routing = "proxy/internal/upstream", "proxy/internal/routing"
			switch {
			case !i.own, within(p.dir, upstream+"/configured", routing+"/policies", routing+"/catalog/listing"):
				return false
			case within(p.dir, upstream):
				return within(i.path, "proxy/config")
			}
			return within(p.dir, routing) && (within(i.path, "proxy/internal/plugin") || within(i.path, upstream))
		},
	},
	{
		"only proxy/config and, for plugin.toml, proxy/plugindev/project import TOML",
		"a configuration is read once, into an immutable value",
		func(p *pkg, i imported) bool {
			return within(i.path, "github.com/pelletier/go-toml") && p.dir != "proxy/config" && p.dir != "proxy/plugindev/project"
		},
	},
	{
		"only proxy/plugindev/project imports the repository's root",
		"it holds what new plugins start from, for one command, and no code",
		func(p *pkg, i imported) bool {
			return i.own && i.path == "." && p.dir != "proxy/plugindev/project"
		},
	},
	{
		"the leaves jsondoc, apierror, framing, breaker, buffers, glob, fairlru, httpfield and cost of proxy/internal import no sibling, but framing httpfield",
		"JSON, errors, framings, amounts and the like stand by themselves, and can be tested and read so",
		func(p *pkg, i imported) bool {
			for _, leaf := range []string{"jsondoc", "apierror", "framing", "breaker", "buffers", "glob", "fairlru", "httpfield", "cost"} {
				dir := "proxy/internal/" + leaf
				if within(p.dir, dir) && i.own && i.path != "sdk/abi" && !within(i.path, dir) && !(leaf == "framing" && i.path == "proxy/internal/httpfield") {
					return true
				}
			}
			return false
		},
	},
	{
		"proxy/internal/response imports only jsondoc, apierror and cost, proxy/internal/thinking and clientapi these and response, and a client API these, thinking and clientapi; thinking and responses keep what they remember in fairlru",
		"the writer knows no client API, so that each is one more renderer; and an API knows no other one, and no provider, plugin or connection",
		func(p *pkg, i imported) bool {
			allowed := []string{"sdk/abi", "proxy/internal/jsondoc", "proxy/internal/apierror", "proxy/internal/cost"}
			switch {
			case within(p.dir, "proxy/internal/response"):
			case within(p.dir, "proxy/internal/openai"), within(p.dir, "proxy/internal/messages"), within(p.dir, "proxy/internal/responses"), within(p.dir, "proxy/internal/calls"):
				allowed = append(allowed, "proxy/internal/response", "proxy/internal/thinking", "proxy/internal/clientapi", p.dir, p.dir+"/native")
			case within(p.dir, "proxy/internal/thinking"), within(p.dir, "proxy/internal/clientapi"):
				allowed = append(allowed, "proxy/internal/response")
			default:
				return false
			}
			if within(p.dir, "proxy/internal/thinking", "proxy/internal/responses") {
				allowed = append(allowed, "proxy/internal/fairlru")
			}
			return i.own && !slices.Contains(allowed, i.path)
		},
	},
	{
		"proxy/internal/downstream imports only proxy/internal/rescue and proxy/internal/tcpconn",
		"the connection does not know a request: it is given limits, and tells a Request about delivery",
		func(p *pkg, i imported) bool {
			return within(p.dir, "proxy/internal/downstream") && i.own && !slices.Contains([]string{"proxy/internal/rescue", "proxy/internal/tcpconn"}, i.path)
		},
	},
	{
		"proxy/internal/endpoint imports only apierror, clientapi and httpfield of proxy/internal",
		"what a head says is found in the head: it takes no configuration, no server and no plugin",
		func(p *pkg, i imported) bool {
			return within(p.dir, "proxy/internal/endpoint") && i.own && !slices.Contains([]string{"proxy/internal/apierror", "proxy/internal/clientapi", "proxy/internal/httpfield"}, i.path)
		},
	},
	{
		"proxy/internal/admission imports only proxy/config and, of proxy/internal, access, apierror, capacity, clientapi, framing, httpfield and telemetry",
		"who may come in is judged by a head alone, without knowing what would serve the request",
		func(p *pkg, i imported) bool {
			allowed := []string{"access", "apierror", "capacity", "clientapi", "framing", "httpfield", "telemetry"}
			return within(p.dir, "proxy/internal/admission") && i.own && i.path != "proxy/config" && !slices.Contains(allowed, strings.TrimPrefix(i.path, "proxy/internal/"))
		},
	},
	{
		"only proxy imports proxy/internal/failure",
		"what a failure means is said in one place, above the packages that find failures",
		func(p *pkg, i imported) bool {
			return i.own && within(i.path, "proxy/internal/failure") && p.dir != "proxy"
		},
	},
	{
		"a command imports proxy, its config, with the watch of files, plugindev, the plugins, the API of their examples, and what is its own",
		"a command only wires: what it needs more belongs to package proxy, for whoever embeds it, and to plugindev, for who writes plugins",
		func(p *pkg, i imported) bool {
			ofTheBench := within(p.dir, "cmd/bench") && within(i.path, "cmd/bench")
			return within(p.dir, "cmd") && i.own && !ofTheBench && !slices.Contains([]string{"proxy", "proxy/config", "proxy/config/watch", "proxy/plugindev", "proxy/plugindev/project", "plugins", "examples/plugins/upstream"}, i.path)
		},
	},
	{
		"nothing imports cmd but the bench its parts, and the plugins only what puts them together",
		"the gateway takes plugins as files, those that ship like all others; proxytest hands them to it as the command does",
		func(p *pkg, i imported) bool {
			return i.own && (within(i.path, "cmd") && !(within(p.dir, "cmd/bench") && within(i.path, "cmd/bench")) || within(i.path, "plugins") && !within(p.dir, "cmd") && !p.bundles(i) && !p.shares(i) && p.dir != "proxy/proxytest")
		},
	},
	{
		"only sdk/internal/host imports unsafe, and proxy/internal/plugin/engine for the memory of instances",
		"addresses are passed at the boundary of the sandbox only; all other code is memory-safe Go",
		func(p *pkg, i imported) bool {
			return i.path == "unsafe" && p.dir != "sdk/internal/host" && p.dir != "proxy/internal/plugin/engine"
		},
	},
	{
		"packages for tests are imported by tests only",
		"what fails a test has no place in a gateway",
		func(p *pkg, i imported) bool {
			return !p.forTests() && (i.path == "testing" || i.own && strings.HasSuffix(i.path, "test"))
		},
	},
}

func TestImports(t *testing.T) {
	used := make([]int, len(importRules))
	for _, p := range packages(t) {
		for _, i := range p.imports() {
			for n, r := range importRules {
				used[n]++
				if r.broken(p, i) {
					t.Errorf("%s: %s imports %s\nrule: %s\nwhy:  %s", i.at, p.dir, i.path, r.rule, r.why)
				}
			}
		}
	}
	if used[0] < 100 {
		t.Errorf("only %d imports were looked at", used[0])
	}
}

// TestImportRules shows each rule an import that breaks it and one that does not.
func TestImportRules(t *testing.T) {
	own := func(path string) imported { return imported{path: path, own: true} }
	other := func(path string) imported { return imported{path: path} }
	for n, c := range []struct {
		dir       string
		bad, good imported
	}{
		{"plugins/openai", other("encoding/json"), other("errors")},
		{"proxy/internal/openai", own("sdk/json"), own("sdk/abi")},
		{"proxy/internal/plugin", other("github.com/tetratelabs/wazero/api"), own("proxy/internal/plugin/engine")},
		{"proxy/internal/plugin/fuel", own("proxy/internal/plugin/goopt"), own("proxy/internal/plugin/compilecost")},
		{"proxy/internal/plugin/engine", own("proxy/internal/plugin/goopt"), own("proxy/internal/plugin/fuel")},
		{"proxy/internal/routing", other("github.com/valyala/fasthttp"), other("time")},
		{"proxy", other("github.com/redis/rueidis"), own("proxy/internal/spend/redisstore")},
		{"proxy/internal/routing/catalog", own("proxy/internal/plugin"), own("proxy/config")},
		{"proxy", other("github.com/pelletier/go-toml/v2"), own("proxy/config")},
		{"cmd/sluice", own("."), own("proxy/plugindev/project")},
		{"proxy/internal/jsondoc", own("proxy/internal/framing/sse"), own("sdk/abi")},
		{"proxy/internal/response", own("proxy/internal/openai"), own("proxy/internal/jsondoc")},
		{"proxy/internal/downstream", own("proxy/internal/response"), own("proxy/internal/rescue")},
		{"proxy/internal/endpoint", own("proxy/config"), own("proxy/internal/httpfield")},
		{"proxy/internal/admission", own("proxy/internal/routing"), own("proxy/internal/access")},
		{"proxy/internal/upstream", own("proxy/internal/failure"), own("proxy/internal/httpfield")},
		{"cmd/sluice", own("proxy/proxytest"), own("proxy/config")},
		{"proxy", own("plugins"), own("proxy/internal/routing")},
		{"sdk/json", other("unsafe"), other("math/bits")},
		{"proxy/internal/upstream", own("proxy/proxytest/upstreamtest"), other("net")},
	} {
		p, r := &pkg{dir: c.dir}, importRules[n]
		if !r.broken(p, c.bad) {
			t.Errorf("%s may import %s\nrule: %s", c.dir, c.bad.path, r.rule)
		}
		if r.broken(p, c.good) {
			t.Errorf("%s may not import %s\nrule: %s", c.dir, c.good.path, r.rule)
		}
	}
}

// TestPluginDependencies checks indirect imports: what a light package imports is in the module too.
func TestPluginDependencies(t *testing.T) {
	args := []string{"list", "-deps"}
	for _, p := range packages(t) {
		if p.guest() {
			args = append(args, "./"+p.dir)
		}
	}
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %v: %v\n%s", args, err, &stderr)
	}
	linked := strings.Fields(string(out))
	for _, path := range linked {
		// encoding/binary brings reflect, of which the linker keeps some 20 KB where Read and Write are not used.
		if within(path, heavy...) && path != "reflect" {
			t.Errorf("a plugin is linked with %s\nrule: not even through others\nwhy:  every instance of a plugin starts it and keeps its memory", path)
		}
	}
	if !slices.Contains(linked, module+"sdk/json") || !slices.Contains(linked, module+"plugins/anthropic") {
		t.Errorf("plugins are linked with %v", linked)
	}
}

// TestOnlyCommandsReadEnvironment checks that no package depends on anything that the configuration does not show.
func TestOnlyCommandsReadEnvironment(t *testing.T) {
	reads := map[string]bool{"Getenv": true, "LookupEnv": true, "Environ": true, "ExpandEnv": true}
	for _, p := range packages(t) {
		if within(p.dir, "cmd", "examples") || p.forTests() {
			continue
		}
		for _, f := range p.files {
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && reads[s.Sel.Name] {
					if x, ok := s.X.(*ast.Ident); ok && x.Name == "os" {
						t.Errorf("%s reads the environment\nrule: only commands do\nwhy:  what is configured is in one file, and a package can be used twice", p.fset.Position(s.Pos()))
					}
				}
				return true
			})
		}
	}
}

func TestPackageComments(t *testing.T) {
	for _, p := range packages(t) {
		want := "Package " + p.name + " "
		if p.name == "main" {
			want = "Command " + path.Base(p.dir) + " "
		}
		if !strings.HasPrefix(p.comment, want) {
			t.Errorf("%s: no file has a package comment that begins with %q\nwhy: it says what the package owns, what it does not, and who may call it from where", p.dir, want)
		}
	}
}

func TestPackageNames(t *testing.T) {
	vague := []string{"util", "utils", "common", "helper", "helpers", "manager", "base", "types", "misc", "shared", "lib"}
	for _, p := range packages(t) {
		if slices.Contains(vague, p.name) || slices.Contains(vague, path.Base(p.dir)) {
			t.Errorf("%s says nothing\nrule: a package is named by a noun that a user of it would say\nwhy:  what has no name has no limits", p.dir)
		}
	}
}

// TestSizeOfPackageProxy bounds what someone who embeds the gateway, or reads it for the first time, sees of package proxy.
func TestSizeOfPackageProxy(t *testing.T) {
	const maxEntries = 24
	entries, err := os.ReadDir("proxy")
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) > maxEntries {
		t.Errorf("proxy has %d entries\nrule: at most %d\nwhy:  its files are the steps of a request's way; everything else is in proxy/internal", len(entries), maxEntries)
	}
}

// TestMethodsAreTogether bounds the number of files that the methods of a central type are in.
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
				t.Errorf("methods of %s.%s are in %d files\nrule: at most %d\nwhy:  a type is read in one sitting", p.dir, name, len(files), maxFiles)
			}
		}
	}
	if found < 4 {
		t.Errorf("methods were found in %d files only: the list of types is out of date", found)
	}
}

// receiver returns the name of a method's type.
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

const maxLines = 600

var (
	unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME)\b`)
	somewhere  = regexp.MustCompile(`(?:/ro` + `ot|/wo` + `rk|/Us` + `ers/\w+|/ho` + `me/\w+)/|[A-Z]:\\Us` + `ers\\`)
)

// suspicious are parts of all that unfinished and somewhere match. To look for them takes a tenth of the time.
var suspicious = []string{"TO" + "DO", "FIX" + "ME", "/ro" + "ot/", "/wo" + "rk/", "/Us" + "ers/", "/ho" + "me/", `:\Us` + `ers\`}

// nobodys are homes that stand for anybody's.
var nobodys = []string{"/ho" + "me/me/", "/ho" + "me/user/"}

func TestFiles(t *testing.T) {
	files := 0
	err := eachFile(func(string) bool { return true }, func(name string, data []byte) error {
		if bytes.IndexByte(data[:min(len(data), 8<<10)], 0) >= 0 {
			return nil // no text
		}
		files++
		if lines := bytes.Count(data, []byte("\n")); strings.HasSuffix(name, ".go") && lines > maxLines {
			t.Errorf("%s has %d lines\nrule: no file has more than %d\nwhy:  a file is one topic, and is read in one sitting", name, lines, maxLines)
		}
		if !slices.ContainsFunc(suspicious, func(part string) bool { return bytes.Contains(data, []byte(part)) }) {
			return nil
		}
		for i, line := range bytes.Split(data, []byte("\n")) {
			if m := unfinished.Find(line); m != nil {
				t.Errorf("%s:%d: %s\nrule: what is to be done is an issue\nwhy:  a note in the code has no owner and no end", name, i+1, m)
			}
			if m := somewhere.Find(line); m != nil && !slices.Contains(nobodys, string(m)) {
				t.Errorf("%s:%d: %s\nrule: no file names a path of a machine\nwhy:  it is true there only", name, i+1, m)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 100 {
		t.Errorf("only %d files were looked at", files)
	}
}

// eachFile hands over the wanted files of the repository, of which what was built is none.
func eachFile(wanted func(name string) bool, f func(name string, data []byte) error) error {
	return filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		name = filepath.ToSlash(name)
		switch {
		case err != nil:
			return err
		case name == ".git" && !d.IsDir(): // the file of a worktree
			return nil
		case d.IsDir() && (name == ".git" || name == "bin" || d.Name() == "node_modules"):
			return fs.SkipDir
		case !d.Type().IsRegular(), path.Ext(name) == ".wasm", !wanted(name):
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return f(name, data)
	})
}

// packages returns every package of the repository, parsed once; what lies in testdata is none.
func packages(t *testing.T) []*pkg {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var parsed = sync.OnceValues(func() ([]*pkg, error) {
	fset := token.NewFileSet()
	found := map[string]*pkg{}
	err := eachFile(func(name string) bool {
		return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && !strings.Contains("/"+name, "/testdata/")
	}, func(name string, data []byte) error {
		f, err := parser.ParseFile(fset, name, data, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := path.Dir(name)
		p := found[dir]
		if p == nil {
			p = &pkg{dir: dir, name: f.Name.Name, fset: fset}
			found[dir] = p
		}
		if p.name != f.Name.Name {
			return fmt.Errorf("%s: package %s among files of package %s", name, f.Name.Name, p.name)
		}
		p.files = append(p.files, f)
		if f.Doc != nil {
			p.comment = f.Doc.Text()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var all []*pkg
	for _, p := range found {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *pkg) int { return strings.Compare(a.dir, b.dir) })
	if len(all) < 20 {
		return nil, fmt.Errorf("only %d packages were found", len(all))
	}
	return all, nil
})
