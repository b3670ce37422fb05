// Package upstreamtest is a scripted provider for tests: a raw server on 127.0.0.1 whose scripts control every byte of
// a connection and how it ends.
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
// The n-th connection runs the n-th script, and connections after the last script run the last one. A connection is
// closed when its script ends. A step that fails ends the script without a report, because a client's disconnect makes
// steps fail too.
//
// Requests are parsed with net/http, which shares no code with the client under test. Steps wait for channels and the
// peer; only Idle sleeps.
//
// Concurrency: one goroutine per connection runs its steps; the methods of Server are safe for concurrent use. All
// goroutines end with the test.
package upstreamtest
