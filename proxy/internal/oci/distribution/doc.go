// Package distribution is a client of registries, by the OCI distribution API: it pulls manifests and blobs by digest,
// from mirrors first, looks up tags, and pushes.
//
// It owns authentication (a bearer token, or the credential itself, as the registry asks for), redirects, retries, and
// the limits for what a registry may send. Everything that is pulled by digest is verified before it is returned. It
// keeps nothing on disk.
//
// # Trust
//
// A credential is sent to its registry, and to the token service that the registry names, and nowhere else: redirects
// are followed without it, unless they lead to the registry itself. Hosts that a registry names, for tokens or
// redirects, must not have a private address unless the registry may have one, and never that of a metadata service.
// They need HTTPS if the registry has it.
//
// Concurrency: a Client belongs to one goroutine at a time.
package distribution
