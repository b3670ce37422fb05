//go:build unix

package engine

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// region is a range of addresses. All of it is reserved, and a growing part at its start is committed. Reserved
// addresses do not count as used memory, even if the system does not overcommit.
type region struct {
	mapping   []byte
	committed uint64
	mapped    *memoryImage // the image that is mapped at the start, or nil
}

// reserve reserves size bytes of address space without access rights.
func reserve(size uint64) (region, error) {
	mapping, err := unix.Mmap(-1, 0, int(size), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return region{}, fmt.Errorf("reserve %d bytes of address space: %w", size, err)
	}
	return region{mapping: mapping}, nil
}

// commit makes the first size bytes readable and writable. It never shrinks the committed part.
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
		// The only possible error is an invalid range, which reserve rules out.
		_ = unix.Munmap(r.mapping)
		r.mapping, r.committed = nil, 0
	}
}
