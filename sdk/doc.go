// Package sdk is what a plugin of the gateway is written with. It holds what all plugins share: the summary of a
// request, and the ways to fail and to log.
//
// A provider is one Go type with a few methods: see package provider. A router is one function: see package router.
// Package json reads and writes JSON without allocating. The contract behind them, for authors in any language, is
// abi/README.md.
//
// A plugin is a package main that registers itself in an init function and is built with
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -ldflags="-s -w" -o example.wasm .
//
// The same code runs natively in go test: see package plugintest.
//
// Most of a module is the runtime of its language. Several plugins can share it: each is a package of its own whose init
// function registers it by a name (provider.RegisterAs, router.RegisterAs), and one package main imports all of them.
// The gateway compiles and keeps their module once; each is a plugin of its own besides.
//
// A plugin has no network, files, environment, arguments, clock or threads. It is called with one thing at a time and
// must not start goroutines. Which instance serves which call is the gateway's choice, so nothing may be kept from one
// call to the next but what the gateway keeps for it (provider.Answer.SetState) and what follows from the settings
// alone. Every []byte that a plugin is given is valid until its call returns, unless said otherwise.
package sdk
