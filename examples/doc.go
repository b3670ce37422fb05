// Package examples contains plugins, clients, routing policies and a deployment as users would write them, each with a
// README.
//
// The package itself has no code. The tests in proxy/internal/testing/e2e load all configurations of the examples as
// the gateway does.
package examples
