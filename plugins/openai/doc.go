// Package openai is the provider plugin for OpenAI and for every upstream with its chat completions API.
//
// Clients and upstream use the same API, so nothing is translated. The request is the client's body with a few edits,
// which the gateway applies natively, and the gateway reads the response; neither is copied into the plugin.
//
// # Edits
//
//   - model becomes the target's model.
//   - stream_options.include_usage is set on a stream, so that the gateway can account for it.
//   - max_tokens and max_completion_tokens become one member, under the name that the model accepts. If both are
//     present, max_completion_tokens wins. -1, which means no limit, is removed.
//   - tool_choice "any" becomes "required", and reasoning_effort "default" is removed.
//   - thinking, which the upstream does not know, becomes reasoning_effort: low for a budget below 4,096 tokens, medium
//     below 16,384 and without a budget, high from there. It overrides reasoning_effort, except that adaptive thinking
//     leaves reasoning_effort as it is, set or not. If thinking is disabled, both are removed.
//   - reasoning_content, reasoning_details and thinking_blocks of earlier turns are removed, and so is cache_control,
//     because an upstream that does not know them rejects the request.
//   - Names of tools other than 1 to 64 letters, digits, _ and - are replaced, and restored in the response.
//   - is_error of a tool result is removed, and the result's text begins with "Error:" instead.
//   - Of a request that the gateway has translated from another API, top_k is removed, and for the OpenAI models that
//     reason also temperature, top_p and the penalties. Their clients set these for every model; OpenAI rejects them.
//
// A member that is removed or replaced although it had an effect is named in x-gateway-warning. Everything else is sent
// unchanged.
//
// All of this applies to chat completions. Some models work better with the Responses API: with api = "responses" a
// request is translated to that API. Responses are then not stored; reasoning is encrypted and returned to the client
// in reasoning_details. A stop sequence, n above 1 and audio are rejected; other members that Responses lacks are
// dropped.
//
// If the upstream supports Responses itself (option forms), the request of a Responses client is sent with only the
// model changed. The same applies to requests for embeddings, rerank, moderations and legacy completions, in which
// stream_options and the members in the options rename, drop and refuse are edited as well.
//
// # Options
//
// Options are set for a provider, and overridden for a target. The presets in proxy/config contain those of known
// upstreams; differences between upstreams are always options, never code.
//
// Paths:
//
//	path, models_path, responses_path, completions_path, embeddings_path, moderations_path, rerank_path
//	                   instead of /chat/completions, /models, /responses and so on. {model} is replaced by the target's model.
//	api_version        appended to all of them as the query parameter api-version.
//	list               false for an upstream without a model list. Default: true.
//
// Other APIs:
//
//	api                "responses" to translate requests to that API; usually set for a target. Default: "chat".
//	reasoning_summary  with "responses", the summary of its reasoning that the model is asked for: "auto", "concise" or "detailed". Default: none.
//	encrypted_reasoning
//	                   with "responses", whether to request encrypted reasoning. Default: only if the model is known to reason or
//	                   the client requests reasoning, because other models reject it.
//	forms              APIs that the upstream supports besides chat completions: "responses", "completions" (legacy), "embeddings",
//	                   "moderations" and "rerank". Default: "completions", "embeddings" and "rerank", which many compatible
//	                   servers have, and only models of these kinds get; and "responses" if it is the value of api.
//	stateless          true for an upstream that does not store responses: a request that refers to a stored one is rejected, so that
//	                   another target may serve it, and store is set to false. Default: false.
//
// Members:
//
//	max_tokens_member  "max_tokens" or "max_completion_tokens". Unset: the client's choice, but
//	                   max_completion_tokens for the OpenAI models that reject max_tokens.
//	developer_role     "system" for an upstream without the role developer. Unset: developer is kept.
//	stream_usage       false for an upstream that rejects stream_options. Default: true.
//	accept             a table of values that the upstream accepts beyond the OpenAI API, as arrays by member:
//	                   tool_choice = ["any"], reasoning_effort = ["default"], max_tokens = [-1], types of content =
//	                   ["video_url"], types of response_format = ["regex"], names of members = ["top_k"], tool_names =
//	                   ["any"]. If they are not listed, the first three are replaced as above, requests with one of the
//	                   next two are rejected, top_k is removed and names of tools are replaced as above.
//	response_format    "json_object" for an upstream without "json_schema": a request for the latter is rejected.
//	cache_control      true to keep it. Default: false.
//	rename             a table of members with the upstream's own names for them: { seed = "random_seed" }.
//	refuse             a list of members that the upstream does not support: a request with one of them is rejected, and
//	                   another target may be tried. A value that has no effect, such as n = 1, is removed instead.
//	drop               a list of members to remove: a name, or a JSON pointer in which * matches every element.
//	set                a table of members to set.
//
// Reasoning:
//
//	thinking           how the client's thinking is sent: as "effort", see above; as "type", {type} alone; as "reasoning", a member
//	                   reasoning with max_tokens, effort or enabled; as "enabled", that member with enabled alone; as "template",
//	                   chat_template_kwargs.enable_thinking. "keep" sends it unchanged, "drop" removes it. With all others, an
//	                   effort of "none" switches reasoning off as well. Default: "effort".
//	thinking_member    the name to use instead of enable_thinking.
//	efforts            a table of the upstream's names for efforts, if it has fewer: { minimal = "low" }. An effort
//	                   with the name "" is removed.
//	effort_off         the effort that stands for disabled thinking. Unset: thinking is removed.
//	reasoning_history  a list of the forms in which the upstream accepts the reasoning of earlier turns:
//	                   "reasoning_content", "reasoning_details" and "thinking_blocks" are kept unchanged, "reasoning"
//	                   is the text under that name, "thinking_part" a part of the content. If a message has more than
//	                   one form, the richest accepted form is sent. Text whose format names another provider is
//	                   omitted. Default: none.
//	answer             a table with options for parsing the response: with think_tags = true, <think>…</think> at its
//	                   beginning is reasoning; reasoning_format is the name of the format of its reasoning.
//
// Tools:
//
//	arguments          "object" for an upstream that parses the arguments of earlier tool calls: arguments that are not a
//	                   JSON object, such as those of a truncated response, become {}. Default: "text".
//	tool_ids           "nine_letters" for an upstream that rejects IDs of tool calls other than nine letters and digits:
//	                   others are replaced, in both calls and results. Default: "any".
//
// Sources of the formats: https://platform.openai.com/docs/api-reference/chat,
// https://platform.openai.com/docs/api-reference/responses.
package openai
