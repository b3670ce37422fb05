// Package linktest makes small networks: hosts, and links between them that lose, delay, repeat and swallow packets as they
// are told to. A process of the test can run on a host, and the test itself can listen and dial there.
//
// A host is a network namespace, and a link is a pair of TUN devices between which this package carries the packets. The
// kernel's own shaping (tc netem) is a module that many machines do not have; this needs Linux, /dev/net/tun, and the right
// to make a namespace, and what happens to a packet follows from a seed. Nothing of a network outlives its process.
//
// Traffic never leaves the machine: the hosts have no way out but their links.
//
// Concurrency: everything here may be used from any goroutine.
package linktest
