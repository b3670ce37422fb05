// Package ndjson reads newline-delimited JSON, one JSON text a line. Whether a line is valid JSON is the caller's to check.
//
// Concurrency: a Decoder belongs to one goroutine.
package ndjson
