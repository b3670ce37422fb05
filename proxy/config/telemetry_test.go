package config_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/proxytest/certtest"
)

func parseTelemetry(t *testing.T, text string) (*config.Config, error) {
	t.Helper()
	certificate := string(certtest.Valid(t).Cert)
	return config.Parse("gateway.toml", []byte(text), config.Options{Values: true, ReadFile: func(name string) ([]byte, error) {
		switch name {
		case "ca.pem":
			return []byte(certificate), nil
		case "token.txt":
			return []byte("Bearer open-sesame\n"), nil
		}
		return nil, os.ErrNotExist
	}})
}

func TestTelemetry(t *testing.T) {
	c, err := parseTelemetry(t, `
[telemetry]
otlp    = "https://collector.internal:4318/"
ca      = "ca.pem"
headers = { Authorization = { file = "token.txt" }, X-Tenant = "tenant-7" }
traces  = { sample = 0.5, errors = 0.25, per_second = 7 }
trust   = "none"
metrics = { every = "1m" }
logs    = true
content = { models = ["debug-*"], keys = ["dev"], sample = 0.01, max = "4KiB" }
names   = ["genai-2026", "1.37", "1.37"]
`)
	if err != nil {
		t.Fatal(err)
	}
	want := config.Telemetry{
		OTLP: "https://collector.internal:4318", CA: "ca.pem", Headers: map[string]config.Secret{"authorization": "Bearer open-sesame", "x-tenant": "tenant-7"},
		Traces: config.Traces{Sample: 0.5, Errors: 0.25, PerSecond: 7}, Trust: config.TrustNone,
		Metrics: time.Minute, Logs: true, Content: &config.Content{Models: []config.Glob{"debug-*"}, Keys: []config.Glob{"dev"}, Sample: 0.01, Max: 4 << 10}, Names: []string{"genai-2026", "1.37"},
	}
	if d := cmp.Diff(want, c.Telemetry); d != "" {
		t.Errorf("telemetry (-want +got):\n%s", d)
	}
	for _, v := range c.Values {
		if strings.Contains(v.Text, "tenant-7") || strings.Contains(v.Text, "sesame") {
			t.Errorf("%s = %s shows a secret", v.Key, v.Text)
		}
	}
	c, err = parseTelemetry(t, "")
	if err != nil {
		t.Fatal(err)
	}
	want = config.Telemetry{Traces: config.Traces{Sample: 0.1, Errors: 1, PerSecond: 100}, Trust: config.TrustKeys, Names: []string{"genai-2026"}}
	if d := cmp.Diff(want, c.Telemetry); d != "" || c.Telemetry.Traced() {
		t.Errorf("defaults (-want +got):\n%s", d)
	}
}

func TestTelemetryErrors(t *testing.T) {
	const collector = "[telemetry]\notlp = \"https://c:4318\"\n"
	for _, c := range []struct{ name, text, want string }{
		{"no scheme", "[telemetry]\notlp = \"collector:4318\"", `2:8: telemetry.otlp: "collector:4318": must start with https:// or http://`},
		{"with path", "[telemetry]\notlp = \"https://c/v1/traces\"", `2:8: telemetry.otlp: ends in /v1/traces, which is appended: remove it`},
		{"reserved header", collector + `headers = { Host = "x" }`, `3:20: telemetry.headers.Host: is not a header that can be set`},
		{"missing file", collector + `headers = { x = { file = "none" } }`, `3:26: telemetry.headers.x.file: file does not exist`},
		{"unknown names", collector + `names = ["1.30"]`, `3:10: telemetry.names: "1.30" is invalid: want genai-2026 or 1.37, did you mean "1.37"?`},
		{"content of everything", collector + `content = { sample = 0.1 }`, `3:11: telemetry.content: must have models or keys; write models = ["*"] for all`},
		{"no names", collector + `names = []`, `3:9: telemetry.names: must not be empty`},
		{"certificates without TLS", "[telemetry]\notlp = \"http://c\"\nca = \"ca.pem\"", `3:6: telemetry.ca: can never apply: otlp does not begin with "https://"`},
		{"endpoint", "[telemetry]\nendpoint = \"https://c\"", `2:1: telemetry.endpoint: unknown key, did you mean "otlp"?`},
		{"table of another program", "[otel]\nendpoint = \"https://c\"", `1:2: otel: unknown key, did you mean "telemetry"?`},
		{"alert without a secret", "[alerts]\nurl = \"https://hooks.example/x?token=open-sesame\"", `1:2: alerts.secret: is missing: without a signature, the receiver cannot know who has sent an alert`},
		{"short secret", "[alerts]\nurl = \"https://hooks.example/x\"\nsecret = \"0123456789\"", "3:10: alerts.secret: has 10 bytes; at least 16 random ones are needed, such as those of `openssl rand -hex 32`"},
		{"invalid alert URL", "[alerts]\nurl = \"open-sesame\"\nsecret = \"0123456789abcdef\"", `2:7: alerts.url: must start with https:// or http://`},
	} {
		_, err := parseTelemetry(t, c.text)
		if err == nil || strings.TrimSpace(err.Error()) != "gateway.toml:"+c.want {
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
	}
	for text, want := range map[string]string{
		"[telemetry]\nlogs = true":                    "telemetry.otlp: is not set: nothing is exported",
		"[telemetry]\notlp = \"http://c:4317\"":       "telemetry.otlp: has the port of OTLP over gRPC",
		"[telemetry]\notlp = \"http://otlp.acme.io\"": "telemetry.otlp: traces, and the headers of requests, are sent without encryption",
		"[server]\nauth = \"none\"\n[telemetry]\notlp = \"https://c\"\ncontent = { keys = [\"*\"] }": `telemetry.content: never applies: with auth = "none"`,
		"[alerts]\nurl = \"\"": "alerts.url: is not set: no alerts are posted",
	} {
		c, err := parseTelemetry(t, text)
		if err != nil || len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0].Error(), want) {
			t.Errorf("%s: %v, warnings %v, want %q", text, err, c.Warnings, want)
		}
	}
}

// TestTraceContextOfProviders checks which providers receive a trace context by default.
func TestTraceContextOfProviders(t *testing.T) {
	for base, want := range map[string]bool{
		"https://api.openai.com/v1": false, "https://llm.acme.io": false, "http://127.0.0.1:8000": true, "https://10.1.2.3": true, "http://vllm:8000": true,
		"https://models.internal": true, "https://8.8.8.8": false, "https://[2606:4700::1]": false,
	} {
		c, err := config.Parse("gateway.toml", []byte("[providers.p]\nplugin = \"openai\"\nbase_url = \""+base+"\"\n"), config.Options{Bundled: []string{"openai"}})
		if err != nil {
			t.Fatalf("%s: %v", base, err)
		}
		if got := c.Providers[0].Trace; got != want {
			t.Errorf("%s: trace = %v, want %v", base, got, want)
		}
	}
}
