//go:build node

package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/agenttest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestNodeGemini drives Google's official Node client, streaming and not, with providers of chat completions and
// Messages.
func TestNodeGemini(t *testing.T) {
	m := newScriptedModel(t, "weather", `{"location":"Florence","days":2}`, "40 C")
	config := proxytest.Keys + m.Config("scripted")
	agents := map[string]*agenttest.Provider{}
	for _, name := range []string{"chat", "chat-streamed", "automatic"} {
		agents[name] = agenttest.New(t, "touch", `{"path":"a"}`)
		config += agents[name].Config(name)
	}
	for name, step := range map[string]upstreamtest.Step{
		"broken": upstreamtest.Chunk(text("Hal")), "endless": upstreamtest.Loop(upstreamtest.Chunk(text("on and on "))),
	} {
		server := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), step})
		config += fmt.Sprintf("\n[providers.%s]\nplugin = \"openai\"\nbase_url = %q\n[[models]]\nid = %q\ntargets = [{ provider = %q, model = \"m\" }]\n", name, server.URL(), name, name)
	}
	g := proxytest.Start(t, config)
	t.Setenv("GOOGLE_GEMINI_BASE_URL", g.URL)
	runNode(t, "gemini.mjs", g)
	g.Log.Await(t, "msg", "request", "model", "endless", "status", "499")
	for name, p := range agents {
		t.Run(name, func(t *testing.T) { p.Check(t, 1, true) })
	}
	// The client returned the reasoning in both loops, and the gateway restored it for the provider, which does not
	// sign it.
	turns := m.Turns()
	if returned := strings.Count(strings.Join(turns, "\n"), `"reasoning_content":"I need the tool."`); len(turns) != 4 || returned != 2 {
		t.Errorf("%d requests, %d of them with the reasoning: %s", len(turns), returned, strings.Join(turns, "\n"))
	}
}
