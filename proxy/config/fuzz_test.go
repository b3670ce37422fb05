package config_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// FuzzParse checks that every configuration that parses has the properties that other packages rely on, and that every
// error has a position in the file.
func FuzzParse(f *testing.F) {
	file, err := os.ReadFile(defaultFile)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(file))
	for _, seed := range []string{
		"", "\ufeff[server]\r\nlisten = \":0\"\r\nauth = \"none\"\r\n",
		"[[keys]]\nname = \"a\"\nsecret = \"${V}\"\nexpires = 2026-01-01T00:00:00Z\n",
		"[plugins.m]\nfile = \"m.wasm\"\nsha256 = \"" + strings.Repeat("0", 64) + "\"\nmemory = 1048576\n[providers.p]\nplugin = \"m\"\n",
		"[providers]\np.plugin = \"openai\"\np.base_url = \"https://x.example\"\np.auth.secret = \"${V:-}\"\n[[models]]\nid = \"m\"\n[[models.targets]]\nprovider = \"p\"\n[models.targets.options]\na = [{ b = 1.5 }, inf]\n",
		"[providers.p]\nplugin = \"openai\"\nbase_url = \"https://x.example\"\nauth = { aws = { region = \"eu-central-1\", access_key_id = \"${V}\", secret_access_key = \"${V:-}\" } }\n",
		"[providers.p]\nplugin = \"openai\"\nbase_url = \"https://x.example\"\n[providers.p.auth.google]\ncredentials_file = \"${V}\"\nscopes = [\"https://x\"]\n",
		"[providers.p]\nplugin = \"openai\"\nbase_url = \"https://x.example\"\nauth = { google = \"adc\", aws = { profile = \"p\" } }\n",
		"[a]\n[a.b]\n[a]\n[[a.c]]\n[a.c.d]\n[[a.c]]\nx.y = 1\nx.y.z = 2\n",
		"x = \"${\"\ny = '''${A:-${B}}'''\nz = \"\\u00e9$$\"\n",
		"d = 2026-01-01 25:00:00\ne = 1__0\nf = 0o777\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parse(text, "V=sk-canary-value", "SLUICE_KEY=")
		if err != nil {
			checkErrors(t, text, err)
			return
		}
		checkConfig(t, c)
	})
}

func checkErrors(t *testing.T, text string, err error) {
	list, ok := err.(config.Errors)
	if !ok || len(list) == 0 {
		t.Fatalf("error %#v", err)
	}
	lines := strings.Count(text, "\n") + 1
	for _, e := range list {
		if e.Line < 1 || e.Line > lines || e.Column < 1 || e.Text == "" || e.File == "" {
			t.Errorf("error without a position: %#v", e)
		}
		if strings.Contains(e.Text, "sk-canary-value") && !strings.Contains(text, "sk-canary-value") {
			t.Errorf("error with a variable's value: %v", e)
		}
	}
}

func checkConfig(t *testing.T, c *config.Config) {
	if c.Server.Listen == "" || c.Server.Auth != config.AuthKeys && c.Server.Auth != config.AuthNone || c.Server.MaxBody <= 0 {
		t.Errorf("server %+v", c.Server)
	}
	if c.Server.Auth == config.AuthKeys && len(c.Keys) == 0 {
		t.Error("keys are required, but none are configured")
	}
	keys := map[string]bool{}
	for _, k := range c.Keys {
		if k.Name == "" || keys[k.Name] || k.Digest == (config.Digest{}) && k.Secret != "" {
			t.Errorf("key %+v", k)
		}
		keys[k.Name] = true
	}
	for _, p := range c.Plugins {
		if (p.File == "") != slices.Contains(bundled, p.Name) || (p.File == "") != (p.SHA256 == "") || p.Isolation == "" {
			t.Errorf("plugin %+v", p)
		}
	}
	for _, p := range c.Providers {
		if c.Plugin(p.Plugin) == nil || !isObject(p.Options) || p.Timeout.Total <= 0 || p.ListModels.Every <= 0 {
			t.Errorf("provider %+v", p)
		}
		if p.Off == "" && !c.Plugin(p.Plugin).InUse {
			t.Errorf("provider %s is on, but its plugin is not in use", p.Name)
		}
	}
	ids := map[string]bool{}
	for _, m := range c.Models {
		if m.ID == "" || ids[m.ID] || len(m.Targets) == 0 || m.Pricing.Input < 0 || m.DefaultMaxTokens > m.MaxTokens && m.MaxTokens > 0 {
			t.Errorf("model %+v", m)
		}
		ids[m.ID] = true
		usable := false
		for _, g := range m.Targets {
			p := c.Provider(g.Provider)
			if p == nil || g.Model == "" || g.Weight < 0 || !isObject(g.Options) {
				t.Fatalf("target %+v", g)
			}
			usable = usable || p.Off == ""
		}
		if usable != (m.Off == "") {
			t.Errorf("model %s: off %q, usable %t", m.ID, m.Off, usable)
		}
	}
	if !isObject(c.Router.Settings) || c.Router.Plugin != "" && c.Plugin(c.Router.Plugin) == nil {
		t.Errorf("router %+v", c.Router)
	}
}

func isObject(raw json.RawMessage) bool {
	var m map[string]json.RawMessage
	return json.Unmarshal(raw, &m) == nil && m != nil
}
