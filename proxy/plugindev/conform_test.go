//go:build !race

package plugindev_test

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/plugins"
	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/plugindev"
	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// The conformance suite makes some ten thousand calls, one after the other. The race detector would find nothing in them.

// TestBundledPluginsConform runs the conformance suite on every bundled plugin.
func TestBundledPluginsConform(t *testing.T) {
	if testing.Short() {
		t.Skip("runs some twenty thousand requests")
	}
	wasm := plugintest.Build(t, "./plugins/all")
	// Requirements of the vectors in addition to the presets.
	settings := map[string]string{"blocklist": `{"phrases":["x"]}`}
	paths := map[string][]string{
		"openai": {"/openai/deployments/*/chat/completions"}, "bedrock": {"/model/*/invoke"},
		"gemini": {"/v1/projects/*/locations/*/publishers/*/models/*:predict"},
	}
	h := newHost(t)
	for _, name := range plugins.Names() {
		t.Run(name, func(t *testing.T) {
			s := &plugindev.Suite{}
			if vectors := filepath.Join("../../plugins", name, "testdata/vectors"); exists(vectors) {
				s = openSuite(t, vectors)
			}
			cfg, err := config.Parse("preset", []byte("[providers.p]\nplugin = \""+name+"\"\nbase_url = \"https://provider.example\"\n"), config.Options{Bundled: plugins.Names()})
			if err == nil && cfg.Provider("p") != nil {
				p := cfg.Provider("p")
				s.Use = plugindev.Use{Paths: append(slices.Clone(p.Paths), paths[name]...), Headers: p.Headers}
			}
			s.Use.Settings = settings[name]
			checkScore(t, h, s, plugindev.Module{Name: name, Wasm: wasm})
		})
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestExamplesConform runs the conformance suite on the examples in Go. Package project tests the other languages.
func TestExamplesConform(t *testing.T) {
	if testing.Short() {
		t.Skip("runs some thousand requests")
	}
	for name, vectors := range map[string]string{"go-provider": "provider", "go-router": "router"} {
		t.Run(name, func(t *testing.T) {
			s := openSuite(t, filepath.Join("../../examples/plugins/testdata", vectors))
			checkScore(t, newHost(t), s, plugindev.Module{Name: name, Wasm: plugintest.Build(t, "examples/plugins/"+name)})
		})
	}
}

// TestOldModulesConform runs the conformance suite on modules that were built for each minor version of the ABI.
func TestOldModulesConform(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles eight modules")
	}
	files, err := filepath.Glob("../../sdk/abi/testdata/minor*/*.wasm.gz")
	if err != nil || len(files) < 8 {
		t.Fatalf("modules %v, %v", files, err)
	}
	for _, file := range files {
		version := filepath.Base(filepath.Dir(file))
		name, _, _ := strings.Cut(filepath.Base(file), ".")
		t.Run(version+"/"+name, func(t *testing.T) {
			module := plugindev.Module{Name: name, Wasm: unzip(t, file)}
			s := &plugindev.Suite{}
			var breaks []string
			switch name {
			case "kit":
				breaks = []string{"a rate limit is a 429"} // it ignores the status and reports the failure in the request
				// Replace its vectors, which test its own failures, because an old SDK has a different message for one.
				s = openSuite(t, folder(t, map[string]string{"hello/request.json": hello}))
				s.Use = plugindev.Use{Paths: []string{"/kit", "/models"}, Headers: []string{"x-kit"}}
				if _, err := s.Test(t.Context(), newHost(t), module, plugindev.TestOptions{Update: true}); err != nil {
					t.Fatal(err)
				}
			case "pair":
				module.Name = "left"
				breaks = []string{"any request is built, or rejected"} // it repeats the first text of a request, of any length
			case "router-by-length":
				s = openSuite(t, "../../examples/plugins/testdata/router")
			}
			checkScore(t, newHost(t), s, module, breaks...)
		})
	}
}

func unzip(t *testing.T, file string) []byte {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	wasm, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}
