// Package loadtest puts load on the gateway as it ships: thousands of streams held open, requests as fast as they are
// answered, connections opened and closed all the time, one processor for twice the work that it can do. Its tests say
// what must hold under load, which is that nothing fails and no byte differs; what they measure they print.
//
// For other tests it owns a client and a provider that share no code with the gateway: both are sockets, and read HTTP
// with net/http.
//
// A Conn belongs to one goroutine. A Provider answers each connection on a goroutine of its own; Latencies are safe for
// concurrent use.
package loadtest
