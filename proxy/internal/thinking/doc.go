// Package thinking preserves signed reasoning across tool calls. A provider that signs the reasoning before a tool call
// requires it back, unchanged, with the call's result, but most clients return its text at best. The gateway recovers
// the rest from one of two places:
//
//   - the tool call itself. Clients return its member extra_content.google.thought_signature because Gemini requires
//     that. Recorder stores the reasoning there, as a token, unless the provider has set the member itself.
//   - Memory, which looks it up by the client's key and the tool call's ID and name.
//
// A provider's signature in extra_content is reasoning, too: for clients of other APIs, which do not know that member,
// Recorder turns it into a sealed piece of reasoning, and Restore turns it back, only for the provider that it came from.
//
// Restore adds the reasoning to a request, as reasoning_details, before anything else reads the conversation. It works
// on the canonical document, and Recorder on the calls of any response.Renderer, so neither depends on the client's API
// or the provider's.
//
// Clients of the Messages and Responses APIs return most reasoning themselves, with one opaque string for the provider's
// signature or encrypted data. If the provider uses a different API, that string is a token (Sealer) that names the
// origin, so that the reasoning is returned only to that provider.
//
// The package owns the format of reasoning_details (Details), the memory and its limits, and both tokens. It does not
// know which provider accepts which signature: plugins decide that by the format of the entries.
//
// A Memory and a Sealer are safe for concurrent use. A Recorder and Details belong to one response.
package thinking
