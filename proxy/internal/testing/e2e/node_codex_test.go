//go:build node

package e2e_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/agenttest"
)

// TestNodeCodex has Codex run its tools with a provider of Messages. Codex sends functions for an unknown model, and
// for one of its own a custom tool in a namespace, whose input is the program to run.
//
// covers: P2.26 P3.18 P3.27 P4.4 P4.5 P7.9
func TestNodeCodex(t *testing.T) {
	work := t.TempDir()
	marker := filepath.Join(work, "marker")
	for model, tool := range map[string][2]string{
		"some-model":  {"exec_command", fmt.Sprintf(`{"cmd":"echo x >> %s"}`, marker)},
		"gpt-5.6-sol": {"functions__exec", fmt.Sprintf(`{"input":"const r = await tools.exec_command({cmd: \"echo x >> %s\"});\ntext(r.output);"}`, marker)},
	} {
		t.Run(model, func(t *testing.T) {
			p := agenttest.New(t, tool[0], tool[1])
			g := proxytest.Start(t, proxytest.Keys+p.Config("codex")+fmt.Sprintf("[[models]]\nid = %q\nmax_tokens = %d\nthinking = true\ntargets = [{ provider = \"codex\", model = \"claude\" }]\n", model, agenttest.MaxTokens))
			if err := os.WriteFile(marker, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			out := runCodex(t, g, model, work, "Touch a file twice.")
			if !bytes.Contains(out, []byte(agenttest.Answer)) {
				t.Error("codex has not printed the answer")
			}
			if ran, err := os.ReadFile(marker); err != nil || string(ran) != "x\nx\n" {
				t.Errorf("the tool wrote %q, error %v", ran, err)
			}
			p.Check(t, 1, true)
		})
	}
}

// TestNodeCodexDemo has Codex ask the demo model, which must not make it run a command.
func TestNodeCodexDemo(t *testing.T) {
	g := proxytest.Start(t, configuration("", ""))
	out := runCodex(t, g, "demo", t.TempDir(), "Run ls in the shell.")
	if !bytes.Contains(out, []byte("Run ls in the shell.")) || bytes.Contains(out, []byte(`"command_execution"`)) {
		t.Error("want a text that quotes the prompt, and no command")
	}
}

// runCodex runs Codex in a folder and returns what it prints.
func runCodex(t *testing.T, g *proxytest.Gateway, model, work, prompt string, settings ...string) []byte {
	t.Helper()
	dir := os.Getenv("NODE_CLIENTS")
	if dir == "" {
		t.Fatal("NODE_CLIENTS is not set: run make test-node")
	}
	home := t.TempDir()
	config := fmt.Sprintf(`model = %q
model_provider = "sluice"
model_reasoning_effort = "high"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.sluice]
name = "Sluice"
base_url = "%s/v1"
env_key = "SLUICE_API_KEY"
wire_api = "responses"
`, model, g.URL) + strings.Join(settings, "")
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "node_modules/.bin/codex"), "exec", "--skip-git-repo-check", "--json", prompt)
	cmd.Dir = work
	// Nothing except the gateway can be reached.
	const nowhere = "http://127.0.0.1:9"
	cmd.Env = append(os.Environ(), "CODEX_HOME="+home, "HOME="+home, "SLUICE_API_KEY="+proxytest.Key, "HTTPS_PROXY="+nowhere, "HTTP_PROXY="+nowhere, "NO_PROXY=127.0.0.1")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil || !bytes.Contains(out, []byte(`"turn.completed"`)) {
		t.Errorf("codex: %v", err)
	}
	return out
}
