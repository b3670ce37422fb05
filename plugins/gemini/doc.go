// Package gemini is the provider plugin for Google's Gemini models, on the Gemini API and on Vertex AI: generateContent
// and streamGenerateContent.
//
// request.go reads the client's request once and writes the provider's body from it; contents.go, results.go, parts.go,
// replay.go, tools.go, schema.go, shape.go, config.go and thinking.go translate its parts. event.go reads the response
// and plain.go the usual event of a stream, candidate.go a candidate's content, call.go and partial.go its tool calls,
// progress.go keeps the state between events, cite.go and logprobs.go read metadata of the text, failure.go an error
// and models.go the model list. options.go has the options, most of which describe differences between models and
// hosts.
//
// # Requests of Gemini clients
//
// native.go sends the request of a Gemini client unchanged to the path of the target's model, and the gateway reads the
// response. Unless allow_file_uri is set, requests that refer to a URL or to files, caches or stores of the operator's
// account are rejected.
//
// # Reasoning
//
// Thoughts are reported as reasoning. The signature of a tool call (thoughtSignature) is sent to the client twice: as
// an entry of reasoning_details with the call's ID, and in the call as extra_content.google.thought_signature. Clients
// may return either; the latter overrides the former. The signature of a text is an entry without an ID. The index of
// an entry is the index of its block in the response, where thoughts, texts and calls are blocks. A signature therefore
// returns to its original place, on the text or alone after it. Entries in a format other than google-gemini-v1 are
// never sent back, and neither are thoughts without a signature, which are only summaries.
//
// # Streamed arguments
//
// Vertex AI can stream a call's arguments as values with JSON paths. The plugin converts them, in the order in which
// they arrive, to pieces of the JSON text of the complete arguments. The state that this needs between two events, the
// path of the latest value and the names in the open objects, is kept in the attempt's state of at most 4 KiB. If the
// path alone does not fit, the response fails with upstream_bad_answer. It also fails if pieces return to an object or
// array that was closed, or to a name that was used. At most 256 names are remembered; repetitions of later names are
// not detected.
//
// # Citation ranges
//
// The provider counts bytes of a part, the OpenAI API counts characters of the content. If the text is in the same
// event, as in a non-streaming response, a citation has its exact range. In a stream the text has been sent earlier, so
// a citation applies to all of the text so far.
//
// # Options
//
// Options are set for a provider, and overridden for a target:
//
//	api               "gemini" (default) or "vertex", which has other paths, no IDs of calls and no model list.
//	project, location required for Vertex AI. base_url is the host of the location.
//	publisher         of the model on Vertex AI. Default: "google".
//	thinking          "budget" for models with a thinking budget in tokens, "level" for those with thinking levels. Default: by
//	                  the model's name, "level" from Gemini 3 on.
//	levels            the levels that the model supports, of minimal, low, medium, high. Default: all of them; all but minimal for a
//	                  model with pro in its name. A level that the model lacks becomes the next higher one.
//	always_thinking   true for a model that cannot disable thinking. Default: by the name, true for pro models.
//	schema            "json" if the model accepts JSON Schema unchanged, "openapi" if a schema must be reduced to the
//	                  provider's own schema format. Default: "json".
//	signatures        "demanded" if the model rejects a call in the history without its signature: a missing one is replaced by the
//	                  provider's placeholder. "optional" otherwise. Default: by the model's name, "demanded" from Gemini 3 on.
//	allow_file_uri    true to pass URLs of images and files to the provider, which fetches them: http(s), and with
//	                  the operator's permissions gs:// and uploaded files; for Gemini clients also the account's cached
//	                  contents and stores. Default: false, they are rejected.
//	stream_arguments  true to request streamed arguments from Vertex AI. Default: false.
//	safety_settings   an array for safetySettings, which replaces the client's. Default: none.
//
// Sources of the format: https://ai.google.dev/api/generate-content, https://ai.google.dev/api/caching#Schema,
// https://ai.google.dev/gemini-api/docs/thought-signatures, https://ai.google.dev/gemini-api/docs/thinking,
// https://docs.cloud.google.com/vertex-ai/generative-ai/docs/model-reference/inference,
// https://ai.google.dev/gemini-api/docs/troubleshooting.
package gemini
