//go:build linux || darwin || freebsd

package tcpconn

import "golang.org/x/sys/unix"

// Poll returns the poll events, including errors, that are pending for a descriptor. It does not wait.
func Poll(fd uintptr, events int16) int16 {
	fds := [1]unix.PollFd{{Fd: int32(fd), Events: events}}
	for {
		if _, err := unix.Poll(fds[:], 0); err != unix.EINTR {
			return fds[0].Revents
		}
	}
}
