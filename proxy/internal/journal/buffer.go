package journal

import (
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
	if err := f.Truncate(bufferSize); err != nil {
		return nil, err
	}
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

// restore writes the records that a killed process has left in the buffer of a folder to their segment, and returns how many bytes it has
// added.
func restore(dir string) (added int64, err error) {
	data, err := os.ReadFile(filepath.Join(dir, bufferName))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(data) < firstAt {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	h, err := readHeader(data[:firstAt], formBuffer)
	if err != nil || h.through < firstAt || h.through > math.MaxInt64-bufferSize {
		return 0, nil // it was killed before there was a hold, or while it wrote the header, before it wrote the record
	}
	records, offset, n := data[firstAt:], int64(h.through), 0
	for {
		next := valid(records[n:], h.seed, offset+int64(n))
		if next == 0 {
			break
		}
		n += next
	}
	f, err := os.OpenFile(filepath.Join(dir, segmentName(h.number)), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // it was folded, and is old
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if added = offset + int64(n) - info.Size(); added <= 0 || offset > info.Size() {
		return 0, nil // the segment has them; or the machine went down, and it has lost what is before them
	}
	var start [firstAt]byte
	if _, err := f.ReadAt(start[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	if s, err := readHeader(start[:], formSegment); err != nil || s.seed != h.seed || s.folded {
		return 0, nil // it is another one, and reported when it is read
	}
	if _, err := f.WriteAt(records[:n], offset); err != nil {
		return 0, fmt.Errorf("%s: %w", segmentName(h.number), err)
	}
	return added, f.Sync()
}
