// Package plugindev implements the tools for authors of plugins. It loads a plugin, runs test vectors on it as the
// gateway would run requests, and reports the results. The commands `sluice plugin test` and its siblings use it, and
// so does package plugintest, which runs vectors in Go tests.
//
// A Host holds loaded plugins. A Plugin is one plugin of a module, and a Binding is one use of it with its settings. A
// Vector is a client's request and an upstream's response; its Outcome is the request that the plugin builds and the
// response that the client receives.
//
// # Vectors
//
// Every folder that holds a request.json is a vector:
//
//	request.json  the client's request
//	answer.json   the upstream's response as one document, or as events: answer.sse, answer.ndjson, answer.eventstream;
//	              missing if the plugin responds by itself or only its request matters
//	vector.json   everything else (see Vector), such as another form than chat completions; optional
//	want.txt      the expected outcome
//
// The package neither listens nor connects. A Host, its plugins and bindings may be used from any goroutine. A native
// plugin shares one host variable with its process, so its calls run one at a time.
package plugindev
