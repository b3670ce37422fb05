// Package ndjson reads newline-delimited JSON, one JSON text per line. It does not check that a line is valid JSON.
//
// Concurrency: a Decoder belongs to one goroutine.
package ndjson
