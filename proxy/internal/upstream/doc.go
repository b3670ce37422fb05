// Package upstream manages connections to one provider: it connects, pools idle connections, sends requests and reads responses, as a
// whole or as they arrive.
//
// It owns everything that depends on time or the network: the timeouts for connecting, the TLS handshake, sending, the response
// header, silence in the body, and the whole response; which addresses may be connected to; when a connection may be reused; and the
// one retry on a new connection when a reused one turned out to be closed or timed out. The provider's credential is added to requests here and nowhere
// else (package credential), and is never part of an error. The meaning of requests and responses, fallback and what the client
// receives are up to other packages.
//
// # Waiting
//
// A request waits in Read and Write of its connection, on the goroutine that called Do or Next, without timers or further
// goroutines: the connection sets a short deadline, a tick, and when it passes checks the timeouts and the context and calls the
// Watcher, which may check the client, write to it, or end the wait. Waiting for a free connection, connecting and the TLS handshake
// do not tick; they have their own bounds, and the Watcher is called once before a request is sent on a connection that took long to
// get.
//
// # Addresses
//
// A name is resolved at most every 30 s by one goroutine, which Close waits for. Several addresses are tried as in RFC 8305. A
// connection is reused for at most 5 min, so that traffic follows changes of DNS.
//
// # One meaning for each response
//
// Response headers are parsed by a strict scanner of our own that rejects everything that two parsers could parse differently:
// duplicate or conflicting lengths, unknown transfer codings, folded lines, bare LFs. What it accepts means the same to net/http,
// which FuzzHead checks. Bodies are decoded in place in the read buffer, so that bytes are passed on without a copy as soon as they
// arrive.
//
// Concurrency: a Client is safe for concurrent use. A Response belongs to one goroutine at a time.
package upstream
