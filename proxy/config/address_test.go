package config_test

import (
	"strings"
	"testing"
)

// TestPluginAndSecretSuffice checks the default address of each bundled plugin, named as plugin and as preset.
func TestPluginAndSecretSuffice(t *testing.T) {
	for plugin, want := range map[string]string{
		"openai":    "https://api.openai.com/v1",
		"anthropic": "https://api.anthropic.com",
		"gemini":    "https://generativelanguage.googleapis.com",
		"cohere":    "https://api.cohere.com",
		"bedrock":   "https://bedrock-runtime.us-east-1.amazonaws.com",
	} {
		for _, key := range []string{"plugin", "preset"} {
			c := mustParse(t, "[providers.p]\n"+key+" = \""+plugin+"\"\nauth = { secret = \"sk-x\" }\n")
			p := c.Provider("p")
			if p.Plugin != plugin || p.BaseURL != want || p.Off != "" || p.AllowPrivate || p.Auth.Header == "" || len(p.Paths) == 0 {
				t.Errorf("%s = %q: %+v, want the address %s", key, plugin, p, want)
			}
			if len(c.Warnings) > 0 {
				t.Errorf("%s = %q: warnings %v", key, plugin, c.Warnings)
			}
		}
	}
}

func TestDefaultAddressHasRegion(t *testing.T) {
	const aws = `auth = { aws = { region = "eu-west-3", access_key_id = "AKIDEXAMPLE", secret_access_key = "wJalrXUtnFEMI" } }`
	for _, tt := range []struct {
		name, auth, want string
		vars             []string
	}{
		{"from auth.aws", aws, "https://bedrock-runtime.eu-west-3.amazonaws.com", []string{"AWS_REGION=eu-north-1"}},
		{"from the environment", `auth = { secret = "sk-x" }`, "https://bedrock-runtime.eu-north-1.amazonaws.com", []string{"AWS_REGION=eu-north-1"}},
		{"no region", `auth = { secret = "sk-x" }`, "https://bedrock-runtime.us-east-1.amazonaws.com", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := mustParse(t, "[providers.p]\nplugin = \"bedrock\"\n"+tt.auth, tt.vars...)
			if got := c.Provider("p").BaseURL; got != tt.want {
				t.Errorf("address %s, want %s", got, tt.want)
			}
		})
	}
}

// TestCloudCredentialHasNoDefaultAddress checks that a cloud's credential is not sent to a default address of another
// company.
func TestCloudCredentialHasNoDefaultAddress(t *testing.T) {
	for _, tt := range []struct{ plugin, auth string }{
		{"anthropic", `{ google = "adc" }`},
		{"gemini", `{ google = "adc" }`},
		{"openai", `{ google = "adc" }`},
		{"anthropic", `{ aws = { region = "eu-west-3", access_key_id = "AKIDEXAMPLE", secret_access_key = "wJalrXUtnFEMI" } }`},
	} {
		_, err := parse("[providers.p]\nplugin = \"" + tt.plugin + "\"\nauth = " + tt.auth + "\n")
		if err == nil || !strings.Contains(err.Error(), "1:12: providers.p.base_url: is missing: there is no default for this kind of credential") {
			t.Errorf("%s with %s: error %v", tt.plugin, tt.auth, err)
		}
	}
}

func TestWarnsAboutPathOfBaseURL(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{`plugin = "openai"` + "\n" + `base_url = "https://x.example/v1/chat/completions"`, "ends in /chat/completions, which the plugin appends: remove it"},
		{`plugin = "openai"` + "\n" + `base_url = "https://x.example/v1/chat/completions/"`, "ends in /chat/completions, which the plugin appends: remove it"},
		{`plugin = "openai"` + "\n" + `base_url = "https://x.example/v1/models"`, "ends in /models, which the plugin appends: remove it"},
		{`plugin = "openai"` + "\n" + `base_url = "https://x.example"`, "has no path: most APIs that are compatible with OpenAI's are at /v1"},
		{`preset = "groq"` + "\n" + `base_url = "https://x.example/"`, "has no path: most APIs that are compatible with OpenAI's are at /v1"},
		{`plugin = "openai"` + "\n" + `base_url = "https://x.example/v1/v1"`, "ends in /v1/v1"},
		{`plugin = "anthropic"` + "\n" + `base_url = "https://x.example/v1"`, "ends in /v1, to which the plugin appends paths such as /v1/messages: remove /v1"},
		{`plugin = "anthropic"` + "\n" + `base_url = "https://x.example/v1/messages"`, "ends in /v1/messages, which the plugin appends: remove it"},
		{`plugin = "gemini"` + "\n" + `base_url = "https://x.example/v1beta"`, "ends in /v1beta, to which the plugin appends paths such as /v1beta/models: remove /v1beta"},
		{`plugin = "cohere"` + "\n" + `base_url = "https://x.example/v2"`, "ends in /v2, to which the plugin appends paths such as /v2/chat: remove /v2"},
		{`plugin = "openai"` + "\n" + `base_url = "${URL}"`, "ends in /chat/completions, which the plugin appends: remove it"},

		{`plugin = "openai"` + "\n" + `base_url = "https://x.example/v1/"`, ""},
		{`plugin = "openai"` + "\n" + `base_url = "https://x.example/compatible-mode"`, ""},
		{`plugin = "openai"` + "\n" + `base_url = "https://api.deepseek.com"`, ""},
		{`preset = "perplexity"` + "\n" + `base_url = "https://x.example"`, ""},
		{`preset = "azure"` + "\n" + `base_url = "https://x.openai.azure.com"`, ""},
		{`plugin = "openai"` + "\n" + `base_url = "https://x.example"` + "\n" + `options = { path = "/chat" }`, ""},
		{`plugin = "anthropic"` + "\n" + `base_url = "https://x.example"`, ""},
	} {
		t.Run(tt.text, func(t *testing.T) {
			c := mustParse(t, "[providers.p]\n"+tt.text+"\n", "URL=https://corp.example/v1/chat/completions")
			var got []string
			for _, w := range c.Warnings {
				if w.Key == "providers.p.base_url" && w.Line == 3 {
					got = append(got, w.Text)
				}
			}
			if strings.Join(got, "; ") != tt.want {
				t.Errorf("warnings %q, want %q", got, tt.want)
			}
		})
	}
}
