// Command openai is the provider plugin for OpenAI and for every upstream that speaks its chat completions API.
//
// The convention is the upstream's own, so nothing is translated. The request is the client's body with a few edits
// that the gateway applies natively, and the answer is read by the gateway; neither is ever copied into the plugin.
//
// # Edits
//
//   - model becomes the target's model.
//   - stream_options.include_usage is set on a stream, so that the gateway can account for it.
//   - max_tokens and max_completion_tokens become one member, under the name that the model takes. If both are there,
//     max_completion_tokens counts.
//   - thinking, which the upstream does not know, becomes reasoning_effort: low for a budget under 4,096 tokens, medium
//     under 16,384 and without a budget, high from there. It wins over a reasoning_effort beside it, but for adaptive
//     thinking, which leaves that as it is. Where thinking is disabled both are removed.
//   - reasoning_content, reasoning_details and thinking_blocks of earlier turns are removed, and so is cache_control:
//     an upstream that does not know them refuses the request.
//
// Whatever is removed or replaced against the client's wish is named in x-gateway-warning. All else is sent as it came.
//
// # Options
//
// Of a provider, or of a target over those of its provider:
//
//	max_tokens_member  "max_tokens" or "max_completion_tokens". Not said: as the client wrote it, but
//	                   max_completion_tokens for the models of OpenAI that refuse the other.
//	developer_role     "system" for an upstream that lacks the role developer. Not said: developer stays.
//	stream_usage       false for an upstream that refuses stream_options. Default: true.
//	thinking           "effort" as above, "keep" to send it as it is, "drop" to remove it. Default: "effort".
//	reasoning_history  a list of those of the three members above to keep. Default: none.
//	cache_control      true to keep it. Default: false.
//	drop               a list of other members to remove: a name, or a JSON pointer with * for every element.
//	set                a table of members to set.
//	path, models_path  in place of /chat/completions and /models.
//	answer             a table for the gateway's reading of the answer: think_tags = true takes <think>…</think> at its
//	                   beginning for reasoning, reasoning_format names the format of its reasoning.
package main
