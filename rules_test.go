// Package sluice_test checks the rules of the whole repository: which package may import which, and what files must not
// contain. Each failure states the rule and its reason.
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

// pkg is a package of the repository without its tests, with the files for all systems.
type pkg struct {
	dir     string // relative to the root, such as "proxy/internal/openai"
	name    string
	comment string
	files   []*ast.File
	fset    *token.FileSet
}

// imported is one import of a package.
type imported struct {
	path string // for packages of this module, relative to the root, such as "proxy/internal/openai"
	own  bool   // the import is a package of this module
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

// within reports whether a path is one of these folders or below one.
func within(at string, dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return at == dir || strings.HasPrefix(at, dir+"/") })
}

// forTests reports whether a package is a helper for tests, which its name shows.
func (p *pkg) forTests() bool { return strings.HasSuffix(p.dir, "test") }

// guest reports whether a package is a plugin or part of one: the bundled plugins, and the examples that use the SDK.
func (p *pkg) guest() bool {
	return within(p.dir, "plugins") && p.dir != "plugins" ||
		within(p.dir, "examples/plugins") && slices.ContainsFunc(p.imports(), func(i imported) bool { return i.own && within(i.path, "sdk") })
}

// isBundling reports whether plugins/all imports a bundled plugin.
func (p *pkg) isBundling(i imported) bool {
	return p.dir == "plugins/all" && i.own && within(i.path, "plugins") && i.path != "plugins"
}

// isSharing reports whether a bundled plugin imports the code that bundled plugins share.
func (p *pkg) isSharing(i imported) bool {
	return within(p.dir, "plugins") && i.own && i.path == "plugins/internal/translate"
}

// inGuests reports whether a package is compiled into plugins. sdk/native never is.
func (p *pkg) inGuests() bool {
	return p.guest() || within(p.dir, "sdk") && !p.forTests() && p.dir != "sdk/native"
}

// standard reports whether an import is a package of the standard library.
func standard(i imported) bool {
	first, _, _ := strings.Cut(i.path, "/")
	return !i.own && !strings.Contains(first, ".")
}

// heavy are the packages that plugins must not import, because they make modules larger and slower to start, or need
// something that the sandbox does not provide.
var heavy = []string{"fmt", "encoding/json", "reflect", "net", "os", "time", "log", "context", "syscall"}

// importRules are the import rules. broken reports whether an import violates the rule.
var importRules = []struct {
	rule, why string
	broken    func(p *pkg, i imported) bool
}{
	{
		"plugins and the SDK import only sdk, plugins/internal/translate (plugins only) and light packages of the standard library; plugins/all imports plugins",
		"anyone must be able to write a plugin with just the SDK, and every megabyte counts in each instance",
		func(p *pkg, i imported) bool {
			light := standard(i) && !within(i.path, heavy...)
			return p.inGuests() && !light && !p.isBundling(i) && !p.isSharing(i) && !(i.own && within(i.path, "sdk"))
		},
	},
	{
		"proxy imports only sdk/abi from sdk, and plugintest also sdk/native",
		"the host and the SDK share the contract and no code, so neither can depend on the other's implementation; plugintest runs plugins natively",
		func(p *pkg, i imported) bool {
			return within(p.dir, "proxy") && i.own && within(i.path, "sdk") && i.path != "sdk/abi" && !(p.dir == "proxy/plugintest" && i.path == "sdk/native")
		},
	},
	{
		"only proxy/internal/plugin/engine and test helpers import wazero",
		"the runtime can be replaced in one place, and every call into a guest is metered there",
		func(p *pkg, i imported) bool {
			return within(i.path, "github.com/tetratelabs/wazero") && p.dir != "proxy/internal/plugin/engine" && !p.forTests()
		},
	},
	{
		"in proxy/internal/plugin, wasm, pclntab and fairqueue import no package of this module, compilecost and goopt only wasm, and fuel only wasm and compilecost",
		"the sandbox can be audited by itself, independently of the optimiser",
		func(p *pkg, i imported) bool {
			const plugin = "proxy/internal/plugin/"
			switch p.dir {
			case plugin + "wasm", plugin + "pclntab", plugin + "fairqueue":
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
		"only proxy (for OptimizeModule), plugindev/project and testing/buildtest import proxy/internal/plugin/goopt",
		"modules are optimised when they are built, and run as they are, so a plugin's fuel does not depend on the gateway's version",
		func(p *pkg, i imported) bool {
			return i.own && within(i.path, "proxy/internal/plugin/goopt") && p.dir != "proxy" && p.dir != "proxy/plugindev/project" && p.dir != "proxy/internal/testing/buildtest"
		},
	},
	{
		"only proxy, proxy/internal/endpoint and proxy/internal/admission (for request heads), proxy/internal/upstream, proxy/internal/admin and cmd/bench/bare import fasthttp",
		"fasthttp reuses its values after a handler returns, so references to them must not spread; cmd/bench/bare is the reference of the benchmark",
		func(p *pkg, i imported) bool {
			return within(i.path, "github.com/valyala/fasthttp") && !slices.Contains([]string{"proxy", "proxy/internal/endpoint", "proxy/internal/admission", "proxy/internal/upstream", "proxy/internal/admin", "cmd/bench/bare"}, p.dir)
		},
	},
	{
		"only proxy/internal/spend/redisstore imports rueidis, and only proxy/internal/identity golang-jwt",
		"state shared between gateways is behind the interface spend.Store, which tests can replace; tokens are parsed strictly before they are verified",
		func(p *pkg, i imported) bool {
			return within(i.path, "github.com/redis/rueidis") && p.dir != "proxy/internal/spend/redisstore" ||
				within(i.path, "github.com/golang-jwt/jwt") && p.dir != "proxy/internal/identity"
		},
	},
	{
		"below proxy/internal/upstream, only configured imports proxy/config; below proxy/internal/routing, only policies, probe and catalog/listing import proxy/internal/plugin and proxy/internal/upstream",
		"upstream connections can be tested without a configuration, and routing decisions without plugins; these packages connect them",
		func(p *pkg, i imported) bool {
			const upstream, routing = "proxy/internal/upstream", "proxy/internal/routing"
			switch {
			case !i.own, within(p.dir, upstream+"/configured", routing+"/policies", routing+"/probe", routing+"/catalog/listing"):
				return false
			case within(p.dir, upstream):
				return within(i.path, "proxy/config")
			}
			return within(p.dir, routing) && (within(i.path, "proxy/internal/plugin") || within(i.path, upstream))
		},
	},
	{
		"only proxy/config and proxy/plugindev/project (for plugin.toml) import TOML",
		"a configuration is parsed once, into an immutable value",
		func(p *pkg, i imported) bool {
			return within(i.path, "github.com/pelletier/go-toml") && p.dir != "proxy/config" && p.dir != "proxy/plugindev/project"
		},
	},
	{
		"only proxy/config/importer imports YAML, and only commands import proxy/config/importer",
		"the gateway has one format of configuration; others are translated by hand, once",
		func(p *pkg, i imported) bool {
			return within(i.path, "go.yaml.in/yaml") && p.dir != "proxy/config/importer" || i.own && i.path == "proxy/config/importer" && !within(p.dir, "cmd")
		},
	},
	{
		"only proxy/plugindev/project imports the repository's root package",
		"it has no code, only the files of new plugins for one command",
		func(p *pkg, i imported) bool {
			return i.own && i.path == "." && p.dir != "proxy/plugindev/project"
		},
	},
	{
		"the leaves jsondoc, apierror, framing, breaker, buffers, glob, fairlru, httpfield, websocket and cost of proxy/internal import no sibling, except that framing imports httpfield",
		"basic packages for JSON, errors, framings and amounts can be read and tested by themselves",
		func(p *pkg, i imported) bool {
			for _, leaf := range []string{"jsondoc", "apierror", "framing", "breaker", "buffers", "glob", "fairlru", "httpfield", "websocket", "cost"} {
				dir := "proxy/internal/" + leaf
				if within(p.dir, dir) && i.own && i.path != "sdk/abi" && !within(i.path, dir) && !(leaf == "framing" && i.path == "proxy/internal/httpfield") {
					return true
				}
			}
			return false
		},
	},
	{
		"in proxy/internal/oci, oci imports no package of this module, distribution only oci and upstream, and pull only oci and distribution",
		"what a registry sends is parsed without network and files, and pulling needs neither a configuration nor plugins",
		func(p *pkg, i imported) bool {
			const oci = "proxy/internal/oci"
			allowed := map[string][]string{
				oci: nil, oci + "/distribution": {oci, "proxy/internal/upstream", "proxy/internal/upstream/credential"}, oci + "/pull": {oci, oci + "/distribution"},
			}
			return within(p.dir, oci) && i.own && !slices.Contains(allowed[p.dir], i.path)
		},
	},
	{
		"proxy/internal/response imports only jsondoc, apierror and cost; thinking and clientapi import only these and response; client APIs and clientapi/chatwriter import only these, thinking and clientapi; thinking and responses also import fairlru",
		"the response writer is independent of client APIs, and a client API is independent of other APIs, providers, plugins and connections",
		func(p *pkg, i imported) bool {
			allowed := []string{"sdk/abi", "proxy/internal/jsondoc", "proxy/internal/apierror", "proxy/internal/cost"}
			switch {
			case within(p.dir, "proxy/internal/response"):
			case within(p.dir, "proxy/internal/openai"), within(p.dir, "proxy/internal/messages"), within(p.dir, "proxy/internal/responses"), within(p.dir, "proxy/internal/gemini"),
				within(p.dir, "proxy/internal/calls"), within(p.dir, "proxy/internal/clientapi/chatwriter"):
				allowed = append(allowed, "proxy/internal/response", "proxy/internal/thinking", "proxy/internal/clientapi", "proxy/internal/clientapi/chatwriter", p.dir, p.dir+"/native")
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
		"downstream connections are independent of requests: they are given limits, and report delivery to an interface",
		func(p *pkg, i imported) bool {
			return within(p.dir, "proxy/internal/downstream") && i.own && !slices.Contains([]string{"proxy/internal/rescue", "proxy/internal/tcpconn"}, i.path)
		},
	},
	{
		"proxy/internal/endpoint imports only proxy/internal/apierror, clientapi, httpfield and websocket",
		"reading a request head needs no configuration, server or plugin",
		func(p *pkg, i imported) bool {
			return within(p.dir, "proxy/internal/endpoint") && i.own && !slices.Contains([]string{"proxy/internal/apierror", "proxy/internal/clientapi", "proxy/internal/httpfield", "proxy/internal/websocket"}, i.path)
		},
	},
	{
		"proxy/internal/admission imports only proxy/config and proxy/internal/access, apierror, capacity, clientapi, framing, httpfield and telemetry",
		"admission depends on the request head only, and not on how the request would be served",
		func(p *pkg, i imported) bool {
			allowed := []string{"access", "apierror", "capacity", "clientapi", "framing", "httpfield", "telemetry"}
			return within(p.dir, "proxy/internal/admission") && i.own && i.path != "proxy/config" && !slices.Contains(allowed, strings.TrimPrefix(i.path, "proxy/internal/"))
		},
	},
	{
		"only proxy and proxy/internal/exchange import proxy/internal/holds, which imports only access, admission, apierror, booking, clientapi, estimate, routing, routing/catalog and spend of proxy/internal",
		"what a request holds depends on the request and its targets, and not on how it is served",
		func(p *pkg, i imported) bool {
			allowed := []string{"access", "admission", "apierror", "booking", "clientapi", "estimate", "routing", "routing/catalog", "spend"}
			if i.own && i.path == "proxy/internal/holds" {
				return p.dir != "proxy" && p.dir != "proxy/internal/exchange"
			}
			return p.dir == "proxy/internal/holds" && i.own && !slices.Contains(allowed, strings.TrimPrefix(i.path, "proxy/internal/"))
		},
	},
	{
		"only proxy imports proxy/internal/exchange, which imports none of accounting, admin, budgets, delivery, downstream, journal, responsesocket, routing/policies and websocket of proxy/internal",
		"an attempt depends neither on who waits for its response, nor on how that is delivered and booked",
		func(p *pkg, i imported) bool {
			if i.own && i.path == "proxy/internal/exchange" {
				return p.dir != "proxy"
			}
			denied := []string{"accounting", "admin", "budgets", "delivery", "downstream", "journal", "responsesocket", "routing/policies", "websocket"}
			return p.dir == "proxy/internal/exchange" && i.own && slices.Contains(denied, strings.TrimPrefix(i.path, "proxy/internal/"))
		},
	},
	{
		"only proxy imports proxy/internal/delivery, which imports only apierror, chunked, downstream, failure and telemetry of proxy/internal",
		"what a client receives does not depend on where it comes from",
		func(p *pkg, i imported) bool {
			allowed := []string{"apierror", "chunked", "downstream", "failure", "telemetry"}
			if i.own && i.path == "proxy/internal/delivery" {
				return p.dir != "proxy"
			}
			return p.dir == "proxy/internal/delivery" && i.own && !slices.Contains(allowed, strings.TrimPrefix(i.path, "proxy/internal/"))
		},
	},
	{
		"only proxy, proxy/internal/exchange and proxy/internal/delivery import proxy/internal/failure",
		"failures are classified in one place, above the packages in which they occur",
		func(p *pkg, i imported) bool {
			return i.own && within(i.path, "proxy/internal/failure") && !slices.Contains([]string{"proxy", "proxy/internal/exchange", "proxy/internal/delivery"}, p.dir)
		},
	},
	{
		"commands import only proxy, proxy/config, proxy/config/fleet, proxy/config/importer, proxy/config/watch, proxy/plugindev, proxy/plugindev/project, plugins, examples/plugins/upstream and their own subpackages",
		"a command only connects packages: all else belongs in package proxy, for programs that embed the gateway, or in plugindev, for authors of plugins",
		func(p *pkg, i imported) bool {
			inBench := within(p.dir, "cmd/bench") && within(i.path, "cmd/bench")
			return within(p.dir, "cmd") && i.own && !inBench && !slices.Contains([]string{"proxy", "proxy/config", "proxy/config/fleet", "proxy/config/importer", "proxy/config/watch", "proxy/plugindev", "proxy/plugindev/project", "plugins", "examples/plugins/upstream"}, i.path)
		},
	},
	{
		"only cmd/bench imports packages of cmd, its own; only commands, proxytest and plugins/all import plugins",
		"the gateway takes all plugins as files, the bundled ones too; commands and proxytest pass them",
		func(p *pkg, i imported) bool {
			return i.own && (within(i.path, "cmd") && !(within(p.dir, "cmd/bench") && within(i.path, "cmd/bench")) || within(i.path, "plugins") && !within(p.dir, "cmd") && !p.isBundling(i) && !p.isSharing(i) && p.dir != "proxy/proxytest")
		},
	},
	{
		"only sdk/internal/host and proxy/internal/plugin/engine (for the memory of instances) import unsafe",
		"addresses are only passed at the boundary of the sandbox; all other code is memory-safe Go",
		func(p *pkg, i imported) bool {
			return i.path == "unsafe" && p.dir != "sdk/internal/host" && p.dir != "proxy/internal/plugin/engine"
		},
	},
	{
		"only tests and test helpers import testing and test helpers",
		"code that fails tests must not be linked into the gateway",
		func(p *pkg, i imported) bool {
			return !p.forTests() && (i.path == "testing" || i.own && strings.HasSuffix(i.path, "test"))
		},
	},
}

func TestImports(t *testing.T) {
	checked := 0
	for _, p := range packages(t) {
		for _, i := range p.imports() {
			checked++
			for _, r := range importRules {
				if r.broken(p, i) {
					t.Errorf("%s: %s imports %s\nrule: %s\nwhy:  %s", i.at, p.dir, i.path, r.rule, r.why)
				}
			}
		}
	}
	if checked < 100 {
		t.Errorf("checked only %d imports, want at least 100", checked)
	}
}

// TestImportRules tests each rule with an import that violates it and one that does not.
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
		{"proxy/config", other("go.yaml.in/yaml/v4"), other("github.com/pelletier/go-toml/v2")},
		{"cmd/sluice", own("."), own("proxy/plugindev/project")},
		{"proxy/internal/jsondoc", own("proxy/internal/framing/sse"), own("sdk/abi")},
		{"proxy/internal/oci/distribution", own("proxy/config"), own("proxy/internal/upstream")},
		{"proxy/internal/response", own("proxy/internal/openai"), own("proxy/internal/jsondoc")},
		{"proxy/internal/downstream", own("proxy/internal/response"), own("proxy/internal/rescue")},
		{"proxy/internal/endpoint", own("proxy/config"), own("proxy/internal/httpfield")},
		{"proxy/internal/admission", own("proxy/internal/routing"), own("proxy/internal/access")},
		{"proxy/internal/holds", own("proxy/internal/upstream"), own("proxy/internal/spend")},
		{"proxy/internal/exchange", own("proxy/internal/downstream"), own("proxy/internal/upstream")},
		{"proxy/internal/delivery", own("proxy/internal/exchange"), own("proxy/internal/downstream")},
		{"proxy/internal/upstream", own("proxy/internal/failure"), own("proxy/internal/httpfield")},
		{"cmd/sluice", own("proxy/proxytest"), own("proxy/config")},
		{"proxy", own("plugins"), own("proxy/internal/routing")},
		{"sdk/json", other("unsafe"), other("math/bits")},
		{"proxy/internal/upstream", own("proxy/proxytest/upstreamtest"), other("net")},
	} {
		p, r := &pkg{dir: c.dir}, importRules[n]
		if !r.broken(p, c.bad) {
			t.Errorf("accepted %s importing %s\nrule: %s", c.dir, c.bad.path, r.rule)
		}
		if r.broken(p, c.good) {
			t.Errorf("rejected %s importing %s\nrule: %s", c.dir, c.good.path, r.rule)
		}
	}
}

// TestPluginDependencies checks indirect imports, because the packages that light packages import are in the module
// too.
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
		// encoding/binary imports reflect. The linker keeps only about 20 KB of it unless Read and Write are used.
		if within(path, heavy...) && path != "reflect" {
			t.Errorf("a plugin is linked with %s\nrule: plugins do not import it, not even indirectly\nwhy:  every instance of a plugin initialises it and keeps its memory", path)
		}
	}
	if !slices.Contains(linked, module+"sdk/json") || !slices.Contains(linked, module+"plugins/anthropic") {
		t.Errorf("go list printed %v, want it to include sdk/json and plugins/anthropic", linked)
	}
}

// TestOnlyCommandsReadEnvironment checks that packages get all settings from the configuration.
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
						t.Errorf("%s reads the environment\nrule: only commands do\nwhy:  all settings are in one file, and a process can use a package with several configurations", p.fset.Position(s.Pos()))
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
			t.Errorf("%s: no file has a package comment that starts with %q\nwhy: it describes what the package is for, and how it may be used concurrently", p.dir, want)
		}
	}
}

func TestPackageNames(t *testing.T) {
	vague := []string{"util", "utils", "common", "helper", "helpers", "manager", "base", "types", "misc", "shared", "lib"}
	for _, p := range packages(t) {
		if slices.Contains(vague, p.name) || slices.Contains(vague, path.Base(p.dir)) {
			t.Errorf("%s has a vague name\nrule: a package's name is a noun for its purpose\nwhy:  a package with a vague name attracts unrelated code", p.dir)
		}
	}
}

// TestSizeOfPackageProxy limits the number of files and folders in package proxy, where a reader starts.
func TestSizeOfPackageProxy(t *testing.T) {
	const maxEntries = 24
	entries, err := os.ReadDir("proxy")
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) > maxEntries {
		t.Errorf("proxy has %d entries\nrule: at most %d\nwhy:  its files are the steps in which a request is served; everything else is in proxy/internal", len(entries), maxEntries)
	}
}

const maxLines = 600

// The patterns are split so that this file does not match them.
var (
	toDo        = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME)\b`)
	machinePath = regexp.MustCompile(`(?:/ro` + `ot|/wo` + `rk|/Us` + `ers/\w+|/ho` + `me/\w+)/|[A-Z]:\\Us` + `ers\\`)
)

// literals has a substring of everything that toDo and machinePath match. Searching for these first takes a tenth of
// the time.
var literals = []string{"TO" + "DO", "FIX" + "ME", "/ro" + "ot/", "/wo" + "rk/", "/Us" + "ers/", "/ho" + "me/", `:\Us` + `ers\`}

// exampleHomes are home directories that may be used in examples.
var exampleHomes = []string{"/ho" + "me/me/", "/ho" + "me/user/"}

func TestFiles(t *testing.T) {
	files := 0
	err := eachFile(func(string) bool { return true }, func(name string, data []byte) error {
		if bytes.IndexByte(data[:min(len(data), 8<<10)], 0) >= 0 {
			return nil // not text
		}
		files++
		if lines := bytes.Count(data, []byte("\n")); strings.HasSuffix(name, ".go") && lines > maxLines {
			t.Errorf("%s has %d lines\nrule: at most %d\nwhy:  a file has one topic, and is short enough to read as a whole", name, lines, maxLines)
		}
		if !slices.ContainsFunc(literals, func(s string) bool { return bytes.Contains(data, []byte(s)) }) {
			return nil
		}
		for i, line := range bytes.Split(data, []byte("\n")) {
			if m := toDo.Find(line); m != nil {
				t.Errorf("%s:%d: %s\nrule: open work is an issue\nwhy:  a note in the code is easily forgotten", name, i+1, m)
			}
			if m := machinePath.Find(line); m != nil && !slices.Contains(exampleHomes, string(m)) {
				t.Errorf("%s:%d: %s\nrule: files contain no paths of a machine\nwhy:  they do not exist on other machines", name, i+1, m)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 100 {
		t.Errorf("checked only %d files, want at least 100", files)
	}
}

// eachFile calls f for each wanted file of the repository, except for build results.
func eachFile(wanted func(name string) bool, f func(name string, data []byte) error) error {
	return filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		name = filepath.ToSlash(name)
		switch {
		case err != nil:
			return err
		case name == ".git" && !d.IsDir(): // in a worktree, .git is a file
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

// packages returns every package of the repository outside of testdata.
func packages(t *testing.T) []*pkg {
	t.Helper()
	all, err := parsePackages()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// parsePackages parses the packages once.
var parsePackages = sync.OnceValues(func() ([]*pkg, error) {
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
			return fmt.Errorf("%s: got package %s, the folder's other files have package %s", name, f.Name.Name, p.name)
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
		return nil, fmt.Errorf("found only %d packages, want at least 20", len(all))
	}
	return all, nil
})
