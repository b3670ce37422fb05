// Package fairqueue shares a resource fairly between flows, with a start-time fair queue (Goyal et al.) of two levels
// and a semaphore that uses it.
//
// A flow is a member of a group. Groups share the resource equally, and members share the portion of their group. The
// cost of a use is charged when the use ends. The package does not interpret the resource or the unit of costs, and
// creates and closes no resources.
//
// A Queue is guarded by the lock of its resource; each method says whether its caller holds it. A Semaphore is safe for
// concurrent use.
package fairqueue
