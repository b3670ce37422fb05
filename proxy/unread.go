package proxy

import (
	"net"
	"time"
)

// A client that takes nothing, because it reads nothing or is not there any more, holds memory of the kernel: what has
// been written to it and not been acknowledged, up to some megabytes. A write that cannot go on notices it. Where what is
// written fits into that memory no write ever fails, and the kernel would try for a quarter of an hour to deliver it; so it
// is told to give the connection up after the same time. That ends a wait for the provider, too, which looks at the
// client's socket.

// tcpOf is the connection that the kernel knows, below TLS or not; nil for one in memory.
func tcpOf(c net.Conn) *net.TCPConn {
	if over, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = over.NetConn()
	}
	tcp, _ := c.(*net.TCPConn)
	return tcp
}

// limitUnread has the kernel give a connection up on which nothing has been taken for d, 0 for its own time.
func limitUnread(c net.Conn, d time.Duration) {
	if tcp := tcpOf(c); tcp != nil && d > 0 {
		// Where it cannot be set the connection works, and is given up later.
		_ = setUserTimeout(tcp, d)
	}
}

// vanished finds a client that is not there any more while nothing is written to it, within half a minute.
var vanished = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// keepAlive has the kernel ask a silent client whether it is there.
func keepAlive(c net.Conn) {
	if tcp := tcpOf(c); tcp != nil {
		// Where it cannot be set it is noticed by the next write.
		_ = tcp.SetKeepAliveConfig(vanished)
	}
}

// abandon has the connection reset when it is closed: nobody takes what is waiting to be delivered.
func abandon(c net.Conn) {
	if tcp := tcpOf(c); tcp != nil {
		_ = tcp.SetLinger(0)
	}
}
