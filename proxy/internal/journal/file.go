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

// header begins each file.
type header struct {
	form    form
	seed    uint32 // of the file's checksums
	number  uint64 // of a segment, or that of a buffer
	through uint64 // of a snapshot or a day: the last segment that is in it. Of a buffer: the offset of its records in their segment.
	day     int32  // of a day
	made    time.Time
	folded  bool // of a segment: without holds, which are in a snapshot
}

// form is what a file is.
type form uint8

const (
	formSegment form = 1 + iota
	formSnapshot
	formDay
	formBuffer
)

const (
	version    = 1
	headerSize = 64
	firstAt    = 2 * headerSize // offset of the first record
)

var magic = []byte("sluicejn")

// errVersion is the error of a file that a later version of the gateway has written.
var errVersion = errors.New("written by a later version of the gateway")

// append appends the header, twice: a damaged byte leaves one of them.
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
	little.PutUint64(b[40:], uint64(h.made.Unix()))
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
			number: little.Uint64(b[24:]), through: little.Uint64(b[32:]), made: time.Unix(int64(little.Uint64(b[40:])), 0),
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

// newHeader returns a header with a seed of its own.
func newHeader(f form) header { return header{form: f, seed: rand.Uint32(), made: time.Now()} }

// scanner reads the records of a file, in memory of a fixed size.
type scanner struct {
	header  header
	src     io.Reader
	buf     []byte
	from    int // of what is unread in buf
	to      int
	base    int64 // offset of buf in the file
	ended   bool
	skipped int64 // bytes since the last valid record

	// damaged is how many bytes between valid records hold none; torn is how many there are after the last one, which is how a file ends
	// whose writer was cut off. Both are complete once next has returned nil.
	damaged, torn int64
}

const scanBuffer = 256 << 10

// scan reads the header, which must be of the given form.
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

// fill reads until n bytes are unread, or the file ends.
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

// next returns the next valid record, which is overwritten by the next call; nil at the end of the file.
func (s *scanner) next() ([]byte, error) {
	for {
		if err := s.fill(maxRecord); err != nil {
			return nil, err
		}
		rest := s.buf[s.from:s.to]
		if n := valid(rest, s.header.seed, s.base+int64(s.from)); n > 0 {
			s.damaged += s.skipped
			s.skipped = 0
			s.from += n
			return rest[:n], nil
		}
		if len(rest) < unit {
			s.torn = s.skipped + int64(len(rest))
			s.skipped, s.from = 0, s.to
			return nil, nil
		}
		s.from += unit
		s.skipped += unit
	}
}

// scanSegment calls f for the records of a segment, with those that a buffer has after its end.
func scanSegment(name string, more *unwritten, f func(record []byte)) (Damage, error) {
	return scanFile(name, formSegment, more, func(header) bool { return false }, f)
}

// scanFile calls f for the records of a file, and then for more.
func scanFile(name string, want form, more *unwritten, begin func(header) (skip bool), f func(record []byte)) (damage Damage, err error) {
	damage.File = filepath.Base(name)
	file, err := os.Open(name)
	if err != nil {
		return damage, err
	}
	defer file.Close()
	var src io.Reader = file
	if more != nil {
		if src, err = more.reader(file); err != nil {
			return damage, fmt.Errorf("%s: %w", damage.File, err)
		}
	}
	s, err := scan(src, want)
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
			return damage, nil
		}
		f(record)
	}
}

// Damage is what is wrong with a file of the journal.
type Damage struct {
	File    string
	Skipped int64 // bytes between records that are none
	Torn    int64 // bytes after the last record: the process that wrote the file was cut off
	Err     error // the file cannot be read
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

// builder puts together a file in memory.
type builder struct {
	header  header
	data    []byte
	records int64
}

func newBuilder(h header) *builder { return &builder{header: h, data: h.append(nil)} }

// add adds a record that extend appends.
func (b *builder) add(extend func(dst []byte) []byte) {
	at := len(b.data)
	b.data = extend(b.data)
	seal(b.data[at:], b.header.seed, int64(at))
	b.records++
}

// writeWhole writes a file so that after a crash there is the whole of it, or what was there before.
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

// temporary begins the names of files that are being written.
const temporary = "new-"

// syncDir makes the names in a directory durable. Systems that cannot open a directory do so by themselves.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	_ = d.Sync() // not every file system can
	return nil
}
