// Package sse reads server-sent events, as the WHATWG event stream format describes them. The fields id and retry are skipped,
// because the gateway does not reconnect.
//
// Concurrency: a Decoder belongs to one goroutine.
package sse
