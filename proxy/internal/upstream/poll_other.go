//go:build !linux && !darwin && !freebsd

package upstream

import "net"

// poller cannot poll on this system. A connection that was closed while idle is noticed when its next request fails,
// and that request is sent again on a new connection.
type poller struct{}

func (*poller) init(net.Conn, bufferOwner) {}

func (*poller) readable() bool { return false }

func (*poller) reads() bool { return false }

func (*poller) read() (int, error) { return 0, net.ErrClosed }
