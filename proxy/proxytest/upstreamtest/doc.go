// Package upstreamtest is a provider for tests: a raw server on 127.0.0.1 whose every connection follows a script, down
// to the single byte and the way in which it dies.
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
// A step that fails ends the script: that is how a test's client shows that it went away, so it is not reported.
//
// It knows HTTP only as far as it reads requests, with net/http, which shares no code with the client under test. What
// it answers is bytes. Nothing here sleeps: steps wait for channels and for the peer.
//
// Concurrency: one goroutine a connection runs its steps, one after the other; the methods of Server may be called from
// anywhere. All of them have ended when the test ends.
package upstreamtest
