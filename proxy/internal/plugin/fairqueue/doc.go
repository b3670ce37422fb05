// Package fairqueue shares a scarce resource fairly between flows: a start-time fair queue (Goyal et al.) of two levels,
// and a semaphore that uses it.
//
// A flow is a member of a group; groups share the resource with each other, and members share what their group gets.
// What a use has cost is handed in when it is over. The package does not know what the resource is or what costs are
// measured in, makes nothing and closes nothing.
//
// A Queue is guarded by the lock of its resource; each method says whether its caller holds that. A Semaphore is safe for
// concurrent use.
package fairqueue
