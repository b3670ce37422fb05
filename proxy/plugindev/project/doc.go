// Package project is the folder of a plugin: it writes a new one, finds the compiler of its language, builds it, and renews its kit.
//
// A folder holds plugin.toml, which says what the plugin is, its source, vectors, and sdk, a copy of the SDK for its language. What it
// starts from is embedded in this package's binary: no function uses the network, and a compiler that would is told not to.
//
// Nothing here loads a module: see package plugindev. A Project is not changed after Load, and may be used from any goroutine; two
// builds of one folder at a time write the same file.
package project
