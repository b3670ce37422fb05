// Package engine runs WebAssembly guests under wazero: it compiles modules, makes instances, calls their functions and
// serves what they import. It is the only package that imports wazero.
//
// It owns the runtime, the compile cache on disk, the memory of instances and the WASI functions, which give no access to
// the machine. It does not know the plugin ABI: package plugin provides its functions with [Engine.Provide], keeps the
// pools of instances and assigns them to calls.
//
// # What a guest can do
//
// A guest computes and calls its imports, nothing else. Before any of its code runs, [Engine.Compile] has checked
// its imports and exports, and package fuel has rewritten it, so that every call is bounded: in steps (fuel), in depth of
// recursion, and in memory (pages). Time and randomness come from the call, not from the machine: the clock stands still
// except that sleeping moves it, and random bytes follow from [Instance.Seed]. The same call on a fresh instance returns
// the same result and uses the same fuel.
//
// # How a call fails
//
// Every failure of a call is a *[Trap]. wazero does not retire an instance after a trap: the next call
// would run on a stack, locks and a heap in an unknown state, and may well seem to succeed. So the first trap kills the
// [Instance] here: all later calls of it fail with [Dead], unless [Instance.Revive] has restored it to an image.
//
// # Concurrency
//
// An [Engine] and a [Module] may be used by any number of goroutines. An [Instance] belongs to one goroutine at a time,
// from the start of a call until its results were read, and that goroutine or a later owner closes it. Guest code cannot
// be preempted by Go between two scheduling points, which package fuel puts into it.
package engine
