package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Segments are allocated on disk before they are used, so that records can be written while the disk is full. While one
// segment is written, the file reservedName is allocated for the next one. If the disk has too little room for a whole
// segment, a smaller one is reserved.
const (
	reservedName = "reserved"
	minReserve   = 256 << 10

	// roomPerRequest is the room kept for each request that holds budgets, enough for its settlements and its record.
	// While the disk is full, other records do not use it.
	roomPerRequest = 512
)

// reserve allocates the next segment, unless that is done already. Only the goroutine and Open call it.
func (j *Journal) reserve() error {
	if j.reserved > 0 {
		return nil
	}
	f, err := j.o.Create(filepath.Join(j.dir, reservedName))
	if err != nil {
		return err
	}
	size := j.o.SegmentSize
	for err = allocate(f, size); isDiskFull(err) && size/2 >= minReserve; err = allocate(f, size) {
		size /= 2
	}
	if err != nil {
		size = 0
		err = fmt.Errorf("reserve room for records: %w", err)
	}
	// Free what failed attempts have allocated.
	if err = errors.Join(err, f.Truncate(size), f.Close()); err != nil {
		return err
	}
	j.mu.Lock()
	j.reserved = size
	j.mu.Unlock()
	return nil
}

// allocate allocates the first size bytes of a file that contains only zeros.
func allocate(f File, size int64) error {
	if file, ok := f.(*os.File); ok {
		if err := allocateBlocks(file, size); err == nil || isDiskFull(err) {
			return err
		} // not every file system can
	}
	zeros := make([]byte, 64<<10)
	for at := int64(0); at < size; at += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(int64(len(zeros)), size-at)], at); err != nil {
			return err
		}
	}
	return nil
}

// isDiskFull reports whether an operation failed for want of space. A disk that is full does not keep a gateway from
// starting.
func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// isFull reports whether records cannot be written, or only into the room kept for requests in flight. The caller holds
// mu.
func (j *Journal) isFull() bool {
	if j.failure.err == nil {
		return false
	}
	room := j.capacity - j.offset - int64(len(j.pending)) + j.reserved
	return j.unwritten || room < int64(len(j.state.open)+1)*roomPerRequest
}

// newSegment creates the file of a segment, from the reserved file if there is one.
func (j *Journal) newSegment(h header) (File, error) {
	name := filepath.Join(j.dir, segmentName(h.number))
	if err := os.Rename(filepath.Join(j.dir, reservedName), name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := j.o.Create(name)
	if err != nil {
		return nil, err
	}
	if _, err := f.WriteAt(h.append(nil), 0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	writeMark(j.dir, h.number)
	return f, syncDir(j.dir)
}

// useSegment makes a segment the current one. The caller holds mu or is the only user of j.
func (j *Journal) useSegment(f File, h header) {
	j.file, j.header, j.offset = f, h, firstAt
	j.capacity, j.reserved = j.reserved, 0
}

// markName is a file that names the segment that is being written, so that its loss is noticed. Close removes it.
const markName = "current"

// writeMark overwrites the mark in place, which takes no space. An error only means that the loss of the segment would
// not be noticed.
func writeMark(dir string, segment uint64) {
	f, err := os.OpenFile(filepath.Join(dir, markName), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	h := newHeader(formMark)
	h.number = segment
	_, _ = f.WriteAt(h.append(nil), 0)
}

// readMark returns the number of the segment that was being written, or 0 if the journal was closed.
func readMark(dir string) uint64 {
	data, err := os.ReadFile(filepath.Join(dir, markName))
	if err != nil {
		return 0
	}
	h, err := readHeader(data[:min(len(data), firstAt)], formMark)
	if err != nil {
		return 0
	}
	return h.number
}
