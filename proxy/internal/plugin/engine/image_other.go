//go:build !linux

package engine

// memoryImage is the content of a memory: a copy on the Go heap.
type memoryImage struct {
	content []byte
}

// newMemoryImage makes an image of zeros.
func newMemoryImage(size uint64) (*memoryImage, error) {
	return &memoryImage{content: make([]byte, size)}, nil
}

// write copies p into the image at an offset. p must fit.
func (m *memoryImage) write(p []byte, at int) error {
	copy(m.content[at:], p)
	return nil
}

func (m *memoryImage) size() uint64 { return uint64(len(m.content)) }

// mapInto copies the image to the region's first bytes, which must be committed.
func (m *memoryImage) mapInto(r *region) error {
	copy(r.bytes(m.size()), m.content)
	return nil
}

// release drops the copy.
func (m *memoryImage) release() { m.content = nil }
