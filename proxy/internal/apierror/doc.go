// Package apierror describes a request's failure: what the client may see of it, and its cause, which only the log
// sees.
//
// Error bodies are rendered by the package of each client API. An Error is immutable once it has been returned.
package apierror
