// Package apierror describes a request's failure: what the client may see of it, and its cause, which only the log sees.
//
// It does not spell error bodies: each client API does that in its own way. An Error is immutable once it has been returned.
package apierror
