// Package routing decides in which order the targets of a model are tried, and explains why.
//
// Policy.Decide makes that decision for each request. It reads the model's policy, the facts of the request and the
// state of the targets, and fills in a Decision, which is rendered into a response header, the log, the admin API and
// the output of a command. The package owns the hashes that identify related requests (Identity) and choose targets
// (rendezvous hashing), the targets' statistics and circuit breakers (Stats), the retry budgets of providers (Budget),
// and the input document of router plugins. The models themselves are in subpackage catalog. The package sends no
// requests and does not depend on plugins: callers supply the Chooser.
//
// Concurrency: a Policy and its Targets are immutable; a Request and a Decision belong to one request. Everything else
// is safe for concurrent use. Each Stats and Budget has its own lock. No other lock is taken while one of these is
// held; they may be taken while the lock of the Registry is held.
package routing
