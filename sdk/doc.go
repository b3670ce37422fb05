// Package sdk is the SDK for gateway plugins in Go. This package contains what all plugins share: the summary of a request,
// failures, and logging.
//
// A provider plugin is a Go type with a few methods: see package provider. A router plugin is a function: see package router. A filter
// plugin is a Go type with one method: see package filter. Package json reads and writes JSON without allocating, package chat reads the
// messages of a request. The underlying contract, for authors in any language, is abi/README.md.
//
// A plugin is a package main that registers itself in an init function. Build it with
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -ldflags="-s -w" -o example.wasm .
//
// The same code runs natively in go test: see package plugintest.
//
// Most of a module is the runtime of its language, which several plugins can share: write each as a package whose init
// function registers it by name (provider.RegisterAs, router.RegisterAs, filter.RegisterAs), and import all of them in one package
// main. The gateway compiles the module once and keeps it in memory once; in every other respect the plugins are separate.
//
// A plugin has no access to network, files, environment, arguments, clock or threads. It handles one call at a time and must
// not start goroutines. The gateway chooses an instance for each call, so a plugin must not keep anything between calls
// except what follows from its settings; for everything else there is provider.Answer.SetState. Every []byte that a plugin
// receives is valid until its call returns, unless documented otherwise.
package sdk
