//go:build node

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// scriptedModel is a provider that speaks chat completions, streaming or not. If a request offers the tool, it responds
// with reasoning, text and a tool call, and once the request has the tool's result, with text that repeats the output.
// Other requests, such as for a title, get a single word.
type scriptedModel struct {
	*httptest.Server
	tool, arguments, output string // tool to call, its arguments, and what its result must contain

	mu    sync.Mutex
	turns []string // bodies of the requests that offer the tool
}

func newScriptedModel(t *testing.T, tool, arguments, output string) *scriptedModel {
	m := &scriptedModel{tool: tool, arguments: arguments, output: output}
	m.Server = httptest.NewServer(http.HandlerFunc(m.serve))
	t.Cleanup(m.Close)
	return m
}

// Config returns the tables of gateway.toml for this provider and for a model of the same name that supports thinking.
func (m *scriptedModel) Config(name string) string {
	return fmt.Sprintf(`
[providers.%s]
plugin = "openai"
base_url = "%s/v1"
auth = { secret = "sk-scripted-canary" }
options = { reasoning_history = ["reasoning_content"] }
[[models]]
id = %q
thinking = true
max_tokens = 8000
targets = [{ provider = %q, model = "scripted" }]
`, name, m.URL, name, name)
}

func (m *scriptedModel) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var q struct {
		Stream   bool
		Tools    []struct{ Function struct{ Name string } }
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	if err != nil || json.Unmarshal(body, &q) != nil || r.URL.Path != "/v1/chat/completions" {
		http.Error(w, `{"error":{"message":"not a chat completions request","type":"invalid_request_error"}}`, http.StatusBadRequest)
		return
	}
	offered, result := false, ""
	for _, tool := range q.Tools {
		offered = offered || tool.Function.Name == m.tool
	}
	for _, message := range q.Messages {
		if message.Role == "tool" {
			result = string(message.Content)
		}
	}
	response := scriptedResponse{text: "Fine."}
	switch {
	case !offered:
	case result == "":
		response = scriptedResponse{reasoning: "I need the tool.", text: "Let me look.", tool: m.tool, arguments: m.arguments}
	case strings.Contains(result, m.output):
		response.text = "It says " + m.output + "."
	default:
		response.text = "Unexpected: " + result
	}
	if offered {
		m.mu.Lock()
		m.turns = append(m.turns, string(body))
		m.mu.Unlock()
	}
	response.write(w, q.Stream)
}

// Turns returns the bodies of the requests so far that offer the tool.
func (m *scriptedModel) Turns() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.turns)
}

// scriptedResponse is a response of the model. Its usage is 40 prompt tokens, 60 more from the cache, and 10 completion
// tokens.
type scriptedResponse struct{ reasoning, text, tool, arguments string }

func (a *scriptedResponse) write(w http.ResponseWriter, stream bool) {
	const usage = `{"prompt_tokens":100,"completion_tokens":10,"total_tokens":110,"prompt_tokens_details":{"cached_tokens":60}}`
	finishReason := "stop"
	if a.tool != "" {
		finishReason = "tool_calls"
	}
	if !stream {
		message := fmt.Sprintf(`{"role":"assistant","content":%q,"reasoning_content":%q`, a.text, a.reasoning)
		if a.tool != "" {
			message += fmt.Sprintf(`,"tool_calls":[{"id":"call:1","type":"function","function":{"name":%q,"arguments":%q}}]`, a.tool, a.arguments)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"scripted","choices":[{"index":0,"message":%s},"finish_reason":%q}],"usage":%s}`, message, finishReason, usage)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	chunk := func(choices, more string) {
		fmt.Fprintf(w, `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"scripted","choices":[%s]%s}`+"\n\n", choices, more)
	}
	splitDelta := func(format, s string) {
		for len(s) > 0 {
			n := min(4, len(s))
			chunk(fmt.Sprintf(`{"index":0,"delta":`+format+`}`, s[:n]), "")
			s = s[n:]
		}
	}
	splitDelta(`{"reasoning_content":%q}`, a.reasoning)
	splitDelta(`{"content":%q}`, a.text)
	if a.tool != "" {
		chunk(fmt.Sprintf(`{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call:1","type":"function","function":{"name":%q,"arguments":""}}]}}`, a.tool), "")
		splitDelta(`{"tool_calls":[{"index":0,"function":{"arguments":%q}}]}`, a.arguments)
	}
	chunk(fmt.Sprintf(`{"index":0,"delta":{},"finish_reason":%q}`, finishReason), "")
	chunk("", `,"usage":`+usage)
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// TestNodeClaudeCode has Claude Code, which speaks only Messages, finish a task with a tool, using a provider of chat
// completions.
//
// covers: M1.3 M2.6 M2.18 M2.25 M3.14 M3.21 M5.4 M7.8
func TestNodeClaudeCode(t *testing.T) {
	const output = "seven-hills"
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "word.txt"), []byte(output+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := newScriptedModel(t, "Bash", `{"command":"cat word.txt","description":"Read the word"}`, output)
	g := proxytest.Start(t, proxytest.Keys+m.Config("scripted"))
	out, err := runClaude(t, g, dir, proxytest.Key, "-p", "Read word.txt with the tool and say what it says.", "--model", "scripted", "--allowedTools", "Bash", "--output-format", "json")
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, out, g.Log)
	}
	var got struct {
		Subtype string
		IsError bool `json:"is_error"`
		Result  string
		Turns   int `json:"num_turns"`
		Usage   struct {
			Input  int `json:"input_tokens"`
			Cached int `json:"cache_read_input_tokens"`
			Output int `json:"output_tokens"`
		}
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	turns := m.Turns()
	if got.IsError || got.Result != "It says "+output+"." || got.Turns != 2 || len(turns) != 2 {
		t.Errorf("%d turns, got %s\n%s", len(turns), out, g.Log)
	}
	// Usage of two responses.
	if u := got.Usage; u.Input != 80 || u.Cached != 120 || u.Output != 20 {
		t.Errorf("usage %+v", u)
	}
	// Claude Code returned the signed reasoning, and the gateway restored it for the provider.
	if len(turns) == 2 && !strings.Contains(turns[1], `"reasoning_content":"I need the tool."`) {
		t.Errorf("second request to the provider, want it to contain the reasoning: %s", turns[1])
	}
}

// TestNodeClaudeCodeErrors has Claude Code fail with errors that a retry cannot mend. It must not repeat the request,
// and print the cause.
func TestNodeClaudeCodeErrors(t *testing.T) {
	config := proxytest.Keys
	for name, response := range map[string]upstreamtest.Step{
		"credential": upstreamtest.Answer(401, "application/json", `{"error":{"message":"bad key","type":"invalid_request_error","code":"invalid_api_key"}}`, "Connection: close"),
		"account":    upstreamtest.Answer(429, "application/json", `{"error":{"message":"no money","type":"insufficient_quota","code":"insufficient_quota"}}`, "Connection: close"),
		"model":      upstreamtest.Answer(404, "application/json", `{"error":{"message":"no model","type":"invalid_request_error","code":"model_not_found"}}`, "Connection: close"),
	} {
		config += fmt.Sprintf("[providers.%s]\nplugin = \"openai\"\nbase_url = %q\nauth = { secret = \"sk-upstream-one-canary\" }\n", name, answeringProvider(t, response).URL()) + modelWithTargets(name, name+"/m")
	}
	for name, c := range map[string]struct {
		model, key, code, prints string
		requests                 int // after a 404, Claude Code also tries without a stream
	}{
		"wrong key":           {"credential", "sk-wrong-0123456789", "invalid_api_key", "401", 1},
		"unknown model":       {"nowhere", proxytest.Key, "model_not_found", "issue with the selected model (nowhere)", 2},
		"wrong credential":    {"credential", proxytest.Key, "upstream_auth_failed", "502", 1},
		"spent account":       {"account", proxytest.Key, "insufficient_quota", "quota with the provider is exhausted", 1},
		"unknown at provider": {"model", proxytest.Key, "model_not_found", "issue with the selected model (model)", 2},
	} {
		t.Run(name, func(t *testing.T) {
			g := proxytest.Start(t, config)
			out, err := runClaude(t, g, t.TempDir(), c.key, "-p", "Say hello.", "--model", c.model)
			failed := 0
			for _, line := range g.Log.Lines() {
				if line["msg"] == "request" && line["code"] == c.code {
					failed++
				}
			}
			if err == nil || failed != c.requests || !strings.Contains(string(out), c.prints) {
				t.Errorf("%d requests failed, exit %v, printed %q\n%s", failed, err, out, g.Log)
			}
		})
	}
}

// runClaude runs Claude Code in a folder and returns what it prints.
func runClaude(t *testing.T, g *proxytest.Gateway, dir, key string, args ...string) ([]byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, claude(t), args...)
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "ANTHROPIC_BASE_URL=" + g.URL, "ANTHROPIC_AUTH_TOKEN=" + key,
		// Nothing except the gateway can be reached.
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "HTTP_PROXY=http://127.0.0.1:1", "HTTPS_PROXY=http://127.0.0.1:1", "NO_PROXY=127.0.0.1",
	}
	return cmd.Output()
}

// TestNodeMessages drives the official Node client of Messages, streaming and not, with providers of chat completions.
//
// covers: M1.2 M5.4 M7.24 M8.2
func TestNodeMessages(t *testing.T) {
	m := newScriptedModel(t, "weather", `{"location":"Florence","days":2}`, "40 C")
	broken := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(text("Hal"))})
	endless := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Loop(upstreamtest.Chunk(text("on and on ")))})
	config := proxytest.Keys + m.Config("scripted")
	for name, server := range map[string]*upstreamtest.Server{"broken": broken, "endless": endless} {
		config += fmt.Sprintf("\n[providers.%s]\nplugin = \"openai\"\nbase_url = %q\n[[models]]\nid = %q\ntargets = [{ provider = %q, model = \"m\" }]\n", name, server.URL(), name, name)
	}
	g := proxytest.Start(t, config)
	runNode(t, "messages.mjs", g)
	g.Log.Await(t, "msg", "request", "model", "endless", "status", "499")
}

// claude returns the path of Claude Code, and skips the test if its package has no binary for this machine.
func claude(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("NODE_CLIENTS")
	if dir == "" {
		t.Fatal("NODE_CLIENTS is not set: run make test-node")
	}
	path := filepath.Join(dir, "node_modules", ".bin", "claude")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("Claude Code does not run on this machine: %v %s", err, out)
	}
	return path
}
