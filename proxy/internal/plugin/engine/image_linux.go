package engine

import (
	"bytes"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// memoryImage is the memory of an image: a file without a name that instances map privately, so that a page costs
// memory of its own only where an instance writes it, and restoring drops those pages.
type memoryImage struct {
	file  *os.File
	bytes uint64
}

// newMemoryImage makes an image of zeros.
func newMemoryImage(size uint64) (*memoryImage, error) {
	fd, err := unix.MemfdCreate("sluice-image", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("image of %d bytes: %w", size, err)
	}
	m := &memoryImage{file: os.NewFile(uintptr(fd), "sluice-image"), bytes: size}
	if err := m.file.Truncate(int64(size)); err != nil {
		m.release()
		return nil, fmt.Errorf("image of %d bytes: %w", size, err)
	}
	return m, nil
}

// write copies p, without the pages that are zero. The image is not mapped yet, and p lies within it.
func (m *memoryImage) write(p []byte, at int) error {
	const page = 4096
	var zeros [page]byte
	for len(p) > 0 {
		n := min(page-at%page, len(p))
		if !bytes.Equal(p[:n], zeros[:n]) {
			if _, err := m.file.WriteAt(p[:n], int64(at)); err != nil {
				return fmt.Errorf("image of %d bytes: %w", m.bytes, err)
			}
		}
		p, at = p[n:], at+n
	}
	return nil
}

func (m *memoryImage) size() uint64 { return m.bytes }

// mapInto makes the image the content of the region's first bytes, which must be committed.
func (m *memoryImage) mapInto(r *region) error {
	if m.bytes == 0 {
		return nil
	}
	if r.mapped == m {
		if err := unix.Madvise(r.mapping[:m.bytes], unix.MADV_DONTNEED); err != nil {
			return fmt.Errorf("drop pages: %w", err)
		}
		return nil
	}
	// The range lies within a mapping of our own, which is replaced at once or not at all.
	_, err := unix.MmapPtr(int(m.file.Fd()), 0, unsafe.Pointer(unsafe.SliceData(r.mapping)), uintptr(m.bytes),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED)
	if err != nil {
		return fmt.Errorf("map the image: %w", err)
	}
	r.mapped = m
	return nil
}

// release closes the file; mappings of it stay.
func (m *memoryImage) release() { _ = m.file.Close() }
