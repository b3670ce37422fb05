// Package openai is the provider plugin for OpenAI and for every upstream that speaks its chat completions API.
//
// The OpenAI API is the upstream's own API, so nothing is translated. The request is the client's body with a few edits
// that the gateway applies natively, and the response is read by the gateway; neither is ever copied into the plugin.
//
// # Edits
//
//   - model becomes the target's model.
//   - stream_options.include_usage is set on a stream, so that the gateway can account for it.
//   - max_tokens and max_completion_tokens become one member, under the name that the model takes. If both are there,
//     max_completion_tokens counts. -1 is left out: it means no limit.
//   - tool_choice "any" becomes "required", and reasoning_effort "default" is left out.
//   - thinking, which the upstream does not know, becomes reasoning_effort: low for a budget under 4,096 tokens, medium
//     under 16,384 and without a budget, high from there. It overrides a reasoning_effort, but for adaptive
//     thinking, which leaves that as it is, also if there is none. Where thinking is disabled both are removed.
//   - reasoning_content, reasoning_details and thinking_blocks of earlier turns are removed, and so is cache_control:
//     an upstream that does not know them refuses the request.
//   - is_error of a tool's result is removed, and its text begins with "Error:".
//
// Whatever is removed or replaced against the client's wish is named in x-gateway-warning. All else is sent as it came.
//
// That is for chat completions. Some models are better asked by Responses: with api = "responses" a request is translated to it, with
// nothing stored, and with reasoning that is sealed and comes back in reasoning_details. A stop sequence, n above 1 and audio are
// refused; other members that Responses does not have are left out.
//
// If the upstream speaks Responses as well (the option forms), the request of a Responses client is
// sent as it is, but for the model. So are requests for embeddings, rerank, moderations and legacy completions, but for the model,
// stream_options, and the options rename, drop and refuse.
//
// # Options
//
// Of a provider, or of a target over those of its provider. The presets of proxy/config hold those of the upstreams
// that are known; differences between upstreams are options, never code.
//
// Where the request goes:
//
//	path, models_path, responses_path, completions_path, embeddings_path, moderations_path, rerank_path
//	                   instead of /chat/completions, /models, /responses and so on. {model} stands for the target's model.
//	api_version        is added to all of them as the query api-version.
//	list               false for an upstream without a list of models. Default: true.
//
// Other APIs:
//
//	api                "responses" to translate requests to it; mostly of a target. Default: "chat".
//	reasoning_summary  the summary of its reasoning that a model is asked for then: "auto", "concise" or "detailed". Default: none.
//	encrypted_reasoning
//	                   whether the reasoning is asked for then, sealed. Default: if the model is known to reason, or the client asks
//	                   for it; others refuse that.
//	forms              those that the upstream speaks besides chat completions, of "responses", "completions" (legacy), "embeddings",
//	                   "moderations" and "rerank".
//	stateless          true for one that keeps no responses: a request that refers to one is refused, so that another target may
//	                   serve it, and store is false. Default: false.
//
// Members:
//
//	max_tokens_member  "max_tokens" or "max_completion_tokens". Unset: as the client wrote it, but
//	                   max_completion_tokens for the models of OpenAI that refuse the other.
//	developer_role     "system" for an upstream that lacks the role developer. Unset: developer stays.
//	stream_usage       false for an upstream that refuses stream_options. Default: true.
//	accept             a table of what the upstream takes beyond the OpenAI API, arrays of values by the member:
//	                   tool_choice = ["any"], reasoning_effort = ["default"], max_tokens = [-1], types of content =
//	                   ["video_url"], types of response_format = ["regex"]. Of others, the first three are replaced as
//	                   above, and a request with one of the last two is refused.
//	response_format    "json_object" for an upstream without "json_schema": a request for the latter is refused.
//	cache_control      true to keep it. Default: false.
//	rename             a table of members by the upstream's own names for them: { seed = "random_seed" }.
//	refuse             a list of members that the upstream cannot do: a request that wants one of them is refused, and
//	                   another target may be tried. A value that asks for nothing, such as n = 1, is removed instead.
//	drop               a list of members to remove: a name, or a JSON pointer with * for every element.
//	set                a table of members to set.
//
// Reasoning:
//
//	thinking           what becomes of it: "effort" as above, "type" for {type} alone, "reasoning" for the member of
//	                   that name with max_tokens, effort or enabled, "enabled" for that member with enabled alone,
//	                   "template" for chat_template_kwargs.enable_thinking, "keep" to send it unchanged, "drop" to remove
//	                   it. But for the last two, an effort of "none" switches reasoning off as well. Default: "effort".
//	thinking_member    instead of enable_thinking.
//	efforts            a table of the upstream's names for efforts, where it has fewer: { minimal = "low" }. An effort
//	                   with the name "" is removed.
//	effort_off         the effort that stands for thinking which is disabled. Unset: thinking is removed.
//	reasoning_history  a list of the forms in which the upstream takes the reasoning of earlier turns:
//	                   "reasoning_content", "reasoning_details" and "thinking_blocks" are kept as they are, "reasoning"
//	                   is the text under that name, "thinking_part" a part of the content. Of a message in more than
//	                   one form the upstream gets the richest that it takes. Text that another provider's format marks
//	                   as its own is omitted. Default: none.
//	answer             a table for the gateway's reading of the response: think_tags = true takes <think>…</think> at its
//	                   beginning for reasoning, reasoning_format names the format of its reasoning.
//
// Tools:
//
//	arguments          "object" for an upstream that parses the arguments of earlier tool calls: arguments that are not a
//	                   JSON object, such as those of a response that was cut off, become {}. Default: "text".
//	tool_ids           "nine_letters" for an upstream that refuses ids of tool calls other than nine letters and digits:
//	                   others are replaced, in calls and results alike. Default: "any".
package openai
