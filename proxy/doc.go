// Package proxy is the gateway: it puts the parts below it together and serves them over HTTP.
//
// It owns the HTTP surface (server.go, handler.go), the way of one request from its key to its last byte (exchange.go,
// attempt.go, handover.go, pump.go), what a client's socket says of its client (conn.go), the generations of configuration
// (generation.go), and what is told of all this (health.go, metrics.go, status.go). It does not know what a chunk looks like (chat), how an answer is cut into events (sse), how a
// provider is reached (upstream), or what a plugin is made of (plugin).
//
// Concurrency: a Server is safe for concurrent use. An exchange belongs to the goroutine that serves its connection,
// from accept to the last byte; there is no second goroutine, timer or channel to a request, but for the moment in
// which fasthttp lets go of a connection.
package proxy
