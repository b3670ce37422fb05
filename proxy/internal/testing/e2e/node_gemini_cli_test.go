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

// geminiClients are the agents that speak the Gemini API: a file in their home folder, their environment, and their
// arguments before the prompt. Nothing except the gateway can be reached; Qwen Code would reach that through a proxy, so
// its settings turn off what it sends to other hosts.
var geminiClients = map[string]struct {
	settings, text string
	env, args      []string
}{
	"gemini": {".gemini/settings.json", `{"security":{"auth":{"selectedType":"gemini-api-key"}}}`,
		[]string{"HTTPS_PROXY=http://127.0.0.1:9", "HTTP_PROXY=http://127.0.0.1:9", "NO_PROXY=127.0.0.1"}, []string{"--skip-trust"}},
	"qwen": {".qwen/settings.json", `{"privacy":{"usageStatisticsEnabled":false},"telemetry":{"enabled":false},"general":{"enableAutoUpdate":false,"disableAutoUpdate":true}}`,
		nil, []string{"--auth-type", "gemini"}},
}

// markerCommand is the shell command that agents run, and its arguments as a tool call. It adds a line to a file.
func markerCommand(marker string) (tool, input string) {
	return "run_shell_command", fmt.Sprintf(`{"command":"echo x >> %s","description":"Adds a line","is_background":false}`, marker)
}

// runGeminiClient has one of geminiClients run the command twice.
func runGeminiClient(t *testing.T, client, model, marker string, g *proxytest.Gateway) {
	t.Helper()
	dir := os.Getenv("NODE_CLIENTS")
	if dir == "" {
		t.Fatal("NODE_CLIENTS is not set: run make test-node")
	}
	c, home := geminiClients[client], t.TempDir()
	settings := filepath.Join(home, c.settings)
	if err := os.Mkdir(filepath.Dir(settings), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{settings: c.text, marker: ""} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := append(c.args, "--model", model, "--yolo", "--output-format", "json", "-p", "Add two lines to the marker.")
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "node_modules/.bin", client), args...)
	cmd.Dir = filepath.Dir(marker)
	cmd.Env = append(c.env, "PATH="+os.Getenv("PATH"), "HOME="+home, "GOOGLE_GEMINI_BASE_URL="+g.URL, "GEMINI_API_KEY="+proxytest.Key)
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte(agenttest.Answer)) {
		t.Errorf("%s: %v\n%s\n%s", client, err, out, g.Log)
	}
	if ran, err := os.ReadFile(marker); err != nil || string(ran) != "x\nx\n" {
		t.Errorf("the shell wrote %q, error %v", ran, err)
	}
}

// TestNodeGeminiCLI has the Gemini CLI and Qwen Code, which speak the Gemini API, run their shell twice with a provider
// of Messages. Both want to see thoughts; the Gemini CLI sets a budget for models that it knows.
func TestNodeGeminiCLI(t *testing.T) {
	for _, test := range []struct{ client, model string }{{"gemini", "some-model"}, {"gemini", "gemini-2.5-pro"}, {"qwen", "some-model"}} {
		t.Run(test.client+"/"+test.model, func(t *testing.T) {
			marker := filepath.Join(t.TempDir(), "marker")
			tool, input := markerCommand(marker)
			p := agenttest.New(t, tool, input)
			g := proxytest.Start(t, proxytest.Keys+p.Config("claude")+fmt.Sprintf("[[models]]\nid = %q\nmax_tokens = %d\nthinking = true\ntargets = [{ provider = \"claude\", model = \"claude\" }]\n", test.model, agenttest.MaxTokens))
			runGeminiClient(t, test.client, test.model, marker, g)
			p.Check(t, 1, true)
		})
	}
}

// TestNodeStrictChat has the same agents run their shell with a provider that rejects what OpenAI's chat completions
// API rejects. They set topK and topP in every request. No model of OpenAI's is one that the Gemini CLI knows.
func TestNodeStrictChat(t *testing.T) {
	for client := range geminiClients {
		for _, model := range []string{"gpt-4o", "gpt-5", "gemini-2.5-pro"} {
			t.Run(client+"/"+model, func(t *testing.T) {
				marker := filepath.Join(t.TempDir(), "marker")
				tool, input := markerCommand(marker)
				p := newStrictChat(t, tool, input)
				g := proxytest.Start(t, proxytest.Keys+p.config(model))
				runGeminiClient(t, client, model, marker, g)
				p.check(t)
			})
		}
	}
}
