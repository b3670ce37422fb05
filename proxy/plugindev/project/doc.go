// Package project manages the folder of a plugin: it creates a new one, finds the compiler of its language, builds it,
// and upgrades its kit.
//
// A folder contains plugin.toml, which describes the plugin, its source, vectors, and sdk, a copy of the SDK for its
// language. Templates and SDKs are embedded in the binary. No function uses the network, and compilers are configured
// not to use it.
//
// The package does not load modules: see package plugindev. A Project is not changed after Load, and may be used from
// any goroutine, but two concurrent builds of one folder write the same file.
package project
