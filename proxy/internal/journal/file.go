package journal

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// header is at the beginning of each file.
type header struct {
	form    form
	seed    uint32 // initial value of the file's checksums
	number  uint64 // number of the segment; in a mark, of the segment that is being written
	through uint64 // in a snapshot or a day, the last segment included; in a buffer, the offset of its records in their segment
	day     int32  // number of the day, in the file of a day
	created time.Time
	folded  bool // the segment's holds have been removed; snapshots contain them
}

// form is the type of a file.
type form uint8

const (
	formSegment form = 1 + iota
	formSnapshot
	formDay
	formBuffer // written by earlier versions
	formMark
)

const (
	version    = 2 // 2: records can have an uncertain amount
	headerSize = 64
	firstAt    = 2 * headerSize // offset of the first record
)

var magic = []byte("sluicejn")

// errVersion is returned for a file written by a later version of the gateway.
var errVersion = errors.New("written by a later version of the gateway")

// append appends the header twice, so that one copy is intact if a byte is damaged.
func (h *header) append(dst []byte) []byte {
	var b [headerSize]byte
	copy(b[4:], magic)
	little.PutUint16(b[12:], version)
	b[14] = byte(h.form)
	if h.folded {
		b[15] = 1
	}
	little.PutUint32(b[16:], h.seed)
	little.PutUint32(b[20:], uint32(h.day))
	little.PutUint64(b[24:], h.number)
	little.PutUint64(b[32:], h.through)
	little.PutUint64(b[40:], uint64(h.created.Unix()))
	little.PutUint32(b[:], crc32.Checksum(b[4:], castagnoli))
	return append(append(dst, b[:]...), b[:]...)
}

var errHeader = errors.New("not a file of the journal, or its header is damaged")

func readHeader(data []byte, want form) (h header, err error) {
	for len(data) >= headerSize {
		b := data[:headerSize]
		data = data[headerSize:]
		if !bytes.Equal(b[4:12], magic) || little.Uint32(b) != crc32.Checksum(b[4:], castagnoli) {
			if len(data) < headerSize {
				break
			}
			continue
		}
		h = header{
			form: form(b[14]), folded: b[15] == 1, seed: little.Uint32(b[16:]), day: int32(little.Uint32(b[20:])),
			number: little.Uint64(b[24:]), through: little.Uint64(b[32:]), created: time.Unix(int64(little.Uint64(b[40:])), 0),
		}
		switch {
		case little.Uint16(b[12:]) > version:
			return h, errVersion
		case h.form != want:
			return h, errHeader
		}
		return h, nil
	}
	return h, errHeader
}

// newHeader returns a header with a random seed.
func newHeader(f form) header { return header{form: f, seed: rand.Uint32(), created: time.Now()} }

// scanner reads the records of a file through a buffer of fixed size.
type scanner struct {
	header  header
	src     io.Reader
	buf     []byte
	from    int // buf[from:to] is unread
	to      int
	base    int64 // offset of buf in the file
	ended   bool  // the end of the file is in buf
	skipped int64 // bytes since the last valid record, without zeros at the end
	zeros   int64 // number of zeros at the end of these bytes

	// damaged is the number of invalid bytes between valid records, and torn the number after the last one, left behind
	// by an interrupted write. Zeros at the end do not count: they are room for records. All are final once next has
	// returned nil.
	damaged, torn int64
}

const scanBuffer = 256 << 10

// scan returns a scanner of a file, which must have the given form.
func scan(src io.Reader, f form) (*scanner, error) {
	s := &scanner{src: src, buf: make([]byte, scanBuffer)}
	if err := s.fill(firstAt); err != nil {
		return nil, err
	}
	var err error
	if s.header, err = readHeader(s.buf[:min(s.to, firstAt)], f); err != nil {
		return nil, err
	}
	s.from = min(firstAt, s.to)
	return s, nil
}

// fill reads until at least n bytes are unread, or the file ends.
func (s *scanner) fill(n int) error {
	if s.ended || s.to-s.from >= n {
		return nil
	}
	s.base += int64(s.from)
	s.to = copy(s.buf, s.buf[s.from:s.to])
	s.from = 0
	for s.to < n {
		got, err := s.src.Read(s.buf[s.to:])
		s.to += got
		switch {
		case errors.Is(err, io.EOF):
			s.ended = true
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}

// next returns the next valid record, or nil at the end of the file. The record is valid until the next call.
func (s *scanner) next() ([]byte, error) {
	for {
		if err := s.fill(maxRecord); err != nil {
			return nil, err
		}
		rest := s.buf[s.from:s.to]
		if n := validLength(rest, s.header.seed, s.base+int64(s.from)); n > 0 {
			s.damaged += s.skipped + s.zeros
			s.skipped, s.zeros = 0, 0
			s.from += n
			return rest[:n], nil
		}
		if len(rest) == 0 {
			s.torn = s.skipped
			return nil, nil
		}
		var bytes [unit]byte
		n := copy(bytes[:], rest)
		s.from += n
		s.zeros += int64(n)
		if bytes != [unit]byte{} {
			s.skipped, s.zeros = s.skipped+s.zeros, 0
		}
	}
}

// scanSegment calls f for each record of a segment.
func scanSegment(name string, f func(record []byte)) (Damage, error) {
	return scanFile(name, formSegment, func(header) bool { return false }, f)
}

// scanFile calls begin with the header of a file and, unless that returns true, f for each record.
func scanFile(name string, want form, begin func(header) (skip bool), f func(record []byte)) (damage Damage, err error) {
	damage.File = filepath.Base(name)
	file, err := os.Open(name)
	if err != nil {
		return damage, err
	}
	defer file.Close()
	s, err := scan(file, want)
	if err != nil {
		return damage, fmt.Errorf("%s: %w", damage.File, err)
	}
	if begin(s.header) {
		return damage, nil
	}
	for {
		record, err := s.next()
		switch {
		case err != nil:
			return damage, fmt.Errorf("%s: %w", damage.File, err)
		case record == nil:
			damage.Skipped, damage.Torn = s.damaged, s.torn
			damage.end = s.base + int64(s.to) - s.zeros
			return damage, nil
		}
		f(record)
	}
}

// Damage describes the damage to a file of the journal.
type Damage struct {
	File    string
	Skipped int64 // invalid bytes between records
	Torn    int64 // invalid bytes after the last record: the process was killed while it wrote the file
	Err     error // why the file cannot be read; nil if it can

	end int64 // offset behind the last byte that is not zero
}

// any reports whether there is any damage.
func (d *Damage) any() bool { return d.Skipped != 0 || d.Torn != 0 || d.Err != nil }

// String describes the damage.
func (d *Damage) String() string {
	if d.Err != nil {
		return fmt.Sprintf("%s is skipped: %v", d.File, d.Err)
	}
	return fmt.Sprintf("%s: %d damaged bytes are skipped", d.File, d.Skipped+d.Torn)
}

// builder builds a file in memory.
type builder struct {
	header  header
	data    []byte
	records int64
}

func newBuilder(h header) *builder { return &builder{header: h, data: h.append(nil)} }

// add adds the record that extend appends, and seals it.
func (b *builder) add(extend func(dst []byte) []byte) {
	at := len(b.data)
	b.data = extend(b.data)
	seal(b.data[at:], b.header.seed, int64(at))
	b.records++
}

// writeWhole writes a file atomically and durably: after a crash, it has either its new or its old contents.
func writeWhole(name string, write func(*os.File) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), temporary+"*")
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(filepath.Dir(name))
}

// temporary is the prefix of the names of files that writeWhole has not finished.
const temporary = "new-"

// syncDir makes the names in a directory durable. It does nothing on systems that cannot open a directory, where it is
// not necessary.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	_ = d.Sync() // not every file system supports it
	return nil
}
