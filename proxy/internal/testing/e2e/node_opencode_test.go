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

// TestNodeOpencode has opencode, which speaks chat completions to hosts that it does not know, run its shell twice with
// a provider that thinks. The commands have no output, and the client requests 32,000 tokens and does not keep
// signatures.
func TestNodeOpencode(t *testing.T) {
	dir := os.Getenv("NODE_CLIENTS")
	if dir == "" {
		t.Fatal("NODE_CLIENTS is not set: run make test-node")
	}
	binary := filepath.Join(dir, "node_modules/opencode-linux-x64-baseline/bin/opencode")
	if _, err := os.Stat(binary); err != nil {
		t.Skip("opencode is installed on Linux on x86-64 only")
	}
	home, work := t.TempDir(), t.TempDir()
	marker := filepath.Join(work, "marker")
	p := agenttest.New(t, "bash", fmt.Sprintf(`{"command":"echo x >> %s","description":"Adds a line"}`, marker))
	g := proxytest.Start(t, proxytest.Keys+p.Config("claude"))
	config := fmt.Sprintf(`{
  "model": "sluice/claude", "small_model": "sluice/claude", "autoupdate": false, "share": "disabled",
  "provider": {"sluice": {
    "npm": "@ai-sdk/openai-compatible",
    "options": {"baseURL": "%s/v1", "apiKey": %q},
    "models": {"claude": {
      "tool_call": true, "reasoning": true, "limit": {"context": 200000, "output": 32000},
      "options": {"thinking": {"type": "enabled", "budget_tokens": 2048}}
    }}
  }}
}`, g.URL, proxytest.Key)
	models := filepath.Join(home, "models.json")
	for name, text := range map[string]string{filepath.Join(work, "opencode.json"): config, models: "{}", marker: ""} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), binary, "run", "--print-logs", "Add two lines to the marker.")
	cmd.Dir = work
	// Nothing except the gateway can be reached. Without these variables, opencode waits for a list of models, plugins
	// and updates.
	const nowhere = "http://127.0.0.1:9"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home,
		"OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_MODELS_PATH=" + models, "OPENCODE_DISABLE_DEFAULT_PLUGINS=1",
		"OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_DISABLE_AUTOUPDATE=1",
		"HTTPS_PROXY=" + nowhere, "HTTP_PROXY=" + nowhere, "NO_PROXY=127.0.0.1"}
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte(agenttest.Answer)) {
		t.Errorf("opencode: %v\n%s", err, out)
	}
	if ran, err := os.ReadFile(marker); err != nil || string(ran) != "x\nx\n" {
		t.Errorf("the shell wrote %q, error %v", ran, err)
	}
	p.Check(t, 1, true)
}
