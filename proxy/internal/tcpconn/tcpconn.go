// Package tcpconn sets options and reads kernel state of TCP connections: keep-alive probes, a reset on close,
// readiness, and acknowledgements by the peer.
//
// It owns no connections and no policy. Callers decide how long to tolerate a silent peer.
//
// Concurrency: all functions are safe for concurrent use. Functions that take a descriptor must be called within
// syscall.RawConn.Control, which keeps the descriptor open.
package tcpconn

import (
	"net"
	"time"
)

// unwrap returns c, or the connection below TLS, as a TCP connection; nil if it is not TCP, such as one in memory.
func unwrap(c net.Conn) *net.TCPConn {
	if over, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = over.NetConn()
	}
	tcp, _ := c.(*net.TCPConn)
	return tcp
}

// KeepAlive enables keep-alive probes: after the peer has been silent for idle, the kernel sends up to count probes at
// the given interval, and then closes the connection.
//
// Callers must randomize the durations per connection. Otherwise, the kernel probes connections that were opened
// together at the same time. Most of thousands of simultaneous probes are lost, and healthy connections are closed.
func KeepAlive(c net.Conn, idle, interval time.Duration, count int) {
	if tcp := unwrap(c); tcp != nil {
		// Without keep-alive the connection still works, and timeouts detect a dead peer later.
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: idle, Interval: interval, Count: count})
	}
}

// SetLingerZero makes Close reset the connection and discard undelivered data.
func SetLingerZero(c net.Conn) {
	if tcp := unwrap(c); tcp != nil {
		_ = tcp.SetLinger(0)
	}
}
