package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// listedModelsConfig returns a configuration with one model; all others come from the lists of two providers.
func listedModelsConfig(openai, anthropic string) string {
	return fmt.Sprintf(`%s
[[keys]]
name   = "claude-only"
secret = "sk-claude-0123456789"
models = ["claude-*"]

[providers.openai]
plugin      = "openai"
base_url    = %q
auth        = { secret = "sk-upstream-openai-canary" }
list_models = { every = "1h" }

[providers.anthropic]
plugin      = "anthropic"
base_url    = %q
auth        = { secret = "sk-upstream-anthropic-canary" }
list_models = { every = "1h" }

[[models]]
id           = "gpt-a"
display_name = "Configured"
owned_by     = "us"
created      = 2026-01-01
pricing      = { input = 1, output = 2 }
targets      = [{ provider = "openai", model = "gpt-a" }]
`, proxytest.Keys, openai, anthropic)
}

func TestListedModels(t *testing.T) {
	openai := upstreamtest.New(t,
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json",
			`{"object":"list","data":[{"id":"gpt-a","object":"model","created":1,"owned_by":"openai"},{"id":"gpt-b","object":"model","created":1700000000,"owned_by":"openai"}]}`)},
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json",
			`{"id":"x","model":"gpt-b","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}`)})
	anthropic := upstreamtest.New(t,
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json",
			`{"data":[{"type":"model","id":"claude-x","display_name":"Claude X","created_at":"2025-09-29T00:00:00Z"}],"has_more":true,"first_id":"claude-x","last_id":"claude-x"}`)},
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json",
			`{"data":[{"type":"model","id":"claude-y","display_name":"Claude Y","created_at":"2025-02-19T00:00:00Z"}],"has_more":false,"first_id":"claude-y","last_id":"claude-y"}`)})
	g := proxytest.Start(t, listedModelsConfig(openai.URL(), anthropic.URL()))

	r := g.Do(t, "GET", "/v1/models", "")
	for _, want := range []string{
		`"id":"gpt-a","object":"model","created":1767225600,"owned_by":"us","display_name":"Configured","pricing":{"input":1,"output":2}`,
		`"id":"gpt-b","object":"model","created":1700000000,"owned_by":"openai"`,
		`"id":"claude-x","object":"model","created":1759104000,"owned_by":"anthropic","display_name":"Claude X"`,
		`"id":"claude-y"`,
	} {
		if !strings.Contains(r.Body, want) {
			t.Errorf("no %s in the list:\n%s", want, r.Body)
		}
	}
	if strings.Count(r.Body, `"gpt-a"`) != 1 {
		t.Errorf("a configured model is listed twice: %s", r.Body)
	}
	if r := g.Do(t, "GET", "/v1/models", "", "Authorization: Bearer sk-claude-0123456789"); strings.Contains(r.Body, "gpt") || !strings.Contains(r.Body, "claude-y") {
		t.Errorf("the key for claude-* gets the list %s", r.Body)
	}
	if r := g.Do(t, "GET", "/v1/models/claude-y", ""); r.Status != 200 {
		t.Errorf("GET of one listed model: %d %s", r.Status, r.Body)
	}
	if r := g.Chat(t, `{"model":"gpt-b","messages":[{"role":"user","content":"x"}]}`); r.Status != 200 || content(r.Body) != "Hi" {
		t.Errorf("request for a listed model: %d %s", r.Status, r.Body)
	}
	// Each provider was listed only once, at the start.
	var requests []string
	for _, req := range append(openai.Requests(), anthropic.Requests()...) {
		requests = append(requests, req.Method+" "+req.Path)
	}
	if got, want := strings.Join(requests, ", "), "GET /models, POST /chat/completions, GET /v1/models?limit=1000, GET /v1/models?limit=1000&after_id=claude-x"; got != want {
		t.Errorf("the providers received %s, want %s", got, want)
	}
	if h := anthropic.Requests()[0].Header; h.Get("X-Api-Key") != "sk-upstream-anthropic-canary" || h.Get("Anthropic-Version") == "" {
		t.Errorf("headers %v", h)
	}
}

func TestFailingListKeepsModelsOfOtherProviders(t *testing.T) {
	openai := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(401, "application/json",
		`{"error":{"message":"Incorrect API key provided: sk-upstream-openai-canary","type":"invalid_request_error"}}`)})
	anthropic := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json",
		`{"data":[{"type":"model","id":"claude-x"}],"has_more":false}`)})
	g := proxytest.Start(t, listedModelsConfig(openai.URL(), anthropic.URL()))
	r := g.Do(t, "GET", "/v1/models", "")
	if r.Status != 200 || !strings.Contains(r.Body, "claude-x") || !strings.Contains(r.Body, "gpt-a") {
		t.Errorf("status %d, list %s", r.Status, r.Body)
	}
	line := g.Log.Await(t, "msg", "list models", "provider", "openai", "level", "WARN")
	if want := "GET " + openai.URL() + "/models returned status 401: "; !strings.Contains(line["error"], want) {
		t.Errorf("logged error %q, want %q in it", line["error"], want)
	}
	if strings.Contains(line["error"], "canary") {
		t.Errorf("the log contains the credential: %v", line)
	}
}

func TestWarningsNameDroppedParameters(t *testing.T) {
	anthropic := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json",
		`{"id":"m","model":"claude","content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`)})
	g := proxytest.Start(t, configuration("", anthropic.URL()))
	r := g.Chat(t, `{"model":"claude","messages":[{"role":"user","content":"x"}],"seed":7,"temperature":1.5}`)
	w := r.Header.Get("X-Gateway-Warning")
	if r.Status != 200 || !strings.Contains(w, "dropped seed") || !strings.Contains(w, "clamped temperature") {
		t.Errorf("status %d, warning %q", r.Status, w)
	}
}
