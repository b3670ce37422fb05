package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
)

// buffer mirrors the records that have not been written to the segment yet in a memory-mapped file. The file outlives a
// killed process, so a record does not need its own write system call to survive one. It consists of a header, which
// names the segment and the offset at which the records belong, and the records. All of its blocks are allocated when
// it is created, so a full disk does not affect it.
//
// It does not protect against a crash of the machine: only what commit has written to the segment is durable.
type buffer struct {
	mapped []byte
	saved  int // number of bytes of Journal.pending that are in mapped
}

const (
	bufferName = "unwritten"
	bufferSize = firstAt + flushAt + 4*maxRecord
)

// openBuffer creates the buffer of a folder, or empties it.
func openBuffer(dir string) (*buffer, error) {
	f, err := os.OpenFile(filepath.Join(dir, bufferName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.WriteAt(make([]byte, bufferSize), 0); err != nil {
		return nil, err
	}
	mapped, err := mapFile(f, bufferSize)
	if err != nil {
		return nil, err
	}
	return &buffer{mapped: mapped}, nil
}

// hasRoom reports whether the pending records fit.
func (b *buffer) hasRoom(pending []byte) bool { return firstAt+len(pending) <= len(b.mapped) }

// save copies the pending records, which belong at offset of segment. Once it has returned nil, they survive a kill of
// the process.
func (b *buffer) save(pending []byte, segment *header, offset int64) (err error) {
	// Access to the mapping raises SIGBUS if the file was truncated or its disk fails. Turn that into an error instead
	// of a crash.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch p := recover().(type) {
		case nil:
		case interface {
			error
			Addr() uintptr
		}:
			err = p
		default:
			panic(p)
		}
	}()
	if b.saved == 0 {
		// The segment has all the records that the old header was for, so the header can be overwritten.
		h := header{form: formBuffer, seed: segment.seed, number: segment.number, through: uint64(offset)}
		h.append(b.mapped[:0])
	}
	b.saved += copy(b.mapped[firstAt+b.saved:], pending[b.saved:])
	return nil
}

// close unmaps the memory.
func (b *buffer) close() error { return unmap(b.mapped) }

// unwritten is the contents of a buffer: records that may not have been written to their segment.
type unwritten struct {
	header  header
	offset  int64 // offset of the records in their segment
	records []byte
}

// readBuffer reads the buffer of a folder. It returns nil if the buffer is missing or empty. The process that owns the
// folder may be running; it then writes the same records to the segment soon.
func readBuffer(dir string) (*unwritten, error) {
	data, err := os.ReadFile(filepath.Join(dir, bufferName))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(data) < firstAt {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	h, err := readHeader(data[:firstAt], formBuffer)
	if err != nil || h.through < firstAt || h.through > math.MaxInt64-bufferSize {
		return nil, nil // there is no record yet, or its header, which comes first, is just being written
	}
	u := &unwritten{header: h, offset: int64(h.through)}
	n := 0
	for records := data[firstAt:]; ; {
		next := validLength(records[n:], h.seed, u.offset+int64(n))
		if next == 0 {
			u.records = records[:n]
			return u, nil
		}
		n += next
	}
}

// forSegment returns u if its records belong to the segment, otherwise nil.
func (u *unwritten) forSegment(segment uint64) *unwritten {
	if u == nil || u.header.number != segment {
		return nil
	}
	return u
}

// missingFrom returns the records that the segment's file f lacks at its end, and the size of f. It returns none if f
// is a different file with the same number, or has lost its end, for example in a power cut.
func (u *unwritten) missingFrom(f *os.File) (records []byte, size int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	size = info.Size()
	if size < u.offset || size >= u.offset+int64(len(u.records)) {
		return nil, size, nil
	}
	var start [firstAt]byte
	if _, err := f.ReadAt(start[:], 0); err != nil {
		return nil, size, err
	}
	if h, err := readHeader(start[:], formSegment); err != nil || h.seed != u.header.seed || h.folded {
		return nil, size, nil
	}
	return u.records[size-u.offset:], size, nil
}

// reader returns a reader of the segment's file f followed by the records that f lacks.
func (u *unwritten) reader(f *os.File) (io.Reader, error) {
	records, size, err := u.missingFrom(f)
	return io.MultiReader(io.NewSectionReader(f, 0, size), bytes.NewReader(records)), err
}

// restore appends to their segment the records that a killed process has left in the buffer of a folder. It returns the
// number of bytes appended.
func restore(dir string) (added int, err error) {
	u, err := readBuffer(dir)
	if u == nil {
		return 0, err
	}
	f, err := os.OpenFile(filepath.Join(dir, segmentName(u.header.number)), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // the segment was folded and has expired
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	records, size, err := u.missingFrom(f)
	if len(records) == 0 {
		return 0, err
	}
	if _, err := f.WriteAt(records, size); err != nil {
		return 0, fmt.Errorf("%s: %w", segmentName(u.header.number), err)
	}
	return len(records), f.Sync()
}
