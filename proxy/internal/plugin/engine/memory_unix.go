//go:build unix

package engine

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// region is a range of addresses: reserved whole, committed from its start in whole pages of the machine. Reserved
// addresses count against no limit of the machine, also where it does not overcommit.
type region struct {
	mapping   []byte
	committed uint64
	mapped    *memoryImage // the image that the first bytes are mapped from, if any
}

// reserve takes size bytes of address space that nothing can read or write.
func reserve(size uint64) (region, error) {
	mapping, err := unix.Mmap(-1, 0, int(size), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return region{}, fmt.Errorf("reserve %d bytes of address space: %w", size, err)
	}
	return region{mapping: mapping}, nil
}

// commit makes the first size bytes readable and writable. It never takes bytes away.
func (r *region) commit(size uint64) error {
	if size <= r.committed {
		return nil
	}
	if err := unix.Mprotect(r.mapping[r.committed:size], unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return fmt.Errorf("commit %d bytes: %w", size, err)
	}
	r.committed = size
	return nil
}

// bytes returns the first size bytes.
func (r *region) bytes(size uint64) []byte { return r.mapping[:size:size] }

// release unmaps the whole range.
func (r *region) release() {
	if r.mapping != nil {
		// The only error that munmap knows here is a wrong range, which reserve has ruled out.
		_ = unix.Munmap(r.mapping)
		r.mapping, r.committed = nil, 0
	}
}
