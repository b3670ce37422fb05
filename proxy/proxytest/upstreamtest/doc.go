// Package upstreamtest is a scripted provider for tests: a raw server on 127.0.0.1 whose scripts control every byte of a connection and
// how it ends.
//
//	gone := make(chan struct{})
//	s := upstreamtest.New(t, upstreamtest.Script{
//		upstreamtest.ReadRequest(),
//		upstreamtest.Head(200, "Content-Type: text/event-stream", "Transfer-Encoding: chunked"),
//		upstreamtest.Chunk("data: {}\n\n"),
//		upstreamtest.Wait(gone),
//		upstreamtest.Reset(),
//	})
//	// … a client of s.URL() … close(gone) … s.Requests()
//
// The n-th connection runs the n-th script, and all later ones the last. A connection is closed when its script ends.
// A step that fails ends the script. It is not reported, since a client that disconnects makes a step fail.
//
// It parses requests with net/http, which shares no code with the client under test, and writes bytes. Nothing sleeps: steps wait for
// channels and the peer.
//
// Concurrency: one goroutine per connection runs its steps; the methods of Server are safe for concurrent use. All goroutines end
// with the test.
package upstreamtest
