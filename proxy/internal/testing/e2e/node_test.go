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
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestNodeClients drives the official Node client and the AI SDK. `make test-node` installs them and runs the test.
func TestNodeClients(t *testing.T) {
	providers := map[string][]upstreamtest.Script{
		"thinker": {{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json",
			`{"id":"msg_1","model":"claude","content":[{"type":"thinking","thinking":"A greeting.","signature":"c2ln"},{"type":"text","text":"Hi"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":4}}`)}},
		"thinker-streamed": {{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(
			"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"model\":\"claude\",\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\n",
			"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n",
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"A gree\"}}\n\n",
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"ting.\"}}\n\n",
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"signature_delta\",\"signature\":\"c2ln\"}}\n\n",
			"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
			"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hi\"}}\n\n",
			"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":4}}\n\n",
			"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"), upstreamtest.LastChunk()}},
		"endless": {{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Loop(upstreamtest.Chunk(text("on and on ")))}},
		"broken":  {{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(text("Hal"))}},
		"quota": {{upstreamtest.ReadRequest(), upstreamtest.Answer(429, "application/json",
			`{"error":{"message":"quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`)}},
		"flaky": {
			{upstreamtest.ReadRequest(), upstreamtest.Answer(503, "application/json", `{"error":{"message":"busy","type":"server_error"}}`, "Retry-After-Ms: 5")},
			{upstreamtest.ReadRequest(), upstreamtest.Answer(429, "application/json", `{"error":{"message":"slow","type":"requests","code":"rate_limit_exceeded"}}`, "Retry-After-Ms: 5")},
			{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json",
				`{"id":"x","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"At last"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)},
		},
	}
	var config strings.Builder
	config.WriteString(proxytest.Keys + "\n[providers.demo]\nplugin = \"demo\"\n")
	model := func(id, provider string) {
		fmt.Fprintf(&config, "[[models]]\nid = %q\ndisplay_name = \"M\"\nowned_by = \"x\"\ncreated = 2026-01-01\npricing = { input = 0, output = 0 }\nthinking = true\ntargets = [{ provider = %q, model = \"m\" }]\n", id, provider)
	}
	model("demo", "demo")
	model("vendor/model", "demo")
	for name, scripts := range providers {
		plugin := "openai"
		if strings.HasPrefix(name, "thinker") {
			plugin = "anthropic"
		}
		server := upstreamtest.New(t, scripts...)
		fmt.Fprintf(&config, "[providers.%s]\nplugin = %q\nbase_url = %q\nauth = { secret = \"sk-node-canary\" }\nbreaker = { enabled = false }\n", name, plugin, server.URL())
		model(name, name)
	}
	g := proxytest.Start(t, config.String())

	runNode(t, "clients.mjs", g)
	g.Log.Await(t, "msg", "request", "model", "endless", "status", "499")
}

// TestNodeAgents drives libraries that run tool loops: LangChain, the AI SDK and the Agents SDK.
//
// covers: P3.22 P9.2 P9.6
func TestNodeAgents(t *testing.T) {
	config := proxytest.Keys
	providers := map[string]*agenttest.Provider{}
	for _, name := range []string{"langchain", "langchain-streamed", "aisdk", "aisdk-streamed", "aisdk-responses", "aisdk-responses-streamed", "agents", "agents-streamed"} {
		providers[name] = agenttest.New(t, "touch", `{"path":"a"}`)
	}
	for name, p := range providers {
		config += p.Config(name)
	}
	strict := newStrictChat(t, "", `{"path":"a"}`)
	runNode(t, "agents.mjs", proxytest.Start(t, config+strict.config("strict")))
	strict.check(t)
	if strict.images == 0 {
		t.Error("no image of a tool's result has arrived in a user message")
	}
	for name, p := range providers {
		t.Run(name, func(t *testing.T) { p.Check(t, 1, true) })
	}
}

// runNode runs a script of testdata/node with the clients that make installed in the folder NODE_CLIENTS.
func runNode(t *testing.T, name string, g *proxytest.Gateway) {
	t.Helper()
	runNodeWith(t, name, g, proxytest.Key)
}

// runNodeWith is runNode with a client key.
func runNodeWith(t *testing.T, name string, g *proxytest.Gateway, key string) {
	t.Helper()
	// Node finds the clients from a copy of the script in their folder, which is not in the source tree.
	dir := os.Getenv("NODE_CLIENTS")
	if dir == "" {
		t.Fatal("NODE_CLIENTS is not set: run make test-node")
	}
	script, err := os.ReadFile(filepath.Join("testdata/node", name))
	if err != nil {
		t.Fatal(err)
	}
	installed := filepath.Join(dir, name)
	if err := os.WriteFile(installed, script, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", installed)
	cmd.Env = append(os.Environ(), "GATEWAY="+g.URL, "KEY="+key)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil || !bytes.Contains(out, []byte(", 0 failed")) {
		t.Errorf("%s failed: %v", name, err)
	}
}
