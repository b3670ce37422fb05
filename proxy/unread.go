package proxy

import (
	"math/rand/v2"
	"net"
	"time"
)

// A client that takes nothing, because it reads nothing or is not there any more, holds memory of the kernel: what has
// been written to it and not been acknowledged, up to some megabytes. A write that cannot go on notices it. Where what is
// written fits into that memory no write fails, and the kernel would try for a quarter of an hour to deliver it; so whoever
// looks after the client looks at that as well. Where nothing is written at all the kernel asks the client's whether it is
// there.
//
// TCP_USER_TIMEOUT would do all of this, but it does not tell a client that is gone from one that reads slowly: where its
// window stays smaller than a segment the connection ends, however much is acknowledged meanwhile.

// tcpOf is the connection that the kernel knows, below TLS or not; nil for one in memory.
func tcpOf(c net.Conn) *net.TCPConn {
	if over, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = over.NetConn()
	}
	tcp, _ := c.(*net.TCPConn)
	return tcp
}

// A client that is silent is asked askTimes whether it is there, for the first time after a quarter to half of the time that
// it has, and after maxAsk at the latest.
const (
	maxAsk   = 15 * time.Second
	askTimes = 3
)

// keepAlive has the kernel give a connection up on which nothing is written, and whose client has not been heard of for d.
func keepAlive(c net.Conn, d time.Duration) {
	tcp := tcpOf(c)
	if tcp == nil || d <= 0 {
		return
	}
	// Each at a time of its own: of the probes of thousands that are sent in one moment most are lost on their way.
	ask := min(d/2, maxAsk)
	ask -= rand.N(ask/2 + 1)
	// Where it cannot be set the connection works, and its end is noticed by the next write.
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: ask, Interval: (d - ask) / askTimes, Count: askTimes})
}

// owing knows since when something that was written to a client waits to be acknowledged.
type owing struct{ since time.Time }

// vanished tells at a look whether the client is not there any more: something has waited for d, and for as long nothing at
// all has been heard of it. heard, which is asked only then, says how long ago that was.
func (o *owing) vanished(waits bool, now time.Time, d time.Duration, heard func() time.Duration) bool {
	switch {
	case !waits || d <= 0:
		o.since = time.Time{}
	case o.since.IsZero():
		o.since = now
	case now.Sub(o.since) >= d:
		return heard() >= d
	}
	return false
}

// abandon has the connection reset when it is closed: nobody takes what is waiting to be delivered.
func abandon(c net.Conn) {
	if tcp := tcpOf(c); tcp != nil {
		_ = tcp.SetLinger(0)
	}
}
