package project_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugindev/project"
)

func write(tb testing.TB, path, text string) {
	tb.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
}

func read(tb testing.TB, path ...string) string {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

// newProject creates the folder of a plugin and loads it.
func newProject(tb testing.TB, t project.Template) *project.Project {
	tb.Helper()
	dir := filepath.Join(tb.TempDir(), t.Name)
	if err := project.New(dir, t); err != nil {
		tb.Fatal(err)
	}
	p, err := project.Load(dir)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

var goProvider = project.Template{Name: "mine", Language: "go", Kind: "provider", Version: "v1"}

// templates returns all templates in the repository.
func templates(tb testing.TB) (list []project.Template) {
	tb.Helper()
	for _, language := range project.Languages {
		for _, kind := range project.Kinds {
			if _, err := os.Stat(filepath.Join("../../../examples/plugins", language+"-"+kind)); err == nil {
				list = append(list, project.Template{Name: "mine", Language: language, Kind: kind, Version: "v1"})
			}
		}
	}
	if len(list) < 2 {
		tb.Fatalf("got %d templates, want at least 2", len(list))
	}
	return list
}

// TestNewFolderIsSelfContained checks that a new folder contains neither the example's name nor paths in the
// repository, and that its links work.
func TestNewFolderIsSelfContained(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#]+)\)`)
	for _, template := range templates(t) {
		t.Run(template.Language+"-"+template.Kind, func(t *testing.T) {
			p := newProject(t, template)
			if p.Name != "mine" || p.Language != template.Language || p.Kind != template.Kind || p.Vectors() != filepath.Join(p.Dir, "testdata/vectors") {
				t.Errorf("got project %+v, want plugin mine in %s of kind %s", p, template.Language, template.Kind)
			}
			err := filepath.WalkDir(p.Dir, func(path string, d fs.DirEntry, err error) error {
				name, _ := filepath.Rel(p.Dir, path)
				if err != nil || d.IsDir() || strings.HasPrefix(name, "sdk/") {
					return err
				}
				text := read(t, path)
				for _, s := range []string{"../", template.Language + "-" + template.Kind, "examples/"} {
					if strings.Contains(text, s) {
						t.Errorf("%s contains %q", name, s)
					}
				}
				if filepath.Ext(name) != ".md" {
					return nil
				}
				for _, m := range link.FindAllStringSubmatch(text, -1) {
					if _, err := os.Stat(filepath.Join(p.Dir, m[1])); err != nil && !strings.HasPrefix(m[1], "https://") {
						t.Errorf("%s: broken link: %v", name, err)
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"README.md", "gateway.toml", "plugin.toml", "sdk/KIT", "sdk/LICENSE", "sdk/abi/README.md", "sdk/abi/sluice.wit"} {
				read(t, p.Dir, name)
			}
		})
	}
}

// TestKitsAreComplete checks that each file of sdk in the repository belongs to a kit.
func TestKitsAreComplete(t *testing.T) {
	const sdk = "../../../sdk"
	kits := map[string]string{}
	for _, template := range templates(t) {
		if template.Kind == "provider" {
			kits[template.Language] = newProject(t, template).Dir
		}
	}
	err := filepath.WalkDir(sdk, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(sdk, path)
		switch {
		case d.IsDir() && (d.Name() == "testdata" || name == "internal/kit" || strings.HasPrefix(d.Name(), ".") && name != "."):
			return fs.SkipDir
		case d.IsDir() || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(d.Name(), ".") || d.Name() == "rustfmt.toml":
			return nil
		}
		language, _, _ := strings.Cut(name, "/")
		if !slices.Contains(project.Languages, language) {
			language = "go"
		}
		if dir, ok := kits[language]; ok {
			if _, err := os.Stat(filepath.Join(dir, "sdk", name)); err != nil {
				t.Errorf("the kit for %s lacks %s", language, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestNewRejectsInvalidArguments(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "full", "notes.txt"), "mine")
	write(t, filepath.Join(dir, "file"), "mine")
	for name, test := range map[string]struct {
		dir      string
		template project.Template
		want     string
	}{
		"folder that is not empty": {"full", goProvider, "full exists and is not empty: choose another name, or another folder with --dir"},
		"file":                     {"file", goProvider, "file: not a directory"},
		"path as a name":           {"x", project.Template{Name: "../x", Language: "go", Kind: "provider"}, `invalid name "../x": want 1 to 64 letters, digits, '_' or '-', beginning with a letter or digit`},
		"unknown language":         {"x", project.Template{Name: "x", Language: "zig", Kind: "provider"}, `invalid language "zig": want go, rust, c or assemblyscript`},
		"unknown kind":             {"x", project.Template{Name: "x", Language: "go", Kind: "cache"}, `invalid kind "cache": want provider, router or filter`},
	} {
		t.Run(name, func(t *testing.T) {
			err := project.New(filepath.Join(dir, test.dir), test.template)
			if err == nil || !strings.HasSuffix(err.Error(), test.want) {
				t.Errorf("error %v, want %s", err, test.want)
			}
			if _, err := os.Stat(filepath.Join(dir, "x")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the folder was created, Stat returned %v", err)
			}
		})
	}
	if err := project.New(filepath.Join(dir, "empty"), goProvider); err != nil {
		t.Error(err)
	}
}

func TestManifestErrors(t *testing.T) {
	const valid = "name = \"mine\"\nlanguage = \"c\"\n"
	for _, test := range []struct{ toml, want string }{
		{valid + "libc = true\nvectors = \"other\"\n", ""},
		{valid + "langauge = \"go\"\n", "plugin.toml:3: unknown key langauge"},
		{valid + "vectors = 1\n", "plugin.toml:3: "},
		{valid + "kind = [\n", "plugin.toml:3: "},
		{"name = \"mine\"\n", `plugin.toml: invalid language "": want go, rust, c or assemblyscript`},
		{"language = \"c\"\n", `plugin.toml: invalid name ""`},
		{"name = \"mine\"\nlanguage = \"go\"\nlibc = true\n", "plugin.toml: libc is only for plugins in C, not in go"},
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, project.ManifestFile), test.toml)
		_, err := project.Load(dir)
		if test.want == "" && err == nil {
			continue
		}
		if err == nil || test.want == "" || !strings.HasPrefix(err.Error(), filepath.Join(dir, test.want)) {
			t.Errorf("%s: error %v, want %s", test.toml, err, test.want)
		}
	}
	if _, err := project.Load(t.TempDir()); err == nil || !strings.HasSuffix(err.Error(), "plugin.toml does not exist: want the folder of a plugin, as `sluice plugin new` writes it") {
		t.Errorf("folder without plugin.toml: %v", err)
	}
}

func FuzzManifest(f *testing.F) {
	f.Add("name = \"mine\"\nlanguage = \"go\"\nkind = \"router\"\n")
	f.Add("name = 1\n[sdk]\nx = inf\n")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		write(t, filepath.Join(dir, project.ManifestFile), text)
		p, err := project.Load(dir)
		if err == nil && (p.Name == "" || !slices.Contains(project.Languages, p.Language)) {
			t.Errorf("got invalid project %+v without an error", p)
		}
	})
}

func TestUpgradeReplacesKit(t *testing.T) {
	p := newProject(t, goProvider)
	sdk := filepath.Join(p.Dir, "sdk")
	want := read(t, sdk, "doc.go")
	// A kit of an earlier version, with one file that differs and one that the current kit lacks.
	sums := strings.Replace(read(t, sdk, "KIT"), "sluice v1", "sluice v0", 1)
	sums = regexp.MustCompile(`(?m)^[0-9a-f]{64}  doc\.go$`).ReplaceAllString(sums,
		"2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae  doc.go\nfcde2b2edba56bf408601fb721fe9b5c338d10ee429ea04fae5511b68fbf8fb9  gone.go")
	write(t, filepath.Join(sdk, "KIT"), sums)
	write(t, filepath.Join(sdk, "doc.go"), "foo")
	write(t, filepath.Join(sdk, "gone.go"), "bar")
	write(t, filepath.Join(sdk, "mine.txt"), "mine")

	from, to, err := p.Upgrade("v2", false)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(from, "the kit of sluice v0, plugin ABI 1.") || !strings.HasPrefix(to, "the kit of sluice v2, plugin ABI 1.") {
		t.Errorf("got upgrade from %q to %q, want from v0 to v2", from, to)
	}
	if read(t, sdk, "doc.go") != want || read(t, sdk, "mine.txt") != "mine" || !strings.Contains(read(t, sdk, "KIT"), "sluice v2") {
		t.Error("the kit was not replaced")
	}
	if _, err := os.Stat(filepath.Join(sdk, "gone.go")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("gone.go was not removed, Stat returned %v", err)
	}
	if from, to, err = p.Upgrade("v2", false); err != nil || from != to {
		t.Errorf("second upgrade: from %q to %q, error %v", from, to, err)
	}
}

func TestUpgradeKeepsChanges(t *testing.T) {
	p := newProject(t, goProvider)
	changed := filepath.Join(p.Dir, "sdk", "json", "doc.go")
	write(t, changed, "package json // mine")
	write(t, filepath.Join(p.Dir, "sdk", "log.go"), "package sdk // mine")
	_, _, err := p.Upgrade("v2", false)
	want := filepath.Join(p.Dir, "sdk") + " was changed: json/doc.go, log.go; keep your own code outside of it, or overwrite the changes with --force"
	if err == nil || err.Error() != want || read(t, changed) != "package json // mine" || !strings.Contains(read(t, p.Dir, "sdk/KIT"), "sluice v1") {
		t.Fatalf("got error %v\nwant      %s", err, want)
	}
	if _, _, err := p.Upgrade("v2", true); err != nil || strings.Contains(read(t, changed), "mine") {
		t.Errorf("forced upgrade did not replace %s, error %v", changed, err)
	}
}

func TestUpgradeRejectsInvalidKits(t *testing.T) {
	p := newProject(t, goProvider)
	kit := filepath.Join(p.Dir, "sdk", "KIT")
	write(t, kit, "00  ../../plugin.go\n")
	if _, _, err := p.Upgrade("v2", true); err == nil || !strings.HasSuffix(err.Error(), `invalid line "00  ../../plugin.go"`) {
		t.Errorf("path outside of the kit: got error %v", err)
	}
	if err := os.Remove(kit); err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.Upgrade("v2", true); err == nil || !strings.HasSuffix(err.Error(), "sdk has no file KIT, so it is not a kit that `sluice plugin new` wrote") {
		t.Errorf("folder without a kit: got error %v", err)
	}
}

// program writes a shell script as an executable.
func program(tb testing.TB, dir, name, script string) {
	tb.Helper()
	path := filepath.Join(dir, name)
	write(tb, path, "#!/bin/sh\n"+script+"\n")
	if err := os.Chmod(path, 0o700); err != nil {
		tb.Fatal(err)
	}
}

// TestMissingCompilers checks the errors for missing and unsuitable compilers.
func TestMissingCompilers(t *testing.T) {
	const rust = "a Rust compiler with the target wasm32-unknown-unknown is not installed\nDIR"
	const rustGet = "Install it with one of:\n  apt-get install rustc libstd-rust-dev-wasm32\n  rustup target add wasm32-unknown-unknown"
	for _, test := range []struct {
		name, language string
		programs       map[string]string
		want           string
	}{
		{"Go", "go", nil, "Go is not installed\nInstall it with one of:\n  apt-get install golang-go\n  https://go.dev/doc/install"},
		{"Rust", "rust", nil, strings.Replace(rust, "DIR", "", 1) + rustGet},
		{
			"Rust without the target", "rust", map[string]string{"rustc": `if [ "$1" = --version ]; then echo rustc 1.95.0; else echo /nowhere; fi`},
			strings.Replace(rust, "DIR", "  found DIR/rustc (rustc 1.95.0) lacks it\n", 1) + rustGet,
		},
		{
			"clang without the target", "c", map[string]string{"clang-9": "echo clang 9", "clang-19": "echo clang 19"},
			"clang for WebAssembly is not installed\n  found DIR/clang-19 (clang 19) lacks the target wasm32\n  found DIR/clang-9 (clang 9) lacks the target wasm32\n" +
				"Install it with one of:\n  apt-get install clang lld\n  brew install llvm lld",
		},
		{
			"clang without a linker", "c", map[string]string{"clang": `case "$1" in --version) echo clang 19;; --print-targets) echo wasm32;; *) echo wasm-ld;; esac`},
			"wasm-ld, the linker for DIR/clang, is not installed\nInstall it with one of:\n  apt-get install lld\n  brew install lld",
		},
		{"Node", "assemblyscript", nil, "Node, which runs the compiler of AssemblyScript, is not installed\nInstall it with one of:\n  apt-get install nodejs npm\n  https://nodejs.org"},
		{
			"AssemblyScript", "assemblyscript", map[string]string{"node": ""},
			"asc, the compiler of AssemblyScript, is not installed\nInstall it with one of:\n  npm install assemblyscript\n  npm install --global assemblyscript",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir, bin := t.TempDir(), t.TempDir()
			write(t, filepath.Join(dir, project.ManifestFile), "name = \"mine\"\nlanguage = \""+test.language+"\"\n")
			for name, script := range test.programs {
				program(t, bin, name, script)
			}
			p, err := project.Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			b := project.Builder{Environ: []string{"PATH=" + bin}}
			_, err = b.Build(t.Context(), p)
			if missing, ok := errors.AsType[*project.MissingError](err); !ok || strings.ReplaceAll(missing.Error(), bin, "DIR") != test.want {
				t.Errorf("got error %v\nwant %s", err, test.want)
			}
			if _, err := os.Stat(p.Module()); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a module was written, Stat returned %v", err)
			}
		})
	}
}

// TestProvidersAreShort limits the length of the providers that `sluice plugin new` writes.
func TestProvidersAreShort(t *testing.T) {
	for _, file := range []string{"go-provider/plugin.go", "rust-provider/plugin.rs", "c-provider/plugin.c", "assemblyscript-provider/plugin.ts"} {
		if n := strings.Count(read(t, "../../../examples/plugins", file), "\n"); n > 60 {
			t.Errorf("%s has %d lines, want at most 60", file, n)
		}
	}
}

func TestBuildAddsOptionsSchema(t *testing.T) {
	if testing.Short() {
		t.Skip("runs compilers")
	}
	p := newProject(t, goProvider)
	write(t, filepath.Join(p.Dir, project.OptionsFile), `{"type":"object","properties":{"region":{"type":"string"}}}`)
	if a := build(t, p); !strings.Contains(read(t, a.Path), `{"type":"object","properties":{"region":{"type":"string"}}}`) {
		t.Error("the module lacks the schema")
	}
	write(t, filepath.Join(p.Dir, project.OptionsFile), `{"type":"objekt"}`)
	_, err := project.NewBuilder(os.Environ(), os.Stderr).Build(t.Context(), p)
	if err == nil || !strings.HasPrefix(err.Error(), filepath.Join(p.Dir, project.OptionsFile)+": ") {
		t.Errorf("invalid schema: got error %v", err)
	}
}

// TestCompilerErrorsAreUnchanged checks that errors of a compiler are printed unchanged, and that the previous module
// is kept.
func TestCompilerErrorsAreUnchanged(t *testing.T) {
	if testing.Short() {
		t.Skip("runs compilers")
	}
	p := newProject(t, goProvider)
	write(t, p.Module(), "previous module")
	write(t, filepath.Join(p.Dir, "plugin.go"), "package main\n\nfunc main() { x }\n")
	var printed bytes.Buffer
	_, err := project.NewBuilder(os.Environ(), &printed).Build(t.Context(), p)
	if err == nil || !strings.HasSuffix(err.Error(), "/go: exit status 1") || !strings.Contains(printed.String(), "./plugin.go:3:15: undefined: x\n") {
		t.Errorf("got error %v and output\n%s", err, &printed)
	}
	if read(t, p.Module()) != "previous module" {
		t.Error("the previous module was overwritten")
	}
}

// TestGoVersionMatchesRepository compares the Go versions in the go.mod files of new plugins and of the repository.
func TestGoVersionMatchesRepository(t *testing.T) {
	p := newProject(t, goProvider)
	version := regexp.MustCompile(`(?m)^go (1\.\d+)`)
	want := version.FindStringSubmatch(read(t, "../../../go.mod"))
	for _, file := range []string{"go.mod", "sdk/go.mod"} {
		if got := version.FindStringSubmatch(read(t, p.Dir, file)); !slices.Equal(got, want) {
			t.Errorf("%s: got version %v, want %v", file, got, want)
		}
	}
}
