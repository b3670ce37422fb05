// Package chat is the chat completions convention: what a request must be (Parse), what an answer is (Event, Batch,
// Machine), and how a failure is told to a client (Error).
//
// It owns the bytes that a client receives, whole or streamed, down to the last comma. It does not know of HTTP,
// providers, plugins or configuration.
//
// Concurrency: nothing here is safe for concurrent use but Error values, which nobody changes once they are returned.
package chat
