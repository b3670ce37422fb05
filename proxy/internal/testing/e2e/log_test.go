package e2e_test

import (
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestLogOmitsProviderMessages has a provider fail and quote the prompt in its error, wherever it can. The log has what failed
// and for which target, but not the provider's words.
func TestLogOmitsProviderMessages(t *testing.T) {
	const (
		mark      = "PROMPT-MARK"
		complaint = `{"error":{"message":"cannot say ` + mark + `","type":"server_error","code":null}}`
		asks      = `"messages":[{"role":"user","content":"` + mark + `"}]}`
	)
	refusal := upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(500, "application/json", complaint, "Connection: close")}
	for _, c := range []struct {
		name, body string
		script     upstreamtest.Script
		want       []string // attributes of a line
	}{
		{
			"before an answer", `{"model":"gpt",` + asks, refusal,
			[]string{"msg", "request", "level", "ERROR", "status", "502", "code", "upstream_error", "cause", `upstream status 500, type "server_error", code ""`},
		},
		{
			"within a stream", `{"model":"gpt","stream":true,` + asks,
			upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(text("one"), "data: "+complaint+"\n\n"), upstreamtest.LastChunk()},
			[]string{"msg", "request", "level", "ERROR", "status", "200", "code", "upstream_stream_error", "complete", "false"},
		},
		{
			"before another target answers", `{"model":"both",` + asks, refusal,
			[]string{"msg", "attempt failed", "level", "WARN", "model", "both", "provider", "openai", "target", "gpt-upstream", "attempt", "1", "status", "502", "code", "upstream_error", "cause", `upstream status 500, type "server_error", code ""`},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			provider := upstreamtest.New(t, c.script)
			g := proxytest.Start(t, configuration(provider.URL(), ""))
			r := g.Chat(t, c.body)
			g.Log.Request(t, r.RequestID())
			g.Log.Await(t, append(c.want, "request", r.RequestID())...)
			if log := g.Log.String(); strings.Contains(log, mark) {
				t.Errorf("the prompt is in the log:\n%s", log)
			}
		})
	}
}

// TestLogHasProvidersWordsOfRejection has providers reject requests: the log has method, address and the provider's words, without
// credentials and without what they repeat of the request.
func TestLogHasProvidersWordsOfRejection(t *testing.T) {
	const mark = "PROMPT-MARK"
	for _, c := range []struct {
		name, model, body string
		status, client    int
		code, words       string
	}{
		{"address", "gpt", `{"error":{"message":"Invalid URL (POST /chat/completions)","type":"invalid_request_error","param":null,"code":null}}`, 404, 502, "upstream_not_found", "invalid_request_error: Invalid URL (POST /chat/completions)"},
		{"page", "gpt", "<html><h1>Not Found</h1></html>", 404, 502, "upstream_not_found", "Not Found"},
		{"model", "gpt", `{"error":{"message":"The model gpt-upstream does not exist","type":"invalid_request_error","param":null,"code":"model_not_found"}}`, 404, 404, "model_not_found", "invalid_request_error: model_not_found: The model gpt-upstream does not exist"},
		{"credential", "gpt", `{"error":{"message":"Incorrect API key provided: sk-upstream-openai-canary, or sk-u***nary","code":"invalid_api_key"}}`, 401, 502, "upstream_auth_failed", "invalid_api_key: Incorrect API key provided: [redacted], or [redacted]"},
		{"limit", "gpt", `{"error":{"message":"Rate limit reached for gpt-upstream","type":"requests","code":"rate_limit_exceeded"}}`, 429, 429, "rate_limit_exceeded", "requests: rate_limit_exceeded: Rate limit reached for gpt-upstream"},
		{"prompt", "gpt", `{"error":{"message":"flagged: ` + mark + ` is bad","type":"invalid_request_error"}}`, 400, 400, "invalid_request_error", "invalid_request_error: flagged: … is bad"},
		{"without words", "gpt", `{}`, 422, 400, "invalid_request_error", ""},
		{"plugin: address", "claude", `{"type":"error","error":{"type":"not_found_error","message":"Not Found"}}`, 404, 502, "upstream_not_found", "not_found_error: Not Found"},
		{"plugin: model", "claude", `{"type":"error","error":{"type":"not_found_error","message":"model: claude-upstream"}}`, 404, 404, "model_not_found", "not_found_error: model: claude-upstream"},
		{"plugin: credential", "claude", `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`, 401, 502, "upstream_auth_failed", "authentication_error: invalid x-api-key"},
		{"plugin: prompt", "claude", `{"type":"error","error":{"type":"invalid_request_error","message":"` + mark + `"}}`, 400, 400, "invalid_request_error", "invalid_request_error: …"},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(c.status, "application/json", c.body, "Connection: close")})
			g := proxytest.Start(t, configuration(up.URL(), up.URL()))
			r := g.Chat(t, `{"model":"`+c.model+`","messages":[{"role":"user","content":"`+mark+`"}]}`)
			line := g.Log.Request(t, r.RequestID())
			provider, path := "openai", "/chat/completions"
			if c.model == "claude" {
				provider, path = "anthropic", "/v1/messages"
			}
			want := "provider " + provider + ": POST " + up.URL() + path + ": status " + strconv.Itoa(c.status)
			if c.words != "" {
				want += ": " + c.words
			}
			if r.Status != c.client || line["code"] != c.code || line["cause"] != want {
				t.Errorf("%d %s, cause\n%s\nwant\n%s", r.Status, line["code"], line["cause"], want)
			}
		})
	}
}

// TestLogSaysWhyModelIsUnavailable checks the logged causes of an error that looks the same to clients.
func TestLogSaysWhyModelIsUnavailable(t *testing.T) {
	g := proxytest.Start(t, configuration("", "")+`
[providers.idle]
plugin   = "openai"
base_url = "https://idle.example"
enabled  = false

[[models]]
id      = "idle"
targets = [{ provider = "idle" }]
`)
	for _, c := range []struct{ name, model, key, cause string }{
		{"unknown", "nobody", proxytest.Key, "no such model 'nobody'"},
		{"long", strings.Repeat("x", 65), proxytest.Key, "no such model '" + strings.Repeat("x", 64) + "…'"},
		{"a key", "sk-narrow-0123456789", proxytest.Key, "no such model '[redacted]'"},
		{"off", "idle", proxytest.Key, "the model 'idle' is off: provider idle is off: enabled is false"},
		{"of others", "vendor/model-with/slashes", "sk-narrow-0123456789", "the key may not use the model 'vendor/model-with/slashes'"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := g.Do(t, "POST", "/v1/chat/completions", `{"model":"`+c.model+`","messages":[{"role":"user","content":"x"}]}`, "Authorization: Bearer "+c.key)
			wantError(t, r, 404, "invalid_request_error", "model_not_found", "")
			if line := g.Log.Request(t, r.RequestID()); line["cause"] != c.cause {
				t.Errorf("cause %q, want %q", line["cause"], c.cause)
			}
			r = g.Do(t, "GET", "/v1/models/"+url.PathEscape(c.model), "", "Authorization: Bearer "+c.key)
			wantError(t, r, 404, "invalid_request_error", "model_not_found", "")
			if line := g.Log.Request(t, r.RequestID()); line["cause"] != c.cause {
				t.Errorf("cause %q of the model itself, want %q", line["cause"], c.cause)
			}
		})
	}
}

// TestLogNamesExceededLimit exceeds each limit of a key.
func TestLogNamesExceededLimit(t *testing.T) {
	hold := make(chan struct{})
	provider := upstreamtest.New(t, upstreamtest.Script{
		upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(text("one")), upstreamtest.Wait(hold), upstreamtest.Reset(),
	})
	defer close(hold)
	limited := func(name, limits string) string {
		return "[[keys]]\nname = \"" + name + "\"\nsecret = \"sk-" + name + "-0123456789\"\nmodels = [\"*\"]\nlimits = { " + limits + " }\n"
	}
	g := proxytest.Start(t, configuration(provider.URL(), "")+limited("requests", "requests_per_minute = 1")+limited("tokens", "tokens_per_minute = 1")+limited("concurrent", "concurrent = 1"))
	exceeds := func(key, body, cause string) {
		t.Helper()
		r := g.Do(t, "POST", "/v1/chat/completions", body, "Authorization: Bearer sk-"+key+"-0123456789")
		if line := g.Log.Request(t, r.RequestID()); r.Status != 429 || line["cause"] != cause {
			t.Errorf("%d with the cause %q, want %q", r.Status, line["cause"], cause)
		}
	}
	const demo = `{"model":"demo","messages":[{"role":"user","content":"Hello, gateway"}]}`
	if r := g.Do(t, "POST", "/v1/chat/completions", demo, "Authorization: Bearer sk-requests-0123456789"); r.Status != 200 {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	exceeds("requests", demo, "limits.requests_per_minute = 1 of key requests is reached")
	exceeds("tokens", demo, "limits.tokens_per_minute = 1 of key tokens is reached")
	c := dial(t, g)
	c.send("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer sk-concurrent-0123456789\r\nContent-Length: " + strconv.Itoa(len(askStream)) + "\r\n\r\n" + askStream)
	c.readUntil(`"one"`)
	exceeds("concurrent", demo, "limits.concurrent = 1 of key concurrent is reached")
}

// TestTraceContextIsLoggedAndSentOn sends valid and invalid trace contexts.
func TestTraceContextIsLoggedAndSentOn(t *testing.T) {
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.Loop(upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json",
		`{"id":"x","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}`))})
	g := proxytest.Start(t, configuration(provider.URL(), ""))
	for i, c := range []struct {
		headers []string
		want    string
	}{
		{nil, ""},
		{[]string{"Traceparent: " + trace}, trace},
		{[]string{"traceparent: " + strings.ToUpper(trace)}, ""},
		{[]string{"traceparent: ff" + trace[2:]}, ""},
		{[]string{"traceparent: 00-" + strings.Repeat("0", 32) + trace[35:]}, ""},
		{[]string{"traceparent: " + trace[:36] + strings.Repeat("0", 16) + trace[52:]}, ""},
		{[]string{"traceparent: " + trace + "-more"}, ""},
		{[]string{"traceparent: sk-" + trace[3:]}, ""},
	} {
		r := g.Do(t, "POST", "/v1/chat/completions", ask, c.headers...)
		if r.Status != 200 {
			t.Fatalf("%d %s", r.Status, r.Body)
		}
		if line := g.Log.Request(t, r.RequestID()); line["traceparent"] != c.want {
			t.Errorf("%v is logged as %q", c.headers, line["traceparent"])
		}
		if sent := strings.Join(provider.Requests()[i].Header.Values("Traceparent"), ", "); sent != c.want {
			t.Errorf("%v is sent on as %q", c.headers, sent)
		}
	}
	r := g.Do(t, "GET", "/v1/models", "", "traceparent: "+trace)
	if line := g.Log.Request(t, r.RequestID()); line["traceparent"] != trace {
		t.Errorf("a list is logged as %v", line)
	}
}
