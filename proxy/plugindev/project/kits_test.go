//go:build languages

package project_test

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugindev"
	"github.com/sluice-gateway/sluice/proxy/plugindev/project"
)

// limits are the maximum sizes for each language, in bytes: of the module, and of an instance's memory after serving.
var limits = map[string]struct{ module, instance int64 }{
	"go": {2600 << 10, 4 << 20}, "rust": {40 << 10, 64 << 10}, "c": {8 << 10, 64 << 10}, "assemblyscript": {18 << 10, 64 << 10},
}

// TestKitsPassSharedVectors builds the examples in each language and runs the vectors of their kind.
func TestKitsPassSharedVectors(t *testing.T) {
	if testing.Short() {
		t.Skip("runs compilers")
	}
	for _, template := range templates(t) {
		t.Run(template.Language+"-"+template.Kind, func(t *testing.T) {
			p := newProject(t, template)
			a := build(t, p)
			suite, err := plugindev.OpenSuite(p.Vectors())
			if err != nil {
				t.Fatal(err)
			}
			h, module := newHost(t), plugindev.Module{Name: p.Name, Wasm: []byte(read(t, a.Path))}
			tested, err := suite.Test(t.Context(), h, module, plugindev.TestOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, vector := range tested {
				for _, f := range vector.Failures {
					t.Errorf("%s: %s: %s", vector.Name, f.Where, f.Text)
				}
			}
			marks, err := suite.Score(t.Context(), h, module)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range marks {
				if m.Broken != "" {
					t.Errorf("%s:\n%s", m.Rule, m.Broken)
				}
			}
			memory := memoryOf(t, h, module, suite)
			t.Logf("%d vectors; module %d bytes, built by %s; instance %d KiB", len(tested), a.Size, a.Compiler, memory>>10)
			if max := limits[template.Language]; int64(a.Size) > max.module || memory > max.instance {
				t.Errorf("module of %d bytes, want at most %d; instance of %d bytes, want at most %d", a.Size, max.module, memory, max.instance)
			}
		})
	}
}

// memoryOf returns the memory of an instance after it has served the suite's vectors.
func memoryOf(t *testing.T, h *plugindev.Host, m plugindev.Module, s *plugindev.Suite) int64 {
	t.Helper()
	plugin, err := h.Load(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	defer plugin.Close()
	// The router and the filter have a required setting.
	if _, err := plugin.Bind(t.Context(), plugindev.Use{}); !plugin.Provider() && (err == nil || !strings.Contains(err.Error(), " is missing: want ")) {
		t.Errorf("without settings: got error %v, want one about the missing setting", err)
	}
	b, err := plugin.Bind(t.Context(), s.Use)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		for _, v := range s.Vectors() {
			v.Run(b, true)
		}
	}
	return plugin.Memory()
}

// TestKitErrorsContainLine checks that errors of plugins contain their position in the source.
func TestKitErrorsContainLine(t *testing.T) {
	if testing.Short() {
		t.Skip("runs compilers")
	}
	for name, test := range map[string]struct {
		language, source, before string // code is inserted before the first line with a call of before
		code, want               string
	}{
		"panic in Rust":                {"rust", "plugin.rs", "host::request_path", `let none: Option<i32> = None; none.expect("no luck");`, "plugin.rs:%d: no luck"},
		"index in Rust":                {"rust", "plugin.rs", "host::request_path", `let n = summary.items("/flags").len(); let _ = [1, 2][n + 7];`, "plugin.rs:%d: index out of bounds: the len is 2 but the index is 7"},
		"rejected by the host in Rust": {"rust", "plugin.rs", "host::request_path", `host::request_path("/other").ok()?;`, "plugin.rs:%d: refused by the gateway"},
		"abort in C":                   {"c", "plugin.c", "sluice_request_path", `abort();`, "plugin.c:%d: abort"},
		"assertion in C":               {"c", "plugin.c", "sluice_request_path", `sluice_assert(summary.size == 1);`, "plugin.c:%d: assertion failed: summary.size == 1"},
		"rejected by the host in C":    {"c", "plugin.c", "sluice_request_path", `SLUICE_TRY(sluice_request_path(S("/other")));`, `plugin.c:%d: sluice_request_path(`},
		"assertion in AssemblyScript":  {"assemblyscript", "plugin.ts", "requestPath", `assert(summary.int("/attempt") == 7, "no luck");`, "no luck at plugin.ts:%d:"},
		"error in AssemblyScript":      {"assemblyscript", "plugin.ts", "requestPath", `if (summary.exists("")) throw new Error("no luck");`, "no luck at plugin.ts:%d:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, project.Template{Name: "mine", Language: test.language, Kind: "provider", Version: "v1"})
			file := filepath.Join(p.Dir, test.source)
			lines := strings.SplitAfter(read(t, file), "\n")
			at := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, test.before+"(") })
			write(t, file, strings.Join(slices.Insert(lines, at, test.code+"\n"), ""))
			a := build(t, p)
			suite, err := plugindev.OpenSuite(p.Vectors())
			if err != nil {
				t.Fatal(err)
			}
			plugin, err := newHost(t).Load(t.Context(), plugindev.Module{Name: p.Name, Wasm: []byte(read(t, a.Path))})
			if err != nil {
				t.Fatal(err)
			}
			defer plugin.Close()
			b, err := plugin.Bind(t.Context(), suite.Use)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(suite.Vectors(), func(v *plugindev.Vector) bool { return v.Name == "text" })
			r := suite.Vectors()[i].Run(b, false)
			if want := fmt.Sprintf(test.want, at+1); r.Err == nil || !strings.Contains(r.Err.Error(), want) {
				t.Errorf("got error %v\nwant %s", r.Err, want)
			}
			t.Log(r.Err)
		})
	}
}

// TestKitsHaveNoWarnings compiles kits and examples with all warnings as errors, and runs the tests of the Rust kit.
func TestKitsHaveNoWarnings(t *testing.T) {
	if testing.Short() {
		t.Skip("runs compilers")
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	run := func(t *testing.T, name string, args ...string) string {
		t.Helper()
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skip(name, " is not installed")
		}
		cmd := exec.CommandContext(t.Context(), path, args...)
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		if err != nil || name != "rustc" && len(bytes.TrimSpace(out)) > 0 {
			t.Errorf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	sources := func(pattern string) []string {
		files, _ := filepath.Glob(filepath.Join(root, "examples/plugins", pattern))
		if len(files) == 0 {
			t.Fatalf("no %s", pattern)
		}
		return files
	}
	t.Run("rust", func(t *testing.T) {
		dir := t.TempDir()
		kit, tests := filepath.Join(dir, "libsluice.rlib"), filepath.Join(dir, "tests")
		run(t, "rustc", "--edition", "2021", "--test", "-D", "warnings", "-o", tests, "sdk/rust/src/lib.rs")
		if out, err := exec.CommandContext(t.Context(), tests).CombinedOutput(); err != nil || !strings.Contains(string(out), "test result: ok") {
			t.Errorf("%v\n%s", err, out)
		}
		run(t, "rustc", "--edition", "2021", "--crate-type", "rlib", "--crate-name", "sluice", "-D", "warnings", "-o", kit, "sdk/rust/src/lib.rs")
		for _, file := range sources("rust-*/plugin.rs") {
			run(t, "rustc", "--edition", "2021", "--crate-type", "rlib", "-D", "warnings", "--extern", "sluice="+kit, "-o", filepath.Join(dir, "plugin.rlib"), file)
		}
	})
	t.Run("rustfmt", func(t *testing.T) {
		run(t, "rustfmt", "--check", "--edition", "2021", "--config-path", "sdk/rust/rustfmt.toml", "sdk/rust/src/lib.rs")
		run(t, "rustfmt", append([]string{"--check", "--edition", "2021"}, sources("rust-*/plugin.rs")...)...)
	})
	t.Run("c", func(t *testing.T) {
		for _, file := range append(sources("c-*/plugin.c"), "proxy/plugindev/project/testdata/functions/plugin.c") {
			run(t, "clang", "--target=wasm32", "-ffreestanding", "-fsyntax-only", "-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-I", "sdk/c", file)
		}
	})
}

// TestKitFunctions builds a provider in each language that reports what functions of its kit return: all kits must agree.
func TestKitFunctions(t *testing.T) {
	if testing.Short() {
		t.Skip("runs compilers")
	}
	contents := []struct {
		text string
		want string // the delay in milliseconds, and the finish reason
	}{
		{"20", "20000 0"}, {"48.9", "48900 0"}, {"250ms", "250 0"}, {"1m30.5s", "90500 0"}, {"Please try again in 2 Minutes.", "120000 0"},
		{"Retry after 1.0001 s", "1001 0"}, {"Rate limit: wait 3", "3000 0"}, {"1h 2 more", "3600000 0"}, {"99999d", "604800000 0"},
		{"x", "-1 0"}, {"0", "-1 0"}, {"-5", "-1 0"}, {"wait for it, wait 1s", "-1 0"},
		{"MAX_TOKENS", "-1 1"}, {"tool_use", "-1 2"}, {"Safety", "-1 3"}, {"max_tokens2", "-1 0"}, {"end_turn", "-1 0"},
	}
	request, want := `{"model":"m","temperature":0.125,"max_tokens":429,"messages":[`, fmt.Sprintf("%d 0 125 7", len(contents))
	for i, c := range contents {
		request += fmt.Sprintf(`{"role":"user","content":%q},`, c.text)
		want += "\\nuser " + c.want
		if i == len(contents)-1 {
			request = strings.TrimSuffix(request, ",") + "]}"
		}
	}
	for language, source := range map[string]string{"go": "plugin.go", "rust": "plugin.rs", "c": "plugin.c", "assemblyscript": "plugin.ts"} {
		t.Run(language, func(t *testing.T) {
			p := newProject(t, project.Template{Name: "mine", Language: language, Kind: "provider", Version: "v1"})
			write(t, filepath.Join(p.Dir, source), read(t, "testdata/functions", source))
			a := build(t, p)
			plugin, err := newHost(t).Load(t.Context(), plugindev.Module{Name: p.Name, Wasm: []byte(read(t, a.Path))})
			if err != nil {
				t.Fatal(err)
			}
			defer plugin.Close()
			b, err := plugin.Bind(t.Context(), plugindev.Use{})
			if err != nil {
				t.Fatal(err)
			}
			v := plugindev.Vector{Target: "m", Request: []byte(request)}
			if r := v.Run(b, false); r.Err != nil || !strings.Contains(r.Response, `"content":"`+want+`"`) {
				t.Errorf("%v\n got %s\nwant %s", r.Err, r.Response, want)
			}
		})
	}
}

// TestKitForCWithLibc builds a plugin in C that uses the C library, and checks that its heap and the kit's do not
// overlap.
func TestKitForCWithLibc(t *testing.T) {
	if testing.Short() {
		t.Skip("runs compilers")
	}
	p := newProject(t, project.Template{Name: "mine", Language: "c", Kind: "provider", Version: "v1"})
	file, manifest := filepath.Join(p.Dir, "plugin.c"), filepath.Join(p.Dir, "plugin.toml")
	write(t, manifest, read(t, manifest)+"libc = true\n")
	source := strings.Replace(read(t, file), "#include \"sluice.h\"\n", "#include \"sluice.h\"\n#include <stdlib.h>\n#include <string.h>\n", 1)
	source = strings.Replace(source, "\tif (text.data)\n", `	char *copy = malloc(100000);
	if (!copy || text.size > 100000)
		abort();
	memset(copy, 'x', 100000);
	memcpy(copy, text.data ? text.data : "", text.size);
	bool same = !memcmp(copy, text.data ? text.data : "", text.size);
	free(copy);
	if (same && text.data)
`, 1)
	write(t, file, source)
	p, err := project.Load(p.Dir)
	if err != nil {
		t.Fatal(err)
	}
	a := build(t, p)
	suite, err := plugindev.OpenSuite(p.Vectors())
	if err != nil {
		t.Fatal(err)
	}
	tested, err := suite.Test(t.Context(), newHost(t), plugindev.Module{Name: p.Name, Wasm: []byte(read(t, a.Path))}, plugindev.TestOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, vector := range tested {
		for _, f := range vector.Failures {
			t.Errorf("%s: %s: %s", vector.Name, f.Where, f.Text)
		}
	}
	t.Logf("module of %d bytes", a.Size)
}

// TestKitBuildsAreReproducible builds each template in two folders.
func TestKitBuildsAreReproducible(t *testing.T) {
	if testing.Short() {
		t.Skip("runs compilers")
	}
	for _, template := range templates(t) {
		t.Run(template.Language+"-"+template.Kind, func(t *testing.T) {
			first, second := build(t, newProject(t, template)), build(t, newProject(t, template))
			if first.SHA256 != second.SHA256 || first.Size < 1000 || first.Compiler == "" {
				t.Errorf("got different or invalid modules:\n%+v\n%+v", first, second)
			}
			if strings.Contains(read(t, first.Path), filepath.Dir(first.Path)) {
				t.Errorf("%s contains its folder's name", first.Path)
			}
		})
	}
}
