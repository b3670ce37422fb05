// Package ndjson reads newline-delimited JSON, one JSON text a line, from a body that arrives in pieces of any size.
//
// It owns the framing alone: whether a line is JSON and what it means, where the bytes come from and how long to wait
// for them is the caller's. Its Decoder has the shape of the one in package sse, so that one pump drives both.
//
// Concurrency: a Decoder belongs to one goroutine.
package ndjson
