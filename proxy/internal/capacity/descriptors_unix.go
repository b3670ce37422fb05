//go:build unix

package capacity

import "golang.org/x/sys/unix"

// descriptors returns the limit of open descriptors. The Go runtime has raised the soft limit to the hard limit at
// startup.
func descriptors() int {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 0
	}
	return int(min(uint64(r.Cur), 1<<30))
}
