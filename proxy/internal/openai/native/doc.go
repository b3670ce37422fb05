// Package native reads the responses of providers that speak the chat completions format, chunk by chunk or whole, into the
// events of package response: what a plugin need not do for them.
//
// The format is spoken with many accents: usage on the last chunk or in one of its own or in all of them, tool calls without
// an index, reasoning under three names, content as a list of parts, errors inside of a stream that began well. This package
// knows them all and nothing else does; what it emits is the same whoever the provider is. Members that it does not know pass
// through, except for padding and what repeats the usage.
//
// It does not split a body into events, write what a client receives, or decide what is tried next.
//
// Concurrency: a Reader belongs to one attempt and is for one goroutine at a time. Failure is safe for concurrent use.
package native
