// Package plugintest tests plugins the way the gateway runs them.
//
// A Suite is a plugin and a folder of vectors: client requests, upstream responses, and the expected results. It runs each
// vector through the host's side of the ABI in three forms: with the plugin as Go code in the test's process, as a module
// on a fresh instance, and as a module on an instance that has served all the other vectors. All three must give the same
// bytes, so a plugin that carries state from one request to the next fails.
//
//	func TestVectors(t *testing.T) {
//		suite := plugintest.Suite{Package: ".", Use: plugintest.Use{Paths: []string{"/v1/chat"}}}
//		suite.Test(t)
//	}
//
// The test belongs to the plugin's package, whose init function has registered the plugin: a package main, or one of those
// that make a module of several plugins. There Suite.Package is the package main that imports them all, and Suite.Plugin
// the name.
//
// # Vectors
//
// Every folder below testdata/vectors that holds a request.json is a vector and names a subtest:
//
//	request.json  the client's request
//	answer.json   the upstream's response as one document, or in events: answer.sse, answer.ndjson, answer.eventstream;
//	              none of them if the plugin answers by itself or only its request matters
//	vector.json   everything else (see Vector), such as another form than chat completions; optional
//	want.txt      the expected result; go test -update writes it
//
// # Other tests
//
// Suite also has the bodies of tests that most plugins need: TestSettings, TestModels and TestFailedLists for options and
// model lists, TestRecordings for requests that real clients sent, FuzzResponses, FuzzRequests and FuzzConversations,
// TestEventsDoNotAllocate, and benchmarks that report fuel.
//
// A change of want.txt is the review of a change of the plugin.
//
// A module is built by go build into the user's cache folder, once a process, and linked again only if it is stale.
//
// A native plugin shares one host variable with its process, so that native calls run one at a time; all else here may be
// used from parallel tests.
package plugintest
