//go:build !linux

package downstream

import (
	"syscall"
	"time"
)

// peerState needs Linux. Elsewhere, a client disconnect is only noticed when a write fails.
func peerState(syscall.RawConn, *unacked, time.Duration) clientState { return clientPresent }

// readable needs Linux. Elsewhere, a connection between two requests always counts as idle.
func readable(syscall.RawConn) bool { return false }

// roundTrip needs Linux. Elsewhere, the round-trip time is unknown.
func roundTrip(syscall.RawConn) time.Duration { return 0 }
