// Package response writes the response to one request: it checks the events that a provider sent (Batch), enforces
// their order and completeness (Writer), and renders them in the client's API (Renderer).
//
// The package owns the rules that hold for every response: a batch is applied whole or not at all, texts are decoded
// and may be split anywhere, each choice finishes once, nothing follows the end, usage is counted, and a failure comes
// last. How an API represents a response is up to its Renderer; the one for chat completions is in package openai. The
// package does not depend on HTTP, providers, plugins or configuration.
//
// Nothing here is safe for concurrent use.
package response
