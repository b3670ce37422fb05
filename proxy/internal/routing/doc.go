// Package routing decides in which order the targets of a model are tried, and says why.
//
// Policy.Decide is the one place of that decision: for each request it takes the model's policy, the request's facts and the state of
// the targets, and fills a Decision, from which a header, a command, the admin address and the log are rendered. The package owns the
// hashes by which requests are kept together (Identity) and targets are chosen (rendezvous hashing), the targets' statistics and
// circuit breakers (Stats), the retry budgets of providers (Budget), and the document that a router plugin reads. Its subpackage
// catalog has the models. It does not send requests and does not know plugins: the Chooser is handed in.
//
// Concurrency: a Policy and its Targets are immutable; a Request and a Decision belong to one request. Everything else is safe for
// concurrent use. Each Stats and Budget has its own lock, under which no other is taken; the lock of the Registry may be held while
// taking them.
package routing
