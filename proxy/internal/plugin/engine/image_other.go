//go:build !linux

package engine

import "bytes"

// memoryImage is the memory of an image: a copy on the Go heap.
type memoryImage struct {
	content []byte
}

func newMemoryImage(p []byte) (*memoryImage, error) {
	return &memoryImage{content: bytes.Clone(p)}, nil
}

func (m *memoryImage) size() uint64 { return uint64(len(m.content)) }

// mapInto makes the image the content of the region's first bytes, which must be committed.
func (m *memoryImage) mapInto(r *region) error {
	copy(r.bytes(m.size()), m.content)
	return nil
}

// release drops the copy.
func (m *memoryImage) release() { m.content = nil }
