package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// nonStreamingResponse is a provider's chat completion.
const nonStreamingResponse = `{"id":"a","object":"chat.completion","created":1,"model":"there","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`

// TestPresetsOnTheWire sends a request to providers with a preset and checks what the upstream receives: the path, the
// credential in one header only, and members with the names that the upstream uses.
func TestPresetsOnTheWire(t *testing.T) {
	for name, want := range map[string]struct{ base, line, credential, body string }{
		"azure":      {"", "POST /openai/deployments/my-gpt/chat/completions?api-version=2024-10-21 HTTP/1.1", "api-key: sk-canary", `"seed":7`},
		"azure-v1":   {"/openai/v1", "POST /openai/v1/chat/completions HTTP/1.1", "api-key: sk-canary", `"seed":7`},
		"mistral":    {"/v1", "POST /v1/chat/completions HTTP/1.1", "authorization: Bearer sk-canary", `"random_seed":7`},
		"perplexity": {"", "POST /chat/completions HTTP/1.1", "authorization: Bearer sk-canary", `"max_tokens":9`},
		"zai":        {"/api/paas/v4", "POST /api/paas/v4/chat/completions HTTP/1.1", "authorization: Bearer sk-canary", `"max_tokens":9`},
	} {
		t.Run(name, func(t *testing.T) {
			provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", nonStreamingResponse)})
			g := proxytest.Start(t, proxytest.Keys+fmt.Sprintf(`
[providers.up]
preset   = %q
base_url = %q
auth     = { secret = "sk-canary" }

[[models]]
id      = "m"
targets = [{ provider = "up", model = "my-gpt" }]
`, name, provider.URL()+want.base))
			got := g.Chat(t, `{"model":"m","messages":[{"role":"user","content":"Hi"}],"seed":7,"max_completion_tokens":9}`)
			if got.Status != 200 || !strings.Contains(got.Body, `"content":"Hi"`) {
				t.Fatalf("status %d: %s", got.Status, got.Body)
			}
			request := provider.Requests()[0]
			body := string(request.Body)
			line, headers, _ := strings.Cut(request.Head, "\r\n")
			var credentials []string
			for _, h := range strings.Split(headers, "\r\n") {
				if strings.Contains(h, "sk-") {
					at := strings.IndexByte(h, ':')
					credentials = append(credentials, strings.ToLower(h[:at])+h[at:])
				}
			}
			if line != want.line || strings.Join(credentials, ", ") != want.credential || !strings.Contains(body, want.body) {
				t.Errorf("the upstream got %q, %q, %s, want %+v", line, credentials, body, want)
			}
		})
	}
}

// covers: V15
func TestAcceptDoesNotDisableStreaming(t *testing.T) {
	g := proxytest.Start(t, configuration("https://unused.example", ""))
	got := g.Do(t, "POST", "/v1/chat/completions", `{"model":"demo","messages":[{"role":"user","content":"Hi"}],"stream":true}`, "Accept: application/json")
	if got.Status != 200 || !strings.HasPrefix(got.Header.Get("Content-Type"), "text/event-stream") || !strings.HasSuffix(got.Body, "data: [DONE]\n\n") {
		t.Errorf("status %d, headers %v: %s, want a stream", got.Status, got.Header, got.Body)
	}
}

// covers: S17
func TestStreamHeaders(t *testing.T) {
	g := proxytest.Start(t, configuration("https://unused.example", ""))
	got := g.Chat(t, `{"model":"demo","messages":[{"role":"user","content":"Hi"}],"stream":true}`)
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache", "X-Accel-Buffering": "no", "Content-Length": "",
	} {
		if h := got.Header.Get(name); h != want {
			t.Errorf("%s is %q, want %q", name, h, want)
		}
	}
}
