//go:build unix

package journal

import (
	"os"
	"syscall"
)

// mapFile maps the first bytes of a file, for as long as the process lives.
func mapFile(f *os.File, size int) ([]byte, error) {
	return syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
}

func unmap(mapped []byte) error { return syscall.Munmap(mapped) }
