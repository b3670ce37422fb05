// Package host is the import module as Go functions: what a guest can ask of the gateway.
//
// In a module they are the imports themselves, so that a module imports only the functions that its code can reach.
// In a native build they call the host that Use has named. It checks nothing and keeps nothing; a guest has one goroutine.
package host
