package proxy

import (
	"net"
	"time"
)

// A client that takes nothing, because it reads nothing or is not there any more, holds memory of the kernel: what has
// been written to it and not been acknowledged, up to some megabytes. A write that cannot go on notices it. Where what is
// written fits into that memory no write ever fails, and the kernel would try for a quarter of an hour to deliver it; so it
// is told to give the connection up after the same time. Where nothing is written at all it asks the client's kernel
// whether it is there, often enough for the same time to count. The end of the connection ends a wait for the provider,
// too, which looks at the client's socket.

// tcpOf is the connection that the kernel knows, below TLS or not; nil for one in memory.
func tcpOf(c net.Conn) *net.TCPConn {
	if over, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = over.NetConn()
	}
	tcp, _ := c.(*net.TCPConn)
	return tcp
}

// maxAsk is how long a silent client goes without being asked at most.
const maxAsk = 15 * time.Second

// limitUnread has the kernel give a connection up on which nothing has been taken for d, and whose client has not been
// heard of for so long; 0 for the kernel's own times.
func limitUnread(c net.Conn, d time.Duration) {
	tcp := tcpOf(c)
	if tcp == nil || d <= 0 {
		return
	}
	// Where it cannot be set the connection works, and is given up later. The first question that stays unanswered until
	// the second is due ends it.
	_ = setUserTimeout(tcp, d)
	ask := min(d/2, maxAsk)
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: ask, Interval: ask})
}

// abandon has the connection reset when it is closed: nobody takes what is waiting to be delivered.
func abandon(c net.Conn) {
	if tcp := tcpOf(c); tcp != nil {
		_ = tcp.SetLinger(0)
	}
}
