// Package filter passes the texts of a request and of its response through the configured filters.
//
// A Chain holds the filters that apply to one request, in order. Chain.Request passes them the texts of the client's
// document and applies their edits. A Renderer sits between the response writer and the renderer of the client's API:
// it queues the writer's calls until Run processes them. Run is called between two reads from the provider and never
// during a call of the provider's plugin, so that no plugin call waits for another one.
//
// The chain stores the text that each filter holds back. Held text is sent before anything that follows it in the same
// choice.
//
// Nothing here is safe for concurrent use, except Filter.
package filter
