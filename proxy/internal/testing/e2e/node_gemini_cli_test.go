//go:build node

package e2e_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/agenttest"
)

// TestNodeGeminiCLI has the Gemini CLI, which speaks only the Gemini API, run its shell twice with a provider of
// Messages. The CLI requests thoughts only of models that it knows.
func TestNodeGeminiCLI(t *testing.T) {
	dir := os.Getenv("NODE_CLIENTS")
	if dir == "" {
		t.Fatal("NODE_CLIENTS is not set: run make test-node")
	}
	for model, thinks := range map[string]bool{"some-model": false, "gemini-2.5-pro": true} {
		t.Run(model, func(t *testing.T) {
			home, work := t.TempDir(), t.TempDir()
			marker, settings := filepath.Join(work, "marker"), filepath.Join(home, ".gemini/settings.json")
			if err := os.Mkdir(filepath.Dir(settings), 0o700); err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{settings: `{"security":{"auth":{"selectedType":"gemini-api-key"}}}`, marker: ""} {
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			p := agenttest.New(t, "run_shell_command", fmt.Sprintf(`{"command":"echo x >> %s","description":"Adds a line"}`, marker))
			g := proxytest.Start(t, proxytest.Keys+p.Config("claude")+fmt.Sprintf("[[models]]\nid = %q\nmax_tokens = %d\nthinking = true\ntargets = [{ provider = \"claude\", model = \"claude\" }]\n", model, agenttest.MaxTokens))
			cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "node_modules/.bin/gemini"), "--model", model, "--yolo", "--skip-trust", "--output-format", "json", "-p", "Add two lines to the marker.")
			cmd.Dir = work
			// Nothing except the gateway can be reached.
			const nowhere = "http://127.0.0.1:9"
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GOOGLE_GEMINI_BASE_URL=" + g.URL, "GEMINI_API_KEY=" + proxytest.Key,
				"HTTPS_PROXY=" + nowhere, "HTTP_PROXY=" + nowhere, "NO_PROXY=127.0.0.1"}
			out, err := cmd.CombinedOutput()
			if err != nil || !bytes.Contains(out, []byte(agenttest.Answer)) {
				t.Errorf("gemini: %v\n%s\n%s", err, out, g.Log)
			}
			if ran, err := os.ReadFile(marker); err != nil || string(ran) != "x\nx\n" {
				t.Errorf("the shell wrote %q, error %v", ran, err)
			}
			p.Check(t, 1, thinks)
		})
	}
}
