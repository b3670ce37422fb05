// Package gemini is the provider plugin for Google's Gemini models, on the Gemini API and on Vertex AI: generateContent
// and streamGenerateContent.
//
// request.go reads the client's request once and writes the provider's body from it; contents.go, results.go, parts.go,
// replay.go, tools.go, schema.go, shape.go, config.go and thinking.go hold the rules for its parts. event.go reads the
// response and plain.go the usual event of a stream, candidate.go what a candidate says, call.go and partial.go its
// tool calls, progress.go what one event leaves for the next, cite.go and logprobs.go what goes with the text;
// failure.go reads an error and models.go the model list. options.go has what differs between models and hosts.
//
// # Requests of Gemini clients
//
// native.go sends the request of a client that speaks the API itself as it is, to the path of the target's model. The gateway reads the
// response. Without allow_file_uri a request is refused that refers to files, caches or stores of the operator's account, or to
// an address.
//
// # Reasoning
//
// Thoughts are reasoning. The signature of a tool call (thoughtSignature) leaves twice: as an entry of
// reasoning_details that names the call's id, and on the call as extra_content.google.thought_signature. Clients may
// return either; the latter overrides the former. The signature of a text is an entry without an id. The index of an
// entry is the place of its block in the response, where thoughts, text and each call are blocks: so a signature
// returns to its place, on the text or alone after it. Entries of another format than google-gemini-v1 are never sent
// back, and nor are thoughts without a signature, which are summaries.
//
// # Arguments that come in pieces
//
// Vertex AI can stream a call's arguments as values with JSON paths. They leave as pieces of the text that the whole
// arguments would have, in the order in which they come. What that needs to know of the pieces before, the path of the
// latest value and the names that the open objects have, is kept between two events within the 4 KiB that there are.
// Where a path alone does not fit, the response fails with upstream_bad_answer; so it does where the pieces go back to
// an object or a list that was closed, or to a name that was used. Of more than 256 names the later ones are not
// remembered, and not found if they come again.
//
// # Places of citations
//
// The provider counts bytes of a part, the OpenAI API counts characters of the content. Where the text lies in the same
// event, as in a non-streaming response, a citation has its exact range. In a stream the text has been sent by then,
// and a citation covers all of the text so far.
//
// # Options
//
// Of a provider, or of a target over those of its provider:
//
//	api               "gemini" (default) or "vertex", which has other paths, no ids of calls and no list of models.
//	project, location of Vertex AI; needed there. base_url names the host of the location.
//	publisher         of Vertex AI. Default: "google".
//	thinking          "budget" for models that take a number of tokens, "level" for those that take a word. Default: by
//	                  the model's name, "level" from Gemini 3 on.
//	levels            the words that the model takes, of minimal, low, medium, high. Default: all of them, for a model
//	                  with pro in its name all but minimal. What the model lacks becomes the next that it has.
//	always_thinking   true for a model that cannot disable thinking. Default: by the name, true for pro models.
//	schema            "json" where the model takes JSON Schema unchanged, "openapi" where a schema must be reduced to what
//	                  the provider's own form can say. Default: "json".
//	signatures        "demanded" where the model refuses a call in the history without its signature: the provider's word for
//	                  a signature that is not there stands in for it. "optional" otherwise. Default: by the model's name,
//	                  "demanded" from Gemini 3 on.
//	allow_file_uri    true to hand addresses of images and files to the provider, which fetches them: http(s), and with
//	                  the operator's own rights gs:// and uploaded files; for Gemini clients also the account's cached
//	                  contents and stores. Default: false, they are refused.
//	stream_arguments  true to ask Vertex AI for arguments in pieces. Default: false.
//	safety_settings   a list for safetySettings, instead of any that the client sends. Default: none.
//
// Sources of the format: https://ai.google.dev/api/generate-content, https://ai.google.dev/api/caching#Schema,
// https://ai.google.dev/gemini-api/docs/thought-signatures, https://ai.google.dev/gemini-api/docs/thinking,
// https://docs.cloud.google.com/vertex-ai/generative-ai/docs/model-reference/inference,
// https://ai.google.dev/gemini-api/docs/troubleshooting.
package gemini
