package e2e_test

import (
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestLogOmitsProviderMessages has a provider quote the prompt in its errors, before a response and within a stream.
// The log must have the failure and its target, but not the message.
func TestLogOmitsProviderMessages(t *testing.T) {
	const (
		mark      = "PROMPT-MARK"
		complaint = `{"error":{"message":"cannot say ` + mark + `","type":"server_error","code":null}}`
		messages  = `"messages":[{"role":"user","content":"` + mark + `"}]}`
	)
	failure := upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(500, "application/json", complaint, "Connection: close")}
	for _, c := range []struct {
		name, body string
		script     upstreamtest.Script
		want       []string // attributes of a log line
	}{
		{
			"before a response", `{"model":"gpt",` + messages, failure,
			[]string{"msg", "request", "level", "ERROR", "status", "502", "code", "upstream_error", "cause", `upstream status 500, type "server_error", code ""`},
		},
		{
			"within a stream", `{"model":"gpt","stream":true,` + messages,
			upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(text("one"), "data: "+complaint+"\n\n"), upstreamtest.LastChunk()},
			[]string{"msg", "request", "level", "ERROR", "status", "200", "code", "upstream_stream_error", "complete", "false"},
		},
		{
			"before another target responds", `{"model":"both",` + messages, failure,
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

// TestLogHasProviderMessagesOfRejections has providers reject requests. The log must have method, URL and the
// provider's message, without credentials and without the parts that the message repeats from the request.
func TestLogHasProviderMessagesOfRejections(t *testing.T) {
	const mark = "PROMPT-MARK"
	for _, c := range []struct {
		name, model, body string
		status, want      int    // HTTP status of the provider, and the one that the client gets
		code, message     string // code and message in the log
	}{
		{"path not found", "gpt", `{"error":{"message":"Invalid URL (POST /chat/completions)","type":"invalid_request_error","param":null,"code":null}}`, 404, 502, "upstream_not_found", "invalid_request_error: Invalid URL (POST /chat/completions)"},
		{"HTML page", "gpt", "<html><h1>Not Found</h1></html>", 404, 502, "upstream_not_found", "Not Found"},
		{"model not found", "gpt", `{"error":{"message":"The model gpt-upstream does not exist","type":"invalid_request_error","param":null,"code":"model_not_found"}}`, 404, 404, "model_not_found", "invalid_request_error: model_not_found: The model gpt-upstream does not exist"},
		{"invalid credential", "gpt", `{"error":{"message":"Incorrect API key provided: sk-upstream-openai-canary, or sk-u***nary","code":"invalid_api_key"}}`, 401, 502, "upstream_auth_failed", "invalid_api_key: Incorrect API key provided: [redacted], or [redacted]"},
		{"rate limit", "gpt", `{"error":{"message":"Rate limit reached for gpt-upstream","type":"requests","code":"rate_limit_exceeded"}}`, 429, 429, "rate_limit_exceeded", "requests: rate_limit_exceeded: Rate limit reached for gpt-upstream"},
		{"prompt quoted", "gpt", `{"error":{"message":"flagged: ` + mark + ` is bad","type":"invalid_request_error"}}`, 400, 400, "invalid_request_error", "invalid_request_error: flagged: … is bad"},
		{"no message", "gpt", `{}`, 422, 400, "invalid_request_error", ""},
		{"plugin: path not found", "claude", `{"type":"error","error":{"type":"not_found_error","message":"Not Found"}}`, 404, 502, "upstream_not_found", "not_found_error: Not Found"},
		{"plugin: model not found", "claude", `{"type":"error","error":{"type":"not_found_error","message":"model: claude-upstream"}}`, 404, 404, "model_not_found", "not_found_error: model: claude-upstream"},
		{"plugin: invalid credential", "claude", `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`, 401, 502, "upstream_auth_failed", "authentication_error: invalid x-api-key"},
		{"plugin: prompt quoted", "claude", `{"type":"error","error":{"type":"invalid_request_error","message":"` + mark + `"}}`, 400, 400, "invalid_request_error", "invalid_request_error: …"},
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
			if c.message != "" {
				want += ": " + c.message
			}
			if r.Status != c.want || line["code"] != c.code || line["cause"] != want {
				t.Errorf("status %d, code %s, cause\n%s\nwant\n%s", r.Status, line["code"], line["cause"], want)
			}
		})
	}
}

// TestLogSaysWhyModelIsUnavailable checks the logged cause of model_not_found, which clients cannot see.
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
		{"unknown", "none-such", proxytest.Key, "no such model 'none-such'"},
		{"long name", strings.Repeat("x", 65), proxytest.Key, "no such model '" + strings.Repeat("x", 64) + "…'"},
		{"key as a name", "sk-narrow-0123456789", proxytest.Key, "no such model '[redacted]'"},
		{"disabled provider", "idle", proxytest.Key, "the model 'idle' is off: provider idle is off: enabled is false"},
		{"model of another key", "vendor/model-with/slashes", "sk-narrow-0123456789", "the key may not use the model 'vendor/model-with/slashes'"},
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
				t.Errorf("GET of the model: cause %q, want %q", line["cause"], c.cause)
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
	wantExceeded := func(key, body, cause string) {
		t.Helper()
		r := g.Do(t, "POST", "/v1/chat/completions", body, "Authorization: Bearer sk-"+key+"-0123456789")
		if line := g.Log.Request(t, r.RequestID()); r.Status != 429 || line["cause"] != cause {
			t.Errorf("status %d, cause %q, want 429 and %q", r.Status, line["cause"], cause)
		}
	}
	const demo = `{"model":"demo","messages":[{"role":"user","content":"Hello, gateway"}]}`
	if r := g.Do(t, "POST", "/v1/chat/completions", demo, "Authorization: Bearer sk-requests-0123456789"); r.Status != 200 {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	wantExceeded("requests", demo, "limits.requests_per_minute = 1 of key requests is reached")
	wantExceeded("tokens", demo, "limits.tokens_per_minute = 1 of key tokens is reached")
	c := dial(t, g)
	c.send("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer sk-concurrent-0123456789\r\nContent-Length: " + strconv.Itoa(len(askStream)) + "\r\n\r\n" + askStream)
	c.readUntil(`"one"`)
	wantExceeded("concurrent", demo, "limits.concurrent = 1 of key concurrent is reached")
}

// TestTraceContextTrust checks which providers receive whose trace context.
func TestTraceContextTrust(t *testing.T) {
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, c := range []struct{ name, provider, telemetry, keys, want string }{
		{"default of a private host", "", "", proxytest.Keys, trace + " a=1,b=2"},
		{"off", "trace = false", "", proxytest.Keys, " "},
		{"trust nobody", "", "[telemetry]\notlp = \"\"\ntrust = \"none\"\n", proxytest.Keys, " "},
		{"no client has a key", "", "", "", " "},
	} {
		t.Run(c.name, func(t *testing.T) {
			provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), respond("hi")})
			g := proxytest.Start(t, c.telemetry+c.keys+openAI("p", provider.URL())+c.provider+"\n[[models]]\nid = \"m\"\ntargets = [{ provider = \"p\" }]\n")
			r := g.Do(t, "POST", "/v1/chat/completions", askM, "traceparent: "+trace, "tracestate: a=1,b=2")
			if r.Status != 200 {
				t.Fatalf("%d %s", r.Status, r.Body)
			}
			h := provider.Requests()[0].Header
			if got := h.Get("Traceparent") + " " + h.Get("Tracestate"); got != c.want {
				t.Errorf("the provider has received %q, want %q", got, c.want)
			}
			if line := g.Log.Request(t, r.RequestID()); line["traceparent"] != trace || line["trace"] != "" {
				t.Errorf("logged as %v", line)
			}
		})
	}
}

// TestTraceContextIsLoggedAndForwarded sends valid and invalid trace contexts.
func TestTraceContextIsLoggedAndForwarded(t *testing.T) {
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
			t.Errorf("%v is logged as %q, want %q", c.headers, line["traceparent"], c.want)
		}
		if sent := strings.Join(provider.Requests()[i].Header.Values("Traceparent"), ", "); sent != c.want {
			t.Errorf("%v is forwarded as %q, want %q", c.headers, sent, c.want)
		}
	}
	r := g.Do(t, "GET", "/v1/models", "", "traceparent: "+trace)
	if line := g.Log.Request(t, r.RequestID()); line["traceparent"] != trace {
		t.Errorf("the list of models is logged as %v", line)
	}
}
