// Package response turns what a provider said (Event, Batch) into what a client receives (Machine).
//
// It does not know of HTTP, providers, plugins or configuration.
//
// Nothing here is safe for concurrent use.
package response
