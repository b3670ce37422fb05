// Package responses implements the OpenAI Responses API for clients: it parses and validates requests (Request),
// renders responses (NewRenderer), and reads the responses of providers that speak the API themselves (Reader). API
// combines them for package clientapi.
//
// The files are named after these parts: request_…, render_… and read_….
//
// # Requests
//
// Parse rejects requests that no provider of the API accepts: those with a wrong type, a missing member, or a member of
// the chat completions API. Unknown members, types of items and tools, and values of enumerations are left to the
// provider, because they differ between providers and grow over time. AppendChat rejects features that only providers
// of this API have, such as hosted tools, with an error that has TryNext set.
//
// AppendChat writes a chat completions request in which
//
//   - consecutive assistant items (reasoning, texts and calls) are one message, followed directly by the results of its
//     calls, wherever those are in the input;
//   - a custom tool is a function with a single string parameter, input, and a tool of a namespace is named
//     NAMESPACE__NAME. Tools lists both, so that the renderer can restore them.
//
// # Reasoning
//
// The encrypted_content of a reasoning item that the gateway creates consists of one or more seals, separated by commas
// (thinking.Sealer): the parts of the item's reasoning in order. A text that the item shows in its summary or content
// can be left out of the seals. A signature belongs to the sealed text before it, or to the text that the item shows. A
// seal with an empty text means that the text that the item shows comes from a provider without signatures.
//
// # Earlier responses
//
// previous_response_id and item_reference refer to responses and items in a Store. Request.Expand resolves them: it
// builds the request with the items themselves, and parses it like any other. AppendChat translates the expanded
// request, while Document remains the client's.
//
// The package is independent of HTTP, providers, plugins and configuration. A Request, renderer or Reader must not be
// used concurrently.
package responses
