// Package thinking lets signed reasoning survive tool calls. Providers that sign the reasoning before a tool call want it back,
// unchanged, with the call's result; most clients keep its text at best. So what a client drops comes back in one of two ways:
//
//   - with the tool call. Its member extra_content.google.thought_signature is the one place for such things that clients
//     know and return, for Gemini's sake. Recorder puts the reasoning there, as a token, unless the provider has used it
//     itself.
//   - from Memory, by the client's key and the tool call's id and name.
//
// Restore puts it back into a request, as reasoning_details, before anything else reads the conversation. It works on the
// canonical document, and Recorder on the calls of any response.Renderer, so that neither depends on the client's API or
// on the provider's.
//
// Clients of Messages and of Responses return reasoning themselves, with one opaque string for what its provider has signed or
// encrypted. What came from a provider with another API reaches them sealed (Sealer): the token names the origin, so that the
// reasoning goes back to it and to no one else.
//
// The package owns the form of reasoning_details (Details), the memory with its bounds, and both tokens. It does not know which
// provider accepts which signature: plugins judge that by the format of the entries.
//
// Concurrency: a Memory and a Sealer are safe for concurrent use. A Recorder and Details belong to one response.
package thinking
