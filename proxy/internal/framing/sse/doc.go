// Package sse reads server-sent events in the event stream format of the WHATWG HTML standard. It ignores the fields id
// and retry, because the gateway does not reconnect.
//
// Concurrency: a Decoder belongs to one goroutine.
package sse
