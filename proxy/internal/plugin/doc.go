// Package plugin loads plugins and calls them: it is the host's side of plugin ABI v1 (sdk/abi).
//
// It owns the registry of loaded plugins (Host, Set), the pools of their instances (Plugin), the uses that the
// configuration makes of a plugin (Binding), and every function that a guest may import, with the limits and rules of
// the contract. It does not compile or run WebAssembly itself (package engine does), it sends nothing to a provider,
// and it writes nothing to a client: a guest's output goes into an Attempt, and only if the call returns status 0.
//
// # A call
//
// A call is a pure function of its input, the attempt's state slot and the instance's image after configuration, so
// any idle instance can serve any call:
//
//  1. Acquire: a whole-body call first acquires the Host's semaphore, then every call acquires an instance from the
//     pool. Both waits are bounded and fair (package fairqueue). Instance.prepare configures the instance for the
//     binding, and first restores it to its state after configuration if it has served a tenant that the call's tenant
//     must not share it with.
//  2. Run: the host writes the input into the guest's buffer, sets the fuel and calls the export. The guest's imports
//     collect events, edits, headers and state in the instance's call struct.
//  3. Commit, if the status is 0 and no error was recorded. This is the only step that changes the Attempt. Otherwise
//     the call has no effect, the instance is restored to its image or replaced, and the caller gets a *CallError. A
//     trap is retried once on a fresh instance if the first one had served other calls before. A panic of the gateway
//     during the call is handled like a failure of the plugin.
//  4. Release: the input is cleared from the guest's memory, and the instance returns to the pool.
//
// # What bounds a guest
//
//   - Processor time: each call has a budget of fuel that depends on its export and the size of its input (Fuel).
//     Package fuel compiles the metering into the module when it is loaded, so guest code cannot avoid it. Imports
//     charge for the host's work on the same budget, and the engine ends the call once these charges have used it up.
//   - Concurrency: a plugin has at most Options.Instances instances, the process runs at most Options.WholeCalls
//     whole-body calls, and calls wait no longer than Options.Wait allows, in a queue of bounded length.
//   - Memory: package engine limits the linear memory of each instance (Spec.MemoryPages). An instance whose memory has
//     grown past Options.KeepMemory is closed after the call.
//   - Output: a call may emit eight times the size of its input plus 64 KiB, where every event counts for entryCost
//     bytes in addition to its text. What does not pass through the guest has a limit of its own, such as maxCopies.
//   - Effects: a call takes effect in commit or not at all. Imports are allowed in certain phases only (beginImport).
//     Paths, headers and tags must be allowed by the binding's configuration.
//   - Information: a guest sees its own settings and the call's input, from which configured credentials are redacted;
//     the host adds the credential to the upstream request afterwards. Isolation limits which tenants may share an
//     instance.
//   - Repeated failure: a circuit breaker (pluginBreaker) keeps new attempts away from a plugin that keeps failing.
//
// The contract's numbers are in sdk/abi/README.md, under "Limits and budgets".
//
// # Concurrency
//
// Host, Set, Plugin and Binding are safe for concurrent use. An Attempt belongs to one goroutine at a time, and an
// instance to one call. The locks of pools, the semaphore, breakers and images are leaf locks: no other lock is taken
// while one of them is held, except that a breaker logs under its lock. A whole-body call acquires the semaphore before
// it acquires an instance, never the other way round.
package plugin
