//go:build unix

package statedir

import (
	"os"
	"syscall"
)

// tryLock takes a shared or an exclusive lock on a file, unless another open file holds a lock that conflicts with it.
// The kernel releases the lock when f is closed.
func tryLock(f *os.File, exclusive bool) (locked bool, err error) {
	how := syscall.LOCK_SH
	if exclusive {
		how = syscall.LOCK_EX
	}
	for {
		switch err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); err {
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

func unlock(f *os.File) { _ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
