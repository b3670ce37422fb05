package e2e_test

import (
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestLogOmitsProviderMessages has a provider quote the prompt in its error, wherever it can. The log has what failed
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
		{"unknown", "nobody", proxytest.Key, "no such model"},
		{"off", "idle", proxytest.Key, "the model is off: provider idle is off: enabled is false"},
		{"of others", "vendor/model-with/slashes", "sk-narrow-0123456789", "the key may not use the model"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := g.Do(t, "POST", "/v1/chat/completions", `{"model":"`+c.model+`","messages":[{"role":"user","content":"x"}]}`, "Authorization: Bearer "+c.key)
			wantError(t, r, 404, "invalid_request_error", "model_not_found", "")
			if line := g.Log.Request(t, r.RequestID()); line["cause"] != c.cause {
				t.Errorf("cause %q, want %q", line["cause"], c.cause)
			}
		})
	}
}
