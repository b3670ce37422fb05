package journal

import (
	"os"
	"syscall"
)

// allocateBlocks allocates the blocks of the first size bytes of a file.
func allocateBlocks(f *os.File, size int64) error {
	for {
		if err := syscall.Fallocate(int(f.Fd()), 0, 0, size); err != syscall.EINTR {
			return err
		}
	}
}
