// Package plugin loads plugins and calls them: it is the host's side of plugin ABI v1 (sdk/abi).
//
// It owns the registry of loaded plugins (Host, Set), the pools of their instances (Plugin), the uses that the
// configuration makes of a plugin (Binding), and every function that a guest may import, with the limits and rules of
// the contract. It does not compile or run WebAssembly itself (package engine does), it sends nothing to a provider,
// and it writes nothing to a client: a guest's output goes into an Attempt, and only when the call has returned 0.
//
// # A call
//
// A call is a pure function of its input, the attempt's state slot and the instance's image after configuration, so
// any idle instance serves any call:
//
//  1. a whole-body call acquires the Host's semaphore; then every call acquires an instance from the pool. Both waits are
//     bounded and fair (package fairqueue). The instance is made ready: configured for the binding, and restored to that
//     state if it has served a tenant that the call's tenant must not share it with,
//  2. write the input into the guest's buffer, set the fuel, call the export; the guest's imports fill the instance's
//     call with events, edits, headers, state,
//  3. status 0 and no error recorded: commit, which is the only place that touches the Attempt. Otherwise the call has no
//     effect, the instance is restored to its image or replaced, and the caller gets a *CallError; if the instance has
//     trapped and had served other calls before, the call is retried once on a fresh one. A panic of the gateway in the
//     call is such a failure, too,
//  4. clear the input from the guest's memory and give the instance back.
//
// # Concurrency
//
// Host, Set, Plugin and Binding are safe for concurrent use. An Attempt belongs to one goroutine at a time, and
// an instance to one call. No other lock is taken while the lock of a pool, of the semaphore, of a breaker or of a
// plugin's images is held; a breaker logs under its lock. A whole-body call acquires the semaphore before it acquires an
// instance, never the other way round.
package plugin
