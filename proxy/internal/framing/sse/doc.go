// Package sse reads server-sent events, as the WHATWG event stream format describes them, from a body that arrives in
// pieces of any size.
//
// It owns the framing alone: what an event's data means, where the bytes come from and how long to wait for them is
// the caller's. The fields id and retry are read over, for nobody here reconnects.
//
// Concurrency: a Decoder belongs to one goroutine.
package sse
