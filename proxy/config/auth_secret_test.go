package config_test

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// parseSecrets parses a configuration with files, and with the variables SET, EMPTY and DIR.
func parseSecrets(text string, files map[string]string) (*config.Config, error) {
	return config.Parse("/etc/sluice/gateway.toml", []byte(text), config.Options{
		Bundled: []string{"openai"},
		Env: func(name string) (string, bool) {
			v, ok := map[string]string{"SET": "sk-variable", "EMPTY": "", "CREDENTIALS_DIRECTORY": "/run/credentials/sluice"}[name]
			return v, ok
		},
		ReadFile: func(name string) ([]byte, error) {
			if text, ok := files[name]; ok {
				return []byte(text), nil
			}
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		},
	})
}

func TestSecrets(t *testing.T) {
	files := map[string]string{
		"/etc/sluice/key": "sk-relative\n", "/run/secrets/key": "  sk-absolute \r\n\n", "/run/credentials/sluice/openai": "sk-systemd", "/empty": "\n", "/spaced": "a b",
		"/etc/sluice/id": "AKIA", "/etc/sluice/signing": "0123456789",
	}
	text := func(s string) config.FileSecret { return config.FileSecret{Secret: config.Secret(s)} }
	for _, tt := range []struct {
		auth string
		want []config.FileSecret
		off  string
		err  string
	}{
		{`{ secret = "sk-text" }`, []config.FileSecret{text("sk-text")}, "", ""},
		{`{ secret = { file = "key" } }`, []config.FileSecret{{"sk-relative", "/etc/sluice/key"}}, "", ""},
		{`{ secret = { file = "/run/secrets/key" } }`, []config.FileSecret{{"sk-absolute", "/run/secrets/key"}}, "", ""},
		{`{ secret = { file = "${CREDENTIALS_DIRECTORY}/openai" } }`, []config.FileSecret{{"sk-systemd", "/run/credentials/sluice/openai"}}, "", ""},
		{`{ secrets = ["sk-text", { file = "key" }, "${SET}", "${EMPTY:-}"] }`, []config.FileSecret{text("sk-text"), {"sk-relative", "/etc/sluice/key"}, text("sk-variable")}, "", ""},
		{`{ secrets = ["${EMPTY:-}", "${MISSING:-}"] }`, nil, "MISSING is not set", ""},
		{`{ secrets = [] }`, nil, "auth.secrets is empty", ""},
		{`{ secret = "" }`, nil, "auth.secret is empty", ""},
		{`{ secret = { file = "missing" } }`, nil, "", "auth.secret.file: open /etc/sluice/missing: file does not exist"},
		{`{ secret = { file = "/empty" } }`, nil, "", "auth.secret.file: the file /empty is empty"},
		{`{ secret = { file = "/spaced" } }`, nil, "", "auth.secret: has a space"},
		{`{ secret = { } }`, nil, "", "auth.secret.file: is missing"},
		{`{ secret = { file = "key", path = "x" } }`, nil, "", "auth.secret.path: unknown key"},
		{`{ secret = "a", secrets = ["b"] }`, nil, "", "auth.secrets: set secret or secrets, not both"},
		{`{ secrets = "a" }`, nil, "", "auth.secrets: must be an array"},
		{`{ secrets = ["a", 1] }`, nil, "", "auth.secrets[1]: must be a string, or a table such as"},
		{`{ secrets = [` + strings.Repeat(`"x",`, 65) + `] }`, nil, "", "auth.secrets: has more than 64 elements"},
		{`{ header = "x-key" }`, nil, "", "auth.secret: is missing"},
	} {
		cfg, err := parseSecrets("[providers.p]\nplugin = \"openai\"\nauth = "+tt.auth, files)
		switch {
		case tt.err != "":
			if err == nil || !strings.Contains(err.Error(), "providers.p."+tt.err) || strings.Contains(err.Error(), "a b") {
				t.Errorf("%s: %v, want %q", tt.auth, err, tt.err)
			}
		case err != nil:
			t.Errorf("%s: %v", tt.auth, err)
		default:
			p := cfg.Providers[0]
			if d := cmp.Diff(reveal(tt.want), reveal(p.Auth.Secrets)); d != "" || p.Off != tt.off {
				t.Errorf("%s: off %q, secrets (-want +got):\n%s", tt.auth, p.Off, d)
			}
		}
	}

	cfg, err := parseSecrets(`
[[keys]]
name   = "k"
secret = { file = "/run/secrets/key" }
[providers.p]
plugin = "openai"
auth   = { secrets = [{ file = "key" }, "x"] }
[providers.q]
plugin = "openai"
base_url = "https://bedrock.example"
auth   = { aws = { region = "eu-central-1", access_key_id = { file = "id" }, secret_access_key = { file = "signing" } } }
`, files)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"/etc/sluice/gateway.toml", "/etc/sluice/key", "/etc/sluice/id", "/etc/sluice/signing", "/run/secrets/key"}, cfg.Files()); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	if a := cfg.Provider("q").Auth.AWS; cfg.Keys[0].Secret.Reveal() != "sk-absolute" || a.AccessKeyID.Reveal() != "AKIA" || a.SecretAccessKey.Reveal() != "0123456789" {
		t.Error("a key or part of an AWS credential was not read")
	}
	if _, err := parseSecrets("[providers.p]\nplugin = \"openai\"\nauth = { secret = { file = \"key\" } }\noptions = { x = \"sk-relative\" }", files); err == nil {
		t.Error("no error for options with a secret from a file")
	}
}

// reveal returns the values of secrets, for comparison.
func reveal(secrets []config.FileSecret) (all []string) {
	for _, s := range secrets {
		all = append(all, s.Reveal()+" "+s.File)
	}
	return all
}

func TestWarnsAboutCredentials(t *testing.T) {
	digest := "sha256:" + strings.Repeat("ab", 32)
	for _, tt := range []struct{ name, text, warning string }{
		{"variable without braces", `[providers.p]
plugin = "openai"
auth = { secret = "$OPENAI_API_KEY" }`, "3:19: providers.p.auth.secret: starts with $ and is used as it is; a variable is written ${NAME}"},
		{"secret that begins with $", "[providers.p]\nplugin = \"openai\"\nauth = { secret = \"$ecret-0123\" }", ""},
		{"digest for a provider", "[providers.p]\nplugin = \"openai\"\nauth = { secrets = [\"x\", \"" + digest + "\"] }", "3:26: providers.p.auth.secrets[1]: is a digest, and the secret itself is needed"},
		{"digest for a key", "[[keys]]\nname = \"k\"\nsecret = \"" + digest + "\"", "3:10: keys[0].secret: is a digest, and the secret itself is needed; a digest goes into digest"},
		{"variable for a key", "[[keys]]\nname = \"k\"\nsecret = \"$SLUICE_CLIENT_KEY\"", "3:10: keys[0].secret: starts with $ and is used as it is; a variable is written ${NAME}"},
		{"duplicate secret", "[providers.p]\nplugin = \"openai\"\nauth = { secrets = [\"x\", \"x\"] }", "3:26: providers.p.auth.secrets[1]: is the same as another one"},
		{"public host", "[providers.p]\nplugin = \"openai\"\nbase_url = \"https://llm.acme.io/v1\"", "1:12: providers.p.auth: is missing: requests to llm.acme.io are sent without a credential"},
		{"public address", "[providers.p]\nplugin = \"openai\"\nbase_url = \"https://8.8.8.8/v1\"", "1:12: providers.p.auth: is missing: requests to 8.8.8.8 are sent without a credential"},
		{"default address", "[providers.p]\nplugin = \"openai\"", "1:12: providers.p.auth: is missing: requests to api.openai.com are sent without a credential"},
		{"private address", "[providers.p]\nplugin = \"openai\"\nbase_url = \"http://10.0.0.7/v1\"", ""},
		{"loopback address", "[providers.p]\nplugin = \"openai\"\nbase_url = \"http://localhost:11434/v1\"", ""},
		{"service of a cluster", "[providers.p]\nplugin = \"openai\"\nbase_url = \"http://vllm.models.svc/v1\"", ""},
		{"host of a container network", "[providers.p]\nplugin = \"openai\"\nbase_url = \"http://vllm:8000/v1\"", ""},
		{"allowed private network", "[providers.p]\nplugin = \"openai\"\nallow_private = true\nbase_url = \"http://llm.acme.io/v1\"", ""},
		{"provider that is off", "[providers.p]\nplugin = \"openai\"\nenabled = false", ""},
	} {
		cfg, err := parseSecrets(tt.text, nil)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		var got []string
		for _, w := range cfg.Warnings {
			s := strings.TrimPrefix(w.Error(), "/etc/sluice/gateway.toml:")
			if !strings.Contains(s, "shorter than") && !strings.Contains(s, "guess") {
				got = append(got, s)
			}
		}
		if strings.Join(got, "\n") != tt.warning {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.warning)
		}
	}
}
