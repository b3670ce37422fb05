// Package examples holds what an outsider would write: plugins, clients and a deployment, each with a README of its own.
//
// There is no code in this package itself. Its tests load every configuration of the examples as the gateway does, and
// keep the README of the repository true: its plugin, its tables of members, commands, errors and headers.
package examples
