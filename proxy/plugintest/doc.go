// Package plugintest tests plugins the way the gateway runs them.
//
// A Suite is a plugin and a folder of vectors: client requests, upstream responses, and the expected results. It runs
// each vector through the host's side of the ABI in three forms: with the plugin as Go code in the test's process, as a
// module on a fresh instance, and as a module on an instance that has served all the other vectors. All three must
// produce the same bytes, so a plugin that carries state from one request to the next fails.
//
//	func TestVectors(t *testing.T) {
//		suite := plugintest.Suite{Package: ".", Use: plugintest.Use{Paths: []string{"/v1/chat"}}}
//		suite.Test(t)
//	}
//
// The test belongs to the plugin's package, whose init function registers the plugin. This is a package main, or a
// package that a module of several plugins imports. In the second case, Suite.Package is the package main that imports
// all of them, and Suite.Plugin is the plugin's name.
//
// # Vectors
//
// Every folder below testdata/vectors that holds a request.json is a vector and names a subtest:
//
//	request.json  the client's request
//	answer.json   the upstream's response as one document, or as events: answer.sse, answer.ndjson, answer.eventstream;
//	              missing if the plugin responds by itself or only its request matters
//	vector.json   everything else (see Vector), such as another form than chat completions; optional
//	want.txt      the expected result; go test -update writes it
//
// To review a change of a plugin, read the diff of its want.txt files.
//
// # Other tests
//
// Suite also has the bodies of tests that most plugins need: TestSettings, TestModels and TestFailedLists for options
// and model lists, TestFilter for filters, TestRecordings for requests that real clients sent, FuzzResponses,
// FuzzEventOrder, FuzzRequests, FuzzConversations and FuzzModels, TestEventsDoNotAllocate, and benchmarks that report
// fuel.
//
// A module is built with go build once per process, into the user's cache folder, and linked again only if it is stale.
//
// Everything here may be used from parallel tests. Native plugins share one host variable with their process, so calls
// of them run one at a time.
package plugintest
