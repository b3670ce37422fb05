// Package native reads the responses of providers that speak the chat completions format, chunk by chunk or as one
// body, into the events of package response, so that their plugins do not have to.
//
// Providers vary the format: usage is in the last chunk, in a chunk of its own or in all chunks; tool calls have no
// index; reasoning has three names; content is a list of parts; errors arrive in streams that started well. All of
// these variants are handled in this package, and it emits the same events for all of them. Unknown members are passed
// through, except for padding and copies of the usage.
//
// The package does not split a body into events, write the client's response, or decide about retries.
//
// A Reader belongs to one attempt and must not be used concurrently. Failure is safe for concurrent use.
package native
