// Package examples contains plugins, clients and a deployment as users would write them, each with a README.
//
// The package itself has no code. The tests in proxy/internal/testing/e2e load every configuration of the examples as the gateway does.
package examples
