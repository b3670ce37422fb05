// Package loadtest tests the sluice binary under load: thousands of open streams, requests on busy connections, a
// connection per request, and twice the load that one CPU can handle. The tests check that nothing fails and that
// responses are correct, and print measurements.
//
// It also provides a client and a provider for other tests. They share no code with the gateway: they use plain sockets
// and parse HTTP with net/http.
//
// A Conn must be used from one goroutine. A Provider serves each connection on its own goroutine. Latencies are safe
// for concurrent use.
package loadtest
