package importer_test

import (
	"strings"
	"testing"
)

// TestMembers translates members one by one. Each result is valid, and has no credential of the file.
func TestMembers(t *testing.T) {
	const entry = "model_list: [{model_name: m, litellm_params: {"
	for _, tt := range []struct{ program, file, want string }{
		// LiteLLM: providers
		{"litellm", entry + "model: openai/gpt-x, api_key: os.environ/K}}]", "[providers.openai]\npreset = \"openai\"\nauth   = { secret = \"${K}\" }"},
		{"litellm", entry + "model: gpt-x}}]", `auth   = { secret = "${OPENAI_API_KEY}" }`},
		{"litellm", entry + "model: gpt-x}}]", "#   OPENAI_API_KEY  LiteLLM reads it for openai"},
		{"litellm", entry + "model: claude-x, api_key: sk-canary}}]", "# litellm_params.api_key (line 1): the value is not copied: set ANTHROPIC_API_KEY to it.|# model_list[0].litellm_params.api_key (line 1): the value is not copied: set ANTHROPIC_API_KEY to it."},
		{"litellm", entry + "model: openai/x, api_base: 'http://h.example:8000/v1/', api_key: sk-canary}}]", "plugin   = \"openai\"\nbase_url = \"http://h.example:8000/v1\""},
		{"litellm", entry + "model: openai/x, api_base: 'https://u:canary@h.example/v1'}}]", `base_url = "${OPENAI_BASE_URL}"`},
		{"litellm", entry + "model: openai/x, api_base: 'https://h.example/$x'}}]", `base_url = "https://h.example/$$x"`},
		{"litellm", entry + "model: azure/dep, api_base: 'https://r.openai.azure.com/', api_version: '2024-06-01', api_key: os.environ/K}}]",
			"preset   = \"azure\"\nbase_url = \"https://r.openai.azure.com\"\nauth     = { secret = \"${K}\" }\noptions  = { api_version = \"2024-06-01\" }"},
		{"litellm", entry + "model: azure/dep, api_base: os.environ/B}}]", `base_url = "${B}"`},
		{"litellm", entry + "model: azure/dep, api_base: 'https://r.openai.azure.com/openai/v1/'}}]", "preset   = \"azure-v1\"\nbase_url = \"https://r.openai.azure.com/openai/v1\""},
		{"litellm", entry + "model: bedrock/converse/eu-west-1/anthropic.claude-x}}]", "auth   = { aws = { region = \"eu-west-1\" } }"},
		{"litellm", entry + "model: bedrock/anthropic.claude-x, aws_region_name: us-west-2, aws_access_key_id: canary, aws_secret_access_key: canary2}}]",
			`auth   = { aws = { region = "us-west-2", access_key_id = "${AWS_ACCESS_KEY_ID}", secret_access_key = "${AWS_SECRET_ACCESS_KEY}" } }`},
		{"litellm", entry + "model: bedrock/x, aws_role_name: r}}]", "# litellm_params.aws_role_name (line 1): write the role into a profile"},
		{"litellm", entry + "model: bedrock/x, api_key: canary, aws_region_name: us-west-2}}]", "base_url = \"https://bedrock-runtime.us-west-2.amazonaws.com\"\nauth     = { secret = \"${AWS_BEARER_TOKEN_BEDROCK}\" }"},
		{"litellm", entry + "model: vertex_ai/claude-x, vertex_project: p, vertex_location: us-east5, vertex_credentials: key.json}}]",
			"plugin   = \"anthropic\"\nbase_url = \"https://us-east5-aiplatform.googleapis.com\"\nauth     = { google = { credentials_file = \"key.json\" } }\noptions  = { api = \"vertex\", project = \"p\", location = \"us-east5\" }"},
		{"litellm", entry + "model: vertex_ai/gemini-x, vertex_location: global, vertex_credentials: '{\"private_key\": \"canary\"}'}}]",
			"base_url = \"https://aiplatform.googleapis.com\"\nauth     = { google = { credentials_file = \"${VERTEX_CREDENTIALS_FILE}\" } }"},
		{"litellm", entry + "model: vertex_ai/meta/llama}}]", "Sluice's plugins for Vertex AI serve Gemini and Claude; left out."},
		{"litellm", entry + "model: sagemaker/x}}]", "Sluice has no plugin for sagemaker"},
		{"litellm", entry + "model: my/x, custom_llm_provider: groq}}]", `targets = [{ provider = "groq", model = "my/x" }]`},
		{"litellm", "credential_list: [{credential_name: c, credential_values: {api_key: canary}}]\n" + entry + "model: groq/x, litellm_credential_name: c}}]", `secret = "${GROQ_API_KEY}"`},
		{"litellm", entry + "model: ollama/x, api_base: 'http://10.0.0.1:11434'}}]", "preset   = \"ollama\"\nbase_url = \"http://10.0.0.1:11434/v1\""},
		{"litellm", entry + "model: openai/x, api_base: [1]}}]", `base_url = "${OPENAI_BASE_URL}"`},
		{"litellm", entry + "model: openai/x, api_base: 'ftp://h.example'}}]", "# Left out: \"ftp://h.example\": must start with https:// or http://.\n# [providers.openai]"},
		{"litellm", entry + "model: hosted_vllm/x}}]", `base_url = "${HOSTED_VLLM_API_BASE}"`},
		// LiteLLM: models
		{"litellm", entry + "model: gpt-x, timeout: 30, stream_timeout: 0.5}}]", `timeout = { first_byte = "500ms", total = "30s" }`},
		{"litellm", entry + "model: gpt-x, rpm: 10, tpm: 80_000}}]", `limits  = { requests_per_minute = 10, tokens_per_minute = 80000 }`},
		{"litellm", entry + "model: gpt-x, rpm: 10}}, {model_name: m, litellm_params: {model: claude-x, rpm: 30}}]", "weight = 10 },\n  { provider = \"anthropic\", model = \"claude-x\", weight = 30 },"},
		{"litellm", entry + "model: gpt-x, rpm: 10}}, {model_name: m, litellm_params: {model: claude-x, rpm: 30}}]", "# litellm_params.rpm (line 1), litellm_params.rpm (line 1): is not a limit of the model"},
		{"litellm", entry + "model: gpt-x, rpm: os.environ/R}}]", "is not a number; write it by hand"},
		{"litellm", entry + "model: gpt-x, weight: 2, order: 1}},{model_name: m, litellm_params: {model: claude-x}}]", "{ provider = \"openai\", model = \"gpt-x\", weight = 2, priority = 1 },\n  { provider = \"anthropic\", model = \"claude-x\", weight = 1 },"},
		{"litellm", entry + "model: gpt-x, weight: 0.25}},{model_name: m, litellm_params: {model: claude-x, weight: 0.75}}]", "weight = 25 },\n  { provider = \"anthropic\", model = \"claude-x\", weight = 75 },"},
		{"litellm", entry + "model: gpt-x, max_retries: 2}}]", "retry   = { attempts = 3 }"},
		{"litellm", entry + "model: gpt-x, tags: [a]}}]", "# litellm_params.tags (line 1): Sluice chooses targets by tags of the client's key"},
		{"litellm", entry + "model: gpt-x, input_cost_per_token: 0.00000015, output_cost_per_token: 6e-07}}]", "pricing = { input = 0.15, output = 0.6 }"},
		{"litellm", entry + "model: gpt-x}, model_info: {input_cost_per_token: 1e-6, cache_read_input_token_cost: 0.5e-7, max_tokens: 4096, mode: chat}}]", "pricing = { input = 1, cached_input = 0.05 }"},
		{"litellm", entry + "model: gpt-x}, model_info: {max_tokens: 4096}}]", "max_tokens = 4096"},
		{"litellm", entry + "model: openai/e}, model_info: {mode: embedding}}]", "kinds   = [\"embeddings\"]"},
		{"litellm", entry + "model: openai/e}, model_info: {mode: image_generation}}]", "# model_list[0] (line 1): m: Sluice has no endpoint for this kind of model (mode); left out."},
		{"litellm", entry + "model: openai/x y}}]", "# Left out: \"x y\": must have only printable ASCII characters and no spaces."},
		{"litellm", entry + "model: gpt-x, zzz: 1, temperature: 0}}]", "# litellm_params.zzz (line 1): unknown here, and not translated.\n# litellm_params.temperature (line 1): a value for requests"},
		{"litellm", "model_list:\n- model_name: m\n  litellm_params:\n    model: gpt-x\n    zzz: 1\n", "# litellm_params.zzz (line 5): unknown here"},
		{"litellm", "model_list: [{model_name: 'openai/*', litellm_params: {model: 'openai/*'}}]", "[providers.openai]\npreset      = \"openai\"\nauth        = { secret = \"${OPENAI_API_KEY}\" }\nlist_models = { }"},
		{"litellm", "model_list: [{model_name: 'anthropic/claude-3*', litellm_params: {model: 'anthropic/claude-3*'}}]", `list_models = { only = ["claude-3*"] }`},
		{"litellm", "model_list: [{model_name: '*', litellm_params: {model: '*'}}]", "# model_name (line 1)|# model_list[0].model_name (line 1): offers the models that openai lists"},
		{"litellm", "model_list: [{model_name: 'azure/*', litellm_params: {model: 'azure/*', api_base: os.environ/B}}]", "has no list of models that Sluice could offer"},
		// LiteLLM: settings
		{"litellm", "router_settings: {routing_strategy: cost-based-routing}", "[router]\nstrategy = \"cheapest\""},
		{"litellm", "router_settings: {cooldown_time: 90, allowed_fails: 2}\n" + entry + "model: gpt-x}}]", `breaker = { failures = 3, pause = "90s", max_pause = "90s" }`},
		{"litellm", "router_settings: {num_retries: 2, timeout: 20}\n" + entry + "model: gpt-x}}]", `timeout = { total = "20s" }`},
		{"litellm", "router_settings: {redis_host: h, redis_port: 6380, redis_password: canary}", `url = "redis://:${REDIS_PASSWORD}@h:6380"`},
		{"litellm", "router_settings: {redis_url: 'redis://:canary@h'}", `url = "${REDIS_URL}"`},
		{"litellm", "router_settings: {fallbacks: [{m: [n]}], model_group_alias: {k: m}}\n" + entry + "model: gpt-x}}, {model_name: n, litellm_params: {model: claude-x}}]",
			"[[models]]\nid      = \"k\"\ntargets = [\n  { provider = \"openai\", model = \"gpt-x\" },\n  { provider = \"anthropic\", model = \"claude-x\", fallback = true },\n]"},
		{"litellm", "litellm_settings: {default_fallbacks: [n]}\n" + entry + "model: gpt-x}}, {model_name: n, litellm_params: {model: claude-x}}]", `{ provider = "anthropic", model = "claude-x", fallback = true },`},
		{"litellm", "litellm_settings: {fallbacks: [{m: [x]}]}\n" + entry + "model: gpt-x}}]", "# litellm_settings.fallbacks[0].m (line 1): x could not be made a fallback"},
		{"litellm", "litellm_settings: {cache: true, cache_params: {type: redis, password: canary}}", "# litellm_settings.cache (line 1), litellm_settings.cache_params (line 1): responses are not cached."},
		{"litellm", "litellm_settings: {callbacks: [otel], json_logs: true}", `log_format = "json"`},
		{"litellm", "general_settings: {master_key: sk-canary, database_url: 'postgresql://u:canary@h/d'}", "name   = \"master\"\nsecret = \"${LITELLM_MASTER_KEY}\""},
		{"litellm", "general_settings: {master_key: os.environ/MK}", `secret = "${MK}"`},
		{"litellm", "environment_variables:\n  OPENAI_API_KEY: sk-canary\n", "# environment_variables.OPENAI_API_KEY (line 2): set it in the environment of the gateway"},
		{"litellm", "litellm_settings: {zzz: {a: 1}}", "# litellm_settings.zzz (line 1): unknown here; neither it nor what is below it was translated.|# litellm_settings.zzz (line 1): unknown here, and not translated."},
		{"litellm", "zzz: {a: sk-canary}", "# zzz (line 1): unknown here; neither it nor what is below it was translated."},
		{"litellm", "a: 1\na: 2\n", "# a (line 1): is written again on line 2, which counts."},

		// Bifrost
		{"bifrost", `{"providers":{"openai":{"keys":[{"value":"env.A","models":["gpt-x"],"weight":1},{"value":"sk-canary","models":["gpt-x"],"weight":1}]}}}`, `auth   = { secrets = ["${A}", "${OPENAI_API_KEY}"] }`},
		{"bifrost", `{"providers":{"openai":{"keys":[{"value":"env.A","models":["gpt-x"],"weight":0.7},{"value":"env.B","models":["gpt-x"],"weight":0.3}]}}}`, "{ provider = \"openai\", model = \"gpt-x\", weight = 70 },\n  { provider = \"openai-2\", model = \"gpt-x\", weight = 30 },"},
		{"bifrost", `{"providers":{"openai":{"keys":[{"value":{"env_var":"env.A","from_env":true,"value":""},"models":["*"]}]}}}`, `auth        = { secret = "${A}" }`},
		{"bifrost", `{"providers":{"openai":{"keys":[{"value":"vault.canary/path#key","models":["*"]}]}}}`, `auth        = { secret = "${OPENAI_API_KEY}" }`},
		{"bifrost", `{"providers":{"openai":{"keys":[{"value":"env.A","models":["gpt-x"],"aliases":{"gpt-x":"ft:1"}}]}}}`, "id      = \"openai/gpt-x\"\ntargets = [{ provider = \"openai\", model = \"ft:1\" }]"},
		{"bifrost", `{"providers":{"openai":{"keys":[{"value":"env.A","models":["x"]}],"network_config":{"base_url":"http://h.example","max_retries":2,"retry_backoff_initial":250,"default_request_timeout_in_seconds":30,"stream_idle_timeout_in_seconds":20,"max_conns_per_host":9}}}}`,
			"plugin    = \"openai\"\nbase_url  = \"http://h.example/v1\"\nauth      = { secret = \"${A}\" }\ntimeout   = { idle = \"20s\", total = \"30s\" }\nmax_conns = 9"},
		{"bifrost", `{"providers":{"openai":{"keys":[{"value":"env.A","models":["x"]}],"network_config":{"max_retries":2,"retry_backoff_initial":250}}}}`, `retry   = { attempts = 3, backoff = "250ms" }`},
		{"bifrost", `{"providers":{"openai":{"keys":[{"value":"env.A","models":["x"]}],"concurrency_and_buffer_size":{"concurrency":7,"buffer_size":9}}}}`, "limits = { concurrent = 7 }"},
		{"bifrost", `{"providers":{"openai":{"keys":[{"value":"env.A"}],"proxy_config":{"type":"http","url":"http://canary","password":"canary"}}}}`, "# proxy_config (line 1): Sluice connects to providers directly, without a proxy."},
		{"bifrost", `{"providers":{"mine":{"keys":[{"value":"env.A","models":["x"]}],"custom_provider_config":{"base_provider_type":"anthropic","allowed_requests":{"chat_completion":true}},"network_config":{"base_url":"https://h.example"}}}}`,
			"[providers.mine]\npreset   = \"anthropic\"\nbase_url = \"https://h.example\""},
		{"bifrost", `{"providers":{"ollama":{"keys":[{"value":"","models":["x"],"ollama_key_config":{"url":"env.O"}}]}}}`, "preset   = \"ollama\"\nbase_url = \"${O}/v1\""},
		{"bifrost", `{"providers":{"bedrock":{"keys":[{"models":["x"],"bedrock_key_config":{"access_key":"canary","secret_key":"env.S","region":"eu-west-1","role_arn":"r"}}]}}}`,
			`auth   = { aws = { region = "eu-west-1", access_key_id = "${AWS_ACCESS_KEY_ID}", secret_access_key = "${S}" } }`},
		{"bifrost", `{"providers":{"openai":{"keys":[{"value":"env.A","zzz":1}]},"zzz":{"keys":[]}}}`, "# zzz (line 1): unknown here, and not translated."},
		{"bifrost", `{"providers":{"openai":{"keys":[{"value":"env.A","models":["gpt-4o"]}]}},"governance":{"virtual_keys":[{"id":"v","name":"Team A","value":"sk-bf-canary","is_active":false,"expires_at":"2030-01-01T00:00:00Z","rate_limit_id":"r","provider_configs":[{"provider":"openai","allowed_models":["gpt-4o"]}]}],"rate_limits":[{"id":"r","request_max_limit":10,"request_reset_duration":"1m","token_max_limit":5,"token_reset_duration":"1h"}],"budgets":[{"id":"b","max_limit":20.5,"reset_duration":"1d","virtual_key_id":"v"}]}}`,
			"name     = \"Team-A\"\nsecret   = \"${TEAM_A}\"\ndisabled = true\nexpires  = \"2030-01-01T00:00:00Z\"\nmodels   = [\"openai/gpt-4o\"]\nlimits   = { requests_per_minute = 10 }\nbudgets  = [{ usd = 20.5, per = \"day\", unpriced = \"free\" }]"},
		{"bifrost", `{"providers":{"openai":{"keys":[{"value":"env.A"}]}},"governance":{"virtual_keys":[{"id":"v","name":"a","value":"env.V","team_id":"t","provider_configs":[{"provider":"openai"}]}],"teams":[{"id":"t","name":"T","budget_id":"b"},{"id":"u","name":"U"}],"budgets":[{"id":"b","max_limit":1,"reset_duration":"1M"}]}}`,
			"[[teams]]\nname    = \"T\"\nbudgets = [{ usd = 1, per = \"month\", unpriced = \"free\" }]"},
		{"bifrost", `{"governance":{"virtual_keys":[{"id":"v","name":"a","value":"env.V","provider_configs":[]}],"routing_rules":[{"cel_expression":"x"}]}}`, "models = []"},
		{"bifrost", `{"providers":{"openai":{"keys":[{"value":"env.A"}],"network_config":{"base_url":{"x":1}}}}}`, `base_url    = "${OPENAI_BASE_URL}/v1"`},
		{"bifrost", `{"providers":{"openai":{"keys":[{"value":"env.A"}]}},"governance":{"virtual_keys":[{"id":"v","name":"a","value":"env.V","provider_configs":[{"provider":"openai","allowed_models":["a b"]}]}]}}`, "# [[keys]]\n# name   = \"a\""},
		{"bifrost", `{"governance":{"routing_rules":[{"cel_expression":"x"}]}}`, "# governance.routing_rules (line 1): rules are written for each model"},
		{"bifrost", `{"governance":{"budgets":[{"id":"b","max_limit":1,"reset_duration":"1d"}]}}`, "# governance.budgets[0] (line 1): belongs to nothing that was translated; left out."},
		{"bifrost", `{"client":{"max_request_body_size_mb":50,"zzz":1},"plugins":[{"name":"otel","config":{"headers":{"Authorization":"canary"}}}],"config_store":{"config":{"password":"canary"}}}`, `max_body = "50MiB"`},
	} {
		r, err := programs[tt.program]([]byte(tt.file))
		if err != nil {
			t.Errorf("%s: %v", tt.file, err)
			continue
		}
		parse(t, r)
		found := false
		for want := range strings.SplitSeq(tt.want, "|") {
			found = found || strings.Contains(r.Text, want)
		}
		if !found || strings.Contains(r.Text, "canary") {
			t.Errorf("%s\nhas no\n%s\nor has a credential:\n%s", tt.file, tt.want, r.Text)
		}
	}
}

// TestInvalidFiles checks the errors about files that cannot be read, which do not quote them.
func TestInvalidFiles(t *testing.T) {
	for _, tt := range []struct{ program, file, want string }{
		{"litellm", "", "the file is empty"},
		{"litellm", "- a\n", "not a mapping"},
		{"litellm", "a: [sk-canary\nb: 1\n", "line "},
		{"litellm", "a: 1\n---\nb: 2\n", "more than one document"},
		{"litellm", "a: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c]\ne: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d]\nf: [*e, *e, *e, *e, *e, *e, *e, *e, *e]\n", "too many"},
		{"litellm", "a: &a [*a]\n", "too many or too deeply nested values"},
		{"litellm", "a: " + strings.Repeat("[", 200) + strings.Repeat("]", 200), "too many or too deeply nested values"},
		{"bifrost", "[]", "not an object"},
		{"bifrost", "{\n\"a\": sk-canary}", "line 2: not valid JSON"},
		{"bifrost", "a: 1", "line 1: not valid JSON"},
		{"bifrost", "", "line 1: not valid JSON"},
	} {
		r, err := programs[tt.program]([]byte(tt.file))
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%.40q: %v, %v, want %q", tt.file, r, err, tt.want)
		}
	}
	if r, err := programs["bifrost"]([]byte("{\"\\ud83d\\ude00\": \"\\ud83d\"}")); err != nil || !strings.Contains(r.Text, "(line 1)") {
		t.Errorf("%v, %v", r, err)
	}
}
