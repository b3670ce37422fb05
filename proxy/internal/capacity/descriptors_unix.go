//go:build unix

package capacity

import "golang.org/x/sys/unix"

// descriptors is how many may be open. The runtime has raised the limit as far as it may be when the process began.
func descriptors() int {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 0
	}
	return int(min(uint64(r.Cur), 1<<30))
}
