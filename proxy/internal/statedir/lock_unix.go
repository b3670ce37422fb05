//go:build unix

package statedir

import (
	"os"
	"syscall"
)

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
