package e2e_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// exampleKey is the key in the programs in examples/clients.
const exampleKey = "sk-local"

// TestGoClientWritesEveryResponse runs the program with the address of the test's gateway.
func TestGoClientWritesEveryResponse(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a program with OpenAI's SDK")
	}
	g := proxytest.Start(t, `
[[keys]]
name   = "local"
secret = "`+exampleKey+`"
models = ["*"]

[providers.demo]
plugin = "demo"

[[models]]
id      = "demo"
targets = [{ provider = "demo", model = "demo" }]
`)
	main, err := filepath.Abs(examples + "clients/go/main.go")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(main)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	changed, overlay := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json")
	files, err := json.Marshal(map[string]any{"Replace": map[string]string{main: changed}})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		changed: []byte(strings.ReplaceAll(string(source), `"http://127.0.0.1:8080/v1"`, `"`+g.URL+`/v1"`)), overlay: files,
	} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", "-overlay", overlay, "./clients/go")
	cmd.Dir = examples
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	got := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
		got[name] = text
	}
	if got["model"] != "demo" || got["completion"] == "" || got["stream"] != got["completion"] ||
		!strings.HasPrefix(got["tool"], `temperature {"place":`) || got["after the tool"] == "" {
		t.Errorf("output:\n%s", out)
	}
}

// TestGoClientMatchesDefaultConfiguration checks that the program and the default configuration have the same address
// and key.
func TestGoClientMatchesDefaultConfiguration(t *testing.T) {
	source, err := os.ReadFile(examples + "clients/go/main.go")
	if err != nil {
		t.Fatal(err)
	}
	toml, err := os.ReadFile(examples + "../gateway.toml")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct{ program, configuration string }{
		{`WithBaseURL("http://127.0.0.1:8080/v1")`, `:-127.0.0.1:8080}"`},
		{`WithAPIKey("` + exampleKey + `")`, `:-` + exampleKey + `}"`},
	} {
		if !strings.Contains(string(source), want.program) || !strings.Contains(string(toml), want.configuration) {
			t.Errorf("the program contains %s: %v; gateway.toml contains %s: %v", want.program, strings.Contains(string(source), want.program),
				want.configuration, strings.Contains(string(toml), want.configuration))
		}
	}
}
