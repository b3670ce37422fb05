package config_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/config"
)

func TestPresetSuffices(t *testing.T) {
	bearer := config.Auth{Header: "Authorization", Prefix: "Bearer ", Secrets: []config.FileSecret{{Secret: "sk-x"}}}
	key := config.Auth{Header: "api-key", Secrets: []config.FileSecret{{Secret: "sk-x"}}}
	for name, want := range map[string]struct {
		url   string // "" if there is no common address
		auth  config.Auth
		paths string
	}{
		"azure":      {"", key, "/openai/deployments/*/chat/completions /openai/deployments/*/completions /openai/deployments/*/embeddings"},
		"azure-v1":   {"", key, "/chat/completions /responses /completions /embeddings"},
		"deepseek":   {"https://api.deepseek.com", bearer, "/chat/completions /responses /beta/completions /models"},
		"fireworks":  {"https://api.fireworks.ai/inference/v1", bearer, "/chat/completions /responses /completions /embeddings /moderations /rerank /models"},
		"groq":       {"https://api.groq.com/openai/v1", bearer, "/chat/completions /responses /completions /embeddings /moderations /rerank /models"},
		"lmstudio":   {"http://localhost:1234/v1", bearer, "/chat/completions /responses /completions /embeddings /moderations /rerank /models"},
		"mistral":    {"https://api.mistral.ai/v1", bearer, "/chat/completions /fim/completions /embeddings /moderations /models"},
		"ollama":     {"http://localhost:11434/v1", bearer, "/chat/completions /responses /completions /embeddings /moderations /rerank /models"},
		"openrouter": {"https://openrouter.ai/api/v1", bearer, "/chat/completions /responses /completions /embeddings /moderations /rerank /models"},
		"perplexity": {"https://api.perplexity.ai", bearer, "/chat/completions"},
		"together":   {"https://api.together.ai/v1", bearer, "/chat/completions /responses /completions /embeddings /moderations /rerank /models"},
		"vllm":       {"http://localhost:8000/v1", bearer, "/chat/completions /responses /completions /embeddings /moderations /rerank /models"},
		"xai":        {"https://api.x.ai/v1", bearer, "/chat/completions /responses /completions /embeddings /moderations /rerank /models"},
		"zai":        {"https://api.z.ai/api/paas/v4", bearer, "/chat/completions /responses /completions /embeddings /moderations /rerank /models"},
	} {
		t.Run(name, func(t *testing.T) {
			text := "[providers.p]\npreset = \"" + name + "\"\nauth = { secret = \"sk-x\" }\n"
			if want.url == "" {
				if _, err := parse(text); err == nil || !strings.Contains(err.Error(), "base_url: is missing") {
					t.Errorf("without base_url: %v", err)
				}
				want.url = "https://mine.example/openai"
				text += "base_url = \"" + want.url + "\"\n"
			}
			c := mustParse(t, text)
			p := c.Provider("p")
			if p.Plugin != "openai" || p.BaseURL != want.url || !reflect.DeepEqual(p.Auth, want.auth) || strings.Join(p.Paths, " ") != want.paths {
				t.Errorf("the provider is %+v", p)
			}
			if local := strings.Contains(want.url, "localhost"); p.AllowPrivate != local {
				t.Errorf("allow_private is %v", p.AllowPrivate)
			}
			if len(c.Plugins) != 1 || c.Plugins[0].Name != "openai" || !c.Plugins[0].InUse || len(c.Warnings) > 0 {
				t.Errorf("plugins %+v, warnings %v", c.Plugins, c.Warnings)
			}
		})
	}
}

func TestSettingsOverridePreset(t *testing.T) {
	p := mustParse(t, `
[plugins.openai]
options = { cache_control = true, thinking = "keep" }

[providers.p]
preset = "mistral"
plugin = "openai"
base_url = "https://proxy.example/mistral"
auth = { header = "x-key", secret = "sk-x" }
paths = ["/chat"]
options = { tool_ids = "any", path = "/chat" }
`).Provider("p")
	if p.BaseURL != "https://proxy.example/mistral" || p.Auth.Header != "x-key" || p.Auth.Prefix != "" || !slices.Equal(p.Paths, []string{"/chat"}) {
		t.Errorf("provider %+v", p)
	}
	var got map[string]any
	if err := json.Unmarshal(p.Options, &got); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{
		"tool_ids": "any", "path": "/chat", "cache_control": true, "thinking": "keep", "max_tokens_member": "max_tokens",
		"rename": map[string]any{"seed": "random_seed", "dimensions": "output_dimension"},
	} {
		if diff := cmp.Diff(want, got[name]); diff != "" {
			t.Errorf("options.%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestInvalidPresets(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"unknown":          {"[providers.p]\npreset = \"mistrall\"\n", `2:10: providers.p.preset: unknown preset "mistrall", did you mean "mistral"?`},
		"nothing like it":  {"[providers.p]\npreset = \"something-else\"\nplugin = \"openai\"\n", `2:10: providers.p.preset: unknown preset "something-else"`},
		"wrong kind":       {"[providers.p]\npreset = 1\n", `2:10: providers.p.preset: must be a string, not an integer`},
		"another's plugin": {"[providers.p]\nplugin = \"anthropic\"\npreset = \"groq\"\n", `2:10: providers.p.plugin: "anthropic" is not the plugin of the preset "groq", which is "openai"`},
		"misspelt member":  {"[providers.p]\npreest = \"groq\"\nplugin = \"demo\"\n", `2:1: providers.p.preest: unknown key, did you mean "preset"?`},
		"public only":      {"[providers.p]\npreset = \"vllm\"\nallow_private = false\n", `3:17: providers.p.allow_private: is false, but base_url has a private address`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(test.text)
			if err == nil || err.Error() != "/etc/sluice/gateway.toml:"+test.want {
				t.Errorf("error\n%v, want\n%s", err, test.want)
			}
		})
	}
	_, err := config.Parse("f", []byte("[providers.p]\npreset = \"groq\"\n"), config.Options{Bundled: []string{"demo"}, Now: today})
	if err == nil || err.Error() != `f:2:10: providers.p.preset: unknown plugin "openai"; declare files in [plugins.NAME]` {
		t.Errorf("without the plugin: %v", err)
	}
}

func TestPresetsHaveValidOptions(t *testing.T) {
	for _, name := range config.PresetNames("") {
		p := mustParse(t, "[providers.p]\npreset = \""+name+"\"\nbase_url = \"https://x.example\"\n").Provider("p")
		if !json.Valid(p.Options) {
			t.Errorf("%s: %s", name, p.Options)
		}
	}
}

// TestOptionsOfStandardAddress checks that a provider with the plugin openai supports the Responses API by default only
// at OpenAI's address.
func TestOptionsOfStandardAddress(t *testing.T) {
	for keys, want := range map[string]string{
		``:                                       `{"forms":["responses","completions","embeddings","moderations"]}`,
		`base_url = "https://api.openai.com/v1"`: `{"forms":["responses","completions","embeddings","moderations"]}`,
		`base_url = "https://api.openai.com/v1/"`:                                                 `{"forms":["responses","completions","embeddings","moderations"]}`,
		`base_url = "https://proxy.example/v1"`:                                                   `{}`,
		`options = { forms = [] }`:                                                                `{"forms":[]}`,
		`options = { api = "responses" }`:                                                         `{"forms":["responses","completions","embeddings","moderations"],"api":"responses"}`,
		"preset = \"openai\"\nbase_url = \"https://proxy.example/v1\"":                            `{"forms":["responses","completions","embeddings","moderations"]}`,
		"preset = \"vllm\"\nbase_url = \"https://proxy.example/v1\"\noptions.stateless = false\n": "",
	} {
		plugin := "plugin = \"openai\"\n"
		if strings.Contains(keys, "preset") {
			plugin = ""
		}
		c := mustParse(t, "[providers.p]\n"+plugin+keys+"\nauth = { secret = \"sk-x\" }\n")
		if got := string(c.Provider("p").Options); want != "" && got != want || want == "" && !strings.Contains(got, `"stateless":false`) {
			t.Errorf("%s: options %s, want %s", keys, got, want)
		}
	}
}
