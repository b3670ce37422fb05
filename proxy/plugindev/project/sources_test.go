package project_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugindev/project"
)

func TestSources(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"plugin.toml": "name = \"p\"\nlanguage = \"go\"\n", "plugin.go": "package main\n\n//go:embed words.txt more/*.json\nvar words string\n", "words.txt": "",
		"more/a.json": "", "more/b.go": "", "options.json": "", "README.md": "", "gateway.toml": "", "plugin.wasm": "", "fuel.pprof": "",
		".hidden.go": "", ".git/x.go": "", "sdk/sdk.go": "", "testdata/vectors/v/request.json": "", "testdata/x.go": "",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := project.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Sources()
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		got[i], _ = filepath.Rel(dir, got[i])
	}
	slices.Sort(got)
	want := []string{".", "more", "more/a.json", "more/b.go", "options.json", "plugin.go", "words.txt"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
