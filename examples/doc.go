// Package examples contains plugins, clients and a deployment as users would write them, each with a README.
//
// The package itself has no code. Its tests load every configuration of the examples as the gateway does.
package examples
