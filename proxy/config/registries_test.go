package config_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/proxytest/certtest"
)

const pin = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestRegistries(t *testing.T) {
	c, err := config.Parse("f", []byte(`
[registries."registry.example.com"]
auth    = { username = "acme", secret = "${TOKEN}" }
mirrors = ["mirror.example.com:5000", "localhost:5001"]
[registries."10.0.0.1:5000"]
plain_http = true
[registries."registry.corp"]
auth          = { username = "acme", secret = "${NONE:-}" }
allow_private = true
[plugins.mine]
file = "oci://registry.example.com/acme/mine:1.2`+pin+`"
`), config.Options{Env: env("TOKEN=canary-0123456789"), Bundled: bundled})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []config.Registry{
		{
			Name: "registry.example.com", Username: "acme", Secret: config.FileSecret{Secret: "canary-0123456789"},
			Mirrors: []string{"mirror.example.com:5000", "localhost:5001"},
		},
		{Name: "10.0.0.1:5000", PlainHTTP: true, AllowPrivate: true},
		{Name: "registry.corp", AllowPrivate: true},
		{Name: "localhost:5001", PlainHTTP: true, AllowPrivate: true}, // without a table
		{Name: "192.168.1.1", AllowPrivate: true},
		{Name: "other.example.com"},
	} {
		if d := cmp.Diff(want, c.Registry(want.Name), cmpopts.IgnoreTypes(config.Position{})); d != "" {
			t.Errorf("%s (-want +got):\n%s", want.Name, d)
		}
	}
	p := c.Plugin("mine")
	if p.File != "oci://registry.example.com/acme/mine:1.2"+pin || p.Reference.Repository != "acme/mine" || p.SHA256 != "" {
		t.Errorf("plugin %+v", p)
	}
	if files := c.Files(); len(files) != 1 {
		t.Errorf("files %q", files)
	}
}

// TestRegistryCA reads the file of a registry's certificate authority, which may be missing for commands that need only
// plugins.
func TestRegistryCA(t *testing.T) {
	pair := certtest.Valid(t)
	dir := t.TempDir()
	cert, _ := pair.Write(t, dir)
	text := "[registries.a]\nca = \"cert.pem\"\n"
	c, err := config.Parse(filepath.Join(dir, "gateway.toml"), []byte(text), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r := c.Registry("a"); r.CA != cert || !r.Roots.Equal(pair.Roots) || !slices.Contains(c.Files(), cert) {
		t.Errorf("ca %q, files %q, or other certificates", r.CA, c.Files())
	}
	if _, err := config.Parse("elsewhere/gateway.toml", []byte(text), config.Options{}); err == nil || !strings.Contains(err.Error(), `registries.a.ca: "cert.pem": no such file`) {
		t.Errorf("missing file: error %v", err)
	}
	if _, err := config.Parse("elsewhere/gateway.toml", []byte(text), config.Options{PluginsOnly: true}); err != nil {
		t.Errorf("missing file, plugins only: error %v", err)
	}
	if _, err := config.Parse(filepath.Join(dir, "gateway.toml"), []byte(text+"plain_http = true\n"), config.Options{}); err == nil || !strings.Contains(err.Error(), "can never apply: plain_http is true") {
		t.Errorf("plain HTTP: error %v", err)
	}
}

func TestRegistryErrors(t *testing.T) {
	resolve := func(_ *config.Config, reference string) (string, error) {
		if strings.HasSuffix(reference, ":gone") {
			return "", errors.New("registry a: it does not exist")
		}
		return strings.TrimPrefix(pin, "@"), nil
	}
	for _, tt := range []struct {
		text    string
		resolve func(*config.Config, string) (string, error)
		want    string
	}{
		{"[registries.\"A/b\"]\n", nil, `registries."A/b": has an invalid registry`},
		{"[registries.a]\nauth = { secret = \"x\" }\n", nil, "registries.a.auth.username: is missing"},
		{"[registries.a]\nauth = { username = \"x\" }\n", nil, "registries.a.auth.secret: is missing; omit auth for anonymous access"},
		{"[registries.a]\nmirrors = [\"https://b\"]\n", nil, `registries.a.mirrors: "https://b": has an invalid port`},
		{"[registries.\"169.254.1.1\"]\n", nil, "allow_private: is missing: the address is link-local"},
		{"[registries.a]\ncredential = 1\n", nil, "registries.a.credential: unknown key"},
		{"[plugins.mine]\nfile = \"oci://a/mine" + pin + "\"\nsha256 = \"00\"\n", nil, "plugins.mine.sha256: applies to a file on disk"},
		{"[plugins.mine]\nfile = \"oci://a/Mine" + pin + "\"\n", nil, "plugins.mine.file: \"oci://a/Mine"},
		{"[plugins.mine]\nfile = \"oci://a/mine:1.2\"\n", nil, "names a tag, which the registry can move to another plugin: want a digest; `sluice check` looks it up"},
		{"[plugins.mine]\nfile = \"oci://a/mine:1.2\"\n", resolve, "for the plugin that it names now: file = \"oci://a/mine:1.2" + pin + `"`},
		{"[plugins.mine]\nfile = \"oci://a/mine:gone\"\n", resolve, "it cannot be looked up: registry a: it does not exist"},
		{"[plugins.openai]\nfile = \"oci://a/mine" + pin + "\"\n", nil, "is the name of a bundled plugin"},
	} {
		_, err := config.Parse("f", []byte(tt.text), config.Options{Bundled: bundled, ResolveTag: tt.resolve})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got error %v, want %q", tt.text, err, tt.want)
		}
	}
}

// TestRegistryWithoutSecret reads only plugins, with a credential whose variable or file is missing.
func TestRegistryWithoutSecret(t *testing.T) {
	for _, secret := range []string{`"${TOKEN}"`, `{ file = "/nowhere/token" }`} {
		c, err := config.Parse("f", []byte("[registries.a]\nauth = { username = \"u\", secret = "+secret+" }\n"), config.Options{PluginsOnly: true})
		if err != nil || c.Registry("a").Username != "" {
			t.Errorf("%s: error %v, access as %q", secret, err, c.Registry("a").Username)
		}
	}
}

// TestRegistryCredentialIsHidden checks that a plugin's options cannot contain the credential of a registry, and that
// values are printed without it.
func TestRegistryCredentialIsHidden(t *testing.T) {
	const text = "[registries.a]\nauth = { username = \"u\", secret = \"canary-0123456789\" }\n"
	_, err := config.Parse("f", []byte(text+"[plugins.openai]\noptions = { token = \"canary-0123456789\" }\n"), config.Options{Bundled: bundled})
	if err == nil || !strings.Contains(err.Error(), "contains a configured credential") || strings.Contains(err.Error(), "canary") {
		t.Errorf("got error %v", err)
	}
	c, err := config.Parse("f", []byte(text), config.Options{Bundled: bundled, Values: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range c.Values {
		if strings.Contains(v.Text, "canary") {
			t.Errorf("%s = %s", v.Key, v.Text)
		}
	}
}
