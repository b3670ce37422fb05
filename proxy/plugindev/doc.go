// Package plugindev is what the author of a plugin needs beside the gateway: it loads a plugin, runs vectors on it as the gateway
// would run requests, and says what came of them. The commands `sluice plugin test` and its siblings are made of it, and so is package
// plugintest, which does the same in tests of Go.
//
// A Host holds what is loaded; a Plugin is one plugin of a module, a Binding one use of it with its settings. A Vector is a client's
// request and an upstream's response; its Outcome is the request that the plugin builds and what the client receives.
//
// # Vectors
//
// Every folder that holds a request.json is a vector:
//
//	request.json  the client's request
//	answer.json   the upstream's response as one document, or in events: answer.sse, answer.ndjson, answer.eventstream;
//	              none of them if the plugin answers by itself or only its request matters
//	vector.json   everything else (see Vector), such as another form than chat completions; optional
//	want.txt      the expected outcome
//
// It serves nothing and opens no connection. A Host, its plugins and bindings may be used from any goroutine; a native plugin shares
// one host variable with its process, so that its calls run one at a time.
package plugindev
