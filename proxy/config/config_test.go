package config_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/config"
)

var (
	bundled = []string{"openai", "anthropic", "demo", "router", "gemini", "bedrock", "cohere"}
	today   = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
)

// env returns an Options.Env with NAME=value pairs.
func env(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, p := range pairs {
			if n, v, _ := strings.Cut(p, "="); n == name {
				return v, true
			}
		}
		return "", false
	}
}

func parse(text string, vars ...string) (*config.Config, error) {
	return config.Parse("/etc/sluice/gateway.toml", []byte(text), config.Options{Env: env(vars...), Bundled: bundled, Now: today})
}

func mustParse(t testing.TB, text string, vars ...string) *config.Config {
	t.Helper()
	c, err := parse(text, vars...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDefaults(t *testing.T) {
	c := mustParse(t, `
[[keys]]
name = "a"
secret = "sk-a"

[providers.up]
plugin = "openai"
base_url = "https://up.example/v1/"
auth = { secret = "sk-up" }

[[models]]
id = "m"
targets = [{ provider = "up" }]
`)
	wantServer := config.Server{
		Listen: "127.0.0.1:8080", Auth: config.AuthKeys, MaxBody: 32 << 20, MaxQueue: 16384, MaxWrongKeys: 20,
		ReadTimeout: 30 * time.Second, IdleTimeout: 120 * time.Second, WriteTimeout: 30 * time.Second,
		Heartbeat: 15 * time.Second, ShutdownTimeout: 30 * time.Second, LogFormat: "text", LogLevel: "info",
	}
	if diff := cmp.Diff(wantServer, c.Server); diff != "" {
		t.Errorf("server (-want +got):\n%s", diff)
	}
	wantProvider := config.Provider{
		Name: "up", Plugin: "openai", BaseURL: "https://up.example/v1",
		Auth: config.Auth{Header: "Authorization", Prefix: "Bearer ", Secrets: []config.FileSecret{{Secret: "sk-up"}}},
		Timeout: config.Timeout{
			Connect: 3 * time.Second, TLS: 5 * time.Second, FirstByte: time.Minute, Idle: time.Minute,
			Total: 15 * time.Minute, Write: 30 * time.Second,
		},
		Heartbeat:   15 * time.Second,
		Breaker:     config.Breaker{Failures: 5, Share: 0.8, Window: 30 * time.Second, Pause: 2 * time.Second, MaxPause: time.Minute},
		RetryBudget: 0.2,
		ListModels:  config.ListModels{Every: 10 * time.Minute},
		PriceLists:  []string{"openai"},
		Paths:       []string{"/chat/completions", "/responses", "/completions", "/embeddings", "/moderations", "/rerank", "/models"}, MaxConns: 16384, MaxEvent: 1 << 20, Options: []byte(`{}`),
		Trace: true, // .example is not a public name
		Pos:   config.Position{Line: 6, Column: 12},
	}
	if diff := cmp.Diff(wantProvider, c.Providers[0]); diff != "" {
		t.Errorf("provider (-want +got):\n%s", diff)
	}
	wantModel := config.Model{
		ID: "m", DisplayName: "m", OwnedBy: "up", Kinds: config.KindChat, TokensPerByte: 1, Pos: config.Position{Line: 11, Column: 3},
		Targets: []config.Target{{Provider: "up", Model: "m", Weight: 1, Options: []byte(`{}`)}},
		Router:  config.ModelRouter{Settings: []byte(`{}`)}, Affinity: config.Affinity{By: config.AffinityNone},
		Retry: config.Retry{Attempts: 2, Backoff: 200 * time.Millisecond},
	}
	if diff := cmp.Diff(wantModel, c.Models[0]); diff != "" {
		t.Errorf("model (-want +got):\n%s", diff)
	}
	if got := c.Keys[0]; len(got.Models) != 1 || got.Models[0] != "*" {
		t.Errorf("a key without models may use %q, want all models", got.Models)
	}
	if string(c.Router.Settings) != "{}" || c.Router.Plugin != "" {
		t.Errorf("router = %+v", c.Router)
	}
}

func TestPresetsOfBundledPlugins(t *testing.T) {
	c := mustParse(t, `
[providers.openai]
plugin = "openai"
base_url = "https://api.openai.com/v1"
auth = { secret = "k1" }
[providers.azure]
plugin = "openai"
base_url = "https://x.example"
auth = { header = "api-key", secret = "k2" }
[providers.plain]
plugin = "openai"
base_url = "http://localhost:11434/v1"
[providers.anthropic]
plugin = "anthropic"
base_url = "https://api.anthropic.com"
auth = { secret = "k3" }
[providers.query]
plugin = "openai"
base_url = "https://y.example"
auth = { query = "key", secret = "k4" }
paths = ["/v1beta/models/*"]
headers = ["X-Extra"]
[providers.token]
plugin = "openai"
base_url = "https://z.example"
auth = { header = "authorization", prefix = "Token ", secret = "k5" }
[providers.demo]
plugin = "demo"
`)
	type facts struct {
		Auth           config.Auth
		Paths, Headers []string
		Private        bool
	}
	openai := []string{"/chat/completions", "/responses", "/completions", "/embeddings", "/moderations", "/rerank", "/models"}
	want := map[string]facts{
		"openai": {Auth: config.Auth{Header: "Authorization", Prefix: "Bearer ", Secrets: []config.FileSecret{{Secret: "k1"}}}, Paths: openai},
		"azure":  {Auth: config.Auth{Header: "api-key", Secrets: []config.FileSecret{{Secret: "k2"}}}, Paths: openai},
		"plain":  {Paths: openai, Private: true},
		"anthropic": {Auth: config.Auth{Header: "x-api-key", Secrets: []config.FileSecret{{Secret: "k3"}}}, Paths: []string{
			"/v1/messages", "/v1/models",
			"/v1/projects/*/locations/*/publishers/anthropic/models/*:rawPredict",
			"/v1/projects/*/locations/*/publishers/anthropic/models/*:streamRawPredict",
			"/model/*/invoke", "/model/*/invoke-with-response-stream",
		}, Headers: []string{"anthropic-version", "anthropic-beta"}},
		"query": {Auth: config.Auth{Query: "key", Secrets: []config.FileSecret{{Secret: "k4"}}}, Paths: []string{"/v1beta/models/*"}, Headers: []string{"x-extra"}},
		"token": {Auth: config.Auth{Header: "authorization", Prefix: "Token ", Secrets: []config.FileSecret{{Secret: "k5"}}}, Paths: openai},
		"demo":  {},
	}
	got := map[string]facts{}
	for _, p := range c.Providers {
		got[p.Name] = facts{p.Auth, p.Paths, p.Headers, p.AllowPrivate}
		if p.Off != "" {
			t.Errorf("%s is off: %s", p.Name, p.Off)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("providers (-want +got):\n%s", diff)
	}
}

func TestDisabledProviderHasReason(t *testing.T) {
	const text = `
[providers.p]
plugin = "openai"
base_url = "${BASE:-}"
auth = { secret = "${KEY:-}" }
%s
[providers.q]
plugin = "demo"
[[models]]
id = "only"
targets = [{ provider = "p" }, { provider = "p", model = "x" }]
[[models]]
id = "both"
targets = [{ provider = "p" }, { provider = "q" }]
`
	tests := []struct {
		name, extra string
		vars        []string
		off, model  string
		inUse       bool
	}{
		{"no address", "", []string{"KEY=k"}, "BASE is not set", "provider p is off: BASE is not set", false},
		{"no key", "", []string{"BASE=https://x.example"}, "KEY is not set", "provider p is off: KEY is not set", false},
		{"empty key", "", []string{"BASE=https://x.example", "KEY="}, "KEY is not set", "provider p is off: KEY is not set", false},
		{"disabled", "enabled = false", []string{"BASE=https://x.example", "KEY=k"}, "enabled is false", "provider p is off: enabled is false", false},
		{"on", "", []string{"BASE=https://x.example", "KEY=k"}, "", "", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := mustParse(t, strings.Replace(text, "%s", tt.extra, 1), tt.vars...)
			if got := c.Provider("p").Off; got != tt.off {
				t.Errorf("provider is off: %q, want %q", got, tt.off)
			}
			if got := c.Models[0].Off; got != tt.model {
				t.Errorf("model is off: %q, want %q", got, tt.model)
			}
			if got := c.Models[1].Off; got != "" {
				t.Errorf("a model with another target is off: %q", got)
			}
			if got := c.Plugin("openai").InUse; got != tt.inUse {
				t.Errorf("plugin in use: %t, want %t", got, tt.inUse)
			}
		})
	}
	t.Run("written empty", func(t *testing.T) {
		c := mustParse(t, "[providers.p]\nplugin = \"openai\"\nbase_url = \"\"\n[providers.q]\nplugin = \"openai\"\nbase_url = \"https://x.example\"\nauth = { secret = \"${A:-}${B:-}\" }")
		if c.Providers[0].Off != "base_url is empty" || c.Providers[1].Off != "A and B are not set" {
			t.Errorf("off: %q, %q", c.Providers[0].Off, c.Providers[1].Off)
		}
	})
}

func TestPluginFiles(t *testing.T) {
	sum := strings.Repeat("aB", 32)
	c := mustParse(t, `
[plugins.mine]
file = "plugins/mine.wasm"
sha256 = "`+sum+`"
memory = "10MB"
options = { a = 1, b = "x" }
[plugins.fast]
file = "/opt/fast.wasm"
sha256 = "`+sum+`"
isolation = "shared"
[plugins.openai]
isolation = "call"
[providers.p]
plugin = "mine"
base_url = "https://x.example"
paths = ["/chat"]
options = { b = "y", c = true }
[providers.local]
plugin = "mine"
[[models]]
id = "m"
targets = [{ provider = "p", options = { a = 2 } }]
[router]
plugin = "fast"
strategy = "mine"
`)
	want := []config.Plugin{
		{Name: "mine", File: "/etc/sluice/plugins/mine.wasm", SHA256: strings.ToLower(sum), Isolation: config.IsolationKey, MemoryPages: 153, InUse: true, Pos: config.Position{Line: 2, Column: 10}},
		{Name: "fast", File: "/opt/fast.wasm", SHA256: strings.ToLower(sum), Isolation: config.IsolationShared, InUse: true, Pos: config.Position{Line: 7, Column: 10}},
		{Name: "openai", Isolation: config.IsolationCall, Pos: config.Position{Line: 11, Column: 10}},
	}
	if diff := cmp.Diff(want, c.Plugins); diff != "" {
		t.Errorf("plugins (-want +got):\n%s", diff)
	}
	if got := string(c.Provider("p").Options); got != `{"a":1,"b":"y","c":true}` {
		t.Errorf("options of the provider: %s", got)
	}
	if got := string(c.Models[0].Targets[0].Options); got != `{"a":2,"b":"y","c":true}` {
		t.Errorf("options of the target: %s", got)
	}
	if p := c.Provider("local"); p.Off != "" || p.BaseURL != "" {
		t.Errorf("provider without an upstream: %+v", p)
	}
	if got := string(c.Router.Settings); got != `{"strategy":"mine"}` {
		t.Errorf("settings of the router: %s", got)
	}
}

func TestKeyValidityAndDisabling(t *testing.T) {
	c := mustParse(t, `
[[keys]]
name = "dates"
secret = "sk-1"
models = ["demo", "gpt-*"]
not_before = 2026-01-01
expires = 2027-01-01T08:00:00+02:00
disabled = true
[[keys]]
name = "texts"
digest = "sha256:`+strings.Repeat("0f", 32)+`"
expires = "${UNTIL:-}2030-05-05"
[[keys]]
name = "gone"
secret = "sk-2"
expires = 2026-06-01
`)
	k := c.Keys[0]
	if !k.NotBefore.Equal(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) || !k.Expires.Equal(time.Date(2027, 1, 1, 6, 0, 0, 0, time.UTC)) || !k.Disabled {
		t.Errorf("first key: %+v", k)
	}
	if diff := cmp.Diff([]config.Glob{"demo", "gpt-*"}, k.Models); diff != "" {
		t.Error(diff)
	}
	k = c.Keys[1]
	if k.Digest[0] != 0x0f || k.Digest[31] != 0x0f || k.Secret != "" || !k.Expires.Equal(time.Date(2030, 5, 5, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("second key: %+v", k)
	}
	if len(c.Warnings) != 1 || c.Warnings[0].Error() != "/etc/sluice/gateway.toml:16:11: keys[2].expires: the key has expired" {
		t.Errorf("warnings: %v", c.Warnings)
	}
}

func TestRejectsOpenGatewayUnlessExplicit(t *testing.T) {
	const key = "[[keys]]\nname = \"a\"\nsecret = \"sk-0123456789abcdef\"\n"
	tests := []struct {
		name, text string
		auth, err  string
	}{
		{"loopback without keys", ``, "none", ""},
		{"localhost without keys", "[server]\nlisten = \"localhost:1\"", "none", ""},
		{"loopback IPv6 without keys", "[server]\nlisten = \"[::1]:1\"", "none", ""},
		{"all addresses without keys", "[server]\nlisten = \":8080\"", "", `2:10: server.auth: ":8080" is reachable`},
		{"address without keys", "[server]\nlisten = \"10.0.0.1:8080\"", "", "2:10: server.auth: "},
		{"mapped loopback", "[server]\nlisten = \"[::ffff:127.0.0.1]:8080\"", "none", ""},
		{"host name without keys", "[server]\nlisten = \"gw.example:80\"", "", "2:10: server.auth: "},
		{"all addresses with auth = none", "[server]\nlisten = \":8080\"\nauth = \"none\"", "none", ""},
		{"all addresses with a key", "[server]\nlisten = \":8080\"\n" + key, "keys", ""},
		{"auth = keys without keys", "[server]\nauth = \"keys\"", "", "server.auth: auth is \"keys\""},
		{"auth = none with keys", "[server]\nauth = \"none\"\n" + key, "none", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := parse(tt.text)
			switch {
			case tt.err != "":
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want one with %q", err, tt.err)
				}
			case err != nil:
				t.Fatal(err)
			case c.Server.Auth != tt.auth:
				t.Errorf("auth = %q, want %q", c.Server.Auth, tt.auth)
			}
		})
	}
}

func TestPrivateAddressesMustBeExplicit(t *testing.T) {
	tests := []struct {
		url, extra string
		private    bool
		err        string
	}{
		{"https://api.example/v1", "", false, ""},
		{"http://127.0.0.1:9/v1", "", true, ""},
		{"http://[::1]:9", "", true, ""},
		{"http://192.168.1.4", "", true, ""},
		{"http://LOCALHOST:11434", "", true, ""},
		{"http://llm.internal", "allow_private = true", true, ""},
		{"http://127.0.0.1:9", "allow_private = false", false, "4:17: providers.p.allow_private: is false"},
		{"http://169.254.169.254", "", false, "3:12: providers.p.base_url: \"http://169.254.169.254\": the address is link-local"},
		{"http://0.0.0.0", "", false, "link-local, multicast or"},
		{"http://169.254.169.254", "allow_private = true", true, ""},
	}
	for _, tt := range tests {
		t.Run(tt.url+" "+tt.extra, func(t *testing.T) {
			c, err := parse("[providers.p]\nplugin = \"openai\"\nbase_url = \"" + tt.url + "\"\n" + tt.extra)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want one with %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Providers[0].AllowPrivate; got != tt.private {
				t.Errorf("AllowPrivate = %t, want %t", got, tt.private)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"credential over plain HTTP", "[providers.p]\nplugin = \"openai\"\nbase_url = \"http://x.example/v1\"\nauth = { secret = \"k\" }", "providers.p.base_url: the credential is sent without encryption"},
		{"auth = none with keys", "[server]\nauth = \"none\"\n[[keys]]\nname = \"a\"\nsecret = \"s\"", "server.auth: auth is \"none\""},
		{"weak key reachable from other machines", "[server]\nlisten = \":80\"\n[[keys]]\nname = \"a\"\nsecret = \"sk-short\"", "keys[0].secret: the secret is short"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := mustParse(t, tt.text)
			if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0].Error(), tt.want) {
				t.Errorf("warnings %v, want one with %q", c.Warnings, tt.want)
			}
		})
	}
}

func TestErrorsUnwrapToEachError(t *testing.T) {
	_, err := parse("a = 1\nb = 2\n")
	var list config.Errors
	if !errors.As(err, &list) || len(list) != 2 {
		t.Fatalf("error %#v", err)
	}
	var one config.Error
	if !errors.As(err, &one) || one.Line != 1 || one.Key != "a" || one.File != "/etc/sluice/gateway.toml" {
		t.Errorf("first error %+v", one)
	}
}

func TestLoadNamesMissingFile(t *testing.T) {
	_, err := config.Load(t.TempDir()+"/none.toml", config.Options{})
	if err == nil || !strings.HasPrefix(err.Error(), "read configuration: open ") {
		t.Errorf("error %v", err)
	}
	if _, err := config.Load(t.TempDir(), config.Options{}); err == nil || !strings.HasPrefix(err.Error(), "read configuration: read ") {
		t.Errorf("error for a folder: %v", err)
	}
}

func TestLookupByName(t *testing.T) {
	c := mustParse(t, "[providers.p]\nplugin = \"demo\"\n")
	if c.Provider("p") != &c.Providers[0] || c.Plugin("demo") != &c.Plugins[0] {
		t.Error("an existing name was not found")
	}
	if c.Provider("demo") != nil || c.Plugin("p") != nil {
		t.Error("a missing name was found")
	}
}

func TestManyProviders(t *testing.T) {
	var text strings.Builder
	for i := range 40 {
		fmt.Fprintf(&text, "[providers.p%d]\nplugin = \"demo\"\n", i)
	}
	c := mustParse(t, text.String())
	if len(c.Providers) != 40 || c.Providers[39].Name != "p39" {
		t.Errorf("%d providers, want 40", len(c.Providers))
	}
	if _, err := parse(text.String() + "[providers.p39]\n[providers.p0]\n"); err == nil || strings.Count(err.Error(), "is already defined") != 2 {
		t.Errorf("error %v", err)
	}
}

// TestLimitsWarningsAboutKeysWithoutModels checks that one wrong pattern in many keys does not cause a warning for each
// of them.
func TestLimitsWarningsAboutKeysWithoutModels(t *testing.T) {
	var text strings.Builder
	text.WriteString("[providers.p]\nplugin = \"openai\"\nlist_models = { enabled = false }\n[[models]]\nid = \"m\"\ntargets = [{ provider = \"p\" }]\n")
	for i := range 1000 {
		fmt.Fprintf(&text, "[[keys]]\nname = \"k%d\"\nsecret = \"sk-%020d\"\nmodels = [\"gpt*\"]\n", i, i)
	}
	c, err := config.Parse("f", []byte(text.String()), config.Options{Bundled: bundled, Now: today})
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, w := range c.Warnings {
		if strings.Contains(w.Error(), "no model matches") {
			found = append(found, w.Error())
		}
	}
	if len(found) != 11 || !strings.Contains(found[9], "keys[9].models") || !strings.HasSuffix(found[10], "keys: no model matches the models of 990 more keys") {
		t.Errorf("%d warnings: %q", len(found), found)
	}
}
