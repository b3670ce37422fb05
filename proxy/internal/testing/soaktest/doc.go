// Package soaktest runs the gateway as it ships for a long time under everything that happens to a gateway, and holds it
// to its promises: every request is answered as it should be and accounted once, no stream is passed off as complete that
// was not, and when the load is over nothing is left of it.
//
// A Plan says all that is going to happen to one request: what the client asks for and how it behaves, what the provider
// answers and how it fails. It follows from the seed of the run and the number of the request alone, so that the client
// and the provider agree on it without a word, and a run can be had again.
//
//	plan.go      what happens to a request
//	provider.go  the provider's part of it
//	client.go    the client's part of it
//	ledger.go    what must come of it, against what the client saw and what the gateway's log says
//	traffic.go   the requests of a run, at a constant rate
//	swap.go      configurations that take each other's place meanwhile
//	table.go     what is printed
//
// All of it is safe for concurrent use.
package soaktest
