package config

import (
	"maps"
	"slices"
	"strconv"
)

// compatible are the upstreams that speak the chat completions convention with an accent of their own, by the name that
// a provider's preset has. They share a plugin; what is a fact of one upstream is an option of that plugin, which
// describes it in its package comment. What is not written here is as with OpenAI.
//
// Each entry begins with where its facts are from. Where no document says it, the recorded answers under
// proxy/chat/dialect/testdata do, or an error message that the upstream is known to give.
var compatible = map[string]preset{
	// https://learn.microsoft.com/azure/ai-services/openai/reference
	// The model is a deployment, which stands in the path. A stream's usage needs 2024-09-01-preview or later: with an
	// older api_version, write stream_usage = false. The list of models is that of the region, not of the deployments.
	"azure": {
		plugin: "openai",
		auth:   Auth{Header: "api-key"},
		paths:  []string{"/openai/deployments/*/chat/completions"},
		options: options(
			"path", `"/openai/deployments/{model}/chat/completions"`,
			"api_version", `"2024-10-21"`,
			"list", `false`,
		),
	},
	// https://learn.microsoft.com/azure/foundry/openai/api-version-lifecycle
	// The base URL ends in /openai/v1; there the deployment is the body's model, and there are no versions.
	"azure-v1": {
		plugin:  "openai",
		auth:    Auth{Header: "api-key"},
		paths:   []string{"/chat/completions"},
		options: options("list", `false`),
	},
	// https://docs.mistral.ai/api/#tag/chat, https://docs.mistral.ai/capabilities/reasoning
	// A member that is not in the API is a 422 "Extra inputs are not permitted", in messages too:
	// https://github.com/mistralai/platform-docs-public/issues/7, https://github.com/charmbracelet/crush/issues/1590.
	// Ids of tool calls: https://github.com/anomalyco/opencode/issues/1680. The usage is on the last chunk, unasked.
	"mistral": {
		plugin:  "openai",
		baseURL: "https://api.mistral.ai/v1",
		options: options(
			"max_tokens_member", `"max_tokens"`,
			"developer_role", `"system"`,
			"stream_usage", `false`,
			"rename", `{"seed":"random_seed"}`,
			"tool_ids", `"nine_letters"`,
			"efforts", `{"minimal":"none","low":"high","medium":"high","xhigh":"high"}`,
			"effort_off", `"none"`,
			"reasoning_history", `["thinking_part"]`,
			"refuse", `["logprobs","functions","modalities","web_search_options"]`,
			"drop", `["top_logprobs","logit_bias","user","safety_identifier","store","metadata","service_tier","verbosity",`+
				`"prompt_cache_key","prompt_cache_retention","function_call","audio","/messages/*/name",`+
				`"/messages/*/refusal","/messages/*/annotations","/messages/*/audio","/messages/*/reasoning"]`,
		),
	},
	// https://api-docs.deepseek.com/api/create-chat-completion, https://api-docs.deepseek.com/guides/thinking_mode
	// Reasoning of a turn with tool calls must come back; that of other turns is ignored.
	"deepseek": {
		plugin:  "openai",
		baseURL: "https://api.deepseek.com",
		options: options(
			"max_tokens_member", `"max_tokens"`,
			"developer_role", `"system"`,
			"thinking", `"type"`,
			"efforts", `{"minimal":"low"}`,
			"reasoning_history", `["reasoning_content"]`,
			"response_format", `"json_object"`,
			"refuse", `["n","functions","modalities"]`,
			"drop", `["seed","logit_bias","parallel_tool_calls","store","metadata","service_tier","verbosity","prediction",`+
				`"function_call","audio"]`,
		),
	},
	// https://console.groq.com/docs/openai, https://console.groq.com/docs/api-reference#chat-create
	"groq": {
		plugin:  "openai",
		baseURL: "https://api.groq.com/openai/v1",
		options: options(
			"efforts", `{"minimal":"low","xhigh":"high"}`,
			"refuse", `["logprobs","n","modalities"]`,
			"drop", `["top_logprobs","logit_bias","store","metadata","verbosity","prediction","audio","/messages/*/name"]`,
		),
	},
	// https://docs.x.ai/docs/guides/reasoning, https://docs.x.ai/docs/api-reference#chat-completions
	// reasoning_effort is an error with most models; a target with one that takes it says thinking = "effort".
	"xai": {
		plugin:  "openai",
		baseURL: "https://api.x.ai/v1",
		options: options(
			"thinking", `"drop"`,
			"reasoning_history", `["reasoning_content"]`,
		),
	},
	// https://openrouter.ai/docs/api-reference/parameters, https://openrouter.ai/docs/use-cases/reasoning-tokens,
	// https://openrouter.ai/docs/features/prompt-caching
	"openrouter": {
		plugin:  "openai",
		baseURL: "https://openrouter.ai/api/v1",
		options: options(
			"thinking", `"reasoning"`,
			"reasoning_history", `["reasoning_details","reasoning"]`,
			"cache_control", `true`,
		),
	},
	// https://docs.perplexity.ai/api-reference/chat-completions-post, https://docs.perplexity.ai/faq/faq (<think>)
	// The usage is in every chunk, unasked. There are no tools and no list of models.
	"perplexity": {
		plugin:  "openai",
		baseURL: "https://api.perplexity.ai",
		paths:   []string{"/chat/completions"},
		options: options(
			"max_tokens_member", `"max_tokens"`,
			"developer_role", `"system"`,
			"stream_usage", `false`,
			"list", `false`,
			"answer", `{"think_tags":true}`,
			"refuse", `["tools","functions","n","logprobs","modalities"]`,
			"drop", `["tool_choice","function_call","parallel_tool_calls","seed","logit_bias","top_logprobs","user","store","metadata",`+
				`"service_tier","verbosity","prediction","audio","/messages/*/name"]`,
		),
	},
	// https://docs.together.ai/docs/inference/openai-compatibility, https://docs.together.ai/reference/chat-completions
	// logprobs is a number there, and what comes back has another form.
	"together": {
		plugin:  "openai",
		baseURL: "https://api.together.ai/v1",
		options: options(
			"max_tokens_member", `"max_tokens"`,
			"developer_role", `"system"`,
			"thinking", `"enabled"`,
			"refuse", `["logprobs","modalities"]`,
			"drop", `["top_logprobs","store","metadata","service_tier","verbosity","prediction","audio"]`,
		),
	},
	// https://docs.fireworks.ai/api-reference/post-chatcompletions, https://docs.fireworks.ai/guides/reasoning
	"fireworks": {
		plugin:  "openai",
		baseURL: "https://api.fireworks.ai/inference/v1",
		options: options(
			"developer_role", `"system"`,
			"efforts", `{"minimal":"low"}`,
			"effort_off", `"none"`,
			"reasoning_history", `["reasoning_content"]`,
		),
	},
	// https://docs.z.ai/api-reference/llm/chat-completion, https://docs.z.ai/guides/capabilities/thinking-mode
	// The usage is on the last chunk, unasked. tool_choice is auto only.
	"zai": {
		plugin:  "openai",
		baseURL: "https://api.z.ai/api/paas/v4",
		options: options(
			"max_tokens_member", `"max_tokens"`,
			"developer_role", `"system"`,
			"stream_usage", `false`,
			"thinking", `"type"`,
			"reasoning_history", `["reasoning_content"]`,
			"response_format", `"json_object"`,
			"refuse", `["n","logprobs","tool_choice","functions","modalities"]`,
			"drop", `["seed","frequency_penalty","presence_penalty","logit_bias","top_logprobs","parallel_tool_calls","user","store",`+
				`"metadata","service_tier","verbosity","prediction","function_call","audio"]`,
		),
	},
	// https://docs.vllm.ai/en/stable/serving/openai_compatible_server/,
	// https://docs.vllm.ai/en/stable/features/reasoning_outputs/
	// A template that does not know enable_thinking ignores it; some call it thinking: thinking_member = "thinking".
	"vllm": {
		plugin:  "openai",
		baseURL: "http://localhost:8000/v1",
		options: options(
			"developer_role", `"system"`,
			"thinking", `"template"`,
			"reasoning_history", `["reasoning"]`,
		),
	},
	// https://lmstudio.ai/docs/developer/openai-compat/chat-completions, https://lmstudio.ai/docs/developer/api-changelog
	"lmstudio": {
		plugin:  "openai",
		baseURL: "http://localhost:1234/v1",
		options: options(
			"max_tokens_member", `"max_tokens"`,
			"developer_role", `"system"`,
			"answer", `{"think_tags":true}`,
			"refuse", `["n","logprobs","modalities"]`,
			"drop", `["top_logprobs","parallel_tool_calls","user","store","metadata","service_tier","verbosity","prediction","audio"]`,
		),
	},
	// https://docs.ollama.com/api/openai-compatibility; for its own API see the plugin ollama.
	"ollama": {
		plugin:  "openai",
		baseURL: "http://localhost:11434/v1",
		options: options(
			"max_tokens_member", `"max_tokens"`,
			"developer_role", `"system"`,
			"efforts", `{"minimal":"low","xhigh":"high"}`,
			"effort_off", `"none"`,
			"reasoning_history", `["reasoning"]`,
			"refuse", `["n","tool_choice","modalities"]`,
			"drop", `["logit_bias","parallel_tool_calls","user","store","metadata","service_tier","verbosity","prediction","audio"]`,
		),
	},
}

// options makes an object of names, each followed by its JSON.
func options(pairs ...string) object {
	o := make(object, 0, len(pairs)/2)
	for p := range slices.Chunk(pairs, 2) {
		o = append(o, field{p[0], []byte(p[1])})
	}
	return o
}

// presetOf reads the members preset and plugin: what is known of the provider before its table is read. A preset names
// the plugin too; it is written beside it only to say the same again.
func (l *loader) presetOf(t *table) (plugin string, set preset, known bool) {
	name, n := t.text("preset")
	if n == nil {
		if t.has("preset") {
			t.look("plugin") // which is not at fault
			return "", preset{}, false
		}
		plugin = l.pluginOf(t)
		set, known = presets[plugin]
		return plugin, set, known
	}
	beside, b := t.text("plugin")
	set, known = compatible[name]
	switch {
	case !known:
		names := slices.Sorted(maps.Keys(compatible))
		t.fail(n, "preset", "unknown preset %s%s", show(n), suggest(name, names))
		return "", preset{}, false
	case b != nil && beside != set.plugin:
		t.fail(b, "plugin", "%s is not the plugin of the preset %q, which is %q", show(b), name, set.plugin)
	}
	standard := presets[set.plugin]
	if set.auth.Header == "" {
		set.auth = standard.auth
	}
	if set.paths == nil {
		set.paths = standard.paths
	}
	if set.headers == nil {
		set.headers = standard.headers
	}
	return l.pluginNamed(t, n, "preset", set.plugin, strconv.Quote(set.plugin)), set, true
}
