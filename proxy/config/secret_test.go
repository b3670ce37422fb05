package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/config"
)

const canary = "sk-canary-0123456789"

func TestSecretIsNeverPrinted(t *testing.T) {
	c := mustParse(t, `
[[keys]]
name = "a"
secret = "${CANARY}"
[providers.p]
plugin = "openai"
base_url = "https://x.example"
auth = { secret = "${CANARY}p" }
`, "CANARY="+canary)
	if c.Keys[0].Secret.Reveal() != canary || c.Providers[0].Auth.Secrets[0].Reveal() != canary+"p" {
		t.Fatal("the secrets were not read")
	}
	var out bytes.Buffer
	values := []any{c, *c, c.Keys, c.Keys[0], c.Providers[0].Auth, c.Keys[0].Secret, &c.Keys[0].Secret, []config.Secret{c.Keys[0].Secret}, map[string]config.Secret{"k": c.Keys[0].Secret}}
	for _, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%10.3s"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		j, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(j)
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "v", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "v", v)
	}
	for _, form := range []string{canary, "canary", fmt.Sprintf("%x", "canary"), fmt.Sprintf("%X", "canary")} {
		if i := strings.Index(out.String(), form); i >= 0 {
			t.Errorf("%q is printed: …%s…", form, out.String()[max(0, i-60):i+20])
		}
	}
	if config.Secret("").String() != "" || config.Secret("x").String() != "[redacted]" {
		t.Error("want an empty secret to print as \"\", and others as [redacted]")
	}
	if s := fmt.Sprint(config.Digest{0xab, 0xcd, 0xef, 0x01, 0x23}); s != "sha256:abcdef01…" {
		t.Errorf("digest prints as %s", s)
	}
}

// TestErrorsDoNotQuoteVariables puts a credential into each string of a file where it does not belong.
func TestErrorsDoNotQuoteVariables(t *testing.T) {
	lines := []string{
		"[server]\nlisten = %s", "[server]\nauth = %s", "[server]\nheartbeat = %s", "[server]\nmax_body = %s", "[server]\nlog_level = %s", "[server]\nmax_conns = %s",
		"[[keys]]\nname = %s\nsecret = \"x\"", "[[keys]]\nname = \"a\"\nsecret = %s", "[[keys]]\nname = \"a\"\ndigest = %s",
		"[[keys]]\nname = \"a\"\nsecret = \"x\"\nmodels = [%s]", "[[keys]]\nname = \"a\"\nsecret = \"x\"\nexpires = %s",
		"[plugins.m]\nfile = \"x\"\nsha256 = %s", "[plugins.m]\nisolation = %s", "[plugins.m]\nmemory = %s",
		"[providers.p]\nplugin = %s", "[providers.p]\nplugin = \"openai\"\nbase_url = %s",
		"[providers.p]\nplugin = \"openai\"\nbase_url = \"https://x.example\"\nauth = { secret = %s }",
		"[providers.p]\nplugin = \"openai\"\nbase_url = \"https://x.example\"\nauth = { header = %s, secret = \"a\" }",
		"[providers.p]\nplugin = \"openai\"\nbase_url = \"https://x.example\"\nauth = { query = %s, secret = \"a\" }",
		"[providers.p]\nplugin = \"openai\"\nbase_url = \"https://x.example\"\nheaders = [%s]\npaths = [%s]",
		"[providers.p]\nplugin = \"openai\"\nbase_url = \"https://x.example\"\ntimeout = { idle = %s }",
		"[[models]]\nid = %s", "[[models]]\nid = \"m\"\ntargets = [{ provider = %s }]", "[[models]]\nid = \"m\"\ndisplay_name = %s\ncreated = %s",
		"[router]\nplugin = %s", "[store]\nurl = %s", "[store]\nprefix = %s", "[store]\nlease = %s",
	}
	for _, value := range []string{canary, canary + " \x01\n", "https://u:" + canary + "@x.example", "redis://:" + canary + "@x.example:port"} {
		for _, line := range lines {
			text := strings.ReplaceAll(line, "%s", `"${CANARY}"`)
			_, err := parse(text, "CANARY="+value)
			if err != nil && strings.Contains(err.Error(), "canary") {
				t.Errorf("%s\n%v", text, err)
			}
			if err == nil && value != canary {
				t.Logf("accepted:\n%s", text)
			}
		}
	}
	_, err := parse("[server]\nlog_level = \"${CANARY}\"", "CANARY="+canary)
	if want := "the value of ${CANARY} is invalid"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}

func TestCredentialDoesNotReachPlugin(t *testing.T) {
	const head = `
[store]
url = "redis://u:pass%2Fword-1@${REDIS_HOST:-h}"
[[keys]]
name = "a"
secret = "` + canary + `"
[[keys]]
name = "short"
secret = "abc"
[providers.p]
plugin = "openai"
base_url = "https://x.example"
auth = { secret = "${UPSTREAM_KEY:-}" }
`
	tests := []struct {
		name, text string
		vars       []string
		want       string // start of the error, from its key on; "" for none
	}{
		{"other text", "options = { a = \"sk-other\" }", nil, ""},
		{"a key's secret", "options = { a = \"" + canary + "\" }", nil, "providers.p.options.a: contains a configured credential"},
		{"the store's password", "options = { a = \"x pass/word-1\" }", nil, "providers.p.options.a: contains a configured credential"},
		{"the store's password, percent-encoded", "options = { a = \"pass%2Fword-1\" }", nil, "providers.p.options.a: contains a configured credential"},
		{"part of a nested string", "options = { a = { b = [1, \"x " + canary + " y\"] } }", nil, "providers.p.options.a.b[1]: contains"},
		{"name of a member", "options = { a = { \"" + canary + "\" = 1 } }", nil, "providers.p.options.a: uses a configured credential as a key"},
		{"short secret", "options = { a = \"abc\" }", nil, "providers.p.options.a: contains"},
		{"short secret in a word", "options = { a = \"abcd\" }", nil, ""},
		{"value of a variable", "options = { a = \"sk-upstream\" }", []string{"UPSTREAM_KEY=sk-upstream"}, "providers.p.options.a: contains"},
		{"unset variable of a secret", "options = { a = \"${UPSTREAM_KEY:-}\" }", nil, "providers.p.options.a: contains"},
		{"options of a plugin", "[plugins.openai]\noptions = { a = \"" + canary + "\" }", nil, "plugins.openai.options.a: contains"},
		{"options of a target", "[[models]]\nid = \"m\"\ntargets = [{ provider = \"p\", options = { a = \"" + canary + "\" } }]", nil, "models[0].targets[0].options.a: contains"},
		{"options of the router", "[router]\nplugin = \"router\"\nx = \"" + canary + "\"", nil, "router.x: contains"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse(head+tt.text, tt.vars...)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if err != nil && strings.Contains(strings.ReplaceAll(err.Error(), "\n", " "), canary) {
				t.Errorf("the error shows the secret: %v", err)
			}
		})
	}
}
