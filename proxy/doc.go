// Package proxy is the gateway: it serves chat completions, Messages, Responses and Gemini over HTTP, and gets its responses from the
// providers of a configuration, through their plugins.
//
// It owns the HTTP surface and the way of a request, a file a step: http (routing and refusals), head (what a request's
// head says), admit (who may come in), request (one completion, from acceptance to its body), attempt (targets in order,
// one attempt), stream (events read, chunks written) and account (headers, records, release). Beside them are Server with
// its lifetime (server, reload), the client APIs (apis), the generations of the configuration (generation, build, plugins, models), and what the
// gateway shows of itself (metrics, status, log).
//
// It does not know how a request is read and a response spelled (internal/openai, internal/messages, internal/responses), how it is split into events (internal/framing), how a
// client's connection is kept (internal/downstream), how a provider is reached (internal/upstream), or how a plugin runs
// (internal/plugin).
//
// Concurrency: a Server is safe for concurrent use. A completion belongs to the goroutine that serves its connection, from
// acceptance to the last byte; it has no second goroutine, timer or channel, except while a Watcher waits for it and while
// fasthttp lets go of its connection.
package proxy
