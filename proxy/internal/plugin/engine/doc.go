// Package engine runs WebAssembly guests under wazero: it compiles modules, makes instances, calls their functions and
// implements the functions that they import. It is the only package that imports wazero.
//
// It owns the runtime, the compile cache on disk, the memory of instances and the WASI functions, which give no access
// to the machine. It does not know the plugin ABI: package plugin provides those functions with [Engine.Provide], keeps
// the pools of instances and assigns instances to calls.
//
// # What bounds a guest
//
// A guest can compute and call the functions that it imports, nothing else. Before any of its code runs,
// [Engine.Compile] has checked its imports and exports, and package fuel has rewritten it. The bounds are:
//
//   - Steps: the metering is part of the machine code, and its globals are out of the guest's reach (package fuel
//     explains why). The host sets the budget before each call. Its own work is charged with [Instance.Charge], and a
//     call whose budget the host's charges have used up ends when the host function returns. WASI functions check the
//     budget before they do their work.
//   - Depth of recursion: the same metering limits it, so that wazero's stack stays small. The limit is a constant of
//     package fuel.
//   - Memory: linearMemory reserves the address space of the limit and refuses to grow beyond it. wazero checks every
//     access against the current size.
//   - Tables: package fuel lowers the maximum size of each table.
//   - A start function runs before the host can set a budget, on the small one that package fuel has put into the
//     module.
//   - Loading: package fuel rejects modules that are too large, or too expensive to compile (package compilecost). A
//     panic of the compiler is an error.
//   - Output: [Options.OutputBytes] limits what a call can write to standard output and error.
//   - Access: the WASI functions know no files, sockets, arguments, environment variables or threads.
//
// Time and randomness come from the call, not from the machine: the clock stands still except that sleeping advances
// it, and random bytes follow from [Instance.Seed]. So the same call on a fresh instance returns the same result and
// uses the same fuel.
//
// # How a call fails
//
// Every failure of a call is a *[Trap]. wazero itself would accept further calls of an instance after a trap. They
// would run with the guest's stack, locks and heap in an unknown state, and might well seem to succeed. So here the
// first trap kills the [Instance]: all later calls fail with [Dead], unless [Instance.Revive] restores it to an image.
//
// # Concurrency
//
// An [Engine] and a [Module] are safe for concurrent use. An [Instance] belongs to one goroutine at a time, from the
// start of a call until its results have been read, and that goroutine or a later owner closes it. Go cannot preempt
// guest code. It runs up to the next scheduling point, which package fuel inserts every fuel.DefaultSliceUnits units.
package engine
