//go:build unix

package journal

import (
	"os"
	"syscall"
)

// mapFile maps the first size bytes of a file, shared and writable. The mapping outlives the descriptor.
func mapFile(f *os.File, size int) ([]byte, error) {
	return syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
}

func unmap(mapped []byte) error { return syscall.Munmap(mapped) }
