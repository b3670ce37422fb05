package config_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/config"
)

const defaultFile = "../../gateway.toml"

func load(t *testing.T, vars ...string) *config.Config {
	t.Helper()
	c, err := config.Load(defaultFile, config.Options{Env: env(vars...), Bundled: bundled, Now: today})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Warnings) > 0 {
		t.Errorf("warnings: %v", c.Warnings)
	}
	return c
}

func on(c *config.Config) (providers, models, plugins []string) {
	for _, p := range c.Providers {
		if p.Off == "" {
			providers = append(providers, p.Name)
		}
	}
	for _, m := range c.Models {
		if m.Off == "" {
			models = append(models, m.ID)
		}
	}
	for _, p := range c.Plugins {
		if p.InUse {
			plugins = append(plugins, p.Name)
		}
	}
	return providers, models, plugins
}

func TestDefaultFileWithoutVariables(t *testing.T) {
	c := load(t)
	providers, models, plugins := on(c)
	if !slices.Equal(providers, []string{"demo"}) || !slices.Equal(models, []string{"demo", "demo-split", "auto"}) || !slices.Equal(plugins, []string{"demo", "router"}) {
		t.Errorf("on: providers %v, models %v, plugins %v", providers, models, plugins)
	}
	for name, want := range map[string]string{"openai": "OPENAI_API_KEY is not set", "anthropic": "ANTHROPIC_API_KEY is not set", "ollama": "OLLAMA_BASE_URL is not set",
		"gemini": "GEMINI_API_KEY is not set", "bedrock": "AWS_BEARER_TOKEN_BEDROCK is not set", "cohere": "COHERE_API_KEY is not set"} {
		if got := c.Provider(name).Off; got != want {
			t.Errorf("%s is off: %q, want %q", name, got, want)
		}
	}
	if c.Server.Listen != "127.0.0.1:8080" || c.Admin.Listen != "127.0.0.1:8081" || !c.Admin.Default || c.Server.Auth != config.AuthKeys || c.Keys[0].Secret.Reveal() != "sk-local" {
		t.Errorf("server %+v, admin %+v", c.Server, c.Admin)
	}
	if c.Router.Plugin != "router" || string(c.Router.Settings) != `{"strategy":"weighted"}` {
		t.Errorf("router %+v", c.Router)
	}
}

func TestDefaultFileWithEveryVariable(t *testing.T) {
	c := load(t, "SLUICE_LISTEN=127.0.0.1:9999", "SLUICE_ADMIN=127.0.0.1:9998", "SLUICE_KEY=sk-mine", "OPENAI_API_KEY=sk-o", "ANTHROPIC_API_KEY=sk-a",
		"OPENAI_BASE_URL=http://127.0.0.1:1234/v1", "ANTHROPIC_BASE_URL=http://127.0.0.1:1235", "OLLAMA_BASE_URL=http://localhost:11434/v1",
		"GEMINI_API_KEY=g", "AWS_BEARER_TOKEN_BEDROCK=b", "AWS_REGION=eu-central-1", "COHERE_API_KEY=c")
	providers, models, _ := on(c)
	if len(providers) != len(c.Providers) || len(models) != len(c.Models) {
		t.Errorf("on: providers %v, models %v", providers, models)
	}
	for name, want := range map[string]string{"openai": "http://127.0.0.1:1234/v1", "anthropic": "http://127.0.0.1:1235", "ollama": "http://localhost:11434/v1"} {
		p := c.Provider(name)
		if p.BaseURL != want || !p.AllowPrivate || !p.ListModels.Enabled {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if got, want := c.Provider("bedrock").BaseURL, "https://bedrock-runtime.eu-central-1.amazonaws.com"; got != want {
		t.Errorf("bedrock at %s, want %s", got, want)
	}
	if c.Server.Listen != "127.0.0.1:9999" || c.Admin.Listen != "127.0.0.1:9998" || c.Admin.Default || c.Keys[0].Secret.Reveal() != "sk-mine" {
		t.Errorf("listens at %s, admin at %s", c.Server.Listen, c.Admin.Listen)
	}
}

// TestDefaultFileRoutingExample checks the routing policies that are commented out in the file.
func TestDefaultFileRoutingExample(t *testing.T) {
	text, err := os.ReadFile(defaultFile)
	if err != nil {
		t.Fatal(err)
	}
	before, example, ok := strings.Cut(string(text), "\n# [[models]]\n# id       = \"auto\"\n")
	if !ok {
		t.Fatal("no example")
	}
	before = strings.NewReplacer("\n# affinity =", "\naffinity =", "\n# salt ", "\nsalt ", "\n# zone ", "\nzone ").Replace(before)
	example = strings.ReplaceAll("\n"+example, "\n# ", "\n")
	before = before + "\n[[keys]]\nname = \"gold\"\nsecret = \"sk-gold-0123456789\"\ntags = { plan = \"gold\" }\n[[models]]\nid = \"policies\"\n"
	c := mustParse(t, before+example)
	m := c.Models[len(c.Models)-1]
	if len(m.Rules) != 2 || m.Canary == nil || m.Hedge == nil || len(m.Shadows) != 1 || m.Router.Plugin != "router" || c.Router.Affinity.By != config.AffinityConversation || c.Router.Zone.String() != "Europe/Berlin" {
		t.Errorf("model %+v, router %+v", m, c.Router)
	}
}

func TestDefaultFileNamesProviderAddresses(t *testing.T) {
	c := load(t, "OPENAI_API_KEY=sk-o", "ANTHROPIC_API_KEY=sk-a")
	if c.Provider("openai").BaseURL != "https://api.openai.com/v1" || c.Provider("anthropic").BaseURL != "https://api.anthropic.com" {
		t.Errorf("addresses %s, %s", c.Provider("openai").BaseURL, c.Provider("anthropic").BaseURL)
	}
	if c.Provider("openai").AllowPrivate || c.Provider("anthropic").AllowPrivate {
		t.Error("private addresses are allowed for a public provider")
	}
}
