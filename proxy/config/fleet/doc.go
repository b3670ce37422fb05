// Package fleet distributes configurations to gateways through an OCI registry: bundles, which are signed
// configurations, and rollouts, which are signed documents that say which nodes run which bundle.
//
// It owns the formats of both, their signatures, what a node accepts (Node), the state that a node keeps on disk, the
// trial of a new bundle, and what a publisher needs (Publisher). It does not parse configurations, which is up to
// package config, and does not serve them: a Node calls its Host. Plugins are not in a bundle, which names them by
// digest.
//
// A registry is not trusted: it can only withhold documents. A node accepts a rollout that a configured key has signed,
// for its own source, and whose sequence is higher than that of every rollout before by the same key. The attacks that
// it withstands are those of The Update Framework, sections 5.3 and 5.4.
//
// Concurrency: a Node's Run is for one goroutine; its other methods may be called from any. Everything else is for one
// goroutine at a time.
package fleet
