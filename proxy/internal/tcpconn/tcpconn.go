// Package tcpconn sets and asks what package net leaves to the kernel of a TCP connection: keep-alive probes, a reset on
// close, what is readable, and what the peer has acknowledged.
//
// It owns no connection and no policy: how long a silent peer is tolerated is its callers' decision.
//
// Concurrency: all functions are safe for concurrent use. Those that take a descriptor are called within
// syscall.RawConn.Control, which keeps it open meanwhile.
package tcpconn

import (
	"net"
	"time"
)

// Of returns the TCP connection that c is, or that TLS runs on; nil for one in memory.
func Of(c net.Conn) *net.TCPConn {
	if over, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = over.NetConn()
	}
	tcp, _ := c.(*net.TCPConn)
	return tcp
}

// KeepAlive makes the kernel probe a peer that has been silent for idle, count times at interval, and then end the
// connection.
//
// Callers vary the durations randomly from connection to connection: the kernel fires timers of connections that were
// opened together together, and of thousands of probes sent at once most are dropped on the way, so that healthy peers
// would be given up.
func KeepAlive(c net.Conn, idle, interval time.Duration, count int) {
	if tcp := Of(c); tcp != nil {
		// Without it the connection works, and timeouts find a dead peer later.
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: idle, Interval: interval, Count: count})
	}
}

// SetLingerZero makes Close reset the connection and drop what has not been delivered.
func SetLingerZero(c net.Conn) {
	if tcp := Of(c); tcp != nil {
		_ = tcp.SetLinger(0)
	}
}
