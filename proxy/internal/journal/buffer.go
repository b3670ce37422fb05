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

// buffer has a copy of the records that are not in the segment yet, in a file that is mapped into memory: the process that is killed leaves
// it behind, and no record needs a write of its own. Its file is a header, which says to which segment and where in it the records belong,
// and the records. It has all of its blocks from the start, so that a full disk does not matter to it.
//
// It adds nothing where the machine goes down: what is durable is what commit has written to the segment.
type buffer struct {
	mapped []byte
	saved  int // bytes of records that are in mapped, of those that are pending
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

// hasRoom reports whether what is pending fits.
func (b *buffer) hasRoom(pending []byte) bool { return firstAt+len(pending) <= len(b.mapped) }

// save copies what is pending at an offset of a segment. After it has returned nil, killing the process does not lose it.
func (b *buffer) save(pending []byte, segment *header, offset int64) (err error) {
	// Memory whose file was cut off, or whose disk fails, faults. The process shall live.
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
		// The records of the last header are in the segment: it may be lost.
		h := header{form: formBuffer, seed: segment.seed, number: segment.number, through: uint64(offset)}
		h.append(b.mapped[:0])
	}
	b.saved += copy(b.mapped[firstAt+b.saved:], pending[b.saved:])
	return nil
}

// close releases the memory.
func (b *buffer) close() error { return unmap(b.mapped) }

// unwritten is what a buffer has of a segment.
type unwritten struct {
	header  header
	offset  int64 // of the records in their segment
	records []byte
}

// readBuffer reads the buffer of a folder, also beside the process that writes it: then what it has is in the segment soon. It is nil where
// nothing is in it.
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
		return nil, nil // there was no record yet, or the header is being written, which comes before the record
	}
	u := &unwritten{header: h, offset: int64(h.through)}
	n := 0
	for records := data[firstAt:]; ; {
		next := valid(records[n:], h.seed, u.offset+int64(n))
		if next == 0 {
			u.records = records[:n]
			return u, nil
		}
		n += next
	}
}

// of returns u if it is of a segment, else nil.
func (u *unwritten) of(segment uint64) *unwritten {
	if u == nil || u.header.number != segment {
		return nil
	}
	return u
}

// after returns the records that come after the end of the segment's file, which is at size. There are none where the file is another one
// of that number, or has lost its end, as after a power cut.
func (u *unwritten) after(f *os.File) (records []byte, size int64, err error) {
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

// reader reads a segment's file, and then what is not in it.
func (u *unwritten) reader(f *os.File) (io.Reader, error) {
	records, size, err := u.after(f)
	return io.MultiReader(io.NewSectionReader(f, 0, size), bytes.NewReader(records)), err
}

// restore writes the records that a killed process has left in the buffer of a folder to their segment, and returns how many bytes it has
// added.
func restore(dir string) (added int, err error) {
	u, err := readBuffer(dir)
	if u == nil {
		return 0, err
	}
	f, err := os.OpenFile(filepath.Join(dir, segmentName(u.header.number)), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // it was folded, and is old
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	records, size, err := u.after(f)
	if len(records) == 0 {
		return 0, err
	}
	if _, err := f.WriteAt(records, size); err != nil {
		return 0, fmt.Errorf("%s: %w", segmentName(u.header.number), err)
	}
	return len(records), f.Sync()
}
