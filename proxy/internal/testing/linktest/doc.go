// Package linktest emulates small networks of hosts and links that lose, delay, duplicate and drop packets. A test can
// start a process on a host, and can itself listen and dial there.
//
// A host is a network namespace, and a link is a pair of TUN devices between which this package copies packets. It
// needs Linux, /dev/net/tun, and the privilege to create namespaces, but not tc netem, a kernel module that many
// machines lack. Faults are reproducible with a seed. The kernel removes a network when its process ends.
//
// Traffic never leaves the machine, because the hosts have no interfaces except for their links and loopback.
//
// Concurrency: everything here may be used from any goroutine.
package linktest
