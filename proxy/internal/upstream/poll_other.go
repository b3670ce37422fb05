//go:build !linux && !darwin && !freebsd

package upstream

import "net"

// poller does not know here whether a connection has something to say. A connection that died while it was idle is then
// noticed when its next request fails, and that is sent again.
type poller struct{}

func (*poller) init(net.Conn, bufferOwner) {}

func (*poller) readable() bool { return false }

func (*poller) reads() bool { return false }

func (*poller) read() (int, error) { return 0, net.ErrClosed }
