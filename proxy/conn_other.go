//go:build !linux

package proxy

// look knows only what Linux tells: elsewhere a departure is seen by the write that fails.
func (c *clientConn) look() presence { return present }

// readable is the same: a connection between two requests is taken for an idle one.
func (c *clientConn) readable() bool { return false }
