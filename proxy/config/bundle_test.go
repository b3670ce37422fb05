package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/config"
)

const node = `
[bundle]
source = "oci://registry.example.com/acme/fleet:prod"
keys   = ["RWQ"]
name   = "node-1"
tags   = ["canary"]
[bundle.secrets.OPENAI_API_KEY]
hosts = ["api.openai.com"]
[bundle.secrets.FROM_FILE]
file  = "secret"
hosts = ["API.anthropic.com"]
[bundle.secrets.google]
hosts = ["aiplatform.googleapis.com"]
`

// parseNode parses the configuration of a node that runs a bundle.
func parseNode(t *testing.T, own, bundle string) (*config.Config, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("from-file-0123456789\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return config.Parse(filepath.Join(dir, "gateway.toml"), []byte(node+own), config.Options{
		Env: env("OPENAI_API_KEY=from-env-0123456789", "OTHER=canary-0123456789", "FROM_FILE=not-this-0123456789"), Bundled: bundled,
		Bundle: func(c *config.Config) (*config.BundleText, error) {
			if c.Bundle.Source.Tag != "prod" || c.Registry("registry.example.com").PlainHTTP {
				t.Errorf("bundle %+v", c.Bundle)
			}
			return &config.BundleText{Name: "bundle sha256:0", Digest: "sha256:0", Content: []byte(bundle)}, nil
		},
	})
}

func TestBundle(t *testing.T) {
	c, err := parseNode(t, "[server]\nmax_body = \"1MiB\"\n", `
[providers.openai]
plugin = "openai"
auth   = { secret = "${OPENAI_API_KEY}" }
[providers.claude]
plugin   = "anthropic"
base_url = "https://api.anthropic.com"
auth     = { secrets = ["${FROM_FILE}", "${ABSENT:-}"] }
[plugins.mine]
file = "oci://a/mine`+pin+`"
options = { file = "is an option" }
[[models]]
id      = "m"
targets = [{ provider = "openai", model = "gpt" }]
`)
	if err != nil {
		t.Fatal(err)
	}
	if b := c.Bundle; b.Digest != "sha256:0" || b.Name != "node-1" || b.MinRequests != 20 || c.Server.MaxBody != 1<<20 || len(c.Models) != 1 {
		t.Errorf("bundle %+v, server %+v", b, c.Server)
	}
	for name, want := range map[string]string{"openai": "from-env-0123456789", "claude": "from-file-0123456789"} {
		if s := c.Provider(name).Auth.Secrets; len(s) != 1 || s[0].Reveal() != want {
			t.Errorf("%s: %d secrets, or another one", name, len(s))
		}
	}
	if files := strings.Join(c.Files(), " "); !strings.HasSuffix(files, "/secret") {
		t.Errorf("files %s", files)
	}
}

// TestBundleAttacks checks that a signed bundle can neither set what is the node's own, nor read its files and variables,
// nor send a secret to another host.
func TestBundleAttacks(t *testing.T) {
	const model = "[[models]]\nid = \"m\"\ntargets = [{ provider = \"p\", model = \"x\" }]\n"
	for name, tt := range map[string]struct{ own, bundle, want string }{
		"another host":       {"", "[providers.p]\nplugin = \"openai\"\nbase_url = \"https://evil.example.com/v1\"\nauth = { secret = \"${OPENAI_API_KEY}\" }\n" + model, "OPENAI_API_KEY may not be sent to evil.example.com"},
		"a subdomain":        {"", "[providers.p]\nplugin = \"openai\"\nbase_url = \"https://api.openai.com.evil.example.com/v1\"\nauth = { secret = \"${OPENAI_API_KEY}\" }\n" + model, "OPENAI_API_KEY may not be sent to api.openai.com.evil"},
		"a preset":           {"", "[providers.p]\npreset = \"mistral\"\nauth = { secret = \"${OPENAI_API_KEY}\" }\n" + model, "OPENAI_API_KEY may not be sent to api.mistral.ai"},
		"part of a secret":   {"", "[providers.p]\nplugin = \"openai\"\nbase_url = \"https://evil.example.com/v1\"\nauth = { secrets = [\"x-${FROM_FILE}\"] }\n" + model, "FROM_FILE may not be sent to evil.example.com"},
		"a cloud":            {"", "[providers.p]\nplugin = \"gemini\"\nbase_url = \"https://evil.example.com\"\nauth = { google = { } }\n" + model, "google may not be sent to evil.example.com"},
		"an unbound cloud":   {"", "[providers.p]\nplugin = \"bedrock\"\nauth = { aws = { region = \"eu-central-1\", access_key_id = \"a\", secret_access_key = \"b-0123456789\" } }\n" + model, "aws may not be sent to bedrock-runtime.eu-central-1"},
		"an unbound secret":  {"", "[providers.p]\nplugin = \"openai\"\nauth = { secret = \"${OTHER}\" }\n" + model, "OTHER is not in [bundle.secrets]"},
		"in the URL":         {"", "[providers.p]\nplugin = \"openai\"\nbase_url = \"https://evil.example.com/${OPENAI_API_KEY}\"\n" + model, "only in the auth of a provider"},
		"in options":         {"", "[providers.p]\nplugin = \"openai\"\noptions = { a = \"${OPENAI_API_KEY}\" }\n" + model, "only in the auth of a provider"},
		"in a key":           {"", "[[keys]]\nname = \"k\"\nsecret = \"${OPENAI_API_KEY}\"\nmodels = [\"*\"]\n" + model, "only in the auth of a provider"},
		"a file":             {"", "[providers.p]\nplugin = \"openai\"\nauth = { secret = { file = \"/etc/passwd\" } }\n" + model, "a bundle cannot name what is on the node's disk"},
		"the file of a key":  {"", "[[keys]]\nname = \"k\"\nsecret = { file = \"../secret\" }\n" + model, "a bundle cannot name what is on the node's disk"},
		"a plugin on disk":   {"", "[plugins.mine]\nfile = \"/tmp/mine.wasm\"\nsha256 = \"00\"\n", "a bundle cannot name what is on the node's disk"},
		"a metadata server":  {"", "[providers.p]\nplugin = \"gemini\"\nauth = { google = { metadata = \"evil.example.com\" } }\n" + model, "a bundle cannot name what is on the node's disk or network"},
		"a profile":          {"", "[providers.p]\nplugin = \"bedrock\"\nauth = { aws = { profile = \"root\" } }\n" + model, "a bundle cannot name what is on the node's disk"},
		"the listener":       {"", "[server]\nlisten = \"0.0.0.0:80\"\n", "server: is set by each node itself"},
		"the admin listener": {"", "[admin]\nlisten = \"0.0.0.0:81\"\n", "admin: is set by each node itself"},
		"the keys of bundle": {"", "[bundle]\nkeys = [\"RWX\"]\n", "bundle: is set by each node itself"},
		"a registry":         {"", "[registries.a]\nplain_http = true\n", "registries: is set by each node itself"},
		"an include":         {"", "include = [\"/etc/passwd\"]\n", "include: is set by each node itself"},
		"the price list":     {"", "[pricing]\nfile = \"/etc/passwd\"\n", "a bundle cannot name what is on the node's disk"},
		"set by both":        {"[providers.q]\nplugin = \"demo\"\n", "[providers.p]\nplugin = \"demo\"\n", "providers: is set by the bundle: a node with a bundle cannot set it too"},
		"broken":             {"", "[providers", "bundle sha256:0:1:"},
	} {
		c, err := parseNode(t, tt.own, tt.bundle)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, configuration %t, want %q", name, err, c != nil, tt.want)
		}
		if err != nil && (strings.Contains(err.Error(), "0123456789") || strings.Contains(err.Error(), "root:")) {
			t.Errorf("%s: the error has a secret: %v", name, err)
		}
	}
}

func TestBundleTable(t *testing.T) {
	for text, want := range map[string]string{
		"[bundle]\nkeys = [\"RW\"]\n":                                                                                 "bundle.source: is missing",
		"[bundle]\nsource = \"oci://a/b:c\"\n":                                                                        "bundle.keys: is missing",
		"[bundle]\nsource = \"oci://a/b" + pin + "\"\nkeys = [\"RW\"]\n":                                              "must be a tag without a digest",
		"[bundle]\nsource = \"oci://a/b:c\"\nkeys = [\"RW\"]\n[bundle.secrets.A]\n":                                   "bundle.secrets.A.hosts: is missing",
		"[bundle]\nsource = \"oci://a/b:c\"\nkeys = [\"RW\"]\n[bundle.secrets.\"a b\"]\nhosts = [\"a\"]\n":            "must be the name of a variable",
		"[bundle]\nsource = \"oci://a/b:c\"\nkeys = [\"RW\"]\n[bundle.secrets.A]\nhosts = [\"a\"]\nfile = \"none\"\n": "bundle.secrets.A.file: stat none",
	} {
		if _, err := config.Parse("f", []byte(text), config.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

// TestCheckBundle checks a bundle for no particular node.
func TestCheckBundle(t *testing.T) {
	const good = "[providers.p]\nplugin = \"openai\"\nauth = { secret = \"${ANY}\" }\n[[models]]\nid = \"m\"\ntargets = [{ provider = \"p\", model = \"x\" }]\n"
	if c, err := config.CheckBundle("bundle.toml", []byte(good), config.Options{Bundled: bundled}); err != nil || len(c.Models) != 1 {
		t.Errorf("error %v", err)
	}
	for text, want := range map[string]string{
		good + "[server]\n":                      "bundle.toml:7:2: server: is set by each node itself",
		strings.Replace(good, `"p",`, `"q",`, 1): `bundle.toml:6:25: models[0].targets[0].provider: unknown provider "q"`,
	} {
		if _, err := config.CheckBundle("bundle.toml", []byte(text), config.Options{Bundled: bundled}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
