//go:build unix

package buildtest

import (
	"context"
	"os"
	"syscall"
	"time"
)

// lockInterval is the time between attempts to lock a file, because flock cannot wait with a deadline.
const lockInterval = 20 * time.Millisecond

// lock waits for an exclusive lock on a file. The lock is also released when the process ends.
func lock(ctx context.Context, name string) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(lockInterval)
	defer tick.Stop()
	for {
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err {
		case nil:
			return func() { f.Close() }, nil
		case syscall.EWOULDBLOCK, syscall.EINTR:
		default:
			f.Close()
			return nil, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			f.Close()
			return nil, context.Cause(ctx)
		}
	}
}
