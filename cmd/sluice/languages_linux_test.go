//go:build languages

package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/plugindev/project"
)

// maxProviderLines limits the source of the provider that `sluice plugin new` writes.
const maxProviderLines = 60

// sources are the files with the plugins of new folders.
var sources = map[string]string{"go": "plugin.go", "rust": "plugin.rs", "c": "plugin.c", "assemblyscript": "plugin.ts"}

// TestPluginInEachLanguage takes an author's first steps, in an empty folder outside of the repository: write a plugin,
// build it, run its vectors, check it, serve a gateway with it and send a request through it. Every step before the
// gateway runs without a network if the system allows that. `make test-plugins` runs the test. A language without its
// compiler is skipped, or fails if $COMPILERS is "required".
func TestPluginInEachLanguage(t *testing.T) {
	gocache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	vars := []string{"PATH=" + os.Getenv("PATH"), "GOCACHE=" + strings.TrimSpace(string(gocache)), "npm_config_offline=true"}
	buildSluice(t, true)
	for _, language := range project.Languages {
		for _, kind := range project.Kinds {
			t.Run(language+"/"+kind, func(t *testing.T) { testNewPlugin(t, language, kind, vars) })
		}
	}
}

func testNewPlugin(t *testing.T, language, kind string, vars []string) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "x")
	var times strings.Builder
	timed := func(name string, began time.Time) {
		fmt.Fprintf(&times, "  %s %.1fs", name, time.Since(began).Seconds())
	}
	step := func(dir string, args ...string) {
		t.Helper()
		began := time.Now()
		got := runOffline(t, buildSluice(t, true), dir, vars, append([]string{"plugin"}, args...))
		timed(args[0], began)
		switch {
		case got.exit == 0:
		case strings.Contains(got.stderr, "is not installed\n") && os.Getenv("COMPILERS") != "required":
			t.Skipf("%s", got.stderr)
		default:
			t.Fatalf("sluice plugin %s: exit %d\n%s%s", strings.Join(args, " "), got.exit, got.stdout, got.stderr)
		}
	}
	step(parent, "new", "x", "--language", language, "--kind", kind)
	step(dir, "build")
	step(dir, "test")
	step(dir, "check")

	began := time.Now()
	upstream := launch(t, exec.Command(buildSluice(t, true), "plugin", "upstream", "--listen", "127.0.0.1:0"), dir, nil)
	_, rest, _ := strings.Cut(upstream.await("Serving http://"), "http://")
	address, _, _ := strings.Cut(rest, "/say")
	gateway := start(t, dir, []string{"UPSTREAM_URL=http://" + address}, "serve", "--dev", "--listen", "127.0.0.1:0")
	base := gateway.ready()
	timed("serve", began)

	began = time.Now()
	model := map[string]string{"provider": "x", "router": "auto", "filter": "x"}[kind]
	want := map[string]string{"provider": `"content":"Good morning"`, "router": `"model":"small-context"`, "filter": "The *** is out"}[kind]
	prompt := map[string]string{"provider": "Good morning", "router": "Good morning", "filter": "The secret is out"}[kind]
	request := func(members string) string {
		status, body, err := complete(t, newClient(t), base, "sk-local", fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}]%s}`, model, prompt, members))
		if err != nil || status != http.StatusOK {
			t.Fatalf("%d %s, %v", status, body, err)
		}
		return body
	}
	if body := request(""); !strings.Contains(body, want) {
		t.Errorf("the response lacks %s: %s", want, body)
	}
	if body := request(`,"stream":true`); !strings.HasSuffix(body, "data: [DONE]\n\n") {
		t.Errorf("the stream is not complete: %s", body)
	}
	timed("two requests", began)
	t.Logf("%s %s:%s", language, kind, &times)

	text, err := os.ReadFile(filepath.Join(dir, sources[language]))
	if lines := strings.Count(string(text), "\n"); err != nil || kind == "provider" && lines > maxProviderLines {
		t.Errorf("%s has %d lines, want at most %d; %v", sources[language], lines, maxProviderLines, err)
	}
}

// TestPluginTestWatchBuilds edits a plugin while `sluice plugin test --watch` runs: first to source that does not
// compile, then to a plugin with other results, and finally the want.txt to match them.
func TestPluginTestWatchBuilds(t *testing.T) {
	vars := []string{"PATH=" + os.Getenv("PATH")}
	parent := t.TempDir()
	dir := filepath.Join(parent, "x")
	if got := run(t, buildSluice(t, true), parent, vars, []string{"plugin", "new", "x", "--language", "c"}); got.exit != 0 {
		t.Fatal(got.stderr)
	}
	if got := run(t, buildSluice(t, true), dir, vars, []string{"plugin", "build"}); strings.Contains(got.stderr, "is not installed\n") && os.Getenv("COMPILERS") != "required" {
		t.Skip(got.stderr)
	}
	if err := os.Remove(filepath.Join(dir, "plugin.wasm")); err != nil {
		t.Fatal(err)
	}
	p := launch(t, exec.Command("sh", "-c", `exec "$0" "$@" 1>&2`, buildSluice(t, true), "plugin", "test", ".", "--watch"), dir, vars)
	p.await("plugin.wasm: ")
	p.await(" vectors passed")

	file := filepath.Join(dir, "plugin.c")
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	replaceFile(t, file, string(source)+"broken\n")
	p.await("plugin.c:")
	p.await("sluice: build x: ")

	replaceFile(t, file, strings.ReplaceAll(string(source), `S("turns")`, `S("talk")`))
	p.await("plugin.wasm: ")
	p.await("differs from ")
	p.await(" failed")

	// A changed vector is run without a build.
	vectors, err := filepath.Glob(filepath.Join(dir, "testdata/vectors/*/want.txt"))
	if err != nil || len(vectors) == 0 {
		t.Fatal(err)
	}
	built := strings.Count(strings.Join(p.seen, "\n"), "plugin.wasm: ")
	replaceFile(t, vectors[0], "nothing")
	p.await(" failed")
	if n := strings.Count(strings.Join(p.seen, "\n"), "plugin.wasm: "); n != built {
		t.Errorf("built %d times, want %d", n, built)
	}

	replaceFile(t, file, string(source)+"\n")
	if err := os.Remove(vectors[0]); err != nil {
		t.Fatal(err)
	}
	p.await("plugin.wasm: ")
	p.await("1 of ")
	p.signal(os.Interrupt)
	if exit := p.wait(); exit != 0 {
		t.Errorf("exit %d", exit)
	}
}
