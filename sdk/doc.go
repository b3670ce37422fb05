// Package sdk is the SDK for gateway plugins in Go. It holds what all plugins share: the summary of a request,
// failures, and logging.
//
// A provider plugin is a Go type with a few methods (package provider), a router plugin is a function (package router),
// and a filter plugin is a Go type with one method (package filter). Package json reads and writes JSON without
// allocating, and package chat reads the messages of a request. abi/README.md specifies the underlying ABI, for authors
// in any language.
//
// A plugin is a package main that registers itself in an init function. Build it with
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -ldflags="-s -w" -o example.wasm .
//
// The same code runs natively in go test: see package proxy/plugintest.
//
// Most of a module is the runtime of its language, which several plugins can share: write each plugin as a package
// whose init function registers it by name (provider.RegisterAs, router.RegisterAs, filter.RegisterAs), and import all
// of them in one package main. The gateway then compiles the module once and holds one copy of it in memory; in every
// other respect the plugins are separate.
//
// A plugin has no access to network, files, environment variables, arguments, clock or threads. It handles one call at
// a time and must not start goroutines. The gateway may run each call on another instance, so a plugin must not keep
// state between calls, except what it derives from its options. A provider passes state to later calls of an attempt
// with provider.Answer.SetState. A []byte that a plugin receives is valid until the call returns, unless documented
// otherwise.
package sdk
