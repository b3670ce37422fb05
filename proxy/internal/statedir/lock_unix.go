//go:build unix

package statedir

import (
	"io/fs"
	"os"
	"syscall"
)

// enforcesModes says that the permission bits of a directory mean what they say.
const enforcesModes = true

// ownedByUser reports whether a file belongs to the user that this process runs as, or to root.
func ownedByUser(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && (int(s.Uid) == os.Geteuid() || s.Uid == 0)
}

// tryLock locks a file unless another open file has it locked. The kernel gives the lock back when f is closed.
func tryLock(f *os.File) (locked bool, err error) {
	for {
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err {
		case nil:
			return true, nil
		case syscall.EINTR:
		case syscall.EWOULDBLOCK:
			return false, nil
		default:
			return false, err
		}
	}
}
