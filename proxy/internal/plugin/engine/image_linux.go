package engine

import (
	"bytes"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// memoryImage is the content of a memory: an anonymous file (memfd) that instances map privately. An instance uses
// memory of its own only for pages that it writes, and is restored by dropping them.
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

// write copies p into the image at an offset, except pages of zeros. The image must not be mapped yet, and p must fit.
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

// mapInto makes the image the content of the region's first bytes, which must be committed. If the image is mapped
// there already, it drops the pages that were written.
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
	// The range is part of the region's own mapping, and mmap replaces it atomically.
	_, err := unix.MmapPtr(int(m.file.Fd()), 0, unsafe.Pointer(unsafe.SliceData(r.mapping)), uintptr(m.bytes),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED)
	if err != nil {
		return fmt.Errorf("map the image: %w", err)
	}
	r.mapped = m
	return nil
}

// release closes the file. Mappings of it stay valid.
func (m *memoryImage) release() { _ = m.file.Close() }
