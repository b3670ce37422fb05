//go:build unix

package statedir

import (
	"os"
	"syscall"
)

// tryLock locks a file unless another open file has it locked; for an exclusive lock, none may. The kernel gives the lock back when f is
// closed.
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
