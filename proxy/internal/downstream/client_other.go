//go:build !linux

package downstream

import (
	"syscall"
	"time"
)

// peerState knows only what Linux tells: elsewhere the write that fails finds a disconnected client.
func peerState(syscall.RawConn, *unacked, time.Duration) clientState { return clientPresent }

// readable is the same: a connection between two requests counts as idle.
func readable(syscall.RawConn) bool { return false }

// roundTrip is not known either.
func roundTrip(syscall.RawConn) time.Duration { return 0 }
