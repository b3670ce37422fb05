// Package soaktest runs the sluice binary for a long time under load, with faults of clients and providers and with
// reloads. It checks that every request gets the expected response and one line in the access log, that no incomplete
// stream is reported as complete, and that all resources are released when the load is over.
//
// A Plan describes one request: the client's request and behaviour, and the provider's response and fault. It is
// derived from the seed of the run and the number of the request, so the client and the provider agree on it without
// communicating, and a run can be repeated.
//
//	plan.go      plans
//	provider.go  the provider's responses and faults
//	client.go    the clients' requests and behaviour
//	ledger.go    compares the results of clients and the access log with the plans
//	traffic.go   sends requests at a constant rate
//	reload.go    replaces the configuration during a run
//	compare.go   compares what the access log, recent requests, the ledger, metrics and traces say
//	report.go    prints results
//
// All functions and methods are safe for concurrent use.
package soaktest
