// Package host contains the host functions that a guest imports, as Go functions.
//
// In a WebAssembly module each function calls the import of the same name, so a module imports only the functions that
// its code can reach. In a native build the functions call the abi.Host that was set with Use.
//
// It is the only package of the SDK and of plugins that uses unsafe: to pass the address of a slice to an import, to
// convert a string to bytes without copying, and to find the offset of one slice in another.
//
// The package does not check arguments and has no state except the host of a native build. A guest has one goroutine,
// so nothing here is safe for concurrent use.
package host
