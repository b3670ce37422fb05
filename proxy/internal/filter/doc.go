// Package filter takes the texts of a request and of its response through the filters that a configuration has for them.
//
// A Chain is the filters that apply to one request, in their order. Chain.Request gives them the texts of the client's document and
// edits what they replace. A Renderer stands between the response writer and the renderer of the client's API: it keeps what the writer
// renders until Run takes it through the filters, which happens between two reads from the provider and never within a call of a provider's
// plugin, so that no call waits for another one.
//
// What is held of a text, by each filter, belongs to the chain. It goes on before anything that follows it in its choice.
//
// Nothing here is safe for concurrent use, except Filter.
package filter
