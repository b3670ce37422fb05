package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
)

// bufferName is the file in which earlier versions kept the records that they had not written to the segment yet. It
// consists of a header, which names the segment and the offset at which the records belong, and the records.
const bufferName = "unwritten"

// restore appends to their segment the records that a killed process of an earlier version has left in its buffer, and
// removes the buffer. It returns the number of bytes appended.
func restore(dir string) (added int, err error) {
	name := filepath.Join(dir, bufferName)
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if h, e := readHeader(data[:min(len(data), firstAt)], formBuffer); e == nil && h.through >= firstAt && h.through <= math.MaxInt64/2 {
		if added, err = restoreRecords(dir, &h, data[min(len(data), firstAt):]); err != nil {
			return 0, fmt.Errorf("%s: %w", segmentName(h.number), err)
		}
	}
	return added, os.Remove(name)
}

// restoreRecords appends the records that the segment lacks at its end. It appends none if the segment is missing, is a
// different one with the same number, or has lost its end, for example in a power cut.
func restoreRecords(dir string, h *header, data []byte) (added int, err error) {
	offset, n := int64(h.through), 0
	for {
		next := validLength(data[n:], h.seed, offset+int64(n))
		if next == 0 {
			break
		}
		n += next
	}
	f, err := os.OpenFile(filepath.Join(dir, segmentName(h.number)), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // the segment was folded and has expired
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	size := info.Size()
	var start [firstAt]byte
	if size < offset || size >= offset+int64(n) {
		return 0, nil
	}
	if _, err := f.ReadAt(start[:], 0); err != nil {
		return 0, err
	}
	if s, err := readHeader(start[:], formSegment); err != nil || s.seed != h.seed || s.folded {
		return 0, nil
	}
	missing := data[size-offset : n]
	if _, err := f.WriteAt(missing, size); err != nil {
		return 0, err
	}
	return len(missing), f.Sync()
}
