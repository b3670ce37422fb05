// Package plugin loads plugins and calls them: it is the host's side of plugin ABI v1 (sdk/abi).
//
// It owns the registry of loaded plugins (Host, Generation), the pools of their instances (Plugin), the uses that the
// configuration makes of a plugin (Binding), and every function that a guest may import, with the limits and rules of
// the contract. It does not compile or run WebAssembly itself (package engine does), it sends nothing to a provider,
// and it writes nothing to a client: what a guest says goes into an Attempt, and only when the call has returned 0.
//
// # A call
//
// A call is a pure function of its input, the attempt's state slot and the instance's image after configuration, so
// any idle instance serves any call:
//
//  1. of a whole-body call: wait for a turn at the gate, then, of every call, take an instance from the pool (both are
//     bounded waits, in a fair order: turns), and make it ready: configured for the binding, and put back to what it was
//     then where it has served somebody whom the call's tenant must not share it with,
//  2. write the input into the guest's buffer, set the fuel, call the export; the guest's imports fill the instance's
//     call with events, edits, headers, state,
//  3. status 0 and no error recorded: commit, which is the only place that touches the Attempt. Otherwise nothing of
//     the call remains, the instance is put back to its image or replaced, and the caller gets a *CallError, or, where the instance had
//     trapped and had served other calls before, one more try on a fresh one. A panic of the gateway in the call is such
//     a failure, too,
//  4. clear the input from the guest's memory and give the instance back.
//
// # Concurrency
//
// Host, Generation, Plugin and Binding are safe for concurrent use. An Attempt belongs to one goroutine at a time, and
// an instance to one call. Locks: those of a pool, of the gate and of a breaker are leaves; nothing is called while one is
// held, but that a breaker logs. That of a plugin's images is held while one is made or shown, and nothing else is taken
// then. A whole-body call takes the Host's gate before it takes an instance, never the other way round.
package plugin
