package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestProviderErrorStatuses has providers respond with each error status, in their own formats. The client must get
// messages about its request, but no messages about the gateway's account.
//
// covers: F56
func TestProviderErrorStatuses(t *testing.T) {
	const (
		said = "no " + canary
		page = "<html>" + canary + "</html>"
	)
	openai := func(status int, typ, param, code string, headers ...string) upstreamtest.Step {
		return upstreamtest.Answer(status, "application/json", fmt.Sprintf(`{"error":{"message":%q,"type":%q,"param":%s,"code":%s}}`, said, typ, param, code), headers...)
	}
	claude := func(status int, typ string, headers ...string) upstreamtest.Step {
		return upstreamtest.Answer(status, "application/json", fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q},"request_id":"req_up"}`, typ, said), headers...)
	}
	cases := []struct {
		plugin   string
		upstream int // the provider's status
		answer   upstreamtest.Step
		status   int // the client's
		message  string
		typ      string
		param    string
		code     string
		wait     string
	}{
		{"openai", 400, openai(400, "invalid_request_error", `"temperature"`, `"invalid_value"`), 400, said, "invalid_request_error", `"temperature"`, `"invalid_value"`, ""},
		{"openai", 401, openai(401, "invalid_request_error", "null", `"invalid_api_key"`), 502, "The provider refused the gateway's credential.", "upstream_error", "null", `"upstream_auth_failed"`, ""},
		{"openai", 402, openai(402, "billing", "null", "null"), 502, "The gateway's account with the provider needs attention.", "upstream_error", "null", `"upstream_billing"`, ""},
		{"openai", 403, openai(403, "invalid_request_error", "null", "null"), 502, "The provider refused the gateway's credential.", "upstream_error", "null", `"upstream_auth_failed"`, ""},
		{"openai", 404, openai(404, "invalid_request_error", "null", `"model_not_found"`), 404, "The provider does not know this model.", "invalid_request_error", "null", `"model_not_found"`, ""},
		{"openai", 413, openai(413, "invalid_request_error", "null", "null"), 413, said, "invalid_request_error", "null", `"request_too_large"`, ""},
		{"openai", 422, upstreamtest.Answer(422, "application/json", `{"detail":[{"loc":["body","top_k"],"msg":"`+said+`"}]}`), 400, said, "invalid_request_error", "null", "null", ""},
		{"openai", 429, openai(429, "requests", "null", `"rate_limit_exceeded"`, "Retry-After: 7"), 429, "The provider's rate limit has been reached.", "rate_limit_error", "null", `"rate_limit_exceeded"`, "7"},
		{"openai", 429, openai(429, "insufficient_quota", "null", `"insufficient_quota"`), 429, "The gateway's quota with the provider is exhausted.", "insufficient_quota", "null", `"insufficient_quota"`, ""},
		{"openai", 500, openai(500, "server_error", "null", "null"), 502, said, "server_error", "null", `"upstream_error"`, ""},
		{"openai", 503, openai(503, "server_error", "null", "null", "Retry-After: 3"), 503, said, "server_error", "null", `"overloaded"`, "3"},
		{"openai", 503, upstreamtest.Answer(503, "text/html", page), 502, canary, "upstream_error", "null", `"overloaded"`, ""},
		{"openai", 504, openai(504, "server_error", "null", "null"), 504, said, "server_error", "null", `"upstream_timeout"`, ""},
		{"anthropic", 400, claude(400, "invalid_request_error"), 400, said, "invalid_request_error", "null", "null", ""},
		{"anthropic", 401, claude(401, "authentication_error"), 502, "The provider refused the gateway's credential.", "upstream_error", "null", `"upstream_auth_failed"`, ""},
		{"anthropic", 403, claude(403, "permission_error"), 502, "The provider refused the gateway's credential.", "upstream_error", "null", `"upstream_auth_failed"`, ""},
		{"anthropic", 404, upstreamtest.Answer(404, "application/json", `{"type":"error","error":{"type":"not_found_error","message":"model: m"},"request_id":"req_up"}`), 404, "model: m", "invalid_request_error", "null", `"model_not_found"`, ""},
		{"anthropic", 404, claude(404, "not_found_error"), 502, "The provider has no such endpoint.", "server_error", "null", `"upstream_not_found"`, ""},
		{"anthropic", 413, claude(413, "request_too_large"), 413, said, "invalid_request_error", "null", `"request_too_large"`, ""},
		{"anthropic", 429, claude(429, "rate_limit_error", "Retry-After: 7"), 429, said, "rate_limit_error", "null", `"rate_limit_exceeded"`, "7"},
		{"anthropic", 500, claude(500, "api_error"), 502, said, "server_error", "null", `"upstream_error"`, ""},
		{"anthropic", 529, claude(529, "overloaded_error"), 503, said, "service_unavailable_error", "null", `"overloaded"`, ""},
	}
	config := quietServer
	servers := make([]*upstreamtest.Server, len(cases))
	for i, c := range cases {
		servers[i] = upstreamtest.New(t, upstreamtest.Script{upstreamtest.Loop(upstreamtest.ReadRequest(), c.answer)})
		name := fmt.Sprint("p", i)
		config += fmt.Sprintf("[providers.%s]\nplugin = %q\nbase_url = %q\nmax_conns = 1\n[[models]]\nid = %[1]q\nmax_tokens = 1000\ntargets = [{ provider = %[1]q, model = \"m\" }]\n", name, c.plugin, servers[i].URL())
	}
	g := proxytest.Start(t, config)
	for i, c := range cases {
		name := fmt.Sprint("p", i)
		t.Run(fmt.Sprintf("%s %d %s", c.plugin, c.upstream, c.typ), func(t *testing.T) {
			body := fmt.Sprintf(`{"error":{"message":%q,"type":%q,"param":%s,"code":%s,"provider":%q,"upstream_status":%d}}`, c.message, c.typ, c.param, c.code, name, c.upstream)
			for _, stream := range []bool{false, true} {
				r := g.Chat(t, canaryRequest(name, stream))
				if r.Status != c.status || r.Body != body || r.Header.Get("Retry-After") != c.wait {
					t.Errorf("got %d, retry-after %q: %s\nwant %d, retry-after %q: %s", r.Status, r.Header.Get("Retry-After"), r.Body, c.status, c.wait, body)
				}
				if line := g.Log.Request(t, r.RequestID()); line["cause"] == "" || line["complete"] != "false" || line["status"] != fmt.Sprint(c.status) {
					t.Errorf("logged as %v", line)
				}
			}
			if n := servers[i].Connections(); n != 1 {
				t.Errorf("got %d connections for two requests, want 1", n)
			}
		})
	}
	if strings.Contains(g.Log.String(), canary) {
		t.Error("the log contains text of a client or a provider")
	}
}
