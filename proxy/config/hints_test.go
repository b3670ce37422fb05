package config_test

import (
	"strings"
	"testing"
)

// TestHintsForKeysOfOtherPrograms checks the errors about keys and notations that users of other programs are likely to
// try.
func TestHintsForKeysOfOtherPrograms(t *testing.T) {
	const (
		provider = "[providers.p]\nplugin = \"openai\"\n"
		model    = provider + "[[models]]\nid = \"m\"\ntargets = [{ provider = \"p\" }]\n"
		key      = "[[keys]]\nname = \"k\"\nsecret = \"sk-0123456789abcdef\"\n"
	)
	for _, tt := range []struct{ text, want string }{
		{provider + `api_key = "sk-x"`, `3:1: providers.p.api_key: unknown key; write auth = { secret = "…" }`},
		{provider + `key = "sk-x"`, `3:1: providers.p.key: unknown key; write auth = { secret = "…" }`},
		{provider + `token = "sk-x"`, `3:1: providers.p.token: unknown key; write auth = { secret = "…" }`},
		{provider + `apiKey = "sk-x"`, `3:1: providers.p.apiKey: unknown key; write auth = { secret = "…" }`},
		{provider + `url = "https://x.example/v1"`, `3:1: providers.p.url: unknown key, did you mean "base_url"?`},
		{provider + `api_base = "https://x.example/v1"`, `3:1: providers.p.api_base: unknown key, did you mean "base_url"?`},
		{provider + `name = "mine"`, `3:1: providers.p.name: unknown key; the name is in the header, [providers.NAME]`},
		{"[providers.p]\ntype = \"openai\"\npreset = \"openai\"\n", `2:1: providers.p.type: unknown key, did you mean "plugin"?`},
		{provider + `models = ["gpt-5.4"]`, "3:1: providers.p.models: unknown key; write models as [[models]], or list_models = { } to offer those that the provider lists"},
		{provider + `auth = "sk-x"`, `3:8: providers.p.auth: must be a table, not a string: write { secret = "…" }`},
		{provider + `auth = { token = "sk-x", secret = "sk-y" }`, `3:10: providers.p.auth.token: unknown key, did you mean "secret"?`},
		{provider + `list_models = true`, `3:15: providers.p.list_models: must be a table, not a boolean: write { }`},
		{provider + `timeout = "30s"`, `3:11: providers.p.timeout: must be a table, not a string: write { total = "…" }`},
		{"[providers]\nplugin = \"openai\"\n", `2:10: providers.plugin: must be a table, not a string: write [providers.NAME] for each provider`},
		{"[[providers]]\nname = \"openai\"\n", `1:3: providers: must be a table, not an array: write [providers.NAME] for each provider`},
		{"[server]\nport = 8080\n", `2:1: server.port: unknown key; write listen = "HOST:PORT"`},
		{"[server]\napi_key = \"sk-x\"\n", `2:1: server.api_key: unknown key; clients' keys are in [[keys]], with name and secret; a provider's is in its auth table`},
		{"port = 8080\n", `1:1: port: unknown key; write listen = "HOST:PORT" in [server]`},
		{"[keys]\nname = \"k\"\n", `1:2: keys: must be an array, not a table: write [[keys]] for each key, with name and secret`},
		{"[keys.alice]\nsecret = \"k\"\n", `1:2: keys: must be an array, not a table: write [[keys]] for each key, with name and secret`},
		{"keys = [\"sk-x\"]\n", `1:9: keys[0]: must be a table, not a string: write [[keys]] for each key, with name and secret`},
		{key + "rpm = 3\n", `4:1: keys[0].rpm: unknown key; write limits = { requests_per_minute = … }`},
		{"[[keys]]\nname = \"k\"\ndigest = \"sha256:" + strings.Repeat("0", 64) + "\"\napi_key = \"x\"\n", `4:1: keys[0].api_key: unknown key, did you mean "secret"?`},
		{model + `name = "x"`, `6:1: models[0].name: unknown key; the name for clients is id, the name for people display_name`},
		{model + `provider = "p"`, `6:1: models[0].provider: unknown key; write targets = [{ provider = "…", model = "…" }]`},
		{provider + "[[models]]\nid = \"m\"\ntargets = [\"p/m\"]\n", `5:12: models[0].targets[0]: must be a table, not a string: write { provider = "…", model = "…" }`},
		{provider + "[models]\nid = \"m\"\n", `3:2: models: must be an array, not a table: write [[models]] for each model, with id and targets`},
		{model + `when = { stream = true }`, `6:1: models[0].when: unknown key; write rules = [{ name = "…", when = { … }, targets = ["…"] }]`},
		{model + `retries = 3`, `6:1: models[0].retries: unknown key; write retry = { attempts = … }`},
		{model + `sticky = true`, `6:1: models[0].sticky: unknown key, did you mean "affinity"?`},
		{model + `mirror = []`, `6:1: models[0].mirror: unknown key, did you mean "shadow"?`},
		{model + `fallbacks = ["x"]`, `6:1: models[0].fallbacks: unknown key; give those targets fallback = true`},
		{provider + "[[models]]\nid = \"m\"\ntargets = [{ provider = \"p\", strategy = \"cheapest\" }]\n", `5:30: models[0].targets[0].strategy: unknown key; write it in [[models]], for all targets`},
		{model + `rules = [{ name = "r", team = ["x"] }]`, `6:24: models[0].rules[0].team: unknown key; write it in when = { … }`},
		{model + `rules = [{ name = "r", when = { tags = { } } }]`, `6:33: models[0].rules[0].when.tags: unknown key, did you mean "tag"?`},
		{model + `hedge = { timeout = "2s" }`, `6:11: models[0].hedge.timeout: unknown key, did you mean "after"?`},
		{"[[team]]\nname = \"t\"\n", `1:3: team: unknown key, did you mean "teams"?`},
		{provider + `base_url = "os.environ/API_BASE"`, `3:12: providers.p.base_url: "os.environ/API_BASE": must start with https:// or http://; a variable is written ${API_BASE}`},
		{"[cache]\ntype = \"redis\"\n", `1:2: cache: unknown key; responses are not cached; models[].affinity keeps a conversation at the provider that has cached its prompt`},
		{model + `cache = true`, `6:1: models[0].cache: unknown key; responses are not cached`},
		{"[litellm_settings]\ndrop_params = true\n", "1:2: litellm_settings: unknown key; it is a member of LiteLLM's configuration, which `sluice import litellm FILE` translates"},
		{"[[model_list]]\nmodel_name = \"x\"\n", "1:3: model_list: unknown key; it is a member of LiteLLM's configuration, which `sluice import litellm FILE` translates"},
		{"[governance]\nx = 1\n", "1:2: governance: unknown key; it is a member of Bifrost's configuration, which `sluice import bifrost FILE` translates"},
		{provider + "keys = []\n", `3:1: providers.p.keys: unknown key; write auth = { secret = "…" }, or auth = { secrets = ["…"] } for several accounts`},
		{model + `model_name = "x"`, `6:1: models[0].model_name: unknown key; the name for clients is id, the name for people display_name`},
		{provider + "[[models]]\nid = \"m\"\ntargets = [{ provider = \"p\", order = 1 }]\n", `5:30: models[0].targets[0].order: unknown key, did you mean "priority"?`},
		{key + "group = \"t\"\n", `4:1: keys[0].group: unknown key, did you mean "team"?`},

		{provider + "base_url = https://x.example\n", `a string needs quotes: base_url = "…"`},
		{"[providers.p]\nplugin = openai\n", `a string needs quotes: plugin = "…"`},
		{"[server]\nlisten = 127.0.0.1:8080\n", `a string needs quotes: listen = "…"`},
		{"[server]\nread_timeout = 30s\n", `a string needs quotes: read_timeout = "…"`},
		{provider + "auth.secret = ${OPENAI_API_KEY}\n", `a string needs quotes: auth.secret = "…"`},
		{provider + "auth.secret = sk-canary-1234\n", `a string needs quotes: auth.secret = "…"`},
		{provider + "enabled = yes\n", `a boolean is true or false`},
		{provider + "enabled = False\n", `a boolean is true or false`},
	} {
		t.Run(tt.text, func(t *testing.T) {
			_, err := parse(tt.text)
			if err == nil {
				t.Fatal("no error")
			}
			if got := strings.ReplaceAll(err.Error(), "/etc/sluice/gateway.toml:", ""); !strings.Contains(got, tt.want) || strings.Contains(got, "canary") {
				t.Errorf("errors\n%s\nwant one with\n%s", got, tt.want)
			}
		})
	}
}

// TestWarningsAboutNotationOfOtherPrograms checks the warnings about values that mean something else to other gateways.
func TestWarningsAboutNotationOfOtherPrograms(t *testing.T) {
	const provider = "[providers.openai]\npreset = \"openai\"\n"
	listed := `* is not a pattern in an id or a target; to offer the models that provider openai lists, also as openai/MODEL, write list_models = { } in [providers.openai] instead`
	for _, tt := range []struct{ text, want string }{
		{provider + `auth = { secret = "os.environ/OPENAI_API_KEY" }`, "3:19: providers.openai.auth.secret: is used as it is; a variable is written ${OPENAI_API_KEY}"},
		{provider + `auth = { secret = "env.OPENAI_API_KEY" }`, "3:19: providers.openai.auth.secret: is used as it is; a variable is written ${OPENAI_API_KEY}"},
		{provider + `auth = { secrets = ["sk-canary", "os.environ/b"] }`, "3:34: providers.openai.auth.secrets[1]: is used as it is; a variable is written ${b}"},
		{"[[keys]]\nname = \"k\"\nsecret = \"os.environ/MASTER_KEY\"\n", "3:10: keys[0].secret: is used as it is; a variable is written ${MASTER_KEY}"},
		{provider + `auth = { secret = "env.canary" }`, ""},
		{provider + `auth = { secret = "os.environ/a/canary" }`, ""},
		{provider + "auth = { secret = \"sk-canary\" }\n[[models]]\nid = \"openai/*\"\ntargets = [{ provider = \"openai\", model = \"*\" }]\n", "5:6: models[0].id: " + listed},
		{provider + "auth = { secret = \"sk-canary\" }\n[[models]]\nid = \"openai/*\"\ntargets = [{ provider = \"openai\" }]\n", "5:6: models[0].id: " + listed},
		{provider + "auth = { secret = \"sk-canary\" }\n[[models]]\nid = \"gpt\"\ntargets = [{ provider = \"openai\", model = \"gpt-*\" }]\n", "5:6: models[0].id: " + listed},
	} {
		t.Run(tt.text, func(t *testing.T) {
			c, err := parse(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.ReplaceAll(c.Warnings.Error(), "/etc/sluice/gateway.toml:", "")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) || strings.Contains(got, "canary") {
				t.Errorf("warnings %q, want %q", got, tt.want)
			}
		})
	}
}

// TestNoHintWithoutReason checks that errors have no hints that do not explain them.
func TestNoHintWithoutReason(t *testing.T) {
	for _, text := range []string{"[server\n", "x = \"abc\n", "x = [1\n", "x = { a = 1 b = 2 }\n", "x = 1 2\n", "= 1\n", "x =\n"} {
		if _, err := parse(text); err == nil || strings.Contains(err.Error(), "quotes") || strings.Contains(err.Error(), "boolean") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
