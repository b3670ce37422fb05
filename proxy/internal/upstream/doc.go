// Package upstream keeps the gateway's connections to one provider: it dials them, keeps the idle ones, sends a request
// on one and reads the answer, whole or as it comes.
//
// It owns everything that depends on time or on the network: the deadlines for connecting, the TLS handshake, sending,
// the head, silence in the body and the whole answer; which addresses may be dialled; when a connection may be used
// again; the one retry on a connection that had died while it was idle. The provider's credential enters a request here
// and nowhere else, and it never leaves in an error. What a request and an answer mean, which provider is tried after
// this one, and what the client is told, is for others.
//
// # Waiting
//
// A request waits in the Read and Write of its connection, on the goroutine that called Do or Next. There is no timer
// and no goroutine for it: the connection arms a short deadline, a tick, and when it passes looks at the deadlines above
// and calls the Watcher, which may look at the client, write to it, or end the wait. A context is looked at when a tick
// passes, too. Waiting for a free connection, dialling and the TLS handshake do not tick; they are bounded by
// themselves, and the Watcher is asked once before a request is sent on a connection that took long to get.
//
// # Addresses
//
// A name is looked up at most every 30 s, and once for everybody, by a goroutine that Close waits for. Where it has several
// addresses they are tried as RFC 8305 says. A connection serves for 5 min, so that a provider that is always busy can
// move, too.
//
// # Credentials
//
// A credential that is a text is put into the request as it is. One that has to be obtained, the keys for a signature of
// AWS or a token of Google, is kept by a renewed: it is at hand without a lock, is obtained anew before it ends, once for
// everybody, by a goroutine that Close waits for, over connections of its own. What was obtained is told to the Redactor
// before it is sent. A request waits for it at most as long as it may wait for a connection.
//
// # One reading of an answer
//
// The head of an answer is read by a scan of our own, which refuses every head that two parsers could read in two ways:
// both lengths, two lengths, other codings, folded lines, bare LFs. What passes is read as net/http reads it, which is
// what FuzzHead holds. Bodies are decoded
// here, in the buffer that they were read into and in place, so that bytes are handed out without a copy as soon as they are
// there, and the decoder can stop between any two of them.
//
// Concurrency: a Client is safe for concurrent use. A Response belongs to one goroutine at a time.
package upstream
