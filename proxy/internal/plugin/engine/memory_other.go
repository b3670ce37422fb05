//go:build !unix

package engine

// region is a range of bytes on the Go heap, for platforms without mmap: growing it copies.
type region struct {
	buffer []byte
}

// reserve allocates nothing yet.
func reserve(uint64) (region, error) { return region{}, nil }

// commit makes the first size bytes usable.
func (r *region) commit(size uint64) error {
	if have := uint64(len(r.buffer)); size > have {
		r.buffer = append(r.buffer, make([]byte, size-have)...)
	}
	return nil
}

// bytes returns the first size bytes.
func (r *region) bytes(size uint64) []byte { return r.buffer[:size] }

// release drops the bytes.
func (r *region) release() { r.buffer = nil }
