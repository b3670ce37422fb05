//go:build node

package e2e_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/agenttest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestNodeCodexSocket has Codex run its tools over a WebSocket, with a provider of Messages, without a fallback to POST.
func TestNodeCodexSocket(t *testing.T) {
	work := t.TempDir()
	marker := filepath.Join(work, "marker")
	p := agenttest.New(t, "exec_command", fmt.Sprintf(`{"cmd":"echo x >> %s"}`, marker))
	g := proxytest.Start(t, proxytest.Keys+p.Config("codex")+fmt.Sprintf("[[models]]\nid = \"some-model\"\nmax_tokens = %d\nthinking = true\ntargets = [{ provider = \"codex\", model = \"claude\" }]\n", agenttest.MaxTokens))
	out := runCodex(t, g, "some-model", work, "Touch a file twice.", "supports_websockets = true\n")
	if !bytes.Contains(out, []byte(agenttest.Answer)) || bytes.Contains(out, []byte("Falling back")) {
		t.Error("codex has not printed the answer, or has fallen back")
	}
	if ran, err := os.ReadFile(marker); err != nil || string(ran) != "x\nx\n" {
		t.Errorf("the tool wrote %q, error %v", ran, err)
	}
	g.Log.Await(t, "path", "/v1/responses", "status", "101")
	p.Check(t, 1, true)
}

// TestNodeSocket drives the WebSocket of the official Node client.
func TestNodeSocket(t *testing.T) {
	provider := answeringProvider(t, upstreamtest.Answer(200, "text/event-stream", anthropicWire.stream("an answer"), "Connection: close"))
	g := proxytest.Start(t, anthropicWire.gatewayConfig(provider.URL()))
	runNode(t, "socket.mjs", g)
	if sent := string(provider.Requests()[1].Body); !strings.Contains(sent, "an answer") {
		t.Errorf("the provider gets %s", sent)
	}
}
