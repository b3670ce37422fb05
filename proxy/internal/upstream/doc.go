// Package upstream manages connections to one provider: it connects, pools idle connections, sends requests and reads
// responses, as a whole or as they arrive.
//
// It owns everything that depends on time or the network: the timeouts for connecting, the TLS handshake, sending, the
// response header, silence in the body, and the whole response; which addresses may be connected to; when a connection
// may be reused; and the one retry on a new connection when a reused one turned out to be closed or timed out. The
// provider's credential is added to requests only here (with package credential), and is never part of an error. Other
// packages interpret requests and responses, fall back to other targets and write what the client receives.
//
// # Waiting
//
// A request waits in Read and Write of its connection, on the goroutine that called Do or Next, without timers or
// further goroutines. The connection sets a short deadline; each time it passes (a tick), the connection checks the
// timeouts and the context and calls the Watcher, which may check the client, write to it, or end the wait. Waiting for
// a free connection, connecting and the TLS handshake do not tick. They have their own timeouts, and if they took long,
// the Watcher is called once before the request is sent.
//
// # Addresses
//
// A name is resolved at most every 30 s by one goroutine, which Close waits for. Several addresses are tried as in
// RFC 8305. A connection is reused for at most 5 min, so that traffic follows DNS changes.
//
// # Unambiguous responses
//
// Response headers are parsed by a strict scanner (headScan) that rejects everything that two parsers could parse
// differently: duplicate or conflicting lengths, unknown transfer codings, folded lines, bare LFs. FuzzHead checks that
// net/http parses every accepted header in the same way. Bodies are decoded in place in the read buffer, so bytes are
// passed on as soon as they arrive, without a copy.
//
// A response belongs to the request that was written whole before it arrived. On a reused connection, everything that
// arrives earlier closes the connection, and the request is sent on another one. On a new connection, an error may
// arrive earlier, from a provider that rejects the connection or a long body.
//
// Concurrency: a Client is safe for concurrent use. A Response belongs to one goroutine at a time.
package upstream
