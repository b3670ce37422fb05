// Package host contains the host functions that a guest imports, as Go functions.
//
// In a WebAssembly module each function calls the import of the same name, so a module imports only the functions that
// its code can reach. In a native build they call the abi.Host that was set with Use.
//
// It is also the only package of the SDK and of plugins that uses unsafe: to pass the address of a slice to an import, to
// convert a string to bytes without a copy, and to find the offset of one slice in another.
//
// The package checks no arguments. It keeps no state except the host of a native build. A guest has one goroutine;
// nothing here is safe for concurrent use.
package host
